//! A shard by itself, with memory that the test writes as no honest kernel would.

use std::os::unix::net::UnixStream;

use gpunet_device::abi::bits::{PACKET_UNITS, Progress};
use gpunet_device::abi::layout::Layout;
use gpunet_device::abi::message::{Operation, REQUEST_WORDS, Request};
use gpunet_device::calls::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};
use gpunet_device::poller::EVENT_BYTES;
use gpunet_device::{Domain, Handle, SocketAddr};
use proptest::prelude::*;

use super::connection::{Connection, Owner, Phase, Wishes};
use super::shard::Shard;
use super::tests::{NoEpoll, empty_shard};
use crate::gpu::{EmulatedOptions, Gpu, GpuChoice};
use crate::memory::{CpuWords, Memory, WordPlacement};
use crate::settings::policy::Policy;
use crate::transport::RingRegion;
use crate::transport::{self, Socket};

/// A counter as a kernel writes it.
fn counter(count: u64) -> u64 {
    Progress::new(count, 0).0
}

const RING: u32 = 4096;
const LAYOUT: Layout = Layout { shards: 1, places: 12, slots: 4 };
const RING_BYTES: u64 = 64 * RING as u64;
/// The launch that asks.
const LAUNCH: u32 = 3;

/// A shard whose launch number [`LAUNCH`] runs, and the time.
struct Bench {
    shard: Shard,
    io: NoEpoll,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        Self::with(LAYOUT)
    }

    fn with(layout: Layout) -> Self {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let words = CpuWords::new(&gpu, &layout, WordPlacement::Host).expect("words");
        let memory =
            Memory::new(&gpu, layout, words, RING_BYTES as usize, false, None, 1).expect("memory");
        // Nothing that a test draws reaches beyond it.
        let shard = empty_shard(memory, RING_BYTES, Policy::closed());
        shard.shared.launches.set(LAUNCH, true);
        Self { shard, io: NoEpoll::default(), now: 0 }
    }

    fn turn(&mut self) {
        self.now += 1000;
        self.shard.turn(self.now, &mut self.io);
    }

    /// Asks as a kernel would; the reply's number.
    fn ask(&mut self, operation: Operation, handle: Handle, numbers: [u64; 4]) -> Result<u64, i64> {
        let request = Request::new(operation, LAUNCH, handle, numbers);
        self.ask_for(&request)
    }

    fn ask_for(&mut self, request: &Request) -> Result<u64, i64> {
        let reply = self.shard.answer(request, self.now, &mut self.io);
        if reply.result() == 0 { Ok(reply.number()) } else { Err(reply.result()) }
    }

    /// A stream of the program, and its peer.
    fn stream(&mut self) -> (Handle, UnixStream) {
        let (near, far) = UnixStream::pair().expect("a pair");
        far.set_nonblocking(true).expect("a socket can");
        let (socket, _) = transport::adopt(near.into()).expect("a stream");
        let mut made = self.make(Owner::Host, Some(socket));
        made.take_rings(&self.shard.shared, RingRegion::Host).expect("rings");
        made.phase = Phase::Open;
        (self.adopt(made), far)
    }

    /// A connection that is not yet the shard's.
    fn make(&self, owner: Owner, socket: Option<Box<dyn Socket>>) -> Connection {
        let shared = &self.shard.shared;
        let handle = shared.pool.take_handle().expect("a place");
        let wishes = Wishes { receive_ring: RING, send_ring: RING, patience_ns: 0 };
        Connection::new(handle, shared.index(handle), owner, wishes, socket)
    }

    fn adopt(&mut self, mut made: Connection) -> Handle {
        let handle = made.handle;
        made.publish(&self.shard.shared.memory);
        self.shard.adopt(made, &mut self.io);
        handle
    }

    fn poller(&mut self) -> Handle {
        Handle(self.ask(Operation::Poller, Handle::NONE, [0; 4]).expect("a place"))
    }

    fn add(&mut self, poller: Handle, socket: Handle, events: u16, token: u64) {
        let numbers = [socket.0, u64::from(events), token, 0];
        self.ask(Operation::Watch, poller, numbers).expect("both are open");
    }

    /// Has a new poller watch a socket, and takes what it is told at once.
    fn watcher(&mut self, socket: Handle, events: u16) -> Handle {
        let poller = self.poller();
        self.add(poller, socket, events, 0);
        self.turn();
        self.told(poller);
        poller
    }

    /// What is in a poller's ring: tokens and events.
    fn in_ring(&mut self, poller: Handle) -> Vec<(u64, u16)> {
        let ring = self.shard.find(poller).expect("it is open").receive;
        let word = |at: u64| self.shard.shared.memory.ring_word(&ring.place, at).load();
        let written = (ring.theirs..ring.ours).step_by(EVENT_BYTES);
        written.map(|at| (word(at), word(at + 8) as u16)).collect()
    }

    /// Takes a poller's events as a kernel does; all that they tell.
    fn told(&mut self, poller: Handle) -> u16 {
        let told = self.in_ring(poller).iter().fold(0, |told, (_, events)| told | events);
        let (shared, counters) = (self.shard.shared.clone(), self.shard.counters.clone());
        let index = shared.index(poller);
        let poller = self.shard.find(poller).expect("it is open");
        shared.memory.receive_head(index).store_release(counter(poller.receive.ours));
        poller.look_at_head(&shared.memory, &counters);
        told
    }

    /// Takes a stream's bytes as a kernel does.
    fn read_all(&mut self, stream: Handle) {
        let head = self.shard.find(stream).expect("it is open").receive.ours;
        let index = self.shard.shared.index(stream);
        self.shard.shared.memory.receive_head(index).store_release(counter(head));
    }

    fn watched(&mut self, poller: Handle) -> (usize, usize) {
        let poller = self.shard.find(poller).expect("it is open");
        poller.watched.as_ref().map_or((0, 0), |watched| watched.sizes())
    }

    /// Nothing that a shard keeps is longer than the table.
    fn is_in_bounds(&mut self) {
        let places = LAYOUT.places as usize;
        let shard = &self.shard;
        let lists = [&shard.full, &shard.closing, &shard.pollers, &shard.paused];
        assert!(lists.iter().all(|list| list.len() <= places), "{lists:?}");
        assert!(shard.hot.len() <= 2 * places, "{:?}", shard.hot);
        for connection in shard.places.iter().flatten() {
            let watched = connection.watched.as_ref().map_or((0, 0), |watched| watched.sizes());
            assert!(watched.0 <= places && watched.1 <= watched.0, "{watched:?}");
            let send = &connection.send;
            assert!(send.ours <= send.theirs);
            assert!(send.theirs - send.ours <= u64::from(send.place.capacity));
            assert!(connection.receive.theirs <= connection.receive.ours);
        }
    }

    /// Once all is closed, all places and rings are back.
    fn is_whole(&mut self) {
        // What still stands in a slot makes no new socket.
        self.shard.shared.launches.set(LAUNCH, false);
        self.shard.close_all(self.now);
        for _ in 0..4 {
            self.now += 1_000_000;
            self.shard.turn(self.now, &mut self.io);
        }
        assert!(self.shard.is_empty());
        assert_eq!(self.shard.shared.pool.usage(), (0, RING_BYTES));
        assert!(self.shard.shared.waiting().is_empty());
    }
}

