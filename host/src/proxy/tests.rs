//! A connection or a shard by itself, with memory that the test writes in location of a GPU.

use std::io::Read as _;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, mpsc};

use gpunet_device::Handle;
use gpunet_device::abi::bits::{PACKET_BYTES, PACKET_UNITS, Progress, Unit};
use gpunet_device::abi::descriptor::RingLocation;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::Layout;
use gpunet_device::abi::message::{Reply, Request};

use super::closing::{Closer, Closing};
use super::counted::Counted;
use super::drain::Drain;
use super::entry::{Entry, Owner, Wishes};
use super::notices::Notices;
use super::pump::{Most, Turn};
use super::request::Requests;
use super::rounds::Outside;
use super::running::RunningLaunches;
use super::shard::Shard;
use super::shared::{Readiness, Shared};
use super::sockets::Sockets;
use super::statistics::Counters;
use super::stream::StreamPhase;
use super::watchers::Notice;
use crate::gpu::{EmulatedOptions, Gpu, GpuChoice};
use crate::memory::{ControlMemory, HostControl, Memory};
use crate::pool::Pool;
use crate::settings::config::{Config, Pacing};
use crate::settings::policy::Policy;
use crate::transport::{self, RingSizes};

pub(super) const RING: u32 = 4096;
/// Close to the end of the ring, so that messages wrap.
pub(super) const BASE: u64 = 4096 - 24;

/// What tests ask of a shard directly, as messages and requests do.
impl Shard {
    pub(crate) fn find(&mut self, handle: Handle) -> Option<&mut Entry> {
        self.sockets.table.find(handle)
    }

    /// The same, with the GPU's head as it is now.
    pub(crate) fn find_now(&mut self, handle: Handle) -> Option<&mut Entry> {
        let Sockets { context, table, .. } = &mut self.sockets;
        let entry = table.find(handle)?;
        entry.channel.load_head(context);
        Some(entry)
    }

    pub(crate) fn adopt(&mut self, entry: impl Into<Box<Entry>>, io: &mut dyn Readiness) {
        self.sockets.adopt(entry.into(), io);
    }

    pub(super) fn answer(&mut self, request: &Request, io: &mut dyn Readiness) -> Reply {
        Requests { sockets: &mut self.sockets, io }.answer(request)
    }

    pub(super) fn notify(&mut self, poller: Handle, notice: Notice) {
        Notices(&mut self.sockets).notify(poller, notice);
    }

    /// At that time.
    pub(super) fn closing<T>(
        &mut self,
        now_ns: u64,
        close: impl FnOnce(&mut Closing<'_>) -> T,
    ) -> T {
        let before = std::mem::replace(&mut self.sockets.context.now_ns, now_ns);
        let mut io = NoEpoll::default();
        let closed = close(&mut Closing { sockets: &mut self.sockets, io: &mut io });
        self.sockets.context.now_ns = before;
        closed
    }

    pub(super) fn close(&mut self, handle: Handle, by: Closer, now_ns: u64) -> bool {
        self.closing(now_ns, |closing| closing.close(handle, by))
    }

    pub(super) fn finish_closing(&mut self, now_ns: u64) -> bool {
        self.closing(now_ns, |closing| closing.finish_all())
    }

    pub(super) fn launch_ended(&mut self, launch: u32, last: bool, now_ns: u64) {
        self.closing(now_ns, |closing| closing.launch_ended(launch, last));
    }
}

/// A connection, its memory, and the peer.
pub(super) struct Harness {
    /// Without the connection.
    pub(super) shard: Shard,
    pub(super) connection: Entry,
    pub(super) peer: UnixStream,
}

impl Harness {
    fn new() -> Self {
        Self::under(Policy::open())
    }

    pub(super) fn under(policy: Policy) -> Self {
        Self::with(policy, |gpu, layout| {
            HostControl::new(gpu, layout, ControlMemory::Host).expect("host memory")
        })
    }

