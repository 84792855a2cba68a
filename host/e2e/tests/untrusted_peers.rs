//! Untrusted peers at the registry: processes of the same user that call a listener of p2p streams and
//! say anything but what a proxy says. Each is refused, nothing of it stays, and a stream of others
//! on the same net goes on.
//!
//! What a proxy says is written anew here, since an untrusted peer would not ask the crate for it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use gpunet_device::abi::VERSION as ABI_VERSION;
use gpunet_e2e::child::{self, Child, registered};
use gpunet_e2e::{Job, Script, any_port, eventually, is_cuda, net_builder, process, timeout};
use gpunet_host::{Net, TransportChoice};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

const MS: Duration = Duration::from_millis(1);
const WORDS: usize = 38;
const VERSION: u64 = 5;
const HELLO: u64 = 1;
const WELCOME: u64 = 2;
const REFUSED: u64 = 3;
const OFFER: u64 = 4;
const END: u64 = 7;
/// Where the counters of an untrusted peer's stream begin.
const BASE: u64 = 1 << 57;
/// Bytes of the memory that an untrusted peer offers.
const BYTES: u64 = 1 << 20;

type Words = [u64; WORDS];

fn message(kind: u64) -> Words {
    let mut words = [0; WORDS];
    words[..3].copy_from_slice(&[u64::from_le_bytes(*b"gnet-p2p"), VERSION, kind]);
    words
}

/// What a proxy on an emulated GPU says first.
fn hello() -> Words {
    let mut words = message(HELLO);
    words[3] = 4096;
    words[4] = 0x5742_4e47;
    words[6] = b'E'.into();
    words[9] = ABI_VERSION.into();
    words
}

/// Memory with a ring of 64 KiB behind an inbox.
fn offer() -> Words {
    let mut words = message(OFFER);
    words[4..10].copy_from_slice(&[1, BYTES, 64 << 10, 64 << 10, 0, BASE]);
    words
}

/// A listener's entry.
struct Endpoint(SocketAddrUnix);

impl Endpoint {
    /// The only one in the registry.
    fn only() -> Self {
        let mut entries = std::fs::read_dir(child::registry()).expect("the registry");
        let entry = entries.next().expect("a listener").expect("it can be read");
        assert!(entries.next().is_none(), "there is one listener");
        Self(SocketAddrUnix::new(entry.path()).expect("its path fits"))
    }

    fn connect(&self) -> UntrustedPeer {
        let kind = SocketType::SEQPACKET;
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None);
        let socket = socket.expect("a socket");
        let timeout = Some(timeout());
        let which = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&socket, which, timeout).expect("it can be set");
        rustix::net::connect(&socket, &self.0).expect("the listener has a queue");
        UntrustedPeer(socket)
    }
}

/// One end of a control channel.
struct UntrustedPeer(OwnedFd);

impl UntrustedPeer {
    fn send_bytes(&self, bytes: &[u8]) {
        // One that was refused already is as good.
        let _ = rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL);
    }

    fn send(&self, words: Words) {
        self.send_bytes(words.map(u64::to_le_bytes).as_flattened());
    }

    fn send_with(&self, words: Words, descriptors: &[BorrowedFd<'_>]) {
        let bytes = words.map(u64::to_le_bytes);
        let pieces = [std::io::IoSlice::new(bytes.as_flattened())];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        assert!(with.push(SendAncillaryMessage::ScmRights(descriptors)));
        let _ = rustix::net::sendmsg(&self.0, &pieces, &mut with, SendFlags::NOSIGNAL);
    }

    /// The next message; none at the end.
    fn receive_words(&self) -> Option<Words> {
        let mut bytes = [0; WORDS * 8];
        match rustix::net::recv(&self.0, &mut bytes[..], RecvFlags::empty()) {
            Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => None,
            Ok(_) => Some(std::array::from_fn(|word| {
                u64::from_le_bytes(bytes[8 * word..][..8].try_into().expect("eight bytes"))
            })),
            Err(errno) => panic!("the listener neither answers nor closes: {errno}"),
        }
    }

    /// Its kind.
    fn receive(&self) -> Option<u64> {
        self.receive_words().map(|words| words[2])
    }

    /// Whether it receives nothing but a refusal, and then the end.
    fn is_refused(&self) -> bool {
        match self.receive() {
            None => true,
            Some(REFUSED) => self.receive().is_none(),
            Some(_) => false,
        }
    }

    fn welcomed(self) -> Self {
        self.send(hello());
        assert_eq!(self.receive(), Some(WELCOME));
        self
    }
}

