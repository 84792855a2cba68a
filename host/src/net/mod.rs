//! A net: memory, proxy threads, and the kernels that run on it.
//!
//! ```no_run
//! # use gpunet_device::{kernels, Handle};
//! # kernels! { pub fn server(net: Net, listener: Handle) { let _ = (net, listener); } }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use gpunet_host::{Gpu, GpuChoice, Net, Shape};
//! let gpu = Gpu::open(GpuChoice::Auto)?;
//! let net = Net::builder(&gpu).sockets(1000).build()?;
//! let (listener, address) = net.listen("127.0.0.1:0".parse::<std::net::SocketAddr>()?)?;
//! println!("serving on {address}");
//! net.launch(server, Shape::new(8, 256).shared_memory(16 << 10), (listener,))?.wait()?;
//! # Ok(()) }
//! ```

pub mod builder;
mod error;
#[cfg(feature = "fault-injection")]
mod injection;
mod launch;
mod printing;
mod supervisor;
mod watchdog;

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::{Layout, MAX_LAUNCHES};
use gpunet_device::kernel::KernelArgs;
use gpunet_device::{Handle, Kernel, SocketAddr};

pub use crate::settings::policy::{Policy, Rule, RuleError};
pub use builder::NetBuilder;
pub use error::{LaunchError, NetError};
pub use launch::{Launch, Shape};

use crate::gpu::{Gpu, LaunchSpec};
use crate::memory::{CpuWords, Memory, WordPlacement};
use crate::pool::{Account, Pool};
use crate::proxy::drain::Drain;
use crate::proxy::entry::{Entry, Owner, Wishes};
use crate::proxy::message::{Message, Released};
use crate::proxy::shard::Shard;
use crate::proxy::shared::{Inbox, RunningLaunches, Shared};
use crate::proxy::statistics::{Counters, SocketState, Statistics};
use crate::proxy::stream::StreamPhase;
use crate::proxy::thread::{Control, ProxyThread};
use crate::settings::config::{BACKLOG, Config};
use crate::transport::p2p::P2p;
use crate::transport::rdma::{AdapterReport, Rdma};
use crate::transport::{
    self, Endpoint, Placement, Placements, RingRegion, TransportChoice, Transports, system_sockets,
};
use builder::Printer;
use launch::LaunchState;
use printing::Printing;
use supervisor::Launches;

/// How long a proxy thread may take to answer its own net.
const ANSWER: Duration = Duration::from_secs(5);
/// How long kernels may take to end after the net told them to stop.
const STOP: Duration = Duration::from_secs(5);
/// How long the net's threads may take to end: longer than they send what is unsent.
const LEAVE: Duration = Duration::from_secs(7);

/// GPU memory that direct streams may take, at least; as a rule four times that of rings.
const LEAST_ARENAS: u64 = 256 << 20;

/// What a net needs for direct streams; the reason if it has none.
fn direct_streams(
    gpu: &Gpu,
    ring_memory: u64,
    policy: &Policy,
    transport: TransportChoice,
) -> Result<P2p, String> {
    if !matches!(transport, TransportChoice::Auto | TransportChoice::Local) {
        return Err("another transport was asked for".to_owned());
    }
    if policy.limits.slow() {
        return Err("the policy limits bytes, which nobody would count".to_owned());
    }
    P2p::new(gpu, ring_memory.saturating_mul(4).max(LEAST_ARENAS))
}

/// A net. Dropping it stops its kernels (their waits return ECANCELED), sends what is unsent,
/// closes all sockets and ends the threads, all within bounded time.
pub struct Net {
    gpu: Gpu,
    shared: Arc<Shared>,
    control: Arc<Control>,
    launches: Arc<Launches>,
    counters: Vec<Arc<Counters>>,
    threads: Vec<JoinHandle<()>>,
    supervisor: Option<JoinHandle<()>>,
    printing: Option<Printing>,
    without_rdma: Option<String>,
}

impl Net {
    /// A net on that GPU, to be shaped.
    pub fn builder(gpu: &Gpu) -> NetBuilder {
        NetBuilder::new(gpu)
    }

