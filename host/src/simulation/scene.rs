//! A scene: what a seed draws.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, mpsc};

use corosensei::{Coroutine, Yielder};
use gpunet_device::abi::layout::Layout;
use gpunet_device::planted::Bug;
use gpunet_device::simt;

use super::control::SimulatedSystem;
use super::draw::Draw;
use super::ending::Ending;
use super::epoll::SimulatedEpoll;
use super::memory::{SharedMemory, Switch};
use super::network::{Network, set_network};
use super::peers::Peer;
use super::program::Program;
use super::trace::{Names, Trace};
use super::{InCharge, Now, Observing, freed, shapes};
use crate::gpu::EmulatedOptions;
use crate::gpu::emulated::random::SplitMix;
use crate::gpu::emulated::stage::{Stage, SteppedGpu};
use crate::memory::{ControlMemory, HostControl, Memory};
use crate::pool::Pool;
use crate::proxy::control::Control;
use crate::proxy::drain::Drain;
use crate::proxy::rounds::{Next, Rounds};
use crate::proxy::running::RunningLaunches;
use crate::proxy::shard::Shard;
use crate::proxy::shared::{MessageQueue, Shared};
use crate::proxy::statistics::Counters;
use crate::settings::config::{Config, Pacing};
use crate::settings::policy::Policy;
use crate::transport::p2p::P2p;
use crate::transport::{TransportChoice, Transports};

/// Smallest ring, so that streams wrap.
pub(super) const RING: u32 = 4096;
/// How long a call may wait.
pub(super) const TIMEOUT_NS: u64 = 4_000_000_000;
/// Peers that connect to the kernels.
pub(super) const MOST_PEERS: u64 = 4;
/// GPU memory for p2p streams.
const ARENA_BYTES: u64 = 64 << 20;

/// So little that the few bytes and turns of a scene make all of it happen.
const PACING: Pacing =
    Pacing { busy_turns: 8, often: 4, stream_bytes: 64, budget_bytes: 1024, grace_ns: 200_000 };

/// What scenes are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Servers and clients, each with sockets of its own.
    Plain,
    /// Launches that come and go, and share sockets with one another and with the program.
    Sharing,
    /// Kernels that are connected by p2p streams.
    P2p,
}

impl Kind {
    /// How many there are, one after the other.
    pub(crate) const COUNT: u64 = 3;

    /// That of a seed.
    pub(crate) const fn of(seed: u64) -> Self {
        match seed % Self::COUNT {
            0 => Self::Plain,
            1 => Self::Sharing,
            _ => Self::P2p,
        }
    }
}

/// Groups that a block of so many threads may be, as `Scene::launch` draws them.
fn most_groups(threads: u32) -> u32 {
    if threads > 3 { threads.div_ceil(simt::WARP) } else { threads }
}

/// What a proxy's coroutine says when it lets others run.
pub(super) enum Yield {
    /// In the middle of a round.
    Switch,
    /// After one.
    Next(Next),
}

/// A proxy thread.
pub(super) struct Proxy {
    pub(super) coroutine: Coroutine<(), Yield, ()>,
    pub(super) epoll: SimulatedEpoll,
    /// Sleeps until then, or until something is ready.
    pub(super) sleeps_until: Option<u64>,
    /// Does not run before then, whatever happens.
    pub(super) stalls_until: u64,
    pub(super) ended: bool,
}

/// A launch.
pub(super) struct Kernel {
    pub(super) stage: Stage,
    /// Threads that take no turn before a time.
    pub(super) stalled: Vec<(u64, u32)>,
    pub(super) first_actor: usize,
    pub(super) slot: u32,
    /// It connects to the kernels' own listener.
    pub(super) calls: bool,
    /// It has ended, and the proxies are notified, or will be.
    pub(super) reported: bool,
    /// Its process has died: its threads take no turn any more, wherever they are.
    pub(super) died: bool,
    /// What it left open is closed, and its slot is free.
    pub(super) over: bool,
}

/// The yielders of the proxies, for switches in the middle of a round.
struct Switcher {
    yielders: Vec<Rc<Cell<*const Yielder<(), Yield>>>>,
}

impl Switch for Switcher {
    fn switch(&self, actor: usize) {
        match self.yielders.get(actor) {
            Some(yielder) if !yielder.get().is_null() => {
                // SAFETY: set by the proxy's coroutine, which is running: it is the current actor.
                unsafe { &*yielder.get() }.suspend(Yield::Switch);
            }
            Some(_) => {}
            None => simt::pause(),
        }
    }
}