#[test]
fn a_socket_is_told_of_once_whatever_else_is_written_to_it() {
    let mut bench = Bench::new();
    let (handle, _far) = bench.stream();
    let index = bench.shard.shared.index(handle);
    for turn in 1..1000 {
        bench.shard.shared.memory.send_tail(index).store(turn << 40);
        bench.shard.shared.memory.receive_head(index).store(turn << 41);
        bench.turn();
        // As a dump of all sockets does.
        let (shared, counters) = (bench.shard.shared.clone(), bench.shard.counters.clone());
        let socket = bench.shard.find(handle).expect("it is open");
        socket.look_at_head(&shared.memory, &counters);
    }
    assert_eq!(bench.shard.counters.violations.get(), 1);
    assert_eq!(bench.shard.counters.failed.get(), 1);
    bench.is_whole();
}

#[test]
fn a_full_ring_waits_once_however_often_its_descriptor_speaks() {
    let mut bench = Bench::new();
    let (handle, mut far) = bench.stream();
    std::io::Write::write_all(&mut far, &[1; 2 * RING as usize]).expect("the pair holds it");
    for _ in 0..100 {
        bench.shard.ready(handle.0);
        bench.turn();
    }
    assert_eq!(bench.shard.full.len(), 1);
    // And goes on once there is room.
    let index = bench.shard.shared.index(handle);
    let head = bench.shard.find(handle).expect("it is open").receive.ours;
    bench.shard.shared.memory.receive_head(index).store(counter(head));
    bench.turn();
    assert!(bench.shard.full.is_empty());
    assert_eq!(bench.shard.counters.received_bytes.get(), 2 * u64::from(RING));
    bench.is_whole();
}

