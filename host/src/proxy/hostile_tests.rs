//! A shard by itself, with memory that the test writes as no correct kernel would.

use std::os::unix::net::UnixStream;

use gpunet_device::abi::bits::{PACKET_UNITS, Progress};
use gpunet_device::abi::layout::Layout;
use gpunet_device::abi::message::{Operation, REQUEST_WORDS, Request};
use gpunet_device::calls::POLLOUT;
use gpunet_device::poller::EVENT_BYTES;
use gpunet_device::{Domain, Handle, SocketAddr};
use proptest::prelude::*;

use super::closing::Closer;
use super::entry::{Entry, Owner, Role, Wishes};
use super::shard::Shard;
use super::stream::StreamPhase;
use super::tests::{NoEpoll, empty_shard};
use crate::gpu::{EmulatedOptions, Gpu, GpuChoice};
use crate::memory::{ControlMemory, HostControl, Memory};
use crate::pool::Account;
use crate::settings::policy::Policy;
use crate::transport::{self, Endpoint};
use crate::transport::{RingRegion, RingSizes};

/// A counter as a kernel writes it.
pub(super) fn counter(count: u64) -> u64 {
    Progress::new(count, 0).0
}

pub(super) const RING: u32 = 4096;
const LAYOUT: Layout = Layout { shards: 1, socket_slots: 12, request_slots: 4 };
const RING_BYTES: u64 = 64 * RING as u64;
/// The launch that asks.
const LAUNCH: u32 = 3;

/// A shard whose launch number [`LAUNCH`] runs, and the time.
pub(super) struct Harness {
    pub(super) shard: Shard,
    pub(super) io: NoEpoll,
    pub(super) now: u64,
}

impl Harness {
    pub(super) fn new() -> Self {
        Self::with(LAYOUT)
    }

    pub(super) fn with(layout: Layout) -> Self {
        // Nothing that a test draws reaches beyond it.
        Self::under(Policy::closed(), layout)
    }

    fn under(policy: Policy, layout: Layout) -> Self {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let control = HostControl::new(&gpu, &layout, ControlMemory::Host).expect("words");
        let memory = Memory::new(&gpu, layout, control, RING_BYTES as usize, false, None, 1)
            .expect("memory");
        let shard = empty_shard(memory, RING_BYTES, policy);
        shard.sockets.context.shared.launches.set(LAUNCH, true);
        Self { shard, io: NoEpoll::default(), now: 0 }
    }

    pub(super) fn turn(&mut self) {
        self.now += 1000;
        self.shard.turn(self.now, &mut self.io);
    }

    /// Asks as a kernel would; the reply's number.
    pub(super) fn ask(
        &mut self,
        operation: Operation,
        handle: Handle,
        numbers: [u64; 4],
    ) -> Result<u64, i64> {
        let request = Request::new(operation, LAUNCH, handle, numbers);
        self.ask_for(&request)
    }

    pub(super) fn ask_for(&mut self, request: &Request) -> Result<u64, i64> {
        let reply = self.shard.answer(request, &mut self.io);
        if reply.result() == 0 { Ok(reply.number()) } else { Err(reply.result()) }
    }

    /// A stream of the program, and its peer.
    pub(super) fn stream(&mut self) -> (Handle, UnixStream) {
        let (near, far) = UnixStream::pair().expect("a pair");
        far.set_nonblocking(true).expect("a socket can");
        let (socket, _) = transport::adopt(near.into()).expect("a stream");
        let mut made = self.make(Owner::Host, Some(socket));
        made.channel
            .allocate(
                &self.shard.sockets.context.shared,
                Account::Own,
                RingRegion::Host,
                made.wishes.rings,
            )
            .expect("rings");
        made.start_stream(StreamPhase::Open);
        (self.adopt(made), far)
    }

    /// A connection that is not yet the shard's.
    pub(super) fn make(&self, owner: Owner, socket: Option<Endpoint>) -> Entry {
        let shared = &self.shard.sockets.context.shared;
        let handle = shared.pool.allocate_handle(Account::Own).expect("a slot");
        let wishes = Wishes { rings: RingSizes { receive: RING, send: RING }, timeout_ns: 0 };
        Entry::new(handle, shared.index(handle), owner, wishes, socket)
    }

    pub(super) fn adopt(&mut self, mut made: Entry) -> Handle {
        let handle = made.handle;
        made.publish(&self.shard.sockets.context.shared.memory);
        self.shard.adopt(made, &mut self.io);
        handle
    }

    pub(super) fn poller(&mut self) -> Handle {
        Handle(self.ask(Operation::Poller, Handle::NONE, [0; 4]).expect("a slot"))
    }