    /// With a control block of the test's own.
    pub(super) fn with(policy: Policy, control: impl FnOnce(&Gpu, &Layout) -> HostControl) -> Self {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let layout = Layout { shards: 1, socket_slots: 2, request_slots: 1 };
        let control = control(&gpu, &layout);
        let memory =
            Memory::new(&gpu, layout, control, 2 * RING as usize, false, None, 1).expect("memory");
        let (near, peer) = UnixStream::pair().expect("a pair");
        peer.set_nonblocking(true).expect("a socket can");
        let (socket, _) = transport::adopt(near.into()).expect("a stream");
        let wishes = Wishes { rings: RingSizes { receive: RING, send: RING }, timeout_ns: 0 };
        let mut connection = Entry::new(Handle::new(0, 1, 1), 1, Owner::Host, wishes, Some(socket));
        let ring = |offset| {
            let location = RingLocation { region: 0, offset, capacity: RING, base: BASE };
            Counted::new(location, 0)
        };
        (connection.channel.receive, connection.channel.send) = (ring(0), ring(u64::from(RING)));
        connection.start_stream(StreamPhase::Open);
        connection.publish(&memory);
        Self { shard: empty_shard(memory, 1 << 16, policy), connection, peer }
    }

    fn memory(&self) -> &Memory {
        self.shard.sockets.context.memory()
    }

    fn counters(&self) -> &Counters {
        &self.shard.sockets.context.counters
    }

    fn pump_receive(&mut self) -> Turn {
        self.pump_receive_most(u64::MAX)
    }

    fn pump_receive_most(&mut self, most: u64) -> Turn {
        let pump = self.connection.pump(&self.shard.sockets.context);
        pump.expect("it is a stream").receive(Most::Copied(most)).turn
    }

    fn pump_send(&mut self) -> Turn {
        let pump = self.connection.pump(&self.shard.sockets.context);
        pump.expect("it is a stream").send(Most::Copied(u64::MAX)).turn
    }

    /// Writes the units of a packet as a kernel would, those from `first` on.
    fn packet(&self, bytes: &[u8], first: usize) {
        for index in first..bytes.len().div_ceil(4) {
            let four = std::array::from_fn(|at| *bytes.get(4 * index + at).unwrap_or(&0));
            let unit = Unit::new(u32::from_le_bytes(four), self.connection.channel.send.theirs);
            self.memory().send_units(1).get(index).store(unit.0);
        }
    }

    /// What a kernel publishes that has filled the ring so far.
    fn takes(&mut self, tail: u64) -> bool {
        self.take(Progress::new(tail, 0).0)
    }

    /// What it publishes with a packet.
    fn takes_packet(&mut self, tail: u64) -> bool {
        self.take(Progress::new(tail, Progress::PACKET).0)
    }

    fn take(&mut self, word: u64) -> bool {
        let pump = self.connection.pump(&self.shard.sockets.context);
        pump.expect("it is a stream").use_tail(word)
    }

