//! The control channel of a p2p stream, between the proxies of its ends: a sequenced-packet socket for
//! messages of fixed size, with a descriptor where memory is offered. What comes is untrusted.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use gpunet_device::abi::errno::Errno;

use super::super::system::SystemRef;
use super::message::{BYTES, Message};

/// What there was to receive.
#[expect(clippy::large_enum_variant, reason = "as its message")]
pub(crate) enum Received {
    Message(Message, Option<OwnedFd>),
    /// Nothing now.
    Nothing,
    /// Nothing any more.
    Closed,
}

/// One end of a control channel.
pub(crate) struct ControlChannel {
    system: SystemRef,
    socket: OwnedFd,
}

impl ControlChannel {
    /// Of a socket of that system.
    pub(crate) fn new(system: SystemRef, socket: OwnedFd) -> Self {
        Self { system, socket }
    }

    /// The process at the other end; see [`System`](super::super::system::System::peer_pid).
    pub(crate) fn peer_pid(&self) -> Result<i32, Errno> {
        self.system.peer_pid(self.as_fd())
    }

    /// Sends a message, without waiting. EAGAIN: the other end has too many that wait.
    pub(crate) fn send(&self, message: Message, with: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let bytes = message.to_words().map(u64::to_le_bytes);
        self.system.send(self.as_fd(), bytes.as_flattened(), with)
    }

    /// The next message; EPROTO for one that makes no sense.
    pub(crate) fn receive(&self) -> Result<Received, Errno> {
        #[cfg(test)]
        super::tests::RECEIVED.set(super::tests::RECEIVED.get() + 1);
        let mut bytes = [0_u8; BYTES];
        match self.system.receive(self.as_fd(), &mut bytes) {
            Ok(packet) if packet.length == 0 => Ok(Received::Closed),
            Ok(packet) if packet.cut || packet.length != BYTES => Err(Errno::EPROTO),
            Ok(packet) => {
                let words = bytes.as_chunks::<8>().0;
                let words = std::array::from_fn(|at| u64::from_le_bytes(words[at]));
                let message = Message::from_words(&words).ok_or(Errno::EPROTO)?;
                Ok(Received::Message(message, packet.descriptor))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(Received::Nothing),
            Err(Errno::ECONNRESET) => Ok(Received::Closed),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for ControlChannel {
    fn drop(&mut self) {
        self.system.closes(self.as_fd());
    }
}

impl AsFd for ControlChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
#[allow(unsafe_code, reason = "a process of another user")]
mod tests {
    use std::io;
    use std::mem::MaybeUninit;

    use gpunet_device::SocketAddr;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::super::super::linux::Linux;
    use super::super::message::Offer;
    use super::*;

    fn pair() -> [ControlChannel; 2] {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        [ControlChannel::new(&Linux, a), ControlChannel::new(&Linux, b)]
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
            Message::Welcome { token: u128::MAX, gpu: [0xA5; 17], send_ring: 4096 },
            Message::Refused { errno: 111 },
            Message::Offer(offer),
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
            reader
                .set_read_timeout(Some(gpunet_support::testing::hang_limit(
                    std::time::Duration::from_millis(500),
                )))
                .unwrap();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut with = SendAncillaryBuffer::new(&mut space);
            let descriptors = [writer.as_fd()];
            assert!(with.push(SendAncillaryMessage::ScmRights(&descriptors)));
            let bytes = vec![0xA5; length];
            sendmsg(&a.socket, &[io::IoSlice::new(&bytes)], &mut with, SendFlags::empty()).unwrap();
            drop(writer);
            assert!(matches!(b.receive(), Err(Errno::EPROTO)), "{length}");
            // Nobody holds the other end.
            assert_eq!(io::Read::read(&mut reader, &mut [0; 1]).unwrap(), 0);
        }
        let mut words = Message::End.to_words();
        words[2] = 99;
        let bytes = words.map(u64::to_le_bytes);
        rustix::net::send(&a.socket, bytes.as_flattened(), rustix::net::SendFlags::empty())
            .unwrap();
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
        const OTHER_USER: u32 = 65_534;
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
            command.uid(OTHER_USER);
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
        let channel = ControlChannel::new(&Linux, rustix::net::accept(&listener).unwrap());
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
        assert_eq!(ControlChannel::new(&Linux, call).peer_pid(), Err(Errno::EACCES));
        drop(theirs);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
