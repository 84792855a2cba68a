//! A p2p stream as a shard has it, with another end that the test plays: how often it is asked how it ends,
//! and what is sent to it.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use gpunet_device::abi::bits::Progress;
use gpunet_device::abi::descriptor::{Inboxes, RingLocation};
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::Layout;
use gpunet_device::abi::net::WINDOW;
use gpunet_device::{Handle, SocketAddr};

use super::closing::Closer;
use super::entry::{Entry, Owner, Wishes};
use super::shard::Shard;
use super::stream::StreamPhase;
use super::tests::{NoEpoll, empty_shard};
use crate::gpu::{EmulatedOptions, Gpu, GpuChoice};
use crate::memory::{ControlMemory, HostControl, Memory};
use crate::pool::Account;
use crate::settings::policy::Policy;
use crate::transport::{
    Carrier, Direction, Endpoint, KernelStream, PeerEnding, RingSizes, Rings, Socket, Stream,
    Transport,
};

const RING: u32 = 4096;
const BASE: u64 = 128;

/// What the other end has received and sends.
struct End {
    /// It was notified that nothing more is sent.
    ended: bool,
    /// It was notified that its memory may be used again.
    left: bool,
    reads: u64,
    ending: PeerEnding,
}

#[derive(Clone)]
struct Played(Arc<Mutex<End>>);

impl Played {
    fn end(&self) -> MutexGuard<'_, End> {
        self.0.lock().expect("nobody panics")
    }
}

impl KernelStream for Played {
    fn rings(&mut self) -> Option<(Rings, Inboxes)> {
        None
    }

    fn receive_ending(&mut self) -> Result<PeerEnding, Errno> {
        let mut end = self.end();
        end.reads += 1;
        Ok(end.ending)
    }

    fn abandon(&mut self) {}
}

impl Socket for Played {
    fn transport(&self) -> Transport {
        Transport::P2p
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(SocketAddr::NONE)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Stream for Played {
    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(SocketAddr::NONE)
    }

    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        self.end().ended |= direction == Direction::Send;
        Ok(())
    }

    fn leave(&mut self) -> bool {
        self.end().left = true;
        true
    }
}

/// A shard with one stream.
fn shard() -> (Shard, Played, Handle) {
    let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
    let layout = Layout { shards: 1, socket_slots: 1, request_slots: 1 };
    let control = HostControl::new(&gpu, &layout, ControlMemory::Host).expect("host memory");
    let memory = Memory::new(&gpu, layout, control, RING as usize, false, None, 1).expect("memory");
    let mut shard = empty_shard(memory, RING.into(), Policy::open());
    let end = End { ended: false, left: false, reads: 0, ending: PeerEnding::default() };
    let stream = Played(Arc::new(Mutex::new(end)));
    let wishes = Wishes { rings: RingSizes { receive: RING, send: RING }, timeout_ns: 0 };
    let socket = Endpoint::from(Carrier::Kernels(Box::new(stream.clone())));
    let handle = shard.sockets.context.shared.pool.allocate_handle(Account::Own).expect("a slot");
    let mut connection = Entry::new(handle, 0, Owner::Host, wishes, Some(socket));
    let location = RingLocation { region: WINDOW, offset: 0, capacity: RING, base: BASE };
    let rings = Rings { receive: location, send: location };
    let inboxes = Inboxes { own: 0, peer: 1, one_gpu: true };
    connection.channel.use_rings(shard.sockets.context.memory(), (rings, inboxes));
    connection.start_stream(StreamPhase::Open);
    shard.adopt(connection, &mut NoEpoll::default());
    (shard, stream, handle)
}

