//! How meetings and streams end, and what becomes of their memory: two ends in one process, on the
//! emulated GPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::super::{Direct as _, Socket as _};
use super::talk::{Heard, Message, Talk};
use super::*;
use crate::gpu::{EmulatedOptions, GpuChoice, LaunchSpec, Running, WaitOutcome};
use gpunet_device::{Domain, SocketAddr};

/// Kernels that wait for a word of the test.
struct Kernel {
    running: Running,
    over: Arc<AtomicBool>,
}

impl Kernel {
    fn start(gpu: &Gpu) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let entry = Arc::new(move || {
            while !told.load(Ordering::Acquire) {
                gpunet_device::simt::pause();
            }
        });
        let spec = LaunchSpec {
            module: "tests",
            kernel: "waits",
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

const RINGS: (u32, u32) = (4096, 4096);

fn local(gpu: &Gpu) -> Arc<Local> {
    Arc::new(Local::new(gpu, 64 << 20).unwrap())
}

fn gpu() -> Gpu {
    Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).unwrap()
}

fn names() -> Names {
    Names { domain: Domain::V4, own: SocketAddr::NONE, peer: SocketAddr::NONE }
}

fn talks() -> [Talk; 2] {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    [Talk::new(a), Talk::new(b)]
}

fn later(meeting: Box<Meeting>) -> Box<Meeting> {
    match meeting.turn().unwrap() {
        Progressed::Later(meeting) => meeting,
        Progressed::Done(_) => panic!("it is done"),
    }
}

fn done(meeting: Box<Meeting>) -> Box<DirectStream> {
    match meeting.turn().unwrap() {
        Progressed::Done(stream) => stream,
        Progressed::Later(_) => panic!("it is not done"),
    }
}

/// A caller that has offered its inbox, and the listener's stream that came of it.
fn half_met(caller: &Arc<Local>, listener: &Arc<Local>) -> (Box<Meeting>, Box<DirectStream>) {
    let [a, b] = talks();
    let calls = Meeting::call(Arc::clone(caller), a, names(), RINGS).unwrap();
    let answers = later(Meeting::answer(Arc::clone(listener), b, names(), RINGS).unwrap());
    let calls = later(calls);
    (calls, done(answers))
}

fn graves(local: &Local) -> usize {
    local.tidy();
    local.graves.lock().unwrap().len()
}

#[test]
fn an_offer_is_kept_until_who_got_it_is_done() {
    let gpu = gpu();
    let (caller, listener) = (local(&gpu), local(&gpu));
    let (calls, mut accepted) = half_met(&caller, &listener);
    let (rings, inboxes) = accepted.rings().unwrap();
    drop(calls);
    // The next stream with that peer gets other memory.
    let (again, mut other) = half_met(&caller, &listener);
    let (next_rings, next_inboxes) = other.rings().unwrap();
    assert_ne!(rings.send.offset, next_rings.send.offset);
    assert_ne!(inboxes.peer, next_inboxes.peer);
    assert_eq!(graves(&caller), 1);
    assert!(accepted.hear().unwrap().closed, "the listener hears of it");
    assert!(accepted.leave());
    drop(accepted);
    assert_eq!((graves(&caller), graves(&listener)), (0, 0));
    drop((again, other));
}

#[test]
fn a_refused_offer_leaves_nothing() {
    let gpu = gpu();
    let (caller, [a, b]) = (local(&gpu), talks());
    let calls = Meeting::call(Arc::clone(&caller), a, names(), RINGS).unwrap();
    b.say(Message::Welcome { token: 7, send_ring: 4096 }, None).unwrap();
    let calls = later(calls);
    b.say(Message::Refused { errno: Errno::ENOBUFS.0 }, None).unwrap();
    assert!(matches!(calls.turn(), Err(Errno::ENOBUFS)));
    assert_eq!(graves(&caller), 0);
}

fn grave(local: &Local) -> (Grave, Talk) {
    let [a, b] = talks();
    let inbox = local.inbox(Process { pid: 1, token: 1 }, 4096, inbox::new_base()).unwrap();
    (Grave::new(Arc::new(a), inbox), b)
}

#[test]
fn a_grave_listens_for_a_while_and_then_to_others() {
    let local = local(&gpu());
    let (mut grave, other) = grave(&local);
    assert!(!grave.is_quiet());
    let mut said = 0;
    while other.say(Message::Watch, None).is_ok() {
        said += 1;
    }
    assert!(!grave.is_quiet());
    // It has left some of them.
    let mut more = 0;
    while other.say(Message::Watch, None).is_ok() {
        more += 1;
    }
    assert!(said > 64 && more <= 64, "{said} and {more}");
    drop(other);
    assert!((0..1000).any(|_| grave.is_quiet()));
}

#[test]
fn a_close_that_was_not_heard_is_said_again() {
    let local = local(&gpu());
    let (mut grave, other) = grave(&local);
    while grave.talk.say(Message::Watch, None).is_ok() {}
    assert!(!grave.is_quiet());
    other.say(Message::Close, None).unwrap();
    assert!(!grave.is_quiet(), "the other end has not heard it");
    while matches!(other.hear(), Ok(Heard::Message(Message::Watch, _))) {}
    assert!(grave.is_quiet());
    assert!(matches!(other.hear(), Ok(Heard::Message(Message::Close, _))));
}

fn met(caller: &Arc<Local>, listener: &Arc<Local>) -> [Box<DirectStream>; 2] {
    let (calls, accepted) = half_met(caller, listener);
    [done(calls), accepted]
}

#[test]
fn streams_that_come_and_go_beside_a_kernel_use_the_same_memory() {
    let gpu = gpu();
    let (caller, listener) = (local(&gpu), local(&gpu));
    let free = || [&caller, &listener].map(|local| local.arenas.free_bytes());
    let before = free();
    let kernel = Kernel::start(&gpu);
    let close = |streams: [Box<DirectStream>; 2]| {
        for mut stream in streams {
            assert!(stream.rings().is_some() && stream.leave());
        }
        assert_eq!((graves(&caller), graves(&listener)), (0, 0));
    };
    close(met(&caller, &listener));
    let during = free();
    for _ in 0..100 {
        close(met(&caller, &listener));
    }
    assert_eq!(free(), during);
    kernel.end();
    caller.tidy();
    listener.tidy();
    // Kernels of other tests may keep it a little longer.
    for _ in 0..1000 {
        if free() == before {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        caller.tidy();
        listener.tidy();
    }
    panic!("{:?}, {before:?} before", free());
}

#[test]
fn who_does_not_close_in_order_says_nothing_while_kernels_run() {
    let gpu = gpu();
    let (caller, listener) = (local(&gpu), local(&gpu));
    let kernel = Kernel::start(&gpu);
    let place = |stream: &mut DirectStream| stream.rings().unwrap().0.receive.offset;
    // A thread that panicked, and a net that goes although a kernel runs.
    for in_order in [false, true] {
        let [mut calls, mut accepted] = met(&caller, &listener);
        let first = place(&mut calls);
        place(&mut accepted);
        if in_order {
            accepted.abandon();
            assert!(accepted.leave());
        }
        drop(accepted);
        assert_eq!(calls.hear().err(), Some(Errno::ECONNRESET));
        assert!(calls.leave());
        drop(calls);
        assert_eq!((graves(&caller), graves(&listener)), (0, 0));
        // Nobody else receives where that kernel may write.
        let [mut calls, mut accepted] = met(&caller, &listener);
        assert_ne!(place(&mut calls), first);
        place(&mut accepted);
        assert!(calls.leave() && accepted.leave());
    }
    kernel.end();
}

#[test]
fn a_peer_does_not_choose_how_much_memory_it_gets() {
    const LARGEST: u32 = 1 << 30;
    let gpu = gpu();
    let (caller, listener) = (local(&gpu), local(&gpu));
    let capacity = |stream: &mut DirectStream| stream.rings().unwrap().0.receive.capacity;
    for (calls, answers) in [((4096, LARGEST), RINGS), (RINGS, (4096, LARGEST))] {
        let [a, b] = talks();
        let calls = Meeting::call(Arc::clone(&caller), a, names(), calls).unwrap();
        let answers = Meeting::answer(Arc::clone(&listener), b, names(), answers).unwrap();
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
