//! How handshakes and p2p streams end, and what becomes of their memory: two ends in one process, on the
//! emulated GPU.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::super::linux::Linux;
use super::super::{KernelStream as _, Provider as _, RingSizes, Stream as _};
use super::channel::{ControlChannel, Received};
use super::deferred::DeferredFree;
use super::handshake::{Handshake, Progressed};
use super::message::Message;
use super::names::Names;
use super::process::Process;
use super::stream::P2pStream;
use super::*;
use crate::gpu::{EmulatedOptions, Gpu, GpuChoice, LaunchSpec, Running, WaitOutcome};
use gpunet_device::abi::errno::Errno;
use gpunet_device::{Domain, SocketAddr};

std::thread_local! {
    /// How often something was received on this thread, or was to be.
    pub(super) static RECEIVED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Kernels that wait for a word of the test.
struct Kernel {
    running: Running,
    over: Arc<AtomicBool>,
}

impl Kernel {
    fn start(gpu: &Gpu) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let entry = Arc::new(move || {
            while !ended.load(Ordering::Acquire) {
                gpunet_device::simt::pause();
            }
        });
        let spec = LaunchSpec {
            module: "tests".into(),
            kernel: "waits".into(),
            grid: 1.into(),
            block: 1.into(),
            shared_bytes: 0,
            params: Vec::new(),
            entry,
        };
        Self { running: gpu.launch(spec).unwrap(), over }
    }

    fn end(self) {
        self.over.store(true, Ordering::Release);
        assert_eq!(self.running.wait(None), Ok(WaitOutcome::Finished));
    }
}

const RINGS: RingSizes = RingSizes { receive: 4096, send: 4096 };

fn p2p(gpu: &Gpu) -> Arc<P2p> {
    Arc::new(P2p::new(&Linux, gpu, 64 << 20).unwrap())
}

fn gpu() -> Gpu {
    Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).unwrap()
}

fn names() -> Names {
    Names { domain: Domain::V4, own: SocketAddr::NONE, peer: SocketAddr::NONE }
}

fn channels() -> [ControlChannel; 2] {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    [ControlChannel::new(&Linux, a), ControlChannel::new(&Linux, b)]
}

fn later(handshake: Box<Handshake>) -> Box<Handshake> {
    match handshake.turn().unwrap() {
        Progressed::Later(handshake) => handshake,
        Progressed::Done(_) => panic!("it is done"),
    }
}

fn done(handshake: Box<Handshake>) -> Box<P2pStream> {
    match handshake.turn().unwrap() {
        Progressed::Done(stream) => stream,
        Progressed::Later(_) => panic!("it is not done"),
    }
}

/// A caller that has offered its inbox, and the listener's stream that came of it.
fn half_connected(caller: &Arc<P2p>, listener: &Arc<P2p>) -> (Box<Handshake>, Box<P2pStream>) {
    let [a, b] = channels();
    let calls = Handshake::call(Arc::clone(caller), a, names(), RINGS).unwrap();
    let answers = later(Handshake::answer(Arc::clone(listener), b, names(), RINGS).unwrap());
    let calls = later(calls);
    (calls, done(answers))
}

fn deferred(p2p: &P2p) -> usize {
    p2p.tidy();
    crate::lock::lock(&p2p.deferred).len()
}

#[test]
fn an_offer_is_kept_until_who_got_it_is_done() {
    let gpu = gpu();
    let (caller, listener) = (p2p(&gpu), p2p(&gpu));
    let (calls, mut accepted) = half_connected(&caller, &listener);
    let (rings, inboxes) = accepted.rings().unwrap();
    drop(calls);
    // The next stream with that peer gets other memory.
    let (again, mut other) = half_connected(&caller, &listener);
    let (next_rings, next_inboxes) = other.rings().unwrap();
    assert_ne!(rings.send.offset, next_rings.send.offset);
    assert_ne!(inboxes.peer, next_inboxes.peer);
    assert_eq!(deferred(&caller), 1);
    assert!(accepted.receive_ending().unwrap().closed, "the listener is notified");
    assert!(accepted.leave());
    drop(accepted);
    assert_eq!((deferred(&caller), deferred(&listener)), (0, 0));
    drop((again, other));
}

/// Passes the next message on, as it is or with another GPU in it.
fn pass_on(from: &ControlChannel, to: &ControlChannel, other_gpu: bool) {
    let Received::Message(mut message, descriptor) = from.receive().unwrap() else {
        panic!("there is no message")
    };
    if let Message::Hello { gpu, .. } | Message::Welcome { gpu, .. } = &mut message
        && other_gpu
    {
        // Of the same kind.
        gpu[16] ^= 1;
    }
    to.send(message, descriptor.as_ref().map(AsFd::as_fd)).unwrap();
}