#[test]
fn a_poller_that_takes_no_events_owes_no_more_than_it_watches() {
    let mut bench = Bench::new();
    let poller = bench.poller();
    let (socket, _far) = bench.stream();
    for token in 0..5000 {
        bench.add(poller, socket, POLLOUT, token);
        bench.turn();
        assert!(bench.watched(poller).1 <= 1, "after {token} times: {:?}", bench.watched(poller));
        bench.ask(Operation::Watch, poller, [socket.0, 0, 0, 0]).expect("both are open");
    }
    bench.is_whole();
}

#[test]
fn a_socket_that_another_poller_watches_is_forgotten_by_the_first() {
    let mut bench = Bench::new();
    let (first, second) = (bench.poller(), bench.poller());
    for _ in 0..100 {
        let (socket, _far) = bench.stream();
        for poller in [first, second] {
            bench.add(poller, socket, POLLOUT, 1);
            bench.turn();
        }
        assert_eq!((bench.watched(first).0, bench.watched(second).0), (0, 1));
        // Who does not watch it cannot end the watch either.
        bench.ask(Operation::Watch, first, [socket.0, 0, 0, 0]).expect("both are open");
        assert!(bench.shard.find(socket).expect("it is open").watch.is_some());
        bench.ask(Operation::Close, socket, [0; 4]).expect("it is open");
        bench.turn();
    }
    assert_eq!((bench.watched(first).0, bench.watched(second).0), (0, 0));
    bench.is_whole();
}

#[test]
fn a_poller_is_told_of_connections_that_fill_the_accept_ring() {
    let mut bench = Bench::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (socket, listens) = transport::adopt(listener.into()).expect("a listener");
    assert!(listens);
    let mut made = bench.make(Owner::Host, Some(socket));
    made.receive = bench.shard.shared.ring(8, 0).expect("a ring");
    made.start_listening(1);
    let handle = bench.adopt(made);
    let poller = bench.watcher(handle, POLLIN);
    let _client = std::net::TcpStream::connect(address).expect("it listens");
    bench.shard.ready(handle.0);
    bench.turn();
    assert_eq!(bench.shard.counters.accepted.get(), 1);
    assert_eq!(bench.told(poller), POLLIN);
    for _ in 0..1000 {
        bench.turn();
    }
    assert!(!bench.shard.is_hot(), "it waits for a kernel");
    bench.is_whole();
}