    pub(super) fn add(&mut self, poller: Handle, socket: Handle, events: u16, token: u64) {
        let numbers = [socket.0, u64::from(events), token, 0];
        self.ask(Operation::Watch, poller, numbers).expect("both are open");
    }

    /// Has a new poller watch a socket, and takes what is reported to it at once.
    pub(super) fn watcher(&mut self, socket: Handle, events: u16) -> Handle {
        let poller = self.poller();
        self.add(poller, socket, events, 0);
        self.turn();
        self.reported(poller);
        poller
    }

    /// What is in a poller's ring: tokens and events.
    pub(super) fn in_ring(&mut self, poller: Handle) -> Vec<(u64, u16)> {
        let ring = self.shard.find(poller).expect("it is open").channel.receive;
        let word =
            |at: u64| self.shard.sockets.context.shared.memory.ring_word(&ring.location, at).load();
        let written = (ring.theirs..ring.ours).step_by(EVENT_BYTES);
        written.map(|at| (word(at), word(at + 8) as u16)).collect()
    }

    /// Takes a poller's events as a kernel does; all that they report.
    pub(super) fn reported(&mut self, poller: Handle) -> u16 {
        let reported = self.in_ring(poller).iter().fold(0, |all, (_, events)| all | events);
        self.read_all(poller);
        self.shard.find_now(poller).expect("it is open");
        reported
    }

    /// Takes a stream's bytes as a kernel does.
    pub(super) fn read_all(&mut self, stream: Handle) {
        let head = self.shard.find(stream).expect("it is open").channel.receive.ours;
        let index = self.shard.sockets.context.shared.index(stream);
        self.shard.sockets.context.shared.memory.receive_head(index).store_release(counter(head));
    }

    pub(super) fn watched(&mut self, poller: Handle) -> (usize, usize) {
        let poller = self.shard.find(poller).expect("it is open");
        watched(poller)
    }

    /// Nothing that a shard keeps is longer than the table.
    pub(super) fn is_in_bounds(&mut self) {
        let slots = LAYOUT.socket_slots as usize;
        let shard = &self.shard;
        let lists = shard.sockets.schedule.lengths();
        assert!(lists.iter().all(|length| *length <= 2 * slots), "{lists:?}");
        for connection in shard.sockets.table.iter() {
            let watched = watched(connection);
            assert!(watched.0 <= slots && watched.1 <= watched.0, "{watched:?}");
            let send = &connection.channel.send;
            assert!(send.ours <= send.theirs);
            assert!(send.theirs - send.ours <= u64::from(send.location.capacity));
            assert!(connection.channel.receive.theirs <= connection.channel.receive.ours);
        }
    }

    /// Once all is closed, all slots and rings are back.
    pub(super) fn is_whole(&mut self) {
        // What still stands in a slot makes no new socket.
        self.shard.sockets.context.shared.launches.set(LAUNCH, false);
        self.shard.close_all(self.now, &mut self.io);
        for _ in 0..4 {
            self.now += 1_000_000;
            self.shard.turn(self.now, &mut self.io);
        }
        assert!(self.shard.is_empty());
        assert_eq!(self.shard.sockets.context.shared.pool.usage(), (0, RING_BYTES));
        assert!(self.shard.sockets.context.shared.waiting().is_empty());
    }
}

/// Sockets that a poller watches, and events that it owes.
fn watched(poller: &Entry) -> (usize, usize) {
    if let Role::Poller(poller) = &poller.role { poller.sizes() } else { (0, 0) }
}

#[test]
fn a_socket_is_reported_once_whatever_else_is_written_to_it() {
    let mut harness = Harness::new();
    let (handle, _far) = harness.stream();
    let index = harness.shard.sockets.context.shared.index(handle);
    for turn in 1..1000 {
        harness.shard.sockets.context.shared.memory.send_tail(index).store(turn << 40);
        harness.shard.sockets.context.shared.memory.receive_head(index).store(turn << 41);
        harness.turn();
        // As a dump of all sockets does.
        harness.shard.find_now(handle).expect("it is open");
    }
    assert_eq!(harness.shard.sockets.context.counters.violations.get(), 1);
    assert_eq!(harness.shard.sockets.context.counters.failed.get(), 1);
    harness.is_whole();
}