/// Another process, which says that it is this one: it repeats the listener's token, and offers the
/// listener's own arenas by their numbers.
#[test]
fn who_repeats_the_listeners_token_is_another() {
    let name = "who_repeats_the_listeners_token_is_another";
    match child::part().as_deref() {
        None => child::alone(name, "host", "t"),
        Some("host") if is_cuda() => {
            gpunet_e2e::skip(name, "an untrusted peer's memory is that of an emulated GPU");
        }
        Some("host") => {
            let local = || net_builder().transport(TransportChoice::Local).build().expect("a net");
            let (near, far) = (local(), local());
            let (listener, address) = far.listen(any_port()).expect("a port");
            let (mut server, mut client) = (Script::new(), Script::new());
            // A stream of its own, so that there are such arenas.
            server.given(0, listener).accept(0, 1).echo(1, 500).close(1);
            client.stream(0, address).send(0, 100).recv_all(0, 100, 900).set_flag(0).wait_flag(1);
            client.close(0);
            let flags = gpunet_e2e::flags();
            let serving = Job::blocks(32).script(&server).start(&far);
            let calling = Job::blocks(32).script(&client).flags(&flags).start(&near);
            calling.until(&flags, 0);
            Child::start(name, "untrusted").ready();
            flags.set(1, 1);
            calling.finish();
            serving.finish();
        }
        Some(_) => {
            let endpoint = Endpoint::only();
            let first = endpoint.connect();
            first.send(hello());
            let token = first.receive_words().expect("a welcome");
            for arena in 1..4 {
                let untrusted = endpoint.connect();
                let mut again = hello();
                again[4..6].copy_from_slice(&token[4..6]);
                untrusted.send(again);
                assert_eq!(untrusted.receive(), Some(WELCOME));
                let mut offer = offer();
                offer[4] = arena;
                untrusted.send(offer);
                assert!(untrusted.is_refused(), "arena {arena} without a descriptor");
            }
            child::is_ready();
        }
    }
}

fn memory(bytes: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("untrusted", flags).expect("a memory file");
    ftruncate(&file, bytes).expect("it takes a size");
    fcntl_add_seals(&file, seals).expect("it takes seals");
    file
}

fn sealed(bytes: u64) -> OwnedFd {
    memory(bytes, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
}

/// What descriptors are open for, but for the memory of scripts, which the GPU keeps as long as any kernel runs.
fn descriptors() -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc/self/fd").expect("a process has descriptors");
    let targets = all.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.as_os_str() != "/memfd:gpunet (deleted)").collect()
}

#[test]
fn untrusted_peers_are_refused_and_disturb_nobody() {
    let name = "untrusted_peers_are_refused_and_disturb_nobody";
    if child::part().is_none() {
        child::alone(name, "host", "s");
        return;
    }
    if is_cuda() {
        return gpunet_e2e::skip(name, "an untrusted peer's memory is that of an emulated GPU");
    }
    gpunet_e2e::raise_file_limit();
    let local = || net_builder().transport(TransportChoice::Local).build().expect("a net");
    let (near, far) = (local(), local());
    let (listener, address) = far.listen(any_port()).expect("a port");
    let endpoint = Endpoint::only();
    // Others, which exchange bytes all the while.
    let (mut server, mut client) = (Script::new(), Script::new());
    server.given(0, listener).accept(0, 1).echo(1, 500).close(1);
    // After a round trip: the server's end has all of its descriptors, too.
    client.stream(0, address).send(0, 1).recv_all(0, 1, 900).set_flag(0);
    for round in 0..1500 {
        let length = round * 37 % 900 + 1;
        client.send(0, length).recv_all(0, length, 900).sleep(MS);
    }
    client.close(0);
    let flags = gpunet_e2e::flags();
    let serving = Job::blocks(32).script(&server).start(&far);
    let calling = Job::blocks(32).script(&client).flags(&flags).start(&near);
    calling.until(&flags, 0);
    let now = || {
        let open = descriptors();
        let sets = open.iter().filter(|it| it.as_os_str() == "anon_inode:[eventpoll]").count();
        [sets, open.len() - sets, process::arenas(), registered()]
    };
    let (before, open) = (now(), descriptors());
    // A net makes its set for deferred frees when it first has one, and keeps it.
    let most = [before[0] + 2, before[1], before[2], before[3]];
    let lost_nothing = || {
        let no_more = || now().iter().zip(&most).all(|(now, most)| now <= most);
        let in_time = eventually(no_more);
        assert!(in_time, "{:?}, {before:?} before; {:?}, {open:?} before", now(), descriptors());
    };

    send_nonsense(&endpoint);
    lost_nothing();
    offer_nonsense(&endpoint);
    lost_nothing();
    connect_in_large_numbers(&endpoint, &near, &far);
    lost_nothing();

    calling.finish();
    serving.finish();
    break_a_stream(&endpoint, &far);
    assert_eq!(far.statistics().violations, 0);
}