#[test]
fn a_poller_is_told_of_a_failed_send_after_the_peers_end() {
    let mut bench = Bench::new();
    let (socket, far) = bench.stream();
    let poller = bench.watcher(socket, POLLIN);
    far.shutdown(std::net::Shutdown::Write).expect("it is connected");
    bench.shard.ready(socket.0);
    bench.turn();
    bench.turn();
    assert_eq!(bench.told(poller), POLLIN);
    drop(far);
    bench.turn();
    let index = bench.shard.shared.index(socket);
    let tail = bench.shard.find(socket).expect("it is open").send.theirs + 100;
    bench.shard.shared.memory.send_tail(index).store_release(counter(tail));
    bench.turn();
    assert_eq!(bench.told(poller), POLLERR | POLLHUP);
    bench.is_whole();
}

#[test]
fn a_poller_is_told_of_an_end_behind_a_full_ring() {
    let mut bench = Bench::new();
    let (socket, mut far) = bench.stream();
    let poller = bench.watcher(socket, POLLRDHUP);
    std::io::Write::write_all(&mut far, &[1; RING as usize]).expect("the pair holds it");
    bench.shard.ready(socket.0);
    bench.turn();
    bench.turn();
    assert_eq!(bench.shard.full.len(), 1);
    drop(far);
    bench.read_all(socket);
    bench.turn();
    bench.turn();
    assert!(bench.shard.find(socket).expect("it is open").receive_ended);
    assert_eq!(bench.told(poller) & POLLRDHUP, POLLRDHUP);
    bench.is_whole();
}

#[test]
fn a_poller_is_told_of_a_shutdown_by_its_own_side() {
    let mut bench = Bench::new();
    let (socket, _far) = bench.stream();
    let poller = bench.watcher(socket, POLLIN | POLLRDHUP);
    bench.ask(Operation::Shutdown, socket, [0; 4]).expect("it is connected");
    bench.turn();
    assert_eq!(bench.told(poller), POLLIN | POLLRDHUP);
    bench.ask(Operation::Shutdown, socket, [1, 0, 0, 0]).expect("it is connected");
    bench.turn();
    assert_eq!(bench.told(poller), POLLHUP);
    bench.is_whole();
}

#[test]
fn a_poller_forgets_a_socket_that_the_program_takes_back() {
    let mut bench = Bench::new();
    let (socket, _far) = bench.stream();
    let poller = bench.watcher(socket, POLLIN);
    assert_eq!(bench.watched(poller).0, 0, "nothing has happened on it");
    let (shard, io) = (&mut bench.shard, &mut bench.io);
    shard.notify(poller, socket, 0, POLLIN);
    assert!(shard.release(socket, io).is_ok());
    assert_eq!(bench.watched(poller), (0, 0));
    bench.is_whole();
}

#[test]
fn an_event_in_the_ring_is_withdrawn_when_its_socket_is_gone() {
    let gone: [fn(&mut Bench, Handle, Handle); 4] = [
        |bench, socket, _| {
            bench.ask(Operation::Close, socket, [0; 4]).expect("it is open");
        },
        |bench, socket, poller| {
            bench.ask(Operation::Watch, poller, [socket.0, 0, 0, 0]).expect("both are open");
        },
        |bench, socket, _| {
            let other = bench.poller();
            bench.add(other, socket, POLLOUT, 9);
        },
        |bench, socket, _| {
            let (shard, io) = (&mut bench.shard, &mut bench.io);
            assert!(shard.release(socket, io).is_ok());
        },
    ];
    for (how, gone) in gone.into_iter().enumerate() {
        let mut bench = Bench::new();
        let poller = bench.poller();
        let made = [bench.stream(), bench.stream(), bench.stream()];
        for (token, (socket, _)) in (1..).zip(&made) {
            bench.add(poller, *socket, POLLOUT, token);
        }
        bench.turn();
        assert_eq!(bench.in_ring(poller), [(1, POLLOUT), (2, POLLOUT), (3, POLLOUT)]);
        gone(&mut bench, made[1].0, poller);
        // At once: the kernel has its reply.
        assert_eq!(bench.in_ring(poller), [(1, POLLOUT), (2, 0), (3, POLLOUT)], "way {how}");
        bench.is_whole();
    }
}