#[test]
fn a_full_ring_waits_once_however_often_its_descriptor_is_ready() {
    let mut harness = Harness::new();
    let (handle, mut far) = harness.stream();
    std::io::Write::write_all(&mut far, &[1; 2 * RING as usize]).expect("the pair holds it");
    for _ in 0..100 {
        harness.shard.ready(handle.0);
        harness.turn();
    }
    assert_eq!(harness.shard.sockets.schedule.heads.awaited, 1);
    // And goes on once there is room.
    let index = harness.shard.sockets.context.shared.index(handle);
    let head = harness.shard.find(handle).expect("it is open").channel.receive.ours;
    harness.shard.sockets.context.shared.memory.receive_head(index).store(counter(head));
    harness.turn();
    assert_eq!(harness.shard.sockets.schedule.heads.awaited, 0);
    assert_eq!(harness.shard.sockets.context.counters.received_bytes.get(), 2 * u64::from(RING));
    harness.is_whole();
}

#[test]
fn sockets_belong_to_launches_that_run() {
    let numbers = [Domain::V4 as u64, 1, 0, 0];
    for operation in [Operation::Socket, Operation::Poller] {
        let mut harness = Harness::new();
        for launch in [LAUNCH + 1, 255, 256, u32::MAX] {
            let request = Request::new(operation, launch, Handle::NONE, numbers);
            assert_eq!(harness.ask_for(&request), Err(-22), "launch {launch} does not run");
        }
        let made = harness.ask(operation, Handle::NONE, numbers).expect("its launch runs");
        assert!(harness.shard.find(Handle(made)).is_some());
        // A kernel may leave a request behind that is looked at when it has ended.
        harness.shard.sockets.context.shared.launches.set(LAUNCH, false);
        harness.shard.launch_ended(LAUNCH, true, harness.now);
        assert_eq!(harness.ask(operation, Handle::NONE, numbers), Err(-22));
        harness.turn();
        assert_eq!(harness.shard.sockets.context.shared.pool.usage().0, 0);
    }
}

#[test]
fn a_socket_that_comes_after_its_launch_has_ended_is_closed() {
    for owner in [Owner::Launch(LAUNCH), Owner::AnyLaunch] {
        let mut harness = Harness::new();
        let (stays, _far) = harness.stream();
        harness.shard.sockets.context.shared.launches.set(LAUNCH, false);
        // From another shard, which answered the request before it was notified of the end.
        let made = harness.make(owner, None);
        let handle = harness.adopt(made);
        harness.turn();
        assert!(harness.shard.find(handle).is_none(), "{owner:?}");
        assert!(harness.shard.find(stays).is_some());
        harness.is_whole();
    }
}

#[test]
fn many_sockets_go_at_once_and_the_heartbeat_goes_on() {
    const MANY: u32 = 15_000;
    let mut harness = Harness::with(Layout { shards: 1, socket_slots: MANY + 1, request_slots: 4 });
    let shared = harness.shard.sockets.context.shared.clone();
    let poller = harness.poller();
    let made: Vec<Handle> = (0..MANY)
        .map(|_| {
            // Without rings its ring is full, and without a socket it waits for its deadline.
            let mut made = harness.make(Owner::Launch(LAUNCH), None);
            made.start_stream(StreamPhase::Open);
            harness.adopt(made)
        })
        .collect();
    harness.turn();
    for handle in &made {
        harness.add(poller, *handle, POLLOUT, 1);
        harness.shard.ready(handle.0);
    }
    let beat = shared.memory.last_beat(0);
    let start = std::time::Instant::now();
    shared.launches.set(LAUNCH, false);
    harness.shard.launch_ended(LAUNCH, true, harness.now);
    harness.now += 1_000_000;
    harness.turn();
    let limit = gpunet_support::testing::hang_limit(std::time::Duration::from_millis(300));
    assert!(start.elapsed() < limit, "{:?}", start.elapsed());
    assert!(shared.memory.last_beat(0) >= beat + u64::from(MANY));
    assert!(harness.shard.is_empty());
    harness.turn();
    harness.is_in_bounds();
    assert_eq!(harness.shard.sockets.schedule.lengths(), [0; 8]);
    harness.is_whole();
}

