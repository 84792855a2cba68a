//! A scene: what a seed draws, and how it is played.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use corosensei::{Coroutine, CoroutineResult, Yielder};
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::Layout;
use gpunet_device::planted::Bug;
use gpunet_device::{Domain, Handle, SocketAddr, simt};

use super::kernels::{self, Grouping, Plan, SHARED_BYTES, Work};
use super::memory::{SharedMemory, Switch};
use super::network::{Network, SimulatedEpoll, set_network};
use super::peers::{Peer, Role};
use super::trace::{Names, Trace};
use super::{FIRST_ACTOR, InCharge, Now};
use crate::gpu::{EmulatedOptions, Gpu, GpuChoice, LaunchSpec, SplitMix, Stage};
use crate::memory::{CpuWords, Memory, WordPlacement};
use crate::net::config::Config;
use crate::net::policy::Policy;
use crate::pool::Pool;
use crate::proxy::connection::{Connection, Owner, Wishes};
use crate::proxy::message::Message;
use crate::proxy::rounds::{Next, Rounds};
use crate::proxy::shard::Shard;
use crate::proxy::shared::{Inbox, RunningLaunches, Shared};
use crate::proxy::statistics::Counters;
use crate::proxy::thread::Control;

/// Smallest ring, so that streams wrap.
const RING: u32 = 4096;
/// How long a call may wait.
const PATIENCE_NS: u64 = 4_000_000_000;
/// How long kernels wait for another connection.
const ACCEPT_NS: u64 = 300_000_000;
/// A scene that takes longer hangs.
const LIMIT_NS: u64 = 60_000_000_000;
const LIMIT_STEPS: u64 = 20_000_000;
/// Calls that move a stream's bytes: more would show nothing new.
const CALLS: u64 = 40;
/// Peers that connect to the kernels.
const MOST_PEERS: u64 = 4;
/// The port of the kernels' listener, and of the remote one.
const KERNELS_PORT: u16 = 1000;
const REMOTE_PORT: u16 = 2000;

/// Draws numbers.
struct Draw(SplitMix);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.next() % limit.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn split(&mut self) -> SplitMix {
        SplitMix(self.0.next())
    }
}

/// Groups that a block of so many threads may be, as [`Scene::launch`] draws them.
fn most_groups(threads: u32) -> u32 {
    if threads > 3 { threads.div_ceil(simt::WARP) } else { threads }
}

/// What a proxy's coroutine says when it lets others run.
enum Yield {
    /// In the middle of a round.
    Switch,
    /// After one.
    Next(Next),
}

/// A proxy thread.
struct Proxy {
    coroutine: Coroutine<(), Yield, ()>,
    epoll: SimulatedEpoll,
    /// Sleeps until then, or until something is ready.
    sleeps_until: Option<u64>,
    /// Does not run before then, whatever happens.
    stalls_until: u64,
    ended: bool,
}

/// A launch.
struct Kernel {
    stage: Stage,
    /// Threads that take no turn before a time.
    stalled: Vec<(u64, u32)>,
    first_actor: usize,
    slot: u32,
    told: bool,
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
    draw: Draw,
    now: Now,
    network: Rc<Network>,
    memory: Rc<SharedMemory>,
    _in_charge: InCharge,
    trace: Rc<Trace>,
    shared: Arc<Shared>,
    control: Arc<Control>,
    proxies: Vec<Proxy>,
    restart: Rc<Cell<bool>>,
    kernels: Vec<Kernel>,
    peers: Vec<Peer>,
    complaints: Arc<Mutex<Vec<String>>>,
    /// Kernels are told to stop then.
    abort_at: Option<u64>,
    stopped: bool,
    ring_bytes: u64,
    gpu: Gpu,
}

