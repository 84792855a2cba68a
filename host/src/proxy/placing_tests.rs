//! A shard with a transport that moves bytes by itself: whatever it is asked, it learns of both
//! directions, and what it has learned once no descriptor reports again.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use gpunet_device::abi::bits::Progress;
use gpunet_device::abi::descriptor::RingLocation;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::Layout;
use gpunet_device::{Handle, SocketAddr};

use super::counted::Counted;
use super::entry::{Entry, Owner, Wishes};
use super::shard::Shard;
use super::stream::StreamPhase;
use super::tests::{NoEpoll, empty_shard};
use crate::gpu::{EmulatedOptions, Gpu, GpuChoice};
use crate::memory::{ControlMemory, HostControl, Memory};
use crate::settings::config::Pacing;
use crate::settings::policy::Policy;
use crate::transport::{
    Acceptor, Carrier, Connector, DeviceStream, Direction, Endpoint, RingSizes, Socket, Stream,
    SystemSocket, Transferred, Transport,
};

const RING: u32 = 4096;
const BASE: u64 = 4096 - 24;
const HANDLE: Handle = Handle::new(0, 1, 1);

/// When the adapter has something to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// In a call of that direction, after so many others.
    Call(Direction, u32),
    /// When it is found to be connected, after it was asked so often before that.
    Connected(u32),
    /// Never again.
    Never,
}

/// An adapter: what it will find, has found, and what of that was reported to the proxy.
struct Adapter {
    when: When,
    offered: u64,
    /// How often it was asked whether it is connected.
    asked: u32,
    finds: (u64, u64),
    found: (u64, u64),
    reported: (u64, u64),
}

impl Adapter {
    fn progress(&mut self, call: Direction) {
        match &mut self.when {
            When::Call(direction, 0) if *direction == call => {
                self.found = self.finds;
                self.when = When::Never;
            }
            When::Call(direction, left) if *direction == call => *left -= 1,
            _ => {}
        }
    }
}

struct Placing(Arc<Mutex<Adapter>>);

impl Placing {
    fn adapter(&self) -> MutexGuard<'_, Adapter> {
        self.0.lock().expect("one thread")
    }
}

fn transferred(found: u64, reported: &mut u64) -> Transferred {
    match found - std::mem::replace(reported, found) {
        0 => Transferred::Later,
        bytes => Transferred::Bytes(bytes as usize),
    }
}

impl Socket for Placing {
    fn transport(&self) -> Transport {
        Transport::Rdma(None)
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        Err(Errno::ENOTCONN)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Connector for Placing {
    fn connect(&mut self, _address: &SocketAddr) -> Result<bool, Errno> {
        Err(Errno::EINVAL)
    }

    fn finish_connect(&mut self) -> Result<bool, Errno> {
        let mut adapter = self.adapter();
        adapter.asked += 1;
        let When::Connected(in_vain) = adapter.when else {
            assert!(adapter.asked < 10, "it has said that it is refused");
            return Err(Errno::ECONNREFUSED);
        };
        if adapter.asked <= in_vain {
            return Ok(false);
        }
        adapter.found = adapter.finds;
        Ok(true)
    }

    fn into_stream(self: Box<Self>) -> Result<Carrier, Errno> {
        Ok(Carrier::Device(self))
    }
}

impl SystemSocket for Placing {
    fn bind(&mut self, _address: &SocketAddr) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn listen(&mut self, _backlog: u32) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn into_acceptor(self: Box<Self>) -> Box<dyn Acceptor> {
        unreachable!("it does not listen")
    }
}

impl Stream for Placing {
    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        Err(Errno::ENOTCONN)
    }

    fn shutdown(&mut self, _direction: Direction) -> Result<(), Errno> {
        Ok(())
    }
}

impl DeviceStream for Placing {
    fn has_progress(&self, of: Direction) -> bool {
        let adapter = self.adapter();
        match of {
            Direction::Receive => adapter.found.0 != adapter.reported.0,
            Direction::Send => adapter.found.1 != adapter.reported.1,
        }
    }

    fn receive(&mut self, _most: u64) -> Result<Transferred, Errno> {
        let mut adapter = self.adapter();
        adapter.progress(Direction::Receive);
        let found = adapter.found.0;
        Ok(transferred(found, &mut adapter.reported.0))
    }

    fn untaken(&self) -> u64 {
        let adapter = self.adapter();
        adapter.offered - adapter.reported.1
    }