/// Says what no proxy says.
fn send_nonsense(endpoint: &Endpoint) {
    for length in [1, 8, WORDS * 8 - 1, WORDS * 8, WORDS * 8 + 1, 4096, 65_536] {
        let untrusted = endpoint.connect();
        untrusted.send_bytes(&vec![0xA5; length]);
        assert!(untrusted.is_refused(), "{length} bytes");
    }
    let wrong = |word: usize, value: u64| {
        let mut words = hello();
        words[word] = value;
        let untrusted = endpoint.connect();
        untrusted.send(words);
        assert!(untrusted.is_refused(), "word {word}");
    };
    wrong(0, 1);
    wrong(1, VERSION - 1);
    wrong(1, VERSION + 1);
    for kind in [0, 2, 3, 4, 5, 6, 7, 8, 9, u64::MAX] {
        wrong(2, kind);
    }
    wrong(3, 1 << 32);
    // Another kind of GPU, and kernels of another version.
    wrong(6, b'C'.into());
    wrong(9, u64::from(ABI_VERSION) + 1);
    // Twice.
    let untrusted = endpoint.connect().welcomed();
    untrusted.send(hello());
    assert!(untrusted.is_refused());
}

/// Offers what no stream can be made of.
fn offer_nonsense(endpoint: &Endpoint) {
    let good = sealed(BYTES);
    let refused = |words: Words, descriptors: &[BorrowedFd<'_>], what: &str| {
        let untrusted = endpoint.connect().welcomed();
        untrusted.send_with(words, descriptors);
        assert!(untrusted.is_refused(), "{what}");
    };
    let untrusted = endpoint.connect().welcomed();
    untrusted.send(offer());
    assert!(untrusted.is_refused(), "no descriptor");
    let folder = File::open("/").expect("it is there");
    let null = File::options().read(true).write(true).open("/dev/null").expect("it is there");
    let read_only = memory(BYTES, SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE);
    for (file, what) in [
        (OwnedFd::from(folder), "a folder"),
        (null.into(), "no memory"),
        (memory(BYTES, SealFlags::empty()), "no seals"),
        (memory(BYTES, SealFlags::GROW), "too few seals"),
        (read_only, "it cannot be written"),
        (sealed(BYTES / 2), "smaller than announced"),
        (sealed(2 * BYTES), "larger than announced"),
    ] {
        refused(offer(), &[file.as_fd()], what);
    }
    refused(offer(), &[good.as_fd(), good.as_fd(), good.as_fd()], "three descriptors");
    for (word, value, what) in [
        (5, 0, "an arena of nothing"),
        (5, u64::MAX, "an arena of everything"),
        (6, BYTES, "a ring behind the end"),
        (6, u64::MAX - 4095, "a ring that wraps"),
        (6, 64, "a ring that begins anywhere"),
        (6, 0, "a ring in the inbox"),
        (7, 0, "a ring of nothing"),
        (7, 65_535, "a ring of an odd size"),
        (7, 2 << 20, "a ring larger than all"),
        (7, 1 << 40, "a ring of no size"),
        (8, BYTES, "an inbox behind the end"),
        (8, 100, "an inbox that begins anywhere"),
        (8, u64::MAX - 4095, "an inbox that wraps"),
        (9, 0, "counters of another kind of stream"),
        (9, BASE + 1, "counters that begin anywhere"),
        (9, 2 * BASE, "counters that end too soon"),
    ] {
        let mut words = offer();
        words[word] = value;
        refused(words, &[good.as_fd()], what);
    }
}

/// Many that say nothing, or half of it; others get through meanwhile.
fn connect_in_large_numbers(endpoint: &Endpoint, near: &Net, far: &Net) {
    let silent: Vec<UntrustedPeer> = (0..600).map(|_| endpoint.connect()).collect();
    let begun: Vec<UntrustedPeer> = (0..100).map(|_| endpoint.connect().welcomed()).collect();
    // The oldest had to go.
    assert!(eventually(|| silent[0].is_refused()));
    let (listener, address) = far.listen(any_port()).expect("a port");
    let (mut server, mut client) = (Script::new(), Script::new());
    server.given(0, listener).accept(0, 1).echo(1, 500).close(1).close(0);
    client.stream(0, address).send(0, 5000).recv_all(0, 5000, 500).close(0);
    let serving = Job::blocks(32).script(&server).start(far);
    Job::blocks(32).script(&client).run(near);
    serving.finish();
    drop((silent, begun));
}

/// A stream that came about, whose other end then sends nonsense, or goes: its own end alone.
fn break_a_stream(endpoint: &Endpoint, far: &Net) {
    let (failed, accepted) = (far.statistics().failed, far.statistics().accepted);
    let memory = sealed(BYTES);
    let connect = || {
        let untrusted = endpoint.connect().welcomed();
        untrusted.send_with(offer(), &[memory.as_fd()]);
        assert_eq!(untrusted.receive(), Some(OFFER));
        untrusted
    };
    let [nonsense, again, gone, ends] = [(); 4].map(|()| connect());
    nonsense.send_bytes(&[0xA5; 192]);
    again.send(hello());
    drop(gone);
    let fails = |count| eventually(|| far.statistics().failed == count);
    assert!(fails(failed + 3), "{:?}", far.statistics());
    ends.send(message(END));
    // A message of earlier versions, which this one does not know.
    ends.send(message(5));
    drop(ends);
    assert!(fails(failed + 4), "{:?}", far.statistics());
    assert_eq!(far.statistics().accepted, accepted + 4);
}
