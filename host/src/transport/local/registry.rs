//! Where the proxies of one user find each other: a folder with a socket for each listener, whose
//! name is the listener's address. Nothing of this is ever in a byte stream.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;
use rustix::fs::FlockOperation;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::super::unix::BoundPath;
use super::addresses;
use super::talk::{Talk, errno};

/// Calls that may wait for a listener.
const BACKLOG: i32 = 4096;
/// How long a killed listener's name may take to go: others clear up for a moment.
const CLEARING: Duration = Duration::from_millis(100);
/// What a path of a UNIX socket may have, with the longest name of ours behind it.
const LONGEST_FOLDER: usize = 107 - 64;

/// The folder. Dropped, it goes if this has made it and nobody listens there.
pub(crate) struct Registry {
    folder: PathBuf,
    made: bool,
    /// Of the network namespace, since addresses mean something inside it alone.
    namespace: u64,
}

impl Registry {
    /// The user's own folder, made if need be. The reason if there is none to be trusted.
    pub(crate) fn open() -> Result<Self, String> {
        #[cfg(feature = "simulation")]
        if crate::simulation::control::is_simulated() {
            return Ok(Self { folder: PathBuf::new(), made: false, namespace: 0 });
        }
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

    /// Takes calls for a listener's address from now on. EADDRINUSE where another does.
    pub(crate) fn listen(&self, address: &SocketAddr, v6_only: bool) -> Result<Listening, Errno> {
        #[cfg(feature = "simulation")]
        if let Some(socket) = crate::simulation::control::listen(address.port()) {
            let (socket, entry) = socket?;
            return Ok(Listening { _entry: Some(entry), _path: None, socket });
        }
        let name = listener_name(address, v6_only).ok_or(Errno::EADDRNOTAVAIL)?;
        let path = self.path(&name);
        let socket = open_socket()?;
        let to = SocketAddrUnix::new(&path).map_err(errno)?;
        match rustix::net::bind(&socket, &to) {
            // A listener that was killed leaves its name behind.
            Err(rustix::io::Errno::ADDRINUSE) if is_dead(&path) => {
                self.remove_dead(&path, CLEARING)?;
                rustix::net::bind(&socket, &to).map_err(errno)?;
            }
            // Who made the folder has removed it, or who clears up old files.
            Err(rustix::io::Errno::NOENT) => {
                let user = rustix::process::geteuid().as_raw();
                own_folder(&self.folder, user).map_err(|_| Errno::EACCES)?;
                rustix::net::bind(&socket, &to).map_err(errno)?;
            }
            bound => bound.map_err(errno)?,
        }
        let path = BoundPath::new(path);
        rustix::net::listen(&socket, BACKLOG).map_err(errno)?;
        Ok(Listening {
            #[cfg(feature = "simulation")]
            _entry: None,
            _path: Some(path),
            socket,
        })
    }

    /// Removes the names that killed listeners left behind.
    fn sweep(&self) {
        let prefix = format!("{:x}-", self.namespace);
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix));
            if ours && is_dead(&entry.path()) {
                // Who comes next tries again.
                let _ = self.remove_dead(&entry.path(), Duration::ZERO);
            }
        }
    }

    /// Removes a name if it is still that of a killed listener. One process at a time: another
    /// may just have put a new listener there.
    fn remove_dead(&self, path: &Path, patience: Duration) -> Result<(), Errno> {
        let folder = fs::File::open(&self.folder).map_err(|_| Errno::EACCES)?;
        let begin = Instant::now();
        while rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
            if begin.elapsed() >= patience {
                return Err(Errno::EADDRINUSE);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if is_dead(path) {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Calls the listener at an address of this machine. None: there is none of this user's.
    /// EAGAIN: it has too many calls waiting.
    pub(crate) fn call(&self, address: &SocketAddr) -> Result<Option<Talk>, Errno> {
        #[cfg(feature = "simulation")]
        if let Some(called) = crate::simulation::control::call(address.port()) {
            return Ok(called?.map(Talk::new));
        }
        for name in candidates(address) {
            let path = self.path(&name);
            if !path.exists() {
                continue;
            }
            let socket = open_socket()?;
            let to = SocketAddrUnix::new(&path).map_err(errno)?;
            match rustix::net::connect(&socket, &to) {
                Ok(()) => return Ok(Some(Talk::new(socket))),
                Err(rustix::io::Errno::AGAIN) => return Err(Errno::EAGAIN),
                // One that was killed, or went this moment.
                Err(_) => {}
            }
        }
        Ok(None)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if self.made {
            // Not while it holds anything: the system sees to that.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// A listener's entry, which goes with it.
pub(crate) struct Listening {
    #[cfg(feature = "simulation")]
    _entry: Option<crate::simulation::control::Entry>,
    /// Goes first: once the socket is closed, the name may be the next listener's. None in the
    /// simulation, whose network knows listeners by their ports.
    _path: Option<BoundPath>,
    socket: OwnedFd,
}

impl Listening {
    /// The next call, if one waits.
    pub(crate) fn next(&self) -> Result<Option<Talk>, Errno> {
        #[cfg(feature = "simulation")]
        if let Some(accepted) = crate::simulation::control::accept(self.as_fd()) {
            return Ok(accepted?.map(Talk::new));
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(&self.socket, flags) {
            Ok(socket) => Ok(Some(Talk::new(socket))),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(errno(error)),
        }
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
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
        let name = ip_name(ip.ip(), ip.port());
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
    if !is_of_this_machine(ip.ip()) {
        return Vec::new();
    }
    let exact = ip_name(ip.ip(), port);
    match ip.ip() {
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
        Some(ip) if !is_of_this_machine(ip.ip()) => Errno::ENETUNREACH,
        Some(_) => Errno::ECONNREFUSED,
        None => match address.to_path().filter(|path| path != "").map(fs::metadata) {
            None => Errno::EINVAL,
            Some(Ok(_)) => Errno::ECONNREFUSED,
            Some(Err(error)) => error.raw_os_error().map_or(Errno::ECONNREFUSED, Errno),
        },
    }
}

/// Whether it is one of this machine's own addresses: only those can be bound, or the system has
/// been told to bind any.
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
mod tests {
    use super::*;

    fn registry(name: &str) -> Registry {
        let folder =
            std::env::temp_dir().join(format!("gpunet-test-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let made = own_folder(&folder, rustix::process::geteuid().as_raw()).unwrap();
        Registry { folder, made, namespace: 1 }
    }

    fn at(text: &str) -> SocketAddr {
        text.parse::<std::net::SocketAddr>().unwrap().into()
    }

    #[test]
    fn a_listener_is_found_under_each_of_its_addresses() {
        let registry = registry("found");
        let _any = registry.listen(&at("0.0.0.0:70"), false).unwrap();
        assert!(registry.call(&at("127.0.0.1:70")).unwrap().is_some());
        assert!(registry.call(&at("127.0.0.9:70")).unwrap().is_some());
        assert!(registry.call(&at("127.0.0.1:71")).unwrap().is_none());
        assert!(registry.call(&at("[::1]:70")).unwrap().is_none());
        assert!(registry.call(&at("192.0.2.1:70")).unwrap().is_none(), "another machine's");
        assert!(registry.call(&at("255.255.255.255:70")).unwrap().is_none(), "everybody's");
        let _only = registry.listen(&at("[::]:72"), true).unwrap();
        assert!(registry.call(&at("127.0.0.1:72")).unwrap().is_none());
        let _both = registry.listen(&at("[::]:73"), false).unwrap();
        assert!(registry.call(&at("127.0.0.1:73")).unwrap().is_some());
        fs::remove_dir_all(&registry.folder).unwrap();
    }

    #[test]
    fn a_name_is_taken_once_and_goes_with_its_listener() {
        let registry = registry("taken");
        let address = at("127.0.0.1:70");
        let listening = registry.listen(&address, false).unwrap();
        assert_eq!(registry.listen(&address, false).err(), Some(Errno::EADDRINUSE));
        assert!(registry.call(&address).unwrap().is_some());
        assert!(listening.next().unwrap().is_some());
        assert!(listening.next().unwrap().is_none());
        drop(listening);
        assert!(registry.call(&address).unwrap().is_none());
        assert_eq!(fs::read_dir(&registry.folder).unwrap().count(), 0);
        // What a killed one leaves behind.
        let left = registry.listen(&address, false).unwrap();
        let Listening { socket, _path, .. } = left;
        std::mem::forget(_path);
        drop(socket);
        assert!(registry.call(&address).unwrap().is_none());
        let again = registry.listen(&address, false).unwrap();
        // A probe is no call.
        registry.sweep();
        assert!(!is_dead(&registry.path(&listener_name(&address, false).unwrap())));
        assert!(again.next().unwrap().is_none());
        // And what nobody asks for goes when the next net looks.
        let Listening { socket, _path, .. } = again;
        std::mem::forget(_path);
        drop(socket);
        fs::write(registry.folder.join("a file"), "").unwrap();
        registry.sweep();
        assert_eq!(fs::read_dir(&registry.folder).unwrap().count(), 1, "the file stays");
        fs::remove_dir_all(&registry.folder).unwrap();
    }

    #[test]
    fn the_folder_goes_with_who_made_it_and_comes_back_for_others() {
        let maker = registry("made");
        let folder = maker.folder.clone();
        let guest = Registry { folder: folder.clone(), made: false, namespace: 1 };
        let address = at("127.0.0.1:70");
        let listening = guest.listen(&address, false).unwrap();
        drop(maker);
        assert!(guest.call(&address).unwrap().is_some(), "a listener keeps it");
        drop(listening);
        drop(Registry { folder: folder.clone(), made: true, namespace: 1 });
        assert!(!folder.exists());
        assert!(guest.call(&address).unwrap().is_none());
        let _again = guest.listen(&address, false).unwrap();
        assert!(guest.call(&address).unwrap().is_some());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_others_may_use_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let registry = registry("trusted");
        let user = rustix::process::geteuid().as_raw();
        assert!(own_folder(&registry.folder, user + 1).is_err());
        fs::set_permissions(&registry.folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(own_folder(&registry.folder, user).unwrap_err().contains("755"));
        let link = registry.folder.with_extension("link");
        std::os::unix::fs::symlink(&registry.folder, &link).unwrap();
        assert!(own_folder(&link, user).is_err());
        fs::remove_file(&link).unwrap();
        fs::remove_dir_all(&registry.folder).unwrap();
    }
}