    fn start(
        gpu: Gpu,
        layout: Layout,
        ring_memory: u64,
        config: Config,
        policy: Policy,
        (transport, placements, words): (TransportChoice, Placements, WordPlacement),
        printer: Printer,
    ) -> Result<Self, NetError> {
        let system = |call| move |source: std::io::Error| NetError::System { call, source };
        let libraries = match transport {
            TransportChoice::Tcp => Err("tcp was asked for".to_owned()),
            TransportChoice::Local => Err("local was asked for".to_owned()),
            TransportChoice::Rdma => Ok(Rdma::look()?),
            TransportChoice::Auto => Rdma::look().map_err(|missing| missing.to_string()),
        };
        let rings_on_gpu = libraries.is_ok() && placements != Placements::only(Placement::Bounce);
        let local = match direct_streams(&gpu, ring_memory, &policy, transport) {
            Ok(local) => Some(local),
            Err(why) if transport == TransportChoice::Local => return Err(NetError::Local(why)),
            Err(why) => {
                tracing::info!(why, "no direct streams on this net");
                None
            }
        };
        let window = local.as_ref().map(|_| gpu.arena_window()).transpose()?;
        let (window, silence_ns) = (window.as_ref(), config.silence_ns);
        let words = CpuWords::new(&gpu, &layout, words)?;
        tracing::info!(place = %words.report(), "where kernels of this net poll");
        let ring_bytes = ring_memory as usize;
        let rings = u64::from(config.receive_ring) + u64::from(config.send_ring);
        let memory =
            Memory::new(&gpu, layout, words, ring_bytes, rings_on_gpu, window, silence_ns)?;
        let (host_rings, gpu_rings) = memory.rings();
        let gpu_ring_bytes = gpu_rings.as_ref().map_or(0, |rings| rings.len() as u64);
        let (rdma, without_rdma) = match libraries {
            Ok(libraries) => {
                let gpu = gpu.clone();
                (Some(Rdma::new(libraries, gpu, host_rings, gpu_rings, placements)), None)
            }
            Err(why) => {
                tracing::info!(why, "IP sockets of this net travel by tcp");
                (None, Some(why))
            }
        };
        let (print, lines) = printing::queue();
        let mut inboxes = Vec::new();
        let mut ends = Vec::new();
        for _ in 0..layout.shards {
            let (sender, receiver) = mpsc::channel();
            let flags =
                rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
            let waker = rustix::event::eventfd(0, flags)
                .map_err(|errno| system("eventfd")(errno.into()))?;
            let other = waker.try_clone().map_err(system("dup"))?;
            inboxes.push(Inbox { sender, waker });
            ends.push((receiver, other));
        }
        let shared = Arc::new(Shared {
            memory,
            pool: Pool::new(&layout, [ring_memory, gpu_ring_bytes])
                .reserving(config.reserved, rings),
            config,
            policy,
            transports: Transports::new(transport, system_sockets(), rdma, local),
            inboxes,
            launches: RunningLaunches::default(),
            drain: Drain::default(),
            waiting: Mutex::default(),
            printer: Mutex::new(print),
        });
        let control = Arc::new(Control::default());
        let launches = Arc::new(Launches::default());
        let mut net = Self {
            gpu,
            shared: Arc::clone(&shared),
            control: Arc::clone(&control),
            launches: Arc::clone(&launches),
            counters: Vec::new(),
            threads: Vec::new(),
            supervisor: None,
            printing: None,
            without_rdma,
        };
        for (id, (inbox, waker)) in ends.into_iter().enumerate() {
            let counters = Arc::new(Counters::default());
            net.counters.push(Arc::clone(&counters));
            let shard = Shard::new(id, Arc::clone(&shared), counters, inbox);
            let proxy = ProxyThread::new(shard, waker, Arc::clone(&control))
                .map_err(system("epoll_create"))?;
            let thread = std::thread::Builder::new()
                .name(format!("gpunet-proxy-{id}"))
                .spawn(move || proxy.run())
                .map_err(system("starting a proxy thread"))?;
            net.threads.push(thread);
        }
        let counters = net.counters.clone();
        let dropped = move || counters.iter().map(|counters| counters.print_dropped.get()).sum();
        let printing = Printing::start(lines, printer, dropped);
        net.printing = Some(printing.map_err(system("starting the printer thread"))?);
        let (drained, stop) = (Arc::clone(&shared), Arc::clone(&control));
        let drain = std::thread::Builder::new()
            .name("gpunet-drain".to_owned())
            .spawn(move || drained.drain.run(&drained, &stop.stopping))
            .map_err(system("starting the drain thread"))?;
        net.threads.push(drain);
        let supervisor = std::thread::Builder::new()
            .name("gpunet-supervisor".to_owned())
            .spawn(move || supervisor::run(&shared, &control, &launches))
            .map_err(system("starting the supervisor thread"))?;
        net.supervisor = Some(supervisor);
        Ok(net)
    }

    /// The GPU it lives on.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Why IP sockets of this net travel by TCP alone, if they do.
    #[must_use]
    pub fn without_rdma(&self) -> Option<&str> {
        self.without_rdma.as_deref()
    }

    /// What RDMA devices made of this net's rings: the placements that each refused, and why.
    #[must_use]
    pub fn rdma_adapters(&self) -> Vec<AdapterReport> {
        self.shared.transports.adapters()
    }

