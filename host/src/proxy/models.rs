//! Models of the protocol: the shard on one side, the device crate's calls on the other, through
//! every order in which loom lets them see one another's words.
//!
//! Run with `cargo test --release -p gpunet-host --features loom --lib models`, which is a step of
//! `cargo xtask test`. Nothing here is written twice: host threads take a shard's turns, device
//! threads make a kernel's calls, on the memory of a small net. Ring bytes are cells of loom's, so
//! that a byte which is read while it may be written is found, whatever its value.
//!
//! Each model is shown able to fail: with one kind of access weakened it finds something.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gpunet_device::abi::descriptor::RingLocation;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::Layout;
use gpunet_device::abi::model::{self, Weakness};
use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls;
use gpunet_device::channel::model as channel;
use gpunet_device::{Handle, Net as DeviceNet, SocketAddr, Thread};

use super::closing::Closer;
use super::counted::Counted;
use super::entry::{Entry, Owner, Phase, Wishes};
use super::shard::Shard;
use super::stream::StreamPhase;
use super::tests::{NoEpoll, empty_shard};
use crate::gpu::{ArenaWindow, EmulatedOptions, Gpu, GpuChoice};
use crate::memory::{ControlMemory, HostControl, Memory, RingSlice};
use crate::pool::Account;
use crate::settings::policy::Policy;
use crate::transport::{
    Acceptor, Carrier, Direction, Endpoint, RingRegion, RingSizes, Socket, Stream, SystemStream,
    Transferred, Transport,
};

/// Bytes of a ring: so few that messages wrap, and must wait for room.
pub(super) const RING: u32 = 8;
/// Where counters begin: a byte before the end of a ring.
pub(super) const BASE: u64 = 128 - 1;

/// What the system's socket would hold.
#[derive(Clone, Default)]
pub(super) struct Wire {
    to_kernel: Arc<Mutex<VecDeque<Vec<u8>>>>,
    from_kernel: Arc<Mutex<Vec<u8>>>,
    /// Connections that wait to be accepted.
    peers: Arc<Mutex<VecDeque<Wire>>>,
}

impl Wire {
    fn send(&self, bytes: &[u8]) {
        self.to_kernel.lock().expect("nobody panics with it").push_back(bytes.to_vec());
    }

    fn received(&self) -> Vec<u8> {
        self.from_kernel.lock().expect("nobody panics with it").clone()
    }
}

impl Socket for Wire {
    fn transport(&self) -> Transport {
        Transport::Unix
    }