#[test]
fn a_socket_that_is_added_again_has_one_event() {
    let mut bench = Bench::new();
    let poller = bench.poller();
    let (socket, far) = bench.stream();
    bench.add(poller, socket, POLLIN | POLLOUT, 1);
    bench.turn();
    drop(far);
    bench.shard.ready(socket.0);
    bench.turn();
    assert_eq!(bench.in_ring(poller), [(1, POLLOUT)], "the rest is owed");
    // All that was in the ring and all that was owed is told anew.
    bench.add(poller, socket, POLLIN | POLLRDHUP, 2);
    assert_eq!(bench.in_ring(poller), [(1, 0)]);
    bench.turn();
    assert_eq!(bench.in_ring(poller), [(1, 0), (2, POLLIN | POLLRDHUP)]);
    bench.told(poller);
    bench.turn();
    assert_eq!(bench.in_ring(poller), []);
    bench.is_whole();
}

#[test]
fn an_event_that_was_taken_leaves_its_place_to_others() {
    let mut bench = Bench::new();
    let poller = bench.poller();
    let ((first, _a), (second, _b)) = (bench.stream(), bench.stream());
    bench.add(poller, first, POLLOUT, 1);
    bench.turn();
    let ring = bench.shard.find(poller).expect("it is open").receive;
    // Once around.
    for _ in 0..u64::from(ring.place.capacity) / EVENT_BYTES as u64 {
        bench.told(poller);
        bench.add(poller, second, POLLOUT, 2);
        bench.turn();
    }
    let now = bench.shard.find(poller).expect("it is open").receive;
    assert_eq!(now.ours, ring.ours + u64::from(ring.place.capacity));
    bench.ask(Operation::Close, first, [0; 4]).expect("it is open");
    assert_eq!(bench.in_ring(poller), [(2, POLLOUT)]);
    bench.is_whole();
}

#[test]
fn a_ring_full_of_what_was_withdrawn_is_passed_over() {
    let mut bench = Bench::new();
    let poller = bench.poller();
    let (socket, _far) = bench.stream();
    let capacity = bench.shard.find(poller).expect("it is open").receive.place.capacity;
    let room = u64::from(capacity) / EVENT_BYTES as u64;
    for token in 0..=room {
        bench.add(poller, socket, POLLOUT, token);
        bench.turn();
    }
    assert!(bench.in_ring(poller).iter().all(|(_, events)| *events == 0), "it has no room left");
    assert_eq!(bench.told(poller), 0);
    bench.turn();
    assert_eq!(bench.in_ring(poller), [(room, POLLOUT)]);
    bench.is_whole();
}

#[test]
fn a_stream_is_no_poller_whoever_says_so() {
    let mut bench = Bench::new();
    let ((stream, _a), (socket, _b)) = (bench.stream(), bench.stream());
    // As from another shard, which cannot know.
    bench.shard.notify(stream, socket, 1, POLLOUT);
    assert!(bench.shard.find(stream).expect("it is open").watched.is_none());
}

#[test]
fn sockets_belong_to_launches_that_run() {
    let numbers = [Domain::V4 as u64, 1, 0, 0];
    for operation in [Operation::Socket, Operation::Poller] {
        let mut bench = Bench::new();
        for launch in [LAUNCH + 1, 255, 256, u32::MAX] {
            let request = Request::new(operation, launch, Handle::NONE, numbers);
            assert_eq!(bench.ask_for(&request), Err(-22), "launch {launch} does not run");
        }
        let made = bench.ask(operation, Handle::NONE, numbers).expect("its launch runs");
        assert!(bench.shard.find(Handle(made)).is_some());
        // A kernel may leave a request behind that is looked at when it has ended.
        bench.shard.shared.launches.set(LAUNCH, false);
        bench.shard.close_for_launch(LAUNCH, true, bench.now);
        assert_eq!(bench.ask(operation, Handle::NONE, numbers), Err(-22));
        bench.turn();
        assert_eq!(bench.shard.shared.pool.usage().0, 0);
    }
}