    /// Starts a kernel with this net as its first argument and `arguments` behind it.
    ///
    /// # Errors
    /// A launch that the GPU refuses, or a net that is of no more use.
    pub fn launch<A: KernelArgs>(
        &self,
        kernel: Kernel<A>,
        shape: Shape,
        arguments: A,
    ) -> Result<Launch, NetError> {
        self.check_alive()?;
        let (slot, epoch) = self.take_slot()?;
        self.shared.memory.clear_stop(slot as usize);
        // A proxy thread that panicked before then has told a launch that was not there yet.
        if let Err(error) = self.check_alive() {
            self.give_slot_back(slot);
            return Err(error);
        }
        let device_net = self.shared.memory.device_net(slot, epoch);
        let mut params = vec![crate::memory::bytes_of(&device_net)];
        arguments.each(&mut |address, bytes| params.push(crate::memory::bytes_at(address, bytes)));
        let entry = kernel.entry();
        let spec = LaunchSpec {
            module: kernel.module(),
            kernel: kernel.name(),
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            params,
            entry: Arc::new(move || entry(device_net, arguments)),
        };
        // Counted before it starts, so that the proxy is awake when its first request comes.
        self.control.running.fetch_add(1, Ordering::AcqRel);
        for inbox in &self.shared.inboxes {
            inbox.wake();
        }
        match self.gpu.launch(spec) {
            Ok(running) => {
                let state = Arc::new(LaunchState::new(slot, running, Arc::clone(&self.shared)));
                self.launches.lock().launches.push(Arc::clone(&state));
                Ok(Launch { state })
            }
            Err(error) => {
                self.control.running.fetch_sub(1, Ordering::AcqRel);
                self.give_slot_back(slot);
                Err(error.into())
            }
        }
    }

    /// Gives back the place of a launch that did not start.
    fn give_slot_back(&self, slot: u32) {
        self.shared.launches.set(slot, false);
        self.launches.lock().taken.remove(&slot);
    }

    /// A place for a launch, and its number among all launches of the net.
    fn take_slot(&self) -> Result<(u32, u64), NetError> {
        let mut running = self.launches.lock();
        if running.faulted {
            return Err(NetError::Faulted);
        }
        let slot = (0..MAX_LAUNCHES)
            .find(|slot| !running.taken.contains(slot))
            .ok_or(NetError::TooManyLaunches(MAX_LAUNCHES))?;
        running.taken.insert(slot);
        running.launched += 1;
        self.shared.launches.set(slot, true);
        Ok((slot, running.launched))
    }

    fn check_alive(&self) -> Result<(), NetError> {
        match self.control.words_lost.get() {
            Some(gone) => Err(NetError::WordsLost(*gone)),
            None if self.control.down.load(Ordering::Acquire) => Err(NetError::Down),
            None => Ok(()),
        }
    }

    /// Listens at an address, for kernels to accept from. Its handle, and the address with the
    /// port that the system chose.
    ///
    /// # Errors
    /// What the system says to bind or listen.
    pub fn listen(&self, address: impl Into<SocketAddr>) -> Result<(Handle, SocketAddr), NetError> {
        let address = address.into();
        let failed = |call| move |errno| NetError::Socket { call, errno };
        let domain = address.domain().ok_or(Errno::EAFNOSUPPORT).map_err(failed("listen"))?;
        let mut socket = self.shared.transports.make(domain).map_err(failed("socket"))?;
        socket.bind(&address).map_err(failed("bind"))?;
        socket.listen(BACKLOG).map_err(failed("listen"))?;
        let bound = socket.local_addr().map_err(failed("getsockname"))?;
        Ok((self.adopt(socket, true)?, bound))
    }

    /// Hands a connected or listening socket of the program over to kernels. It stays open when
    /// kernels end, and [`take_back`](Self::take_back) returns it.
    ///
    /// # Errors
    /// A socket that is no stream, or is neither connected nor listening; a full table.
    pub fn hand_over(&self, socket: impl Into<OwnedFd>) -> Result<Handle, NetError> {
        let failed = |errno| NetError::Socket { call: "hand_over", errno };
        let (socket, listens) = transport::adopt(socket.into()).map_err(failed)?;
        self.adopt(socket, listens)
    }