    fn set_option(&mut self, _option: SocketOption, _value: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn option(&self, _option: SocketOption) -> Result<u64, Errno> {
        Ok(0)
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(SocketAddr::NONE)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Acceptor for Wire {
    fn accept(&mut self) -> Result<Option<Carrier>, Errno> {
        let next = self.peers.lock().expect("nobody panics with it").pop_front();
        Ok(next.map(|wire| Carrier::System(Box::new(wire))))
    }
}

impl Stream for Wire {
    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(SocketAddr::NONE)
    }

    fn shutdown(&mut self, _direction: Direction) -> Result<(), Errno> {
        Ok(())
    }
}

impl SystemStream for Wire {
    fn receive(&mut self, slice: &RingSlice) -> Result<Transferred, Errno> {
        let mut queue = self.to_kernel.lock().expect("nobody panics with it");
        let Some(mut bytes) = queue.pop_front() else { return Ok(Transferred::Later) };
        let rest = bytes.split_off(bytes.len().min(slice.len()));
        if !rest.is_empty() {
            queue.push_front(rest);
        }
        drop(queue);
        slice.fill(&bytes);
        Ok(Transferred::Bytes(bytes.len()))
    }

    fn send(&mut self, slice: &RingSlice) -> Result<Transferred, Errno> {
        let bytes = slice.copy();
        self.from_kernel.lock().expect("nobody panics with it").extend(&bytes);
        Ok(Transferred::Bytes(bytes.len()))
    }
}

/// A net without threads: its shard, and what kernels are given.
pub(super) struct Small {
    pub(super) shard: Shard,
    pub(super) net: DeviceNet,
}

pub(super) const WISHES: Wishes =
    Wishes { rings: RingSizes { receive: RING, send: RING }, timeout_ns: 0 };

impl Small {
    fn new(socket_slots: u32) -> Self {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        Self::on(&gpu, socket_slots, None)
    }

    /// One whose p2p streams lie in that window.
    pub(super) fn on(gpu: &Gpu, socket_slots: u32, window: Option<&ArenaWindow>) -> Self {
        let layout = Layout { shards: 1, socket_slots, request_slots: 1 };
        let ring_bytes = 4 * 4096 * socket_slots as usize;
        let control = HostControl::new(gpu, &layout, ControlMemory::Host).expect("words");
        let memory =
            Memory::new(gpu, layout, control, ring_bytes, false, window, 1 << 60).expect("memory");
        memory.known_to_the_model();
        let net = memory.device_net(0, 1);
        let shard = empty_shard(memory, ring_bytes as u64, Policy::open());
        shard.sockets.context.shared.launches.set(0, true);
        Self { shard, net }
    }

    /// A socket in the first free slot, whose rings have [`RING`] bytes. It is not closed: the
    /// pool has given more.
    fn add(&mut self, wire: &Wire, phase: Phase) -> Handle {
        let mut made = self.connection(wire);
        let memory = &self.shard.sockets.context.shared.memory;
        let cut = |ring: &Counted, base: u64| {
            let location = RingLocation { capacity: RING, base, ..ring.location };
            memory.model_knows_ring(&location);
            Counted::new(location, ring.stale)
        };
        if phase == Phase::Listening {
            let ring = cut(&made.channel.receive, BASE + 1);
            made.socket = Some(Endpoint::from(Box::new(wire.clone()) as Box<dyn Acceptor>));
            made.start_listening(&self.shard.sockets.context.shared, ring, 1);
            made.channel.send = Counted::default();
        } else {
            made.start_stream(StreamPhase::Open);
            (made.channel.receive, made.channel.send) =
                (cut(&made.channel.receive, BASE), cut(&made.channel.send, BASE));
        }
        made.publish(memory);
        let handle = made.handle;
        self.shard.adopt(made, &mut NoEpoll::default());
        handle
    }

    /// A stream with rings as the pool gives them.
    fn connection(&mut self, wire: &Wire) -> Entry {
        let shared = Arc::clone(&self.shard.sockets.context.shared);
        let handle = shared.pool.allocate_handle(Account::Own).expect("a slot");
        let socket = Endpoint::from(Carrier::System(Box::new(wire.clone())));
        let index = shared.index(handle);
        let mut made = Entry::new(handle, index, Owner::Host, WISHES, Some(socket));
        made.channel
            .allocate(&shared, Account::Own, RingRegion::Host, made.wishes.rings)
            .expect("rings");
        made.start_stream(StreamPhase::Open);
        made
    }

    /// The same in its place.
    fn add_stream(&mut self) -> Handle {
        let mut made = self.connection(&Wire::default());
        made.publish(&self.shard.sockets.context.shared.memory);
        let handle = made.handle;
        self.shard.adopt(made, &mut NoEpoll::default());
        handle
    }
}

/// Runs a shard's turns in a thread of its own until the other side is done.
struct Host(loom::thread::JoinHandle<()>, Arc<AtomicBool>);

impl Host {
    /// Sockets that something has come for are named.
    fn start(shard: Shard, ready: Vec<Handle>) -> Self {
        Self::start_until(shard, ready, || true)
    }

    /// The same, and goes on until that is so: the kernel's last words may be seen late.
    fn start_until(
        mut shard: Shard,
        ready: Vec<Handle>,
        enough: impl Fn() -> bool + 'static,
    ) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&done);
        let thread = loom::thread::spawn(move || {
            while !(until.load(Ordering::Relaxed) && enough()) {
                turn(&mut shard, &ready);
                loom::thread::yield_now();
            }
            assert_eq!(shard.sockets.context.counters.violations.get(), 0);
        });
        Self(thread, done)
    }

    fn finish(self) {
        self.1.store(true, Ordering::Relaxed);
        self.0.join().expect("the host's side ends well");
    }
}