#[test]
fn a_socket_that_comes_after_its_launch_has_ended_is_closed() {
    for owner in [Owner::Launch(LAUNCH), Owner::AnyLaunch] {
        let mut bench = Bench::new();
        let (stays, _far) = bench.stream();
        bench.shard.shared.launches.set(LAUNCH, false);
        // From another shard, which answered the request before it heard of the end.
        let made = bench.make(owner, None);
        let handle = bench.adopt(made);
        bench.turn();
        assert!(bench.shard.find(handle).is_none(), "{owner:?}");
        assert!(bench.shard.find(stays).is_some());
        bench.is_whole();
    }
}

#[test]
fn many_sockets_go_at_once_and_the_heart_beats() {
    const MANY: u32 = 15_000;
    let mut bench = Bench::with(Layout { shards: 1, places: MANY + 1, slots: 4 });
    let shared = bench.shard.shared.clone();
    let poller = bench.poller();
    let made: Vec<Handle> = (0..MANY)
        .map(|_| {
            // Without rings its ring is full, and without a socket it waits for its deadline.
            let mut made = bench.make(Owner::Launch(LAUNCH), None);
            made.phase = Phase::Open;
            bench.adopt(made)
        })
        .collect();
    bench.turn();
    for handle in &made {
        bench.add(poller, *handle, POLLOUT, 1);
        bench.shard.ready(handle.0);
    }
    let beat = shared.memory.last_beat(0);
    let start = std::time::Instant::now();
    bench.shard.close_for_launch(LAUNCH, true, bench.now);
    bench.shard.finish_closing(bench.now + 1_000_000, &mut bench.io);
    assert!(start.elapsed().as_secs() < 3, "{:?}", start.elapsed());
    assert!(shared.memory.last_beat(0) >= beat + u64::from(MANY));
    assert!(bench.shard.is_empty());
    bench.turn();
    bench.is_in_bounds();
    assert_eq!((bench.shard.hot.len(), bench.shard.full.len()), (0, 0));
    bench.is_whole();
}

#[test]
fn what_is_written_after_a_close_is_not_sent() {
    let mut bench = Bench::new();
    let (handle, mut far) = bench.stream();
    let index = bench.shard.shared.index(handle);
    let tail = bench.shard.shared.memory.send_tail(index);
    let base = bench.shard.find(handle).expect("it is open").send.theirs;
    // More than the pair holds, so that the close has to wait.
    let mut sent = base;
    while bench.shard.find(handle).is_some_and(|c| c.send.ours == c.send.theirs) {
        sent += u64::from(RING);
        tail.store_release(counter(sent));
        bench.turn();
    }
    bench.shard.close(handle, u64::MAX / 2);
    let theirs = bench.shard.find(handle).expect("it has bytes to send").send.theirs;
    let mut sink = vec![0; 1 << 16];
    let mut arrived = 0;
    for more in 1..100 {
        tail.store_release(counter(sent + more * 8));
        arrived += std::io::Read::read(&mut far, &mut sink).unwrap_or(0) as u64;
        bench.shard.ready(handle.0);
        bench.turn();
        if let Some(connection) = bench.shard.find(handle) {
            assert_eq!(connection.send.theirs, theirs);
        }
    }
    assert!(bench.shard.find(handle).is_none(), "it ends once its bytes are sent");
    assert_eq!(bench.shard.counters.violations.get(), 0);
    assert_eq!(arrived, sent - base);
    bench.is_whole();
}

/// One thing that a hostile kernel, a peer or the system does.
#[derive(Clone, Debug)]
enum Step {
    Tail(usize, u64),
    Head(usize, u64),
    Unit(usize, usize, u64),
    Ask(usize, [u64; 6], u64),
    Forwards(usize, u64),
    Peer(usize, u16),
    Ready(usize),
    Turn,
}