#[test]
fn each_end_knows_whether_the_other_is_on_the_same_gpu() {
    let gpu = gpu();
    for other_gpu in [false, true] {
        let (caller, listener) = (p2p(&gpu), p2p(&gpu));
        let ([a, near_caller], [near_listener, b]) = (channels(), channels());
        let mut calls = Handshake::call(Arc::clone(&caller), a, names(), RINGS).unwrap();
        let mut answers = Handshake::answer(Arc::clone(&listener), b, names(), RINGS).unwrap();
        pass_on(&near_caller, &near_listener, other_gpu);
        answers = later(answers);
        pass_on(&near_listener, &near_caller, other_gpu);
        calls = later(calls);
        pass_on(&near_caller, &near_listener, other_gpu);
        let mut accepted = done(answers);
        pass_on(&near_listener, &near_caller, other_gpu);
        let mut called = done(calls);
        for stream in [&mut accepted, &mut called] {
            let (_, inboxes) = stream.rings().unwrap();
            assert_eq!(inboxes.one_gpu, !other_gpu);
        }
    }
}

#[test]
fn a_refused_offer_leaves_nothing() {
    let gpu = gpu();
    let (caller, [a, b]) = (p2p(&gpu), channels());
    let calls = Handshake::call(Arc::clone(&caller), a, names(), RINGS).unwrap();
    b.send(Message::Welcome { token: 7, gpu: [7; 17], send_ring: 4096 }, None).unwrap();
    let calls = later(calls);
    b.send(Message::Refused { errno: Errno::ENOBUFS.0 }, None).unwrap();
    assert!(matches!(calls.turn(), Err(Errno::ENOBUFS)));
    assert_eq!(deferred(&caller), 0);
}

fn deferred_free(p2p: &P2p) -> (DeferredFree, ControlChannel) {
    let [a, b] = channels();
    let inbox = p2p.inbox(Process { pid: 1, token: 1 }, 4096, arena::new_base(&Linux)).unwrap();
    (DeferredFree::new(Arc::new(a), inbox, false, false), b)
}

#[test]
fn a_deferred_free_receives_some_at_a_time() {
    let p2p = p2p(&gpu());
    let (mut deferred_free, other) = deferred_free(&p2p);
    assert!(!deferred_free.is_complete());
    let mut sent = 0;
    while other.send(Message::End, None).is_ok() {
        sent += 1;
    }
    assert!(!deferred_free.is_complete());
    // It has left some of them.
    let mut more = 0;
    while other.send(Message::End, None).is_ok() {
        more += 1;
    }
    assert!(sent > 64 && more <= 64, "{sent} and {more}");
    drop(other);
    assert!((0..1000).any(|_| deferred_free.is_complete()));
}

#[test]
fn a_close_that_was_not_received_is_sent_again() {
    let p2p = p2p(&gpu());
    let (mut deferred_free, other) = deferred_free(&p2p);
    while deferred_free.channel.send(Message::End, None).is_ok() {}
    assert!(!deferred_free.is_complete());
    other.send(Message::Close, None).unwrap();
    assert!(!deferred_free.is_complete(), "the other end has not received it");
    while matches!(other.receive(), Ok(Received::Message(Message::End, _))) {}
    assert!(deferred_free.is_complete());
    assert!(matches!(other.receive(), Ok(Received::Message(Message::Close, _))));
}

fn connected(caller: &Arc<P2p>, listener: &Arc<P2p>) -> [Box<P2pStream>; 2] {
    let (calls, accepted) = half_connected(caller, listener);
    [done(calls), accepted]
}

#[test]
fn streams_that_come_and_go_beside_a_kernel_use_the_same_memory() {
    let gpu = gpu();
    let (caller, listener) = (p2p(&gpu), p2p(&gpu));
    let free = || [&caller, &listener].map(|p2p| p2p.arenas.free_bytes());
    let before = free();
    let kernel = Kernel::start(&gpu);
    let close = |streams: [Box<P2pStream>; 2]| {
        for mut stream in streams {
            assert!(stream.rings().is_some() && stream.leave());
        }
        assert_eq!((deferred(&caller), deferred(&listener)), (0, 0));
    };
    close(connected(&caller, &listener));
    let during = free();
    for _ in 0..100 {
        close(connected(&caller, &listener));
    }
    assert_eq!(free(), during);
    kernel.end();
    caller.tidy();
    listener.tidy();
    // Kernels of other tests may keep it a little longer.
    let begun = std::time::Instant::now();
    while free() != before {
        let limit = gpunet_support::testing::hang_limit(std::time::Duration::from_secs(1));
        assert!(begun.elapsed() < limit, "{:?}, {before:?} before", free());
        std::thread::sleep(std::time::Duration::from_millis(10));
        caller.tidy();
        listener.tidy();
    }
}

