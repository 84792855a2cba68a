//! The control channel of a p2p stream, between the proxies of its ends: a sequenced-packet socket for
//! messages of fixed size, with a descriptor where memory is offered. What comes is untrusted.

#![allow(unsafe_code, reason = "sendmsg and recvmsg with descriptors, peer credentials")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use gpunet_device::abi::errno::Errno;

use super::message::{BYTES, Message, WORDS};

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// As the system says.
    pub(crate) pid: i32,
    /// A number that it has drawn: another process may get the same pid later.
    pub(crate) token: u128,
}

impl Process {
    /// This one. Another that repeats its token has another pid.
    pub(crate) fn this() -> Self {
        Self { pid: std::process::id() as i32, token: super::token() }
    }
}

/// What there was to receive.
#[expect(clippy::large_enum_variant, reason = "as its message")]
pub(crate) enum Received {
    Message(Message, Option<OwnedFd>),
    /// Nothing now.
    Nothing,
    /// Nothing any more.
    Closed,
}

#[cfg(test)]
std::thread_local! {
    /// How often something was received on this thread, or was to be.
    pub(super) static RECEIVED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// One end of a control channel.
pub(crate) struct ControlChannel(OwnedFd);

impl ControlChannel {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// The process at the other end, if the same user runs it, and the system has a number for it
    /// here: one of another PID namespace has none, and could not be told from others.
    pub(crate) fn peer_pid(&self) -> Result<i32, Errno> {
        #[cfg(feature = "simulation")]
        if crate::simulation::control::is_simulated() {
            return Ok(Process::this().pid);
        }
        let credentials = self.credentials()?;
        if credentials.uid != rustix::process::geteuid().as_raw() || credentials.pid <= 0 {
            return Err(Errno::EACCES);
        }
        Ok(credentials.pid)
    }

    /// By the C library: the number may be 0, which a `rustix::process::Pid` cannot be.
    fn credentials(&self) -> Result<libc::ucred, Errno> {
        let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        let to = (&raw mut credentials).cast();
        let socket = self.0.as_raw_fd();
        // SAFETY: the system writes at most `length` bytes, which are the credentials.
        let asked = unsafe {
            libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut length)
        };
        if asked == 0 && length as usize == size_of::<libc::ucred>() {
            Ok(credentials)
        } else {
            Err(last_errno())
        }
    }

    /// Sends a message, without waiting. EAGAIN: the other end has too many that wait.
    pub(crate) fn send(&self, message: Message, with: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let bytes = message.to_words().map(u64::to_le_bytes);
        let bytes = bytes.as_flattened();
        #[cfg(feature = "simulation")]
        if let Some(sent) = crate::simulation::control::send(self.as_fd(), bytes) {
            return sent;
        }
        let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: BYTES };
        let mut control = Control::default();
        // SAFETY: a message header of zeros is a valid empty one.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        if let Some(descriptor) = with {
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = Control::BYTES;
            // SAFETY: the buffer has room for one header and one descriptor (Control::BYTES), so
            // there is a first header, and its data is a number.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = Control::ONE;
                libc::CMSG_DATA(first).cast::<i32>().write_unaligned(descriptor.as_raw_fd());
            }
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the header names memory that lives until the call returns.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const header, flags) };
        if sent == BYTES as isize { Ok(()) } else { Err(last_errno()) }
    }

    /// The next message; EPROTO for one that makes no sense.
    pub(crate) fn receive(&self) -> Result<Received, Errno> {
        #[cfg(test)]
        RECEIVED.set(RECEIVED.get() + 1);
        let mut bytes = [0_u8; BYTES];
        #[cfg(feature = "simulation")]
        if let Some(received) = crate::simulation::control::receive(self.as_fd(), &mut bytes) {
            return match received {
                Ok(length) => decoded(&bytes, length == BYTES, length == 0, None),
                Err(errno) => nothing(errno),
            };
        }
        let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: BYTES };
        let mut control = Control::default();
        // SAFETY: a message header of zeros is a valid empty one.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        // For one descriptor and no more: the padding would have room for a second.
        header.msg_controllen = Control::ONE;
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: the header names memory that lives until the call returns.
        let received = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, flags) };
        if received < 0 {
            return nothing(last_errno());
        }
        // Owned first, so that none is left open whatever the rest is.
        let descriptor = descriptor_in(&header);
        let cut = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
        decoded(&bytes, received == BYTES as isize && !cut, received == 0, descriptor)
    }
}