fn steps() -> impl Strategy<Value = Step> {
    let place = 0..LAYOUT.places as usize;
    let word = prop_oneof![any::<u64>(), 0..10_000_u64, (0..64_u32).prop_map(|bit| 1 << bit)];
    let ask = (1..15_u64, 0..6_u64, any::<u8>(), 0..20_u64, 0..3_u64, word.clone());
    let ask = ask.prop_map(|(operation, launch, handle, a, b, c)| {
        [operation | launch << 32, u64::from(handle), a, b, c, c]
    });
    prop_oneof![
        2 => (place.clone(), word.clone()).prop_map(|(at, word)| Step::Tail(at, word)),
        2 => (place.clone(), word.clone()).prop_map(|(at, word)| Step::Head(at, word)),
        1 => (place.clone(), 0..PACKET_UNITS, any::<u64>())
            .prop_map(|(at, index, word)| Step::Unit(at, index, word)),
        6 => (0..LAYOUT.slots as usize, ask, word).prop_map(|(at, ask, word)| Step::Ask(at, ask, word)),
        3 => (place.clone(), 0..200_u64).prop_map(|(at, by)| Step::Forwards(at, by)),
        2 => (place.clone(), any::<u16>()).prop_map(|(at, bytes)| Step::Peer(at, bytes)),
        2 => place.prop_map(Step::Ready),
        6 => Just(Step::Turn),
    ]
}

/// More where there is time, as in `cargo xtask test --long`.
fn cases() -> u32 {
    if std::env::var_os("GPUNET_LONG").is_some() { 100_000 } else { 2000 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// Whatever is written, in whatever order: a shard stays in bounds, and everything comes back.
    #[test]
    fn a_shard_survives_anything(steps in prop::collection::vec(steps(), 1..300)) {
        let mut bench = Bench::new();
        let mut peers = Vec::new();
        for _ in 0..3 {
            peers.push(bench.stream());
        }
        let poller = bench.poller();
        for step in steps {
            let shared = std::sync::Arc::clone(&bench.shard.shared);
            let memory = &shared.memory;
            // Those handles that mean something are drawn as often as those that do not.
            let handle = |drawn: u64| match drawn % 16 {
                0 => poller.0,
                at @ 1..=3 => peers[at as usize - 1].0.0,
                at => Handle::new(0, at as u32 - 4, 1 + drawn as u32 / 64).0,
            };
            match step {
                Step::Tail(at, word) => memory.send_tail(at).store(word),
                Step::Head(at, word) => memory.receive_head(at).store(word),
                Step::Unit(at, index, word) => memory.send_units(at).get(index).store(word),
                Step::Forwards(at, by) => {
                    if let Some(connection) = &bench.shard.places[at] {
                        memory.send_tail(at).store(counter(connection.send.theirs + by));
                        let head = connection.receive.theirs + by;
                        memory.receive_head(at).store(counter(head.min(connection.receive.ours)));
                    }
                }
                Step::Ask(slot, ask, number) => {
                    let mut words = [0; REQUEST_WORDS];
                    words[..6].copy_from_slice(&ask);
                    words[1] = handle(ask[1]);
                    if words[0] as u32 == Operation::Watch as u32 {
                        words[2] = handle(ask[4]);
                    }
                    let mut request = Request(words);
                    if number % 2 == 0 {
                        request = request.with_address(&SocketAddr::v4([127, 0, 0, 1], 0));
                    }
                    memory.request(slot).write(&request.0);
                    memory.request_sequence(slot).store(number);
                }
                Step::Peer(at, bytes) => {
                    let (_, far) = &mut peers[at % 3];
                    let _ = std::io::Write::write(far, &vec![1; usize::from(bytes)]);
                    let _ = std::io::Read::read(far, &mut vec![0; usize::from(bytes)]);
                }
                Step::Ready(at) => {
                    if let Some(key) = bench.shard.places[at].as_ref().map(|c| c.handle.0) {
                        bench.shard.ready(key);
                    }
                }
                Step::Turn => bench.turn(),
            }
            bench.is_in_bounds();
        }
        bench.is_whole();
    }
}
