//! Where the proxies of one user find each other: a folder with a socket for each listener, whose
//! name is the listener's address. Listeners that share an address (SO_REUSEPORT) have a folder of
//! theirs in its place, and callers choose among them. Nothing of this is ever in a byte stream.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;
use rustix::fs::FlockOperation;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::super::bound_path::BoundPath;
use super::super::errno::errno;
use super::super::system::{Registration, Registry};
use super::addresses;

/// Calls that may wait for a listener.
const BACKLOG: i32 = 4096;
/// Listeners that may share an address.
const MOST_SHARED: usize = 1024;
/// What the name of such an address ends with.
const SHARED: char = '+';
/// How long a killed listener's name may take to go: others clear up for a moment.
const CLEARING: Duration = Duration::from_millis(100);
/// What a path of a UNIX socket may have, with the longest name of ours behind it.
const LONGEST_FOLDER: usize = 107 - 64;

/// The folder. Dropped, it goes if this has made it and nobody listens there.
pub(in super::super) struct FolderRegistry {
    folder: PathBuf,
    made: bool,
    /// Of the network namespace, since addresses mean something inside it alone.
    namespace: u64,
}

impl FolderRegistry {
    /// The user's own folder, made if need be. The reason if there is none to be trusted.
    pub(in super::super) fn open() -> Result<Self, String> {
        let user = rustix::process::geteuid().as_raw();
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let short = |path: &PathBuf| path.is_absolute() && path.as_os_str().len() < LONGEST_FOLDER;
        let of_runtime = runtime.map(|folder| folder.join("gpunet")).filter(short);
        let of_all = Path::new("/tmp").join(format!("gpunet-{user}"));
        let mut why = String::new();
        for folder in of_runtime.into_iter().chain([of_all]) {
            match own_folder(&folder, user) {
                Ok(made) => {
                    let namespace = fs::metadata("/proc/self/ns/net").map_or(0, |meta| meta.ino());
                    let registry = Self { folder, made, namespace };
                    registry.sweep();
                    return Ok(registry);
                }
                Err(reason) => why = format!("{}: {reason}", folder.display()),
            }
        }
        Err(why)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{:x}-{name}", self.namespace))
    }

    /// See [`Registry::listen`]. That the sockets of listeners that share an address have agreed to that is
    /// for the system to see to.
    fn register(
        &self,
        address: &SocketAddr,
        v6_only: bool,
        shared: bool,
    ) -> Result<FolderEntry, Errno> {
        let name = listener_name(address, v6_only).ok_or(Errno::EADDRNOTAVAIL)?;
        let socket = open_socket()?;
        if !shared {
            let path = self.path(&name);
            self.bind(&socket, &path, &self.folder)?;
            return FolderEntry::new(socket, path, None);
        }
        let folder = self.path(&format!("{name}{SHARED}"));
        for number in 0..MOST_SHARED {
            self.own_subfolder(&folder)?;
            let path = folder.join(format!("{number:x}"));
            match self.bind(&socket, &path, &folder) {
                Err(Errno::EADDRINUSE) => {}
                bound => {
                    bound?;
                    return FolderEntry::new(socket, path, Some(Subfolder(folder)));
                }
            }
        }
        Err(Errno::EADDRINUSE)
    }

    /// Makes sure of a folder inside, or of the whole.
    fn own_subfolder(&self, folder: &Path) -> Result<(), Errno> {
        let user = rustix::process::geteuid().as_raw();
        // Who made the one around it may have removed that.
        own_folder(&self.folder, user).map_err(|_| Errno::EACCES)?;
        own_folder(folder, user).map(drop).map_err(|_| Errno::EACCES)
    }

    /// Binds a socket to a name in a folder.
    fn bind(&self, socket: &OwnedFd, path: &Path, folder: &Path) -> Result<(), Errno> {
        let to = SocketAddrUnix::new(path).map_err(errno)?;
        match rustix::net::bind(socket, &to) {
            // A listener that was killed leaves its name behind.
            Err(rustix::io::Errno::ADDRINUSE) if is_dead(path) => {
                self.remove_dead(path, CLEARING)?;
                rustix::net::bind(socket, &to).map_err(errno)
            }
            // Who made the folder has removed it, or who clears up old files.
            Err(rustix::io::Errno::NOENT) => {
                self.own_subfolder(folder)?;
                rustix::net::bind(socket, &to).map_err(errno)
            }
            bound => bound.map_err(errno),
        }
    }