    fn sent(&mut self) -> Vec<u8> {
        while self.pump_send() == Turn::Progress {}
        let mut bytes = vec![0; 2 * RING as usize];
        let length = self.peer.read(&mut bytes).unwrap_or(0);
        bytes.truncate(length);
        bytes
    }
}

#[test]
fn a_packet_is_sent_when_all_of_it_is_there() {
    let mut harness = Harness::new();
    for (turn, length) in (1..=PACKET_BYTES).enumerate() {
        let message: Vec<u8> = (0..length).map(|at| (at + turn) as u8).collect();
        let tail = harness.connection.channel.send.theirs + length as u64;
        // The last units are there, the first is not.
        harness.packet(&message, 1);
        assert!(!harness.takes_packet(tail));
        assert!(harness.sent().is_empty());
        harness.packet(&message, 0);
        assert!(harness.takes_packet(tail));
        assert_eq!(harness.sent(), message);
    }
    assert_eq!(harness.counters().violations.get(), 0);
    assert_eq!(harness.counters().sent_packets.get(), PACKET_BYTES as u64);
}

#[test]
fn the_ring_is_as_good() {
    let mut harness = Harness::new();
    let from = harness.connection.channel.send.theirs;
    harness.memory().slice(&harness.connection.channel.send.location, from, 40).fill(&[7; 40]);
    assert!(!harness.takes_packet(from + 40), "no units are there");
    assert!(harness.takes(from + 40));
    assert_eq!(harness.sent(), [7; 40]);
}

#[test]
fn what_cannot_be_sent_at_once_is_kept_in_the_ring() {
    let mut harness = Harness::new();
    // Until the system takes no more.
    let mut filled = 0_usize;
    loop {
        let from = harness.connection.channel.send.theirs;
        let slice = harness.memory().slice(&harness.connection.channel.send.location, from, 1024);
        slice.fill(&[1; 1024]);
        assert!(harness.takes(from + 1024));
        while harness.pump_send() == Turn::Progress {}
        filled += 1024;
        if harness.connection.channel.send.ours != harness.connection.channel.send.theirs {
            break;
        }
    }
    let message = [9; 50];
    let tail = harness.connection.channel.send.theirs + 50;
    harness.packet(&message, 0);
    assert!(harness.takes_packet(tail));
    let mut all = Vec::new();
    while all.len() < filled + 50 {
        let more = harness.sent();
        assert!(!more.is_empty(), "{} bytes are missing", filled + 50 - all.len());
        all.extend(more);
    }
    assert!(all[..filled].iter().all(|byte| *byte == 1));
    assert_eq!(all[filled..], message);
}

#[test]
fn short_messages_become_packets_while_the_kernel_keeps_up() {
    use std::io::Write as _;
    let mut harness = Harness::new();
    let progress = |harness: &Harness| {
        let progress = Progress(harness.memory().live(1).get(0).seen());
        (progress.is_packet(), progress.count())
    };
    let received = |harness: &Harness, count| {
        harness.memory().receive_head(1).store(Progress::new(count, 0).0);
    };
    let send = |harness: &mut Harness, bytes: &[u8]| {
        harness.peer.write_all(bytes).expect("the pair holds it");
        assert_eq!(harness.pump_receive(), Turn::Progress);
    };
    send(&mut harness, &[5; 10]);
    assert_eq!(progress(&harness), (true, BASE + 10));
    // The kernel has not taken it: the next one must leave the units alone.
    send(&mut harness, &[6; 10]);
    assert_eq!(progress(&harness), (false, BASE + 20));
    received(&harness, BASE + 20);
    send(&mut harness, &[7; 10]);
    assert_eq!(progress(&harness), (true, BASE + 30));
    received(&harness, BASE + 30);
    // Too long.
    send(&mut harness, &[8; PACKET_BYTES + 1]);
    assert_eq!(progress(&harness), (false, BASE + 31 + PACKET_BYTES as u64));
    assert_eq!(harness.counters().received_packets.get(), 2);
}

#[test]
fn no_unit_has_the_tag_of_a_packet_that_comes_later() {
    use std::io::Write as _;
    let mut harness = Harness::new();
    // Just before positions whose tags have been used, in their lowest 31 bits.
    let near = (1_u64 << 31) - 100;
    harness.connection.channel.receive.ours = near;
    harness.connection.channel.receive.theirs = near;
    harness.connection.publish(harness.shard.sockets.context.memory());
    let units = |harness: &Harness| harness.memory().receive_units(1).seen().map(Unit);
    let mut at = near;
    // The first message that begins behind the boundary goes by the ring, and all units are new.
    for is_packet in [true, true, false, true] {
        harness.memory().receive_head(1).store(Progress::new(at, 0).0);
        harness.peer.write_all(&[1; 60]).expect("the pair holds it");
        assert_eq!(harness.pump_receive(), Turn::Progress);
        let progress = Progress(harness.memory().live(1).get(0).seen());
        assert_eq!((progress.is_packet(), progress.count()), (is_packet, at + 60));
        match is_packet {
            true => {
                assert!(units(&harness)[..PACKET_UNITS.min(15)].iter().all(|unit| unit.belongs(at)))
            }
            false => assert!(units(&harness).iter().all(|unit| *unit == Unit::blank(at))),
        }
        at += 60;
    }
    assert_eq!(harness.counters().violations.get(), 0);
}

#[test]
fn tails_that_make_no_sense_end_the_socket_and_nothing_else() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        state ^ state >> 29
    };
    let mut harness = Harness::new();
    let mut violations = 0;
    for _ in 0..50_000 {
        let from = harness.connection.channel.send.theirs;
        // Near the truth, or anything at all.
        let near = from.wrapping_add(draw() % 200).wrapping_sub(60);
        let word = match draw() % 4 {
            0 => draw(),
            1 => Progress::new(near, 0).0,
            _ => Progress::new(near, draw() % 8).0,
        };
        let length = Progress(word).count().wrapping_sub(from);
        if (1..=PACKET_BYTES as u64).contains(&length) && draw().is_multiple_of(2) {
            harness.packet(&vec![1; length as usize], 0);
        } else {
            let at = (draw() % PACKET_UNITS as u64) as usize;
            harness.memory().send_units(1).get(at).store(draw());
        }
        harness.take(word);
        let sent = harness.sent().len() as u64;
        let counted = &harness.connection.channel.send;
        assert!(counted.ours <= counted.theirs && counted.theirs - counted.ours <= RING.into());
        assert_eq!(counted.theirs - from, sent, "no byte that was not announced");
        if harness.connection.channel.endings.failure.is_some() {
            assert_eq!(harness.counters().violations.get(), 1);
            violations += 1;
            harness = Harness::new();
        }
    }
    assert!(violations > 1000, "{violations}");
}