/// Everything that plays.
pub(crate) struct Scene {
    pub(super) draw: Draw,
    pub(super) now: Now,
    pub(super) network: Rc<Network>,
    pub(super) memory: Rc<SharedMemory>,
    _in_charge: InCharge,
    pub(super) trace: Rc<Trace>,
    pub(super) shared: Arc<Shared>,
    pub(super) control: Arc<Control>,
    pub(super) proxies: Vec<Proxy>,
    pub(super) restart: Rc<Cell<bool>>,
    pub(super) kernels: Vec<Kernel>,
    /// Launches that may still connect to the kernels' own listener.
    pub(super) callers: Arc<AtomicU64>,
    /// The end of a launch that the proxies clear up after.
    pub(super) ending: Option<Ending>,
    /// The program of a sharing scene.
    pub(super) program: Option<Program>,
    pub(super) peers: Vec<Peer>,
    pub(super) complaints: Arc<Mutex<Vec<String>>>,
    /// Kernels are stopped then.
    pub(super) abort_at: Option<u64>,
    pub(super) stopped: bool,
    /// The process of that launch dies then.
    pub(super) dies_at: Option<(u64, usize)>,
    pub(super) died: bool,
    /// Kernels are connected by p2p streams.
    pub(super) p2p: bool,
    pub(super) ring_bytes: u64,
    pub(super) gpu: SteppedGpu,
}

/// How a scene went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(super) steps: u64,
    pub(super) took_ns: u64,
    pub(super) stores: u64,
    pub(super) moves: u64,
}

/// Plays the scene of a seed; what was wrong, with the trace.
pub(crate) fn play(seed: u64, bug: Option<Bug>) -> Result<Summary, String> {
    let result = std::panic::catch_unwind(|| {
        let mut scene = Scene::new(seed, bug)?;
        let played = scene.play();
        let trace = scene.trace.to_text();
        drop(scene);
        set_network(None);
        played.map_err(|complaint| format!("{trace}seed {seed}: {complaint}"))
    });
    set_network(None);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
        Err(format!("seed {seed}: panicked: {text}"))
    })
}