    /// Removes the names that killed listeners left behind.
    fn sweep(&self) {
        let prefix = format!("{:x}-", self.namespace);
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix));
            if !ours {
                continue;
            }
            // Who comes next tries again.
            if is_dead(&entry.path()) {
                let _ = self.remove_dead(&entry.path(), Duration::ZERO);
            }
            for shared in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                if is_dead(&shared.path()) {
                    let _ = self.remove_dead(&shared.path(), Duration::ZERO);
                }
            }
            // One of those that share an address, if nobody is left there: the system sees to that.
            let _ = fs::remove_dir(entry.path());
        }
    }

    /// Removes a name if it is still that of a killed listener. One process at a time: another
    /// may just have put a new listener there.
    fn remove_dead(&self, path: &Path, timeout: Duration) -> Result<(), Errno> {
        let folder = fs::File::open(&self.folder).map_err(|_| Errno::EACCES)?;
        let begin = Instant::now();
        while rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
            if begin.elapsed() >= timeout {
                return Err(Errno::EADDRINUSE);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if is_dead(path) {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// The listeners that share an address, another one first in each call.
    fn sharing(&self, name: &str) -> Vec<PathBuf> {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let folder = self.path(&format!("{name}{SHARED}"));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.take(MOST_SHARED).map(|entry| entry.path()).collect();
        if !paths.is_empty() {
            paths.sort();
            let first = CALLS.fetch_add(1, Ordering::Relaxed) % paths.len();
            paths.rotate_left(first);
        }
        paths
    }
}

impl Registry for FolderRegistry {
    fn listen(
        &self,
        address: &SocketAddr,
        v6_only: bool,
        shared: bool,
    ) -> Result<Box<dyn Registration>, Errno> {
        Ok(Box::new(self.register(address, v6_only, shared)?))
    }

    fn call(&self, address: &SocketAddr) -> Result<Option<OwnedFd>, Errno> {
        for name in candidates(address) {
            let paths = [self.path(&name)].into_iter().filter(|path| path.exists());
            let mut full = false;
            for path in paths.chain(self.sharing(&name)) {
                let socket = open_socket()?;
                let to = SocketAddrUnix::new(&path).map_err(errno)?;
                match rustix::net::connect(&socket, &to) {
                    Ok(()) => return Ok(Some(socket)),
                    Err(rustix::io::Errno::AGAIN) => full = true,
                    // One that was killed, or went this moment.
                    Err(_) => {}
                }
            }
            if full {
                return Err(Errno::EAGAIN);
            }
        }
        Ok(None)
    }
}

impl Drop for FolderRegistry {
    fn drop(&mut self) {
        if self.made {
            // Not while it holds anything: the system sees to that.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// A listener's entry, which goes with it.
struct FolderEntry {
    /// Goes first: once the socket is closed, the name may be the next listener's.
    _path: BoundPath,
    /// The folder of those that share the address, after the path.
    _folder: Option<Subfolder>,
    socket: OwnedFd,
}

/// A folder that goes with the last that is in it.
struct Subfolder(PathBuf);

impl Drop for Subfolder {
    fn drop(&mut self) {
        // Not while it holds anything: the system sees to that.
        let _ = fs::remove_dir(&self.0);
    }
}

impl FolderEntry {
    /// Of a socket that is bound.
    fn new(socket: OwnedFd, path: PathBuf, folder: Option<Subfolder>) -> Result<Self, Errno> {
        let path = BoundPath::new(path);
        rustix::net::listen(&socket, BACKLOG).map_err(errno)?;
        Ok(Self { _path: path, _folder: folder, socket })
    }
}

impl Registration for FolderEntry {
    fn next(&self) -> Result<Option<OwnedFd>, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(&self.socket, flags) {
            Ok(socket) => Ok(Some(socket)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(errno(error)),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(errno)
}

/// Whether nobody has that name any more. Asked with a socket of another type, which one that
/// lives refuses as such, before it listens, too, and which never waits in its queue.
fn is_dead(path: &Path) -> bool {
    let probe = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::DGRAM;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
    };
    probe() == Err(rustix::io::Errno::CONNREFUSED)
}

/// Makes sure that a folder is the user's own and closed to others; whether it had to be made.
fn own_folder(folder: &Path, user: u32) -> Result<bool, String> {
    let made = match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error.to_string()),
    };
    let meta = fs::symlink_metadata(folder).map_err(|error| error.to_string())?;
    if !meta.is_dir() {
        return Err("it is no folder".to_owned());
    }
    if meta.uid() != user {
        return Err(format!("it belongs to user {}", meta.uid()));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(format!("others may use it (mode {:03o}, 700 is needed)", meta.mode() & 0o777));
    }
    Ok(made)
}

/// What the entry of a listener is called.
fn listener_name(address: &SocketAddr, v6_only: bool) -> Option<String> {
    if let Some(ip) = address.to_ip() {
        let name = ip_name(ip.ip().to_canonical(), ip.port());
        return Some(if v6_only { format!("{name}-only") } else { name });
    }
    path_name(address)
}

fn ip_name(ip: IpAddr, port: u16) -> String {
    match ip {
        IpAddr::V4(ip) => format!("{:08x}-{port}", u32::from(ip)),
        IpAddr::V6(ip) => format!("{:032x}-{port}", u128::from(ip)),
    }
}

/// A path is known by the file that it leads to.
fn path_name(address: &SocketAddr) -> Option<String> {
    let meta = fs::metadata(address.to_path()?).ok()?;
    Some(format!("unix-{:x}-{:x}", meta.dev(), meta.ino()))
}

/// The entries under which a listener may be found that takes calls to this address.
fn candidates(address: &SocketAddr) -> Vec<String> {
    let Some(ip) = address.to_ip() else { return path_name(address).into_iter().collect() };
    let (port, any4) = (ip.port(), IpAddr::from([0; 4]));
    let any6 = IpAddr::from([0; 16]);
    // An address of IPv4 that is mapped is that one.
    let to = ip.ip().to_canonical();
    if !is_of_this_machine(to) {
        return Vec::new();
    }
    let exact = ip_name(to, port);
    match to {
        IpAddr::V4(_) => vec![exact, ip_name(any4, port), ip_name(any6, port)],
        IpAddr::V6(_) => {
            let any = ip_name(any6, port);
            vec![format!("{exact}-only"), exact, format!("{any}-only"), any]
        }
    }
}

/// Why there is no listener at an address, as the system says it of its own sockets.
pub(crate) fn nobody_at(address: &SocketAddr) -> Errno {
    match address.to_ip() {
        Some(ip) if !is_of_this_machine(ip.ip().to_canonical()) => Errno::ENETUNREACH,
        Some(_) => Errno::ECONNREFUSED,
        None => match address.to_path().filter(|path| path != "").map(fs::metadata) {
            None => Errno::EINVAL,
            Some(Ok(_)) => Errno::ECONNREFUSED,
            Some(Err(error)) => error.raw_os_error().map_or(Errno::ECONNREFUSED, Errno),
        },
    }
}

/// Whether it is one of this machine's own addresses: only those can be bound, or the system has
/// been configured to bind any.
fn is_of_this_machine(ip: IpAddr) -> bool {
    // Those that name many can be bound as well.
    let many = ip.is_multicast() || matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    let bound = || !ip.is_unspecified() && !many && UdpSocket::bind((ip, 0)).is_ok();
    ip.is_loopback() || bound() && (!any_can_be_bound(ip) || addresses::has(ip))
}

/// Whether the system lets programs bind addresses that are not its own.
fn any_can_be_bound(ip: IpAddr) -> bool {
    let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
    let setting = fs::read_to_string(format!("/proc/sys/net/{family}/ip_nonlocal_bind"));
    setting.is_ok_and(|setting| setting.trim() != "0")
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