/// What it means that nothing could be received.
fn nothing(errno: Errno) -> Result<Received, Errno> {
    match errno {
        Errno::EAGAIN | Errno::EINTR => Ok(Received::Nothing),
        Errno::ECONNRESET => Ok(Received::Closed),
        errno => Err(errno),
    }
}

/// What came, and whether it is all of a message, or the end.
fn decoded(
    bytes: &[u8; BYTES],
    whole: bool,
    end: bool,
    descriptor: Option<OwnedFd>,
) -> Result<Received, Errno> {
    if end {
        return Ok(Received::Closed);
    }
    let (eights, _) = bytes.as_chunks::<8>();
    let mut words = [0; WORDS];
    for (word, eight) in words.iter_mut().zip(eights) {
        *word = u64::from_le_bytes(*eight);
    }
    match Message::from_words(&words) {
        Some(message) if whole => Ok(Received::Message(message, descriptor)),
        _ => Err(Errno::EPROTO),
    }
}

#[cfg(feature = "simulation")]
impl Drop for ControlChannel {
    fn drop(&mut self) {
        crate::simulation::control::close(self.as_fd());
    }
}

impl AsFd for ControlChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Room for one descriptor beside a message, aligned as headers are.
struct Control([MaybeUninit<u64>; 4]);

impl Control {
    // SAFETY: computes a size.
    const BYTES: usize = unsafe { libc::CMSG_SPACE(size_of::<i32>() as u32) } as usize;
    // SAFETY: computes a size.
    const ONE: usize = unsafe { libc::CMSG_LEN(size_of::<i32>() as u32) } as usize;
}

const _: () = assert!(Control::BYTES <= size_of::<Control>());

impl Default for Control {
    fn default() -> Self {
        Self([MaybeUninit::zeroed(); 4])
    }
}

/// The descriptor that came with a message.
fn descriptor_in(header: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: recvmsg has filled the header, and the system writes whole headers only. There is
    // room for one descriptor, so it gives one at most, which is ours from now on.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(header);
        let rights = !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
            && (*first).cmsg_len >= Control::ONE;
        rights.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(first).cast::<i32>().read_unaligned()))
    }
}