#[test]
fn a_stream_on_which_nothing_happens_is_not_asked_in_every_turn() {
    let (mut shard, stream, handle) = shard();
    let mut now = 0;
    let mut turns = |shard: &mut Shard, count: u64| {
        for _ in 0..count {
            now += 1000;
            shard.turn(now, &mut NoEpoll::default());
        }
    };
    turns(&mut shard, 10);
    let before = stream.end().reads;
    turns(&mut shard, 1000);
    assert_eq!(stream.end().reads, before, "no edge came");
    // The other end says something, which its descriptor reports.
    stream.end().ending.ended = true;
    turns(&mut shard, 10);
    assert!(!shard.find(handle).expect("it is there").channel.endings.receive);
    shard.ready(handle.0);
    turns(&mut shard, 10);
    assert!(shard.find(handle).expect("it is there").channel.endings.receive);
}

#[test]
fn what_was_not_received_in_one_go_is_received_in_the_next() {
    let (mut shard, stream, _) = shard();
    stream.end().ending.more = true;
    for turn in 1..100 {
        shard.turn(turn * 1000, &mut NoEpoll::default());
    }
    // A hostile proxy has more messages ready without end, and takes a few of a turn.
    let reads = stream.end().reads;
    assert!((90..=500).contains(&reads), "{reads} in 99 turns");
}

/// Kernels write no counters of a p2p stream for their proxy, and a hostile one gains nothing by it.
#[test]
fn counters_of_a_p2p_stream_in_the_control_block_are_ignored() {
    let (mut shard, _, handle) = shard();
    let shared = Arc::clone(&shard.sockets.context.shared);
    for turn in 1..=10 {
        for count in [0, BASE + 40, BASE + 100_000, turn << 50] {
            shared.memory.send_tail(0).store(Progress::new(count, Progress::PACKET).0);
            shared.memory.receive_head(0).store(Progress::new(count, 0).0);
            shard.turn(turn * 1000, &mut NoEpoll::default());
        }
    }
    assert_eq!(shard.sockets.context.counters.violations.get(), 0);
    let channel = &shard.find_now(handle).expect("it is open").channel;
    assert_eq!((channel.receive.unread(), channel.unsent()), (0, 0));
    assert_eq!(channel.endings.failure, None);
}

#[test]
fn the_other_end_may_use_memory_again_when_no_launch_is_inside() {
    let (mut shard, stream, handle) = shard();
    shard.sockets.context.shared.launches.set(1, true);
    // Its owner has ended, and launch 1 may be inside a call on it.
    shard.close(handle, Closer::Host, 0);
    for _ in 0..2 {
        shard.finish_closing(0);
        shard.closing(0, |closing| closing.finish(handle));
        assert!(!stream.end().left);
    }
    shard.closing(0, |closing| closing.drained(handle));
    shard.finish_closing(0);
    assert!(stream.end().left);
    assert!(shard.is_empty());
}

#[test]
fn the_other_end_is_notified_when_launches_find_it_closed() {
    let (mut shard, stream, handle) = shard();
    let mut io = NoEpoll::default();
    let ended = || stream.end().ended;
    shard.sockets.context.shared.launches.set(1, true);
    shard.close(handle, Closer::Host, 0);
    for turn in 1..10 {
        shard.turn(turn * 1000, &mut io);
    }
    assert!(!ended(), "launch 1 would take its answer for the end of an open stream");
    shard.closing(0, |closing| closing.seen_closed(handle));
    assert!(ended());
}

#[test]
fn the_other_end_is_notified_also_where_the_driver_keeps_the_record_open() {
    let (mut shard, stream, handle) = shard();
    let mut io = NoEpoll::default();
    shard.sockets.context.shared.launches.set(1, true);
    shard.close(handle, Closer::Host, 0);
    shard.turn(99_000_000, &mut io);
    assert!(!stream.end().ended);
    shard.turn(101_000_000, &mut io);
    shard.turn(102_000_000, &mut io);
    assert!(stream.end().ended);
    assert!(!stream.end().left, "launch 1 may still be inside");
}

#[test]
fn the_other_end_is_notified_at_once_where_no_launch_runs() {
    let (mut shard, stream, handle) = shard();
    shard.close(handle, Closer::Host, 0);
    assert!(stream.end().ended);
}