/// How a scene went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    steps: u64,
    took_ns: u64,
    stores: u64,
    moves: u64,
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
        let now = Now::default();
        now.advance(1_000_000_000);
        let trace = Rc::new(Trace::default());
        let shards = draw.of(&[1, 1, 2]);
        // Who there is: servers and clients of all kinds.
        let serves = !draw.one_in(4);
        let asks = !serves || draw.one_in(2);
        let mut shapes: Vec<(u32, u32)> = Vec::new();
        for wanted in [serves, asks] {
            let threads = draw.of(&[1, 1, 3, 32, 40, 64]);
            let blocks = if threads > 3 { draw.of(&[1, 1, 2]) } else { draw.of(&[1, 2, 3]) };
            shapes.push(if wanted { (blocks, threads) } else { (0, 0) });
        }
        // Few, so that they are used again; but clients that hold them all would wait for ever for
        // a server that finds none.
        let groups: u32 =
            shapes.iter().map(|(blocks, threads)| blocks * most_groups(*threads)).sum();
        let places = (1 + MOST_PEERS as u32 + 2 * groups).max(8);
        let layout = Layout { shards, places, slots: draw.of(&[1, 1, 1, 2, 4]) };
        let ring_bytes = u64::from(RING) * 64;
        let clock = {
            let now = now.clone();
            Arc::new(move || now.get())
        };
        let options =
            EmulatedOptions { seed: Some(0), clock: Some(clock), ..EmulatedOptions::default() };
        let gpu = Gpu::open(GpuChoice::Emulated(options)).map_err(|error| fail(&error))?;
        let silence_ns = 2_000_000_000;
        let words =
            CpuWords::new(&gpu, &layout, WordPlacement::Host).map_err(|error| fail(&error))?;
        let memory = Memory::new(&gpu, layout, words, ring_bytes as usize, false, None, silence_ns)
            .map_err(|error| fail(&error))?;
        let network = Network::new(now.clone(), draw.split()).map_err(|error| fail(&error))?;
        let network = Rc::new(network);
        set_network(Some(network.clone()));

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
        let (rings, bytes) = memory.ring_region();
        model.set_rings(rings, bytes);
        let [gpu_words, cpu_words, local] = memory.regions();
        model.set_counters(&layout, gpu_words, cpu_words);
        let model = Rc::new(model);
        let mut launches = Vec::new();
        let mut first = shards as usize;
        for (blocks, threads) in &shapes {
            let count = (blocks * threads) as usize;
            launches.push((first..first + count, *threads));
            first += count;
        }
        trace.set_names(Names {
            gpu_words,
            cpu_words,
            local,
            layout: Some(layout),
            launches: launches.clone(),
        });
        let in_charge = InCharge::new(model.clone());

        let config = Config {
            receive_ring: RING,
            send_ring: RING,
            patience_ns: PATIENCE_NS,
            silence_ns,
            linger_ns: 100_000_000,
            shutdown_ns: 100_000_000,
            spin_ns: draw.of(&[0, 20_000, 1_000_000]),
            nap_ns: 50_000,
            rest_ns: 10_000_000,
        };
        let mut inboxes = Vec::new();
        let mut receivers = Vec::new();
        for _ in 0..shards {
            let (sender, receiver) = mpsc::channel();
            let waker = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK)
                .map_err(|error| fail(&error))?;
            inboxes.push(Inbox { sender, waker });
            receivers.push(receiver);
        }
        let (print, _lines) = mpsc::sync_channel(1);
        let shared = Arc::new(Shared {
            memory,
            pool: Pool::new(&layout, [ring_bytes, 0]),
            config,
            policy: Policy::open(),
            transports: crate::transport::Transports::default(),
            inboxes,
            launches: RunningLaunches::default(),
            waiting: Mutex::default(),
            printer: Mutex::new(print),
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
            peers: Vec::new(),
            complaints: Arc::default(),
            abort_at: None,
            stopped: false,
            ring_bytes,
            gpu,
        };
        scene.people(
            &shapes,
            &launches.into_iter().map(|(actors, _)| actors.start).collect::<Vec<_>>(),
        )?;
        scene.memory.set_switcher(Some(Rc::new(switcher)));
        Ok(scene)
    }

    /// Puts kernels and peers on the stage.
    fn people(&mut self, shapes: &[(u32, u32)], first_actors: &[usize]) -> Result<(), String> {
        let aborts = self.draw.one_in(8);
        if aborts {
            self.abort_at = Some(self.now.get() + self.draw.below(20_000_000));
        }
        let serves = shapes[0].0 > 0;
        let piece = self.draw.of(&[1, 7, 64, 100, 1000, 6000]);
        let breaks = self.draw.one_in(4);
        let excused = aborts || breaks;
        let listener = if serves { Some(self.listener()?) } else { None };
        if let Some(listener) = listener {
            self.launch(shapes[0], first_actors[0], Work::Serve { listener }, piece, excused)?;
            for stream in 0..self.draw.below(MOST_PEERS + 1) {
                let total = self.draw.of(&[0, 1, 40, 64, 200, 5000, 9000]).min(piece * CALLS);
                let Some(endpoint) = self.network.remote_connect(KERNELS_PORT) else { continue };
                let breaks_at = (breaks && self.draw.one_in(2)).then(|| self.draw.below(total + 1));
                self.peers.push(Peer {
                    network: self.network.clone(),
                    endpoint,
                    stream,
                    role: Role::Client { total, sent: 0, got: 0, ended: false },
                    breaks_at,
                    done: false,
                });
            }
        }
        if shapes[1].0 > 0 {
            let port = if serves && self.draw.one_in(2) { KERNELS_PORT } else { REMOTE_PORT };
            if port == REMOTE_PORT {
                let endpoint =
                    self.network.remote_listener(REMOTE_PORT).map_err(|e| e.to_string())?;
                let breaks_at = breaks.then(|| self.draw.below(5000));
                self.peers.push(Peer {
                    network: self.network.clone(),
                    endpoint,
                    stream: 100,
                    role: Role::Server { connections: Vec::new() },
                    breaks_at,
                    done: false,
                });
            }
            let total = self.draw.of(&[1, 64, 65, 300, 3000]).min(piece * CALLS);
            let work = if self.draw.one_in(3) {
                // All of it has to fit, since nobody receives before all have sent.
                Work::Share { port, total: total.min(600) }
            } else {
                let rounds = if shapes[1].1 > 3 { 2 } else { 4 };
                let rounds = 1 + self.draw.below(rounds);
                Work::Ask { port, total, rounds, first_stream: 200 }
            };
            self.launch(shapes[1], first_actors[1], work, piece, excused)?;
        }
        Ok(())
    }

    /// A listener of the program, as a net makes one.
    fn listener(&mut self) -> Result<Handle, String> {
        let fail = |errno: Errno| format!("no listener: {errno}");
        let shared = &self.shared;
        let backlog = 4;
        let mut socket = shared.transports.make(Domain::V4).map_err(fail)?;
        socket.bind(&SocketAddr::v4([127, 0, 0, 1], KERNELS_PORT)).map_err(fail)?;
        socket.listen(backlog).map_err(fail)?;
        let handle = shared.pool.take_handle().map_err(fail)?;
        let index = shared.index(handle);
        let wishes = Wishes { receive_ring: RING, send_ring: RING, patience_ns: PATIENCE_NS };
        let mut made = Connection::new(handle, index, Owner::Host, wishes, Some(socket));
        made.start_listening(backlog);
        let word = shared.memory.receive_head(index).load();
        made.receive = shared.ring(backlog * 8, word).map_err(fail)?;
        made.publish(&shared.memory);
        shared.tell(handle.shard() as usize, Message::Adopt(Box::new(made)));
        Ok(handle)
    }

    fn launch(
        &mut self,
        (blocks, threads): (u32, u32),
        first_actor: usize,
        work: Work,
        piece: u64,
        excused: bool,
    ) -> Result<(), String> {
        let slot = self.kernels.len() as u32;
        let grouping = match threads {
            _ if matches!(work, Work::Share { .. }) => Grouping::Blocks,
            3 => self.draw.of(&[Grouping::Blocks, Grouping::Threads]),
            40 | 64 => self.draw.of(&[Grouping::Blocks, Grouping::Warps]),
            _ => Grouping::Blocks,
        };
        let plan = Plan {
            net: self.shared.memory.device_net(slot, u64::from(slot) + 1),
            patience_ns: PATIENCE_NS,
            accept_ns: ACCEPT_NS,
            work,
            grouping,
            common: Arc::default(),
            piece: piece as usize,
            offset: self.draw.of(&[0, 0, 3, 8]),
            in_place: self.draw.one_in(3),
            alone: self.draw.of(&[None, Some(Grouping::Warps), Some(Grouping::Threads)]),
            excused,
            complaints: self.complaints.clone(),
        };
        let shape = format!("{blocks} blocks of {threads} threads, calls by {grouping:?}");
        self.trace.say(self.now.get(), 0, format!("launch {slot}: {shape}"));
        let spec = LaunchSpec {
            module: "simulation",
            kernel: "scene",
            grid: blocks.into(),
            block: threads.into(),
            shared_bytes: SHARED_BYTES,
            params: Vec::new(),
            entry: Arc::new(move || kernels::run(&plan)),
        };
        let stage = self.gpu.stage(spec).map_err(|error| error.to_string())?;
        // A launch orders everything before it.
        for actor in first_actor..first_actor + (blocks * threads) as usize {
            self.memory.knows_all(actor);
        }
        self.shared.launches.set(slot, true);
        self.control.running.fetch_add(1, Ordering::AcqRel);
        let stalled = Vec::new();
        self.kernels.push(Kernel { stage, stalled, first_actor, slot, told: false });
        Ok(())
    }

    fn play(&mut self) -> Result<Summary, String> {
        let begin = self.now.get();
        let (mut steps, mut quiet, mut calm, mut seen) = (0_u64, 0_u64, 0, (0, 0));
        while !self.step()? {
            if let Some(complaint) = self.first_complaint() {
                return Err(complaint);
            }
            steps += 1;
            if self.now.get() - begin > LIMIT_NS || steps > LIMIT_STEPS {
                return Err(format!("not over after {steps} steps, {} ns", self.now.get() - begin));
            }
            // Time passes faster when nothing happens.
            let state = (self.memory.stores.get(), self.network.moves.get());
            if state != seen {
                (quiet, calm) = (0, 0);
            }
            quiet += 1;
            seen = state;
            let ready: u64 =
                self.kernels.iter().map(|kernel| kernel.stage.ready.len() as u64).sum();
            if quiet > 8 * (ready + 8) {
                (quiet, calm) = (0, (calm + 1).min(9));
                let jump = self.draw.below(2000 << calm);
                let next = self.network.next_ns().map_or(jump, |at| jump.min(at - self.now.get()));
                self.now.advance(next);
            } else {
                // Many threads do in the same time what one does.
                self.now.advance((100 + self.draw.below(400)) / (4 + ready));
            }
        }
        match self.first_complaint() {
            Some(complaint) => Err(complaint),
            None => Ok(Summary {
                steps,
                took_ns: self.now.get() - begin,
                stores: self.memory.stores.get(),
                moves: self.network.moves.get(),
            }),
        }
    }

    fn first_complaint(&self) -> Option<String> {
        if let Some((at, old, new)) = self.memory.backwards.get() {
            return Some(format!("{} went back from {old} to {new}", self.trace.name(at)));
        }
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    /// Somebody does something. Whether all is over.
    fn step(&mut self) -> Result<bool, String> {
        if self.abort_at.is_some_and(|at| self.now.get() >= at) {
            self.abort_at = None;
            self.stopped = true;
            self.trace.say(self.now.get(), 0, "all kernels are told to stop".to_owned());
            self.memory.current.set(0);
            for kernel in &self.kernels {
                self.memory.set_quiet(true);
                self.shared.memory.stop(kernel.slot as usize, Errno::ECANCELED);
                self.memory.set_quiet(false);
            }
        }
        match self.draw.below(16) {
            0..10 => self.step_kernels()?,
            10..14 => self.step_proxy()?,
            _ => self.step_peers()?,
        }
        if self.kernels.iter().all(|kernel| kernel.told) {
            return self.finish();
        }
        Ok(false)
    }

    fn step_kernels(&mut self) -> Result<(), String> {
        let now = self.now.get();
        for kernel in &mut self.kernels {
            let ready = &mut kernel.stage.ready;
            kernel.stalled.retain(|(until, thread)| {
                let goes_on = *until <= now;
                ready.extend(goes_on.then_some(*thread));
                !goes_on
            });
        }
        let live: Vec<usize> = (0..self.kernels.len())
            .filter(|at| !self.kernels[*at].stage.ready.is_empty())
            .collect();
        if live.is_empty() {
            return self.tell_ends();
        }
        let kernel = &mut self.kernels[self.draw.of(&live)];
        let at = self.draw.below(kernel.stage.ready.len() as u64) as usize;
        if self.draw.one_in(20 + 10 * kernel.stage.ready.len() as u64) {
            let thread = kernel.stage.ready.swap_remove(at);
            kernel.stalled.push((now + self.draw.below(100_000), thread));
            return Ok(());
        }
        let actor = kernel.first_actor + kernel.stage.ready[at] as usize;
        self.memory.current.set(actor);
        FIRST_ACTOR.with(|cell| cell.set(kernel.first_actor));
        kernel.stage.turn(at).map_err(|error| error.to_string())?;
        self.tell_ends()
    }

    /// Has the proxies clean up after kernels that have ended, as the supervisor does.
    fn tell_ends(&mut self) -> Result<(), String> {
        for at in 0..self.kernels.len() {
            let kernel = &self.kernels[at];
            if kernel.told || !kernel.stage.ready.is_empty() || !kernel.stalled.is_empty() {
                continue;
            }
            self.kernels[at].told = true;
            self.shared.launches.set(self.kernels[at].slot, false);
            // Who is told of a kernel's end knows what it has written.
            self.memory.knows_all(0);
            let last = self.kernels.iter().all(|kernel| kernel.told);
            let (done, ended) = mpsc::channel();
            let shards = self.shared.inboxes.len();
            for message in [true, false] {
                for shard in 0..shards {
                    let launch = self.kernels[at].slot;
                    self.shared.tell(
                        shard,
                        match message {
                            true => Message::Settle(done.clone()),
                            false => Message::LaunchEnded { launch, last, done: done.clone() },
                        },
                    );
                }
                let mut answers = 0;
                let deadline = self.now.get() + 1_000_000_000;
                while answers < shards {
                    self.step_proxy()?;
                    self.step_peers()?;
                    self.now.advance(1000);
                    answers += ended.try_iter().count();
                    if self.now.get() > deadline {
                        return Err("the proxies do not answer".to_owned());
                    }
                }
            }
            self.control.running.fetch_sub(1, Ordering::AcqRel);
            self.trace.say(self.now.get(), 0, format!("launch {at} is over"));
        }
        Ok(())
    }

    fn step_proxy(&mut self) -> Result<(), String> {
        let which = self.draw.below(self.proxies.len() as u64) as usize;
        if self.draw.one_in(20_000) {
            self.proxies[which].stalls_until = self.now.get() + self.draw.below(5_000_000);
            self.trace.say(self.now.get(), which, "the proxy stalls".to_owned());
        }
        if self.draw.one_in(20_000) && !self.control.stopping.load(Ordering::Relaxed) {
            self.restart.set(true);
        }
        let now = self.now.get();
        let proxy = &mut self.proxies[which];
        let woken = !self.shared.inboxes.is_empty() && proxy.epoll.is_ready();
        let asleep = proxy.sleeps_until.is_some_and(|until| now < until) && !woken;
        // A message wakes it, too; the eventfd says so.
        let told = || rustix::io::read(&self.shared.inboxes[which].waker, &mut [0_u8; 8]).is_ok();
        if proxy.ended || now < proxy.stalls_until || (asleep && !told()) {
            return Ok(());
        }
        proxy.sleeps_until = None;
        self.memory.current.set(which);
        match proxy.coroutine.resume(()) {
            CoroutineResult::Yield(Yield::Next(Next::Sleep(ns))) => {
                proxy.sleeps_until = Some(now + ns);
            }
            CoroutineResult::Yield(_) => {}
            CoroutineResult::Return(()) => proxy.ended = true,
        }
        Ok(())
    }

    fn step_peers(&mut self) -> Result<(), String> {
        if self.peers.is_empty() {
            return Ok(());
        }
        let which = self.draw.below(self.peers.len() as u64) as usize;
        let excused = self.stopped || self.peers.iter().any(|peer| peer.breaks_at.is_some());
        self.peers[which].step(excused)
    }

    /// Kernels are gone: peers see their ends, the net closes, and nothing is missing.
    fn finish(&mut self) -> Result<bool, String> {
        let deadline = self.now.get() + 2_000_000_000;
        let excused = self.stopped || self.peers.iter().any(|peer| peer.breaks_at.is_some());
        let waits = |peer: &Peer| matches!(peer.role, Role::Client { .. }) && !peer.done;
        while !excused && self.peers.iter().any(waits) {
            self.step_proxy()?;
            self.step_peers()?;
            self.now.advance(500);
            if self.now.get() > deadline {
                return Err("a client is not served to the end".to_owned());
            }
        }
        self.control.stopping.store(true, Ordering::Release);
        let deadline = self.now.get() + 2_000_000_000;
        while !self.proxies.iter().all(|proxy| proxy.ended) {
            for proxy in &mut self.proxies {
                proxy.sleeps_until = None;
            }
            self.step_proxy()?;
            self.step_peers()?;
            self.now.advance(500);
            if self.now.get() > deadline {
                return Err("the proxies do not end".to_owned());
            }
        }
        let (sockets, free) = self.shared.pool.usage();
        if sockets != 0 || free != self.ring_bytes {
            let lost = self.ring_bytes - free;
            return Err(format!("{sockets} places and {lost} bytes of rings are missing"));
        }
        let slots = self.shared.memory.claimed_slots();
        if slots != 0 && !self.stopped {
            return Err(format!("{slots} request slots are missing"));
        }
        Ok(true)
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