    fn send(&mut self, most: u64) -> Result<Transferred, Errno> {
        let mut adapter = self.adapter();
        adapter.offered = adapter.offered.max(adapter.reported.1 + most);
        adapter.progress(Direction::Send);
        let found = adapter.found.1.min(adapter.offered);
        Ok(transferred(found, &mut adapter.reported.1))
    }
}

/// A shard whose kernel has sent 100 bytes; the adapter reports those and 10 that came, once.
fn shard(policy: Policy, when: When) -> (Shard, Arc<Mutex<Adapter>>) {
    let (shard, adapter) = shard_in(StreamPhase::Open, policy, when);
    shard.sockets.context.shared.memory.send_tail(1).store_release(Progress::new(BASE + 100, 0).0);
    (shard, adapter)
}

/// The same with its socket in another phase, and nothing sent.
fn shard_in(phase: StreamPhase, policy: Policy, when: When) -> (Shard, Arc<Mutex<Adapter>>) {
    let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
    let layout = Layout { shards: 1, socket_slots: 2, request_slots: 1 };
    let control = HostControl::new(&gpu, &layout, ControlMemory::Host).expect("memory");
    let memory =
        Memory::new(&gpu, layout, control, 2 * RING as usize, false, None, 1).expect("memory");
    let wishes = Wishes { rings: RingSizes { receive: RING, send: RING }, timeout_ns: 0 };
    let adapter =
        Adapter { when, offered: 0, asked: 0, finds: (10, 100), found: (0, 0), reported: (0, 0) };
    let adapter = Arc::new(Mutex::new(adapter));
    let placing = Box::new(Placing(Arc::clone(&adapter)));
    let socket = match phase {
        StreamPhase::Open => Endpoint::from(Carrier::Device(placing)),
        _ => Endpoint::connecting(placing),
    };
    let mut connection = Entry::new(HANDLE, 1, Owner::Host, wishes, Some(socket));
    let ring =
        |offset| Counted::new(RingLocation { region: 0, offset, capacity: RING, base: BASE }, 0);
    (connection.channel.receive, connection.channel.send) = (ring(0), ring(u64::from(RING)));
    connection.start_stream(phase);
    connection.publish(&memory);
    let mut shard = empty_shard(memory, 2 * u64::from(RING), policy);
    shard.adopt(connection, &mut NoEpoll::default());
    (shard, adapter)
}

#[test]
fn what_any_call_learns_is_reported() {
    let policies = [Policy::open, || Policy::open().max_rate(1 << 30)];
    for (limited, policy) in policies.into_iter().enumerate() {
        for direction in [Direction::Receive, Direction::Send] {
            for call in 0..2 {
                let (mut shard, _) = shard(policy(), When::Call(direction, call));
                let mut io = NoEpoll::default();
                for turn in 0..10 {
                    if direction == Direction::Receive && turn <= call.into() {
                        // Word of it wakes who would have nothing to do.
                        shard.ready(HANDLE.0);
                    }
                    shard.turn(turn * 1_000_000, &mut io);
                }
                let counters = &shard.sockets.context.counters;
                assert_eq!(
                    (counters.received_bytes.get(), counters.sent_bytes.get()),
                    (10, 100),
                    "found in {direction:?} {call}, limited: {limited}"
                );
            }
        }
    }
}

/// What it has sent may be found in a call about what it receives, which it does no more.
#[test]
fn a_stream_that_receives_no_more_goes_on_sending() {
    let policies = [Policy::open, || Policy::open().max_rate(1 << 30)];
    for (limited, policy) in policies.into_iter().enumerate() {
        for full in [false, true] {
            let (mut shard, _) = shard(policy(), When::Call(Direction::Send, 1));
            let channel = &mut shard.find(HANDLE).expect("it is open").channel;
            match full {
                true => channel.receive.ours += u64::from(RING),
                false => channel.endings.receive = true,
            }
            let mut io = NoEpoll::default();
            shard.ready(HANDLE.0);
            for turn in 0..10 {
                shard.turn(turn * 1_000_000, &mut io);
            }
            let sent = shard.sockets.context.counters.sent_bytes.get();
            assert_eq!(sent, 100, "full: {full}, limited: {limited}");
        }
    }
}

/// Nothing but the first KiB may move: it is on its way, and not to be granted a second time.
#[test]
fn what_is_under_way_is_granted_once() {
    let (mut shard, adapter) = shard(Policy::open().max_rate(0), When::Never);
    let mut io = NoEpoll::default();
    let mut turns = |shard: &mut Shard| {
        for turn in 0..10 {
            shard.ready(HANDLE.0);
            shard.turn(turn * 1_000_000, &mut io);
        }
        (
            shard.sockets.context.counters.received_bytes.get(),
            shard.sockets.context.counters.sent_bytes.get(),
        )
    };
    shard.sockets.context.shared.memory.send_tail(1).store_release(Progress::new(BASE + 3000, 0).0);
    assert_eq!(turns(&mut shard), (0, 0));
    assert_eq!(adapter.lock().expect("one thread").offered, 1024);
    adapter.lock().expect("one thread").found = (500, 0);
    assert_eq!(turns(&mut shard), (0, 0), "nothing is left to be granted");
    adapter.lock().expect("one thread").found = (500, 1024);
    assert_eq!(turns(&mut shard), (0, 1024));
}

#[test]
fn a_connection_that_is_refused_is_asked_once() {
    let (mut shard, adapter) = shard_in(StreamPhase::Connecting, Policy::open(), When::Never);
    let mut io = NoEpoll::default();
    for turn in 0..10 {
        shard.ready(HANDLE.0);
        shard.turn(turn * 1_000_000, &mut io);
    }
    assert_eq!(adapter.lock().expect("one thread").asked, 1);
    assert_eq!(shard.sockets.context.counters.failed.get(), 1);
}

/// Bytes of a peer that sends first may be found in the call that finds the connection made, and then no
/// descriptor reports them again. That call may be the last for which the socket is busy-polled.
#[test]
fn what_comes_with_the_connection_is_reported() {
    for in_vain in 0..=Pacing::USUAL.busy_turns {
        let (mut shard, adapter) =
            shard_in(StreamPhase::Connecting, Policy::open(), When::Connected(in_vain));
        let mut io = NoEpoll::default();
        // Asked here and in the turns in which it is busy-polled then.
        shard.ready(HANDLE.0);
        for turn in 0..=u64::from(Pacing::USUAL.busy_turns) {
            shard.turn(turn * 1_000_000, &mut io);
        }
        assert_eq!(adapter.lock().expect("one thread").asked, in_vain + 1);
        assert_eq!(
            shard.sockets.context.counters.received_bytes.get(),
            10,
            "connected after {in_vain} looks"
        );
    }
}