#[test]
fn who_does_not_close_in_order_says_nothing_while_kernels_run() {
    let gpu = gpu();
    let (caller, listener) = (p2p(&gpu), p2p(&gpu));
    let kernel = Kernel::start(&gpu);
    let place = |stream: &mut P2pStream| stream.rings().unwrap().0.receive.offset;
    // A thread that panicked, and a net that goes although a kernel runs.
    for in_order in [false, true] {
        let [mut calls, mut accepted] = connected(&caller, &listener);
        let first = place(&mut calls);
        place(&mut accepted);
        if in_order {
            accepted.abandon();
            assert!(accepted.leave());
        }
        drop(accepted);
        assert_eq!(calls.receive_ending().err(), Some(Errno::ECONNRESET));
        assert!(calls.leave());
        drop(calls);
        assert_eq!((deferred(&caller), deferred(&listener)), (0, 0));
        // Nobody else receives where that kernel may write.
        let [mut calls, mut accepted] = connected(&caller, &listener);
        assert_ne!(place(&mut calls), first);
        place(&mut accepted);
        assert!(calls.leave() && accepted.leave());
    }
    kernel.end();
}

#[test]
fn a_peer_does_not_choose_how_much_memory_it_gets() {
    let large = RingSizes { receive: 4096, send: 1 << 30 };
    let gpu = gpu();
    let (caller, listener) = (p2p(&gpu), p2p(&gpu));
    let capacity = |stream: &mut P2pStream| stream.rings().unwrap().0.receive.capacity;
    for (calls, answers) in [(large, RINGS), (RINGS, large)] {
        let [a, b] = channels();
        let calls = Handshake::call(Arc::clone(&caller), a, names(), calls).unwrap();
        let answers = Handshake::answer(Arc::clone(&listener), b, names(), answers).unwrap();
        let answers = later(answers);
        let calls = later(calls);
        let mut accepted = done(answers);
        let mut called = done(calls);
        assert_eq!([capacity(&mut called), capacity(&mut accepted)], [8192; 2]);
        assert!(called.leave() && accepted.leave());
    }
}

#[test]
fn an_accepted_stream_is_named_as_its_peer_called_it() {
    let address = |text: &str| SocketAddr::from(text.parse::<std::net::SocketAddr>().unwrap());
    let (v4, v6) = (Domain::V4, Domain::V6);
    for (domain, listens, called, own, peer) in [
        (v4, "0.0.0.0:7", "127.0.0.2:7", "127.0.0.2:7", "127.0.0.1:9"),
        (v4, "127.0.0.1:7", "127.0.0.1:7", "127.0.0.1:7", "127.0.0.1:9"),
        (v6, "[::]:7", "127.0.0.2:7", "[::ffff:127.0.0.2]:7", "[::ffff:127.0.0.1]:9"),
        (v6, "[::1]:7", "[::1]:7", "[::1]:7", "[::ffff:127.0.0.1]:9"),
    ] {
        let names = Names { domain, own: address(listens), peer: SocketAddr::NONE };
        let named = names.of_accepted(address("127.0.0.1:9"), address(called));
        assert_eq!((named.own, named.peer), (address(own), address(peer)), "{listens} {called}");
    }
}

/// Messages received, or asked for, while so many streams close at one end and then at the other.
fn received_while_closing(count: usize) -> u64 {
    let gpu = gpu();
    let (caller, listener) = (p2p(&gpu), p2p(&gpu));
    let (mut calls, mut accepted) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let [call, accept] = connected(&caller, &listener);
        calls.push(call);
        accepted.push(accept);
    }
    let before = RECEIVED.get();
    for mut stream in calls {
        assert!(stream.leave());
    }
    assert_eq!(crate::lock::lock(&caller.deferred).len(), count);
    for mut stream in accepted {
        assert!(stream.leave());
    }
    assert_eq!((deferred(&caller), deferred(&listener)), (0, 0));
    RECEIVED.get() - before
}

#[test]
fn the_work_of_closing_streams_grows_with_their_number_and_no_faster() {
    let [few, many] = [50, 200].map(received_while_closing);
    assert!(few >= 100, "each end looks for the other's Close: {few}");
    assert!(many <= 5 * few, "{few} for 50 streams, {many} for 200");
    assert!(many <= 6 * 200, "{many}");
}
