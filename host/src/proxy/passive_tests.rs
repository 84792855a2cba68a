//! What a turn costs beside sockets on which nothing happens, and how sockets share a turn: counted in
//! looks at sockets and in calls of their transport, which do not depend on the machine.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gpunet_device::abi::bits::Progress;
use gpunet_device::abi::descriptor::{Inboxes, RingLocation};
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::Layout;
use gpunet_device::abi::message::{Operation, Request};
use gpunet_device::abi::net::WINDOW;
use gpunet_device::calls::POLLOUT;
use gpunet_device::{Handle, SocketAddr};

use super::closing::Closer;
use super::entry::{Entry, Owner, Wishes};
use super::shard::Shard;
use super::stream::StreamPhase;
use super::tests::{NoEpoll, empty_shard};
use crate::gpu::{EmulatedOptions, Gpu, GpuChoice};
use crate::memory::{ControlMemory, HostControl, Memory, RingSlice};
use crate::pool::Account;
use crate::settings::config::Pacing;
use crate::settings::policy::Policy;
use crate::transport::{
    Carrier, Direction, KernelStream, PeerEnding, RingRegion, RingSizes, Rings, Socket, Stream,
    SystemStream, Transferred, Transport,
};

const RING: u32 = 4096;
const BASE: u64 = 128;
const LAUNCH: u32 = 1;

/// A peer: how many bytes it has for us and takes from us, or of a p2p stream. All calls are counted.
#[derive(Clone, Default)]
struct Fake {
    sends: u64,
    takes: u64,
    p2p: bool,
    calls: Arc<AtomicU64>,
}