#[test]
fn the_error_of_a_packet_is_the_first_one() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = std::net::TcpStream::connect(listener.local_addr().expect("an address"));
    let (far, _) = listener.accept().expect("it connected");
    let mut harness = Harness::new();
    let (socket, _) = transport::adopt(near.expect("it listens").into()).expect("a stream");
    harness.connection.socket = Some(socket);
    // With a reset in location of an end.
    socket2::Socket::from(far).set_linger(Some(std::time::Duration::ZERO)).expect("a socket can");
    std::thread::sleep(std::time::Duration::from_millis(50));
    let tail = harness.connection.channel.send.theirs + 5;
    harness.packet(&[1; 5], 0);
    assert!(harness.takes_packet(tail));
    assert_eq!(harness.connection.channel.endings.failure, Some(Errno::ECONNRESET));
}

/// Descriptors that nobody waits for: the test says what is ready.
#[derive(Default)]
pub(super) struct NoEpoll {
    pub(super) watches: bool,
}

impl Readiness for NoEpoll {
    fn add(&mut self, _descriptor: BorrowedFd<'_>, _key: u64) -> Result<(), Errno> {
        self.watches = true;
        Ok(())
    }

    fn remove(&mut self, _descriptor: BorrowedFd<'_>) {
        self.watches = false;
    }
}

impl Outside for NoEpoll {
    fn poll(&mut self, _shard: &mut Shard) -> bool {
        false
    }
}

/// A shard without sockets, of a net with that much ring memory.
pub(super) fn empty_shard(memory: Memory, ring_bytes: u64, policy: Policy) -> Shard {
    let (print, _lines) = mpsc::sync_channel(1);
    let pool = Pool::new(memory.layout(), [ring_bytes, 0]);
    let config = Config {
        ring: RING,
        unaccepted: 16,
        reserved: 0,
        timeout_ns: 0,
        heartbeat_timeout_ns: 1,
        linger_ns: 1,
        shutdown_ns: 1,
        spin_ns: 1,
        idle_sleep_ns: 50_000,
        longest_sleep_ns: 100_000_000,
        pacing: Pacing::USUAL,
    };
    let shared = Arc::new(Shared {
        memory,
        pool,
        config,
        policy,
        transports: crate::transport::Transports::default(),
        queues: Vec::new(),
        launches: RunningLaunches::default(),
        drain: Drain::default(),
        waiting: Mutex::default(),
        printer: Mutex::new(print),
        on_free: |_| {},
    });
    let (_sender, queue) = mpsc::channel();
    Shard::new(0, shared, Arc::default(), queue)
}

pub(super) fn write(peer: &mut UnixStream, bytes: &[u8]) {
    std::io::Write::write_all(peer, bytes).expect("the pair holds it");
}

#[test]
fn nothing_granted_is_no_end() {
    let mut harness = Harness::under(Policy::open().max_rate(1 << 20));
    write(&mut harness.peer, &[1; 10]);
    assert_eq!(harness.pump_receive_most(0), Turn::Idle);
    assert!(!harness.connection.channel.endings.receive);
    let tail = harness.connection.channel.send.theirs + 5;
    harness.packet(&[1; 5], 0);
    assert!(harness.takes_packet(tail));
    let mut none = [0; 8];
    assert!(harness.peer.read(&mut none).is_err(), "nothing was granted to the packet");
    assert_eq!(harness.sent(), [1; 5]);
    assert_eq!(harness.pump_receive(), Turn::Progress);
}