impl Scene {
    fn new(seed: u64, bug: Option<Bug>) -> Result<Self, String> {
        let fail = |error: &dyn std::fmt::Display| format!("the scene cannot be set: {error}");
        let mut draw = Draw(SplitMix(seed));
        let kind = Kind::of(seed);
        let p2p = kind == Kind::P2p;
        let two_gpus = p2p && seed >> 4 & 1 == 0;
        let now = Now::default();
        now.advance(1_000_000_000);
        let trace = Rc::new(Trace::default());
        let shards = draw.of(&[1, 1, 2]);
        // Who there is: servers and clients of all kinds.
        let serves = !draw.one_in(4) || p2p;
        let asks = !serves || draw.one_in(2) || p2p;
        let mut shapes: Vec<(u32, u32)> = Vec::new();
        for wanted in [serves, asks] {
            let threads = draw.of(&[1, 1, 3, 32, 40, 64]);
            let blocks = if threads > 3 { draw.of(&[1, 1, 2]) } else { draw.of(&[1, 2, 3]) };
            shapes.push(if wanted { (blocks, threads) } else { (0, 0) });
        }
        if kind == Kind::Sharing {
            shapes = shapes::shapes(&mut draw);
        }
        // Few, so that they are used again; but clients that hold them all would wait for ever for
        // a server that finds none.
        let groups: u32 =
            shapes.iter().map(|(blocks, threads)| blocks * most_groups(*threads)).sum();
        // Each may have a poller beside its socket.
        let mut socket_slots = (1 + MOST_PEERS as u32 + if p2p { 4 } else { 2 } * groups).max(8);
        if kind == Kind::Sharing {
            let groups = shapes.iter().map(|(blocks, threads)| blocks * most_groups(*threads));
            socket_slots = shapes::socket_slots(&groups.collect::<Vec<_>>(), shards);
        }
        let layout = Layout { shards, socket_slots, request_slots: draw.of(&[1, 1, 1, 2, 4]) };
        let ring_bytes = u64::from(RING) * 64;
        let clock = {
            let now = now.clone();
            Arc::new(move || now.get())
        };
        let options = EmulatedOptions {
            seed: Some(0),
            clock: Some(clock),
            observer: Some(&Observing),
            ..EmulatedOptions::default()
        };
        let stepped = SteppedGpu::open(options);
        let gpu = &stepped.gpu;
        let heartbeat_timeout_ns = 2_000_000_000;
        let words =
            HostControl::new(gpu, &layout, ControlMemory::Host).map_err(|error| fail(&error))?;
        let window = gpu.arena_window().map_err(|error| fail(&error))?;
        let memory = Memory::new(
            gpu,
            layout,
            words,
            ring_bytes as usize,
            false,
            p2p.then_some(&window),
            heartbeat_timeout_ns,
        )
        .map_err(|error| fail(&error))?;
        let network = Network::new(now.clone(), draw.split(), two_gpus);
        let network = network.map_err(|error| fail(&error))?;
        let network = Rc::new(network);
        set_network(Some(network.clone()));
        let transports = if p2p {
            let choice = draw.of(&[TransportChoice::Local, TransportChoice::Auto]);
            let p2p = P2p::new(&SimulatedSystem, gpu, ARENA_BYTES)?;
            Transports::new(choice, &SimulatedSystem, vec![Arc::new(p2p)])
        } else {
            Transports::new(TransportChoice::Auto, &SimulatedSystem, Vec::new())
        };

        let threads: usize =
            shapes.iter().map(|(blocks, threads)| (blocks * threads) as usize).sum();
        let actors = shards as usize + threads;
        let mut model = SharedMemory::new(
            shards as usize,
            actors,
            draw.split(),
            now.clone(),
            bug,
            trace.clone(),
        );
        let [gpu_control, host_control, (rings, bytes), records] = memory.regions();
        model.add_plain(rings, bytes);
        model.add_plain(window.base, window.bytes as usize);
        let [gpu_control, host_control, records] =
            [gpu_control, host_control, records].map(|(start, _)| start.addr());
        model.set_counters(&layout, [gpu_control, host_control, records]);
        let mut launches = Vec::new();
        let mut first = shards as usize;
        for (blocks, threads) in &shapes {
            let count = (blocks * threads) as usize;
            launches.push((first..first + count, *threads));
            // Launches that share sockets run on one GPU, and those of half the p2p scenes; all others on one
            // of their own.
            let one = kind == Kind::Sharing || p2p && !two_gpus;
            let gpu = if one { 1 } else { launches.len() };
            model.set_gpu(first..first + count, gpu);
            first += count;
        }
        let model = Rc::new(model);
        trace.set_names(Names {
            gpu_control,
            host_control,
            records,
            layout: Some(layout),
            launches: launches.clone(),
        });
        let in_charge = InCharge::new(model.clone());

        let config = Config {
            ring: RING,
            unaccepted: 16,
            reserved: 0,
            timeout_ns: TIMEOUT_NS,
            heartbeat_timeout_ns,
            linger_ns: 100_000_000,
            shutdown_ns: 100_000_000,
            spin_ns: draw.of(&[0, 20_000, 1_000_000]),
            idle_sleep_ns: 50_000,
            longest_sleep_ns: 10_000_000,
            pacing: PACING,
        };
        let mut queues = Vec::new();
        let mut receivers = Vec::new();
        for _ in 0..shards {
            let (sender, receiver) = mpsc::channel();
            let waker = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK)
                .map_err(|error| fail(&error))?;
            queues.push(MessageQueue { sender, waker });
            receivers.push(receiver);
        }
        let (print, _lines) = mpsc::sync_channel(1);
        let shared = Arc::new(Shared {
            memory,
            pool: Pool::new(&layout, [ring_bytes, 0]),
            config,
            policy: Policy::open(),
            transports,
            queues,
            launches: RunningLaunches::default(),
            drain: Drain::default(),
            waiting: Mutex::default(),
            printer: Mutex::new(print),
            on_free: freed,
        });
        let control = Arc::new(Control::default());
        let restart = Rc::new(Cell::new(false));
        let mut switcher = Switcher { yielders: Vec::new() };
        let mut proxies = Vec::new();
        for (id, receiver) in receivers.into_iter().enumerate() {
            let shard = Shard::new(id, shared.clone(), Arc::new(Counters::default()), receiver);
            let yielder = Rc::new(Cell::new(std::ptr::null()));
            switcher.yielders.push(yielder.clone());
            proxies.push(Proxy {
                coroutine: rounds(
                    shard,
                    SimulatedEpoll { shard: id, network: network.clone() },
                    control.clone(),
                    now.clone(),
                    restart.clone(),
                    yielder,
                ),
                epoll: SimulatedEpoll { shard: id, network: network.clone() },
                sleeps_until: None,
                stalls_until: 0,
                ended: false,
            });
        }
        let mut scene = Self {
            draw,
            now,
            network,
            memory: model,
            _in_charge: in_charge,
            trace,
            shared,
            control,
            proxies,
            restart,
            kernels: Vec::new(),
            callers: Arc::default(),
            ending: None,
            program: None,
            peers: Vec::new(),
            complaints: Arc::default(),
            abort_at: None,
            stopped: false,
            dies_at: None,
            died: false,
            p2p,
            ring_bytes,
            gpu: stepped,
        };
        let first: Vec<usize> = launches.into_iter().map(|(actors, _)| actors.start).collect();
        match kind {
            Kind::P2p => scene.p2p_cast(&shapes, &first)?,
            Kind::Sharing => scene.share(&shapes, &first)?,
            Kind::Plain => scene.cast(&shapes, &first)?,
        }
        scene.memory.set_switcher(Some(Rc::new(switcher)));
        Ok(scene)
    }
}

/// The coroutine of a proxy: the product's rounds, one after the other.
fn rounds(
    mut shard: Shard,
    mut epoll: SimulatedEpoll,
    control: Arc<Control>,
    now: Now,
    restart: Rc<Cell<bool>>,
    yielder: Rc<Cell<*const Yielder<(), Yield>>>,
) -> Coroutine<(), Yield, ()> {
    Coroutine::new(move |own: &Yielder<(), Yield>, ()| {
        yielder.set(own);
        let mut rounds = Rounds::default();
        loop {
            if restart.take() {
                rounds = Rounds::default();
                epoll.repeat_edges();
            }
            match rounds.round(&mut shard, &control, now.get(), &mut epoll) {
                Next::End => break,
                next => own.suspend(Yield::Next(next)),
            }
        }
        yielder.set(std::ptr::null());
    })
}