#[test]
fn what_is_written_after_a_close_is_not_sent() {
    let mut harness = Harness::new();
    let (handle, mut far) = harness.stream();
    let index = harness.shard.sockets.context.shared.index(handle);
    let tail = harness.shard.sockets.context.shared.memory.send_tail(index);
    let base = harness.shard.find(handle).expect("it is open").channel.send.theirs;
    // More than the pair holds, so that the close has to wait.
    let mut sent = base;
    while harness.shard.find(handle).is_some_and(|c| c.channel.send.ours == c.channel.send.theirs) {
        sent += u64::from(RING);
        tail.store_release(counter(sent));
        harness.turn();
    }
    harness.shard.close(handle, Closer::Kernel, u64::MAX / 2);
    let theirs = harness.shard.find(handle).expect("it has bytes to send").channel.send.theirs;
    let mut sink = vec![0; 1 << 16];
    let mut arrived = 0;
    for more in 1..100 {
        tail.store_release(counter(sent + more * 8));
        arrived += std::io::Read::read(&mut far, &mut sink).unwrap_or(0) as u64;
        harness.shard.ready(handle.0);
        harness.turn();
        if let Some(connection) = harness.shard.find(handle) {
            assert_eq!(connection.channel.send.theirs, theirs);
        }
    }
    assert!(harness.shard.find(handle).is_none(), "it ends once its bytes are sent");
    assert_eq!(harness.shard.sockets.context.counters.violations.get(), 0);
    assert_eq!(arrived, sent - base);
    harness.is_whole();
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
    let slot = 0..LAYOUT.socket_slots as usize;
    let word = prop_oneof![any::<u64>(), 0..10_000_u64, (0..64_u32).prop_map(|bit| 1 << bit)];
    let ask = (1..15_u64, 0..6_u64, any::<u8>(), 0..20_u64, 0..3_u64, word.clone());
    let ask = ask.prop_map(|(operation, launch, handle, a, b, c)| {
        [operation | launch << 32, u64::from(handle), a, b, c, c]
    });
    prop_oneof![
        2 => (slot.clone(), word.clone()).prop_map(|(at, word)| Step::Tail(at, word)),
        2 => (slot.clone(), word.clone()).prop_map(|(at, word)| Step::Head(at, word)),
        1 => (slot.clone(), 0..PACKET_UNITS, any::<u64>())
            .prop_map(|(at, index, word)| Step::Unit(at, index, word)),
        6 => (0..LAYOUT.request_slots as usize, ask, word).prop_map(|(at, ask, word)| Step::Ask(at, ask, word)),
        3 => (slot.clone(), 0..200_u64).prop_map(|(at, by)| Step::Forwards(at, by)),
        2 => (slot.clone(), any::<u16>()).prop_map(|(at, bytes)| Step::Peer(at, bytes)),
        2 => slot.prop_map(Step::Ready),
        6 => Just(Step::Turn),
    ]
}

/// More where there is time, as in `cargo xtask release`.
fn cases() -> u32 {
    if std::env::var_os("GPUNET_LONG").is_some() { 100_000 } else { 2000 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// Whatever is written, in whatever order: a shard stays in bounds, and everything comes back.
    #[test]
    fn a_shard_survives_anything(steps in prop::collection::vec(steps(), 1..300)) {
        let mut harness = Harness::new();
        let mut peers = Vec::new();
        for _ in 0..3 {
            peers.push(harness.stream());
        }
        let poller = harness.poller();
        for step in steps {
            let shared = std::sync::Arc::clone(&harness.shard.sockets.context.shared);
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
                    if let Some(connection) = harness.shard.sockets.table.get(at) {
                        memory.send_tail(at).store(counter(connection.channel.send.theirs + by));
                        let head = connection.channel.receive.theirs + by;
                        memory.receive_head(at).store(counter(head.min(connection.channel.receive.ours)));
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
                    if let Some(key) = harness.shard.sockets.table.get(at).map(|c| c.handle.0) {
                        harness.shard.ready(key);
                    }
                }
                Step::Turn => harness.turn(),
            }
            harness.is_in_bounds();
        }
        harness.is_whole();
    }
}

/// A connect by another transport than the system's may bind the socket, and fail: that is no bind of the
/// kernel's, and the policy is asked when it listens.
#[test]
fn what_a_failed_connect_has_bound_may_not_listen() {
    const V4: u64 = 2;
    const STREAM: u64 = 1;
    let closed = || Policy::closed().allow_connect("127.0.0.0/8:1-65535".parse().expect("a rule"));
    for (policy, may_listen) in [(closed(), false), (Policy::open(), true)] {
        let mut harness = Harness::under(policy, LAYOUT);
        let socket = harness.ask(Operation::Socket, Handle::NONE, [V4, STREAM, 0, 0]);
        let socket = Handle(socket.expect("a slot"));
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into();
        let entry = harness.shard.find(socket).expect("it is open");
        entry.socket.as_mut().expect("it has one").bind(&address).expect("a port");
        let listens = harness.ask(Operation::Listen, socket, [16, 0, 0, 0]);
        let refused = Err(gpunet_device::Errno::EACCES.negative());
        assert_eq!(listens, if may_listen { Ok(0) } else { refused });
    }
}