fn last_errno() -> Errno {
    Errno(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use gpunet_device::SocketAddr;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::super::message::Offer;
    use super::*;

    fn pair() -> [ControlChannel; 2] {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        [ControlChannel::new(a), ControlChannel::new(b)]
    }

    #[test]
    fn messages_come_as_they_were_sent() {
        let [a, b] = pair();
        let name = std::net::SocketAddr::from(([127, 0, 0, 1], 7)).into();
        let offer = Offer {
            arena: 3,
            arena_bytes: 1 << 21,
            ring: 4096,
            capacity: 65536,
            inbox: 0,
            base: 9,
        };
        let all = [
            Message::Hello {
                token: 7 << 70 | 5,
                gpu: *b"c0123456789abcdef",
                send_ring: 9,
                name,
                called: SocketAddr::v4([10, 0, 0, 7], 99),
            },
            Message::Welcome { token: u128::MAX, send_ring: 4096 },
            Message::Refused { errno: 111 },
            Message::Offer(offer),
            Message::Counts { tail: 9, head: 8 },
            Message::Watch,
            Message::End,
            Message::Close,
        ];
        for message in all {
            a.send(message, Some(b.as_fd())).unwrap();
            let Ok(Received::Message(received, Some(_))) = b.receive() else {
                panic!("{message:?}")
            };
            assert_eq!(received, message);
        }
        assert!(matches!(b.receive(), Ok(Received::Nothing)));
        drop(a);
        assert!(matches!(b.receive(), Ok(Received::Closed)));
    }

    #[test]
    fn nonsense_is_refused_and_its_descriptor_closed() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        let [a, b] = pair();
        for length in [1, 8, BYTES - 1, BYTES, BYTES + 1, 4 * BYTES] {
            let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
            reader.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut with = SendAncillaryBuffer::new(&mut space);
            let descriptors = [writer.as_fd()];
            assert!(with.push(SendAncillaryMessage::ScmRights(&descriptors)));
            let bytes = vec![0xA5; length];
            sendmsg(&a.0, &[io::IoSlice::new(&bytes)], &mut with, SendFlags::empty()).unwrap();
            drop(writer);
            assert!(matches!(b.receive(), Err(Errno::EPROTO)), "{length}");
            // Nobody holds the other end.
            assert_eq!(io::Read::read(&mut reader, &mut [0; 1]).unwrap(), 0);
        }
        let mut words = Message::Watch.to_words();
        words[2] = 99;
        let bytes = words.map(u64::to_le_bytes);
        rustix::net::send(&a.0, bytes.as_flattened(), rustix::net::SendFlags::empty()).unwrap();
        assert!(matches!(b.receive(), Err(Errno::EPROTO)));
        assert_eq!(a.peer_pid(), Ok(std::process::id() as i32));
    }

    /// Notes that a test of this file cannot run here, for who counts tests.
    fn skip(test: &str, reason: &str) {
        let line = format!("transport::p2p::channel::tests::{test}: {reason}\n");
        print!("skipped: {line}");
        if let Some(path) = std::env::var_os("GPUNET_SKIP_LOG") {
            let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
            log.and_then(|mut log| io::Write::write_all(&mut log, line.as_bytes())).unwrap();
        }
    }

    /// Another user, who reached the socket in spite of the folder's mode.
    #[test]
    fn another_user_is_refused_at_both_ends() {
        use std::os::unix::process::CommandExt as _;
        const STRANGER: u32 = 65_534;
        if !rustix::process::geteuid().is_root() {
            return skip("another_user_is_refused_at_both_ends", "only root can be another user");
        }
        let folder = std::env::temp_dir().join(format!("gpunet-user-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
        std::fs::set_permissions(&folder, open.clone()).unwrap();
        let socket = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        };
        let at = |name: &str| rustix::net::SocketAddrUnix::new(folder.join(name)).unwrap();
        let as_untrusted = |act: Box<dyn Fn() -> io::Result<()> + Send + Sync>| {
            let mut command = std::process::Command::new("true");
            command.uid(STRANGER);
            // SAFETY: system calls alone, on what was made before.
            unsafe { command.pre_exec(act) };
            command.status()
        };
        // One that calls.
        let (listener, ours) = (socket().unwrap(), at("ours"));
        rustix::net::bind(&listener, &ours).unwrap();
        std::fs::set_permissions(folder.join("ours"), open).unwrap();
        rustix::net::listen(&listener, 4).unwrap();
        let called = as_untrusted(Box::new(move || Ok(rustix::net::connect(&socket()?, &ours)?)));
        assert!(called.unwrap().success());
        let channel = ControlChannel::new(rustix::net::accept(&listener).unwrap());
        assert_eq!(channel.peer_pid(), Err(Errno::EACCES));
        // One that listens.
        let (theirs, bound) = (socket().unwrap(), at("theirs"));
        let inherited = theirs.try_clone().unwrap();
        let registration = as_untrusted(Box::new(move || {
            rustix::net::bind(&inherited, &bound)?;
            Ok(rustix::net::listen(&inherited, 4)?)
        }));
        assert!(registration.unwrap().success());
        let call = socket().unwrap();
        rustix::net::connect(&call, &at("theirs")).unwrap();
        assert_eq!(ControlChannel::new(call).peer_pid(), Err(Errno::EACCES));
        drop(theirs);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