impl Fake {
    fn called(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

fn transferred(left: &mut u64, most: usize) -> Result<Transferred, Errno> {
    match (*left).min(most as u64) {
        0 => Ok(Transferred::Later),
        bytes => {
            *left -= bytes;
            Ok(Transferred::Bytes(bytes as usize))
        }
    }
}

impl KernelStream for Fake {
    fn rings(&mut self) -> Option<(Rings, Inboxes)> {
        None
    }

    fn receive_ending(&mut self) -> Result<PeerEnding, Errno> {
        self.called();
        Ok(PeerEnding::default())
    }

    fn abandon(&mut self) {}
}

impl Socket for Fake {
    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(SocketAddr::NONE)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Stream for Fake {
    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(SocketAddr::NONE)
    }

    fn shutdown(&mut self, _: Direction) -> Result<(), Errno> {
        Ok(())
    }

    fn leave(&mut self) -> bool {
        self.called();
        true
    }
}

impl SystemStream for Fake {
    fn receive(&mut self, slice: &RingSlice) -> Result<Transferred, Errno> {
        self.called();
        transferred(&mut self.sends, slice.len())
    }

    fn send(&mut self, slice: &RingSlice) -> Result<Transferred, Errno> {
        self.called();
        transferred(&mut self.takes, slice.len())
    }
}

/// A shard with room for so many sockets, and the time.
struct Harness {
    shard: Shard,
    io: NoEpoll,
    now: u64,
    calls: Arc<AtomicU64>,
}

impl Harness {
    fn new(slots: u32, ring_bytes: u64) -> Self {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let layout = Layout { shards: 1, socket_slots: slots, request_slots: 4 };
        let control = HostControl::new(&gpu, &layout, ControlMemory::Host).expect("words");
        let bytes = ring_bytes as usize;
        let memory = Memory::new(&gpu, layout, control, bytes, false, None, 1).expect("memory");
        let shard = empty_shard(memory, ring_bytes, Policy::open());
        shard.sockets.context.shared.launches.set(LAUNCH, true);
        Self { shard, io: NoEpoll::default(), now: 0, calls: Arc::default() }
    }

    fn memory(&self) -> &Memory {
        self.shard.sockets.context.memory()
    }

    /// A stream with such a peer, and rings of that size.
    fn stream(&mut self, peer: Fake, ring: u32) -> Handle {
        let shared = Arc::clone(&self.shard.sockets.context.shared);
        let handle = shared.pool.allocate_handle(Account::Own).expect("a slot");
        let index = shared.index(handle);
        let wishes = Wishes { rings: RingSizes { receive: ring, send: ring }, timeout_ns: 0 };
        let peer = Fake { calls: Arc::clone(&self.calls), ..peer };
        let p2p = peer.p2p;
        let carrier = match p2p {
            true => Carrier::Kernels(Box::new(peer)),
            false => Carrier::System(Box::new(peer)),
        };
        let mut made = Entry::new(handle, index, Owner::Host, wishes, Some(carrier.into()));
        if p2p {
            let location = RingLocation { region: WINDOW, offset: 0, capacity: ring, base: BASE };
            let rings = Rings { receive: location, send: location };
            let inboxes = Inboxes { own: 0, peer: 1, one_gpu: true };
            made.channel.use_rings(&shared.memory, (rings, inboxes));
        } else {
            made.channel
                .allocate(&shared, Account::Own, RingRegion::Host, made.wishes.rings)
                .expect("rings");
        }
        made.start_stream(StreamPhase::Open);
        made.publish(&shared.memory);
        self.shard.adopt(made, &mut self.io);
        handle
    }

    fn ask(&mut self, operation: Operation, handle: Handle, numbers: [u64; 4]) -> u64 {
        let request = Request::new(operation, LAUNCH, handle, numbers);
        let reply = self.shard.answer(&request, &mut self.io);
        assert_eq!(reply.result(), 0);
        reply.number()
    }

    fn turns(&mut self, count: u32) {
        for _ in 0..count {
            self.now += 1000;
            self.shard.turn(self.now, &mut self.io);
        }
    }

    /// Has the kernel send so many bytes.
    fn send(&mut self, handle: Handle, bytes: u64) {
        let sent = self.shard.find(handle).expect("it is open").channel.send.theirs;
        let word = Progress::new(sent + bytes, 0).0;
        let index = self.shard.sockets.context.shared.index(handle);
        self.memory().send_tail(index).store_release(word);
    }

    /// Has the kernel read all.
    fn read(&mut self, handle: Handle) {
        let entry = self.shard.find(handle).expect("it is open");
        let word = Progress::new(entry.channel.receive.ours, 0).0;
        let index = self.shard.sockets.context.shared.index(handle);
        self.memory().receive_head(index).store_release(word);
    }

    /// Looks at sockets, and calls of their transports, in so many turns with an active socket.
    fn cost(&mut self, active: Handle, turns: u32) -> (u64, u64) {
        let cost =
            |this: &Self| (this.shard.sockets.schedule.visits, this.calls.load(Ordering::Relaxed));
        let before = cost(self);
        for _ in 0..turns {
            self.send(active, 10);
            self.turns(1);
        }
        let after = cost(self);
        (after.0 - before.0, after.1 - before.1)
    }
}

/// A way to make a passive socket, and what wakes it.
struct State {
    name: &'static str,
    make: fn(&mut Harness, Handle) -> Handle,
    wake: fn(&mut Harness, Handle, Handle),
}

const STATES: [State; 5] = [
    State {
        name: "idle",
        make: |harness, _| harness.stream(Fake::default(), RING),
        wake: |harness, socket, _| harness.shard.ready(socket.0),
    },
    State {
        name: "full",
        make: |harness, _| harness.stream(Fake { sends: u64::MAX, ..Fake::default() }, RING),
        wake: |harness, socket, _| harness.read(socket),
    },
    State {
        name: "p2p",
        make: |harness, _| harness.stream(Fake { p2p: true, ..Fake::default() }, RING),
        wake: |harness, socket, _| harness.shard.ready(socket.0),
    },
    State {
        name: "owed an event",
        make: |harness, poller| {
            let socket = harness.stream(Fake { takes: u64::MAX, ..Fake::default() }, RING);
            let watch = [socket.0, u64::from(POLLOUT), 0, 0];
            harness.ask(Operation::Watch, poller, watch);
            harness.turns(1);
            harness.send(socket, 10);
            socket
        },
        wake: |harness, _, poller| harness.read(poller),
    },
    State {
        name: "lingering",
        make: |harness, _| {
            let socket = harness.stream(Fake::default(), RING);
            harness.send(socket, 10);
            harness.turns(1);
            // Far from its deadline.
            harness.shard.close(socket, Closer::Kernel, 1 << 60);
            socket
        },
        wake: |harness, socket, _| harness.shard.ready(socket.0),
    },
];

#[test]
fn a_turn_costs_the_same_beside_any_number_of_passive_sockets() {
    for state in &STATES {
        let costs = [10, 2000].map(|passive: u32| {
            let slots = passive + 2;
            let events = (u64::from(slots) * 16).next_power_of_two();
            let mut harness = Harness::new(slots, u64::from(slots * 2 * RING) + 2 * events);
            let poller = Handle(harness.ask(Operation::Poller, Handle::NONE, [0; 4]));
            let active = harness.stream(Fake { takes: u64::MAX, ..Fake::default() }, RING);
            let made: Vec<Handle> =
                (0..passive).map(|_| (state.make)(&mut harness, poller)).collect();
            // Until all of them are passive.
            harness.turns(2000);
            assert_eq!(harness.shard.sockets.schedule.busy.handles().len(), 0);
            let cost = harness.cost(active, 100);
            // And none is forgotten.
            let before = harness.shard.sockets.schedule.visits;
            for socket in &made {
                (state.wake)(&mut harness, *socket, poller);
            }
            harness.turns(1);
            let woken = harness.shard.sockets.schedule.visits - before;
            assert!(woken >= passive.into(), "{}: {woken} of {passive} woken", state.name);
            cost
        });
        assert_eq!(costs[0], costs[1], "{}: with 10 and with 2000", state.name);
        assert!(costs[0].0 <= 200, "{}: {costs:?}", state.name);
    }
}

#[test]
fn a_quiet_kernel_that_sends_beside_a_busy_one_is_found() {
    const MANY: u32 = 3000;
    let mut harness = Harness::new(MANY + 1, u64::from((MANY + 1) * 2 * RING));
    let takes = Fake { takes: u64::MAX, ..Fake::default() };
    // One whose peer sends without an end and whose kernel reads it all: it is always busy.
    let busy = harness.stream(Fake { sends: u64::MAX, ..takes.clone() }, RING);
    let quiet: Vec<Handle> = (0..MANY).map(|_| harness.stream(takes.clone(), RING)).collect();
    let sent = |harness: &mut Harness, handle: Handle| {
        let send = &harness.shard.find(handle).expect("it is open").channel.send;
        send.ours - send.location.base
    };
    harness.shard.ready(busy.0);
    let mut longest = 0;
    for (at, handle) in quiet.iter().enumerate().step_by(97) {
        harness.send(*handle, 10);
        let mut turns = 0;
        while sent(&mut harness, *handle) == 0 {
            harness.read(busy);
            harness.shard.ready(busy.0);
            harness.turns(1);
            turns += 1;
            assert!(turns <= 9, "socket {at} is not found");
        }
        longest = longest.max(turns);
        // From then on it is one of those that are looked at in every turn.
        harness.send(*handle, 10);
        harness.turns(1);
        assert_eq!(sent(&mut harness, *handle), 20, "socket {at} waits");
    }
    assert!(longest > 1, "tails are scanned in parts");
}

#[test]
fn closed_sockets_go_when_their_time_is_over_and_no_earlier() {
    let mut harness = Harness::new(3, u64::from(6 * RING));
    let linger_ns = harness.shard.sockets.context.shared.config.linger_ns;
    let made = [(); 3].map(|()| harness.stream(Fake::default(), RING));
    for (at, socket) in made.iter().enumerate() {
        harness.send(*socket, 10);
        harness.turns(1);
        harness.shard.close(*socket, Closer::Kernel, harness.now + (at as u64 + 1) * 10_000);
    }
    let closed = harness.now;
    for left in [3, 2, 1, 0] {
        harness.shard.turn(harness.now, &mut harness.io);
        assert_eq!(harness.shard.sockets.table.iter().count(), left);
        harness.now = closed + (4 - left as u64) * 10_000 + linger_ns;
    }
    assert_eq!(harness.shard.sockets.schedule.lengths(), [0; 8]);
}

#[test]
fn a_large_ring_gets_its_budget_of_a_turn_and_no_more() {
    const LARGE: u32 = 1 << 20;
    let peer = Fake { takes: u64::MAX, sends: u64::MAX, ..Fake::default() };
    let mut harness = Harness::new(8, 32 * u64::from(LARGE));
    let large: Vec<Handle> = (0..7).map(|_| harness.stream(peer.clone(), LARGE)).collect();
    let small = harness.stream(Fake { takes: u64::MAX, ..Fake::default() }, RING);
    for handle in &large {
        harness.send(*handle, LARGE.into());
    }
    let counts = |harness: &mut Harness, handle: Handle| {
        let channel = &harness.shard.find(handle).expect("it is open").channel;
        let (sent, received) = (&channel.send, &channel.receive);
        (sent.ours - sent.location.base, received.ours - received.location.base)
    };
    let mut before = vec![(0, 0); large.len()];
    for turn in 1..=100 {
        harness.send(small, 10);
        harness.turns(1);
        // The small one is served in each turn, whatever the others have to move.
        assert_eq!(counts(&mut harness, small).0, turn * 10);
        let now: Vec<_> = large.iter().map(|handle| counts(&mut harness, *handle)).collect();
        for (before, now) in before.iter().zip(&now) {
            assert!(now.0 - before.0 <= Pacing::USUAL.budget_bytes, "sent in turn {turn}");
            assert!(now.1 - before.1 <= 2 * Pacing::USUAL.budget_bytes, "received in turn {turn}");
        }
        // None is more than two budgets ahead of another.
        for side in [|count: &(u64, u64)| count.0, |count: &(u64, u64)| count.1] {
            let (least, most) = (now.iter().map(side).min(), now.iter().map(side).max());
            assert!(most <= least.map(|least| least + 2 * Pacing::USUAL.budget_bytes), "{now:?}");
        }
        before = now;
        if turn == 1 {
            let all: u64 = before.iter().map(|count| count.0).sum();
            assert!(all >= Pacing::USUAL.budget_bytes, "they do send");
        }
    }
    for (sent, received) in before {
        assert_eq!((sent, received), (LARGE.into(), LARGE.into()), "all of it, in the end");
    }
}