    fn adopt(&self, socket: Endpoint, listens: bool) -> Result<Handle, NetError> {
        self.check_alive()?;
        let failed = |errno| NetError::Socket { call: "hand_over", errno };
        let shared = &self.shared;
        let wishes = Wishes::of(&shared.config);
        let handle = shared.pool.take_handle(Account::Own).map_err(failed)?;
        let index = shared.index(handle);
        let mut made = Entry::new(handle, index, Owner::Host, wishes, Some(socket));
        let rings = if listens {
            let share = shared.config.unaccepted;
            let word = shared.memory.receive_head(index).load();
            shared.ring(share * 8, word).map(|ring| made.start_listening(shared, ring, share))
        } else {
            made.start_stream(StreamPhase::Open);
            made.take_rings(shared, Account::Own, RingRegion::Host)
        };
        if let Err(errno) = rings {
            made.give_back(shared);
            return Err(failed(errno));
        }
        made.publish(&shared.memory);
        shared.tell(handle.shard() as usize, Message::Adopt(Box::new(made)));
        Ok(handle)
    }

    /// Takes a socket back from kernels, once none runs on this net: the system's socket, and
    /// bytes that had arrived and that no kernel has read. What is unsent is sent first.
    ///
    /// # Errors
    /// A kernel still runs, the handle names no open stream or listener, or the peer does not
    /// take what is unsent within the linger time.
    pub fn take_back(&self, handle: Handle) -> Result<Released, NetError> {
        if self.control.running.load(Ordering::Acquire) > 0 {
            return Err(NetError::Busy);
        }
        if handle.shard() as usize >= self.shared.inboxes.len() {
            return Err(NetError::Socket { call: "take_back", errno: Errno::EBADF });
        }
        let deadline = Instant::now() + Duration::from_nanos(self.shared.config.linger_ns);
        loop {
            let (to, answer) = mpsc::channel();
            self.shared.tell(handle.shard() as usize, Message::Release { handle, to });
            let answer = answer.recv_timeout(ANSWER).map_err(|_| self.silent("take_back"))?;
            match answer {
                Err(Errno::EAGAIN) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                answer => {
                    return answer.map_err(|errno| NetError::Socket { call: "take_back", errno });
                }
            }
        }
    }

    fn silent(&self, call: &'static str) -> NetError {
        match self.check_alive() {
            Err(down) => down,
            Ok(()) => NetError::Silent { call, seconds: ANSWER.as_secs() },
        }
    }

    /// What the proxy has done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let (sockets, free_ring_bytes) = self.shared.pool.usage();
        let words = self.shared.memory.words_report().clone();
        let mut sum = Statistics { sockets, free_ring_bytes, words, ..Statistics::default() };
        for counters in &self.counters {
            sum.add(counters);
        }
        sum
    }

    /// Describes every socket: for a kernel that seems stuck.
    ///
    /// # Errors
    /// A proxy thread that does not answer.
    pub fn dump(&self) -> Result<Vec<SocketState>, NetError> {
        let mut all = Vec::new();
        for shard in 0..self.shared.inboxes.len() {
            let (to, answer) = mpsc::channel();
            self.shared.tell(shard, Message::Dump(to));
            all.extend(answer.recv_timeout(ANSWER).map_err(|_| self.silent("dump"))?);
        }
        Ok(all)
    }

    /// Tells all kernels of this net to stop: their waits return ECANCELED.
    pub fn abort(&self) {
        for launch in &self.launches.lock().launches {
            launch.stop(Errno::ECANCELED);
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.abort();
        let deadline = Instant::now() + STOP;
        while self.control.running.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(200));
        }
        let stuck: Vec<_> = self.launches.lock().launches.drain(..).collect();
        for launch in &stuck {
            // On CUDA a kernel ends by itself alone; its memory is kept until it does.
            let killed = launch.running.kill();
            tracing::error!(
                kernel = launch.running.kernel(),
                killed = killed.is_ok(),
                "a kernel did not stop with its net"
            );
            launch.stop(Errno::ENETDOWN);
            // The supervisor no longer looks after it: who holds the launch does.
            launch.orphan();
        }
        self.control.stopping.store(true, Ordering::Release);
        for inbox in &self.shared.inboxes {
            inbox.wake();
        }
        if let Some(supervisor) = &self.supervisor {
            supervisor.thread().unpark();
        }
        self.shared.drain.wake();
        let deadline = Instant::now() + LEAVE;
        for thread in self.threads.drain(..).chain(self.supervisor.take()) {
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_micros(200));
            }
            if thread.is_finished() {
                // A panic was caught and reported where it happened.
                let _ = thread.join();
            } else {
                // It hangs in a call of the system. What it uses lives as long as it does.
                let name = thread.thread().name().unwrap_or_default();
                tracing::error!(name, "a thread did not end with its net, and is left behind");
            }
        }
        if let Some(printing) = self.printing.take() {
            let queued = self.statistics().printed;
            let printer = self.shared.printer.lock().unwrap_or_else(PoisonError::into_inner);
            let queue = printer.clone();
            drop(printer);
            printing.finish(&queue, queued);
        }
    }
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