/// A host that goes on until the peer has so many bytes.
fn until_received(shard: Shard, wire: &Wire, bytes: usize) -> Host {
    let wire = wire.clone();
    Host::start_until(shard, Vec::new(), move || wire.received().len() >= bytes)
}

fn turn(shard: &mut Shard, handles: &[Handle]) {
    for handle in handles {
        shard.ready(handle.0);
    }
    shard.turn(0, &mut NoEpoll::default());
}

/// Runs a model, and shows that it finds what is planted. Where there is time it goes deeper.
pub(super) fn holds(preemptions: usize, weaknesses: &[Weakness], scenario: fn()) {
    let long = std::env::var_os("GPUNET_LONG").is_some();
    let preemptions = preemptions + usize::from(long);
    let runs = model::check(preemptions, None, scenario);
    println!("{runs} orders");
    assert!(runs > 10, "{runs} orders are no model");
    for weakness in weaknesses {
        let found =
            catch_unwind(AssertUnwindSafe(|| model::check(preemptions, Some(*weakness), scenario)));
        assert!(found.is_err(), "{weakness:?} is not found");
    }
}

#[test]
fn receive_ring() {
    // More than the ring holds, in pieces that wrap: the kernel reads what is there, and the proxy
    // writes over it once the kernel says so.
    holds(3, &[Weakness::StoreRelease, Weakness::LoadAcquire], || {
        let mut small = Small::new(1);
        let wire = Wire::default();
        let handle = small.add(&wire, Phase::Open);
        let sent: Vec<u8> = (1..=12).collect();
        wire.send(&sent);
        let net = small.net;
        let host = Host::start(small.shard, vec![handle]);
        let mut got: Vec<u8> = Vec::new();
        while got.len() < sent.len() {
            let mut buffer = [0; 16];
            let bytes = calls::grecv(net, Thread, handle, &mut buffer[..], 0);
            assert!(bytes > 0, "{bytes}");
            got.extend(&buffer[..bytes as usize]);
        }
        assert_eq!(got, sent);
        host.finish();
    });
}

#[test]
fn send_ring() {
    holds(3, &[Weakness::StoreRelease, Weakness::AcquireFence], || {
        let mut small = Small::new(1);
        let wire = Wire::default();
        let handle = small.add(&wire, Phase::Open);
        let net = small.net;
        let host = until_received(small.shard, &wire, 12);
        let message: Vec<u8> = (1..=12).collect();
        assert_eq!(calls::gsend(net, Thread, handle, &message[..], 0), 12);
        host.finish();
        assert_eq!(wire.received(), message);
    });
}

#[test]
fn packet_out() {
    holds(2, &[Weakness::Tags], || {
        let mut small = Small::new(1);
        let wire = Wire::default();
        let handle = small.add(&wire, Phase::Open);
        let net = small.net;
        let host = until_received(small.shard, &wire, 13);
        channel::send_packet(net, handle, b"abcdefgh").expect("it is open");
        channel::send_packet(net, handle, b"ijklm").expect("it is open");
        host.finish();
        assert_eq!(wire.received(), b"abcdefghijklm");
    });
}

#[test]
fn packet_in() {
    holds(2, &[Weakness::Tags], || {
        let mut small = Small::new(1);
        let wire = Wire::default();
        let handle = small.add(&wire, Phase::Open);
        wire.send(b"abcdefg");
        wire.send(b"hi");
        let net = small.net;
        let host = Host::start(small.shard, vec![handle]);
        let mut got: Vec<u8> = Vec::new();
        while got.len() < 9 {
            let mut buffer = [0; 8];
            // What has not come as a whole is read from the ring.
            let mut bytes = channel::receive_whole(net, handle, &mut buffer).expect("it is open");
            if bytes == 0 {
                bytes = calls::grecv(net, Thread, handle, &mut buffer[..], 0) as usize;
            }
            got.extend(&buffer[..bytes]);
        }
        assert_eq!(got, b"abcdefghi");
        host.finish();
    });
}

#[test]
fn request_slot() {
    // Two threads of a kernel want the one slot.
    holds(1, &[Weakness::StoreRelease, Weakness::LoadAcquire, Weakness::AcquireFence], || {
        let small = Small::new(1);
        let net = small.net;
        let host = Host::start(small.shard, vec![]);
        let other = loom::thread::spawn(move || {
            let answer = calls::gsocket(net, Thread, 77, 1, 0);
            assert_eq!(answer, Errno::EAFNOSUPPORT.negative());
        });
        assert!(calls::ggettimeofday(net, Thread) > 0);
        other.join().expect("it was answered");
        host.finish();
    });
}

#[test]
fn request_slot_that_was_given_up() {
    holds(3, &[Weakness::StoreRelease], || {
        let small = Small::new(1);
        let net = small.net;
        let host = Host::start(small.shard, vec![]);
        // Every look at the clock is a minute: it gives up, or is answered just in time.
        model::set_tick(61_000_000_000);
        let answer = calls::gsocket(net, Thread, 77, 1, 0);
        let late = [Errno::EAFNOSUPPORT, Errno::ETIMEDOUT, Errno::ENETDOWN];
        assert!(late.map(Errno::negative).contains(&answer), "{answer}");
        // Whoever comes next gets its own reply, and not the late one.
        model::set_tick(1);
        assert!(calls::ggettimeofday(net, Thread) > 0);
        host.finish();
    });
}

#[test]
fn accept_ring() {
    holds(3, &[Weakness::StoreRelease], || {
        let mut small = Small::new(3);
        let listening = Wire::default();
        let listener = small.add(&listening, Phase::Listening);
        // The ring of its backlog holds one handle: the second waits until the first is taken.
        for _ in 0..2 {
            listening.peers.lock().expect("nobody panics with it").push_back(Wire::default());
        }
        let net = small.net;
        let host = Host::start(small.shard, vec![listener]);
        let mut accepted = Vec::new();
        for _ in 0..2 {
            let handle = calls::gaccept(net, Thread, listener);
            assert!(handle > 0, "{handle}");
            // Everything that the GPU may read of it was written before.
            let rings = channel::rings(net, Handle(handle as u64)).expect("it is open");
            assert!(rings.iter().all(|word| *word != 0), "{rings:?}");
            accepted.push(handle);
        }
        assert_ne!(accepted[0], accepted[1]);
        host.finish();
    });
}

#[test]
fn generation_reuse() {
    // While a kernel first names a handle, its socket goes and another takes the slot, with rings
    // elsewhere: the kernel finds the one's rings or none, never a part of each.
    holds(2, &[Weakness::ReleaseFence, Weakness::AcquireFence], || {
        let mut small = Small::new(1);
        let old = small.add_stream();
        let net = small.net;
        let connection = small.shard.find(old).expect("it is open");
        let (receive, send) =
            (connection.channel.receive.location, connection.channel.send.location);
        let at = |ring: &RingLocation| {
            let [(address, _), _] =
                small.shard.sockets.context.shared.memory.slice(ring, 0, 1).pieces();
            address.addr() as u64 | u64::from(ring.capacity.ilog2())
        };
        let expected = [at(&receive), at(&send), receive.base];
        let thread = loom::thread::spawn(move || {
            small.shard.close(old, Closer::Kernel, 0);
            let shared = Arc::clone(&small.shard.sockets.context.shared);
            // Where the old rings were is somebody else's by now.
            small.shard.finish_closing(u64::MAX / 2);
            for _ in 0..2 {
                shared.pool.allocate_ring(Account::Own, RingRegion::Host, 4096, 0).expect("a ring");
            }
            let new = small.add_stream();
            assert_eq!((new.slot(), new.generation()), (old.slot(), old.generation() + 1));
            small
        });
        match channel::rings(net, old) {
            Ok(rings) => assert_eq!(rings, expected),
            Err(errno) => assert_eq!(errno, Errno::EBADF),
        }
        let small = thread.join().expect("the host's side ends well");
        // From now on it is stale for whoever looks: a launch that comes later does.
        let fresh = small.shard.sockets.context.shared.memory.device_net(0, 2);
        assert_eq!(channel::rings(fresh, old), Err(Errno::EBADF));
    });
}
