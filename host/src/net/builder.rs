//! What a net is made with: the builder and its defaults.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use gpunet_device::Handle;
use gpunet_device::abi::layout::Layout;

use super::Net;
use super::faults::OnFault;
use super::start::Plan;
use crate::error::NetError;
use crate::gpu::{Gpu, GpuKind, KernelError};
use crate::memory::ControlMemory;
use crate::pool::{LARGEST_RING, ring_capacity};
use crate::settings::config::{Config, Pacing};
use crate::settings::policy::Policy;
use crate::transport::{Placements, TransportChoice};

/// The shortest heartbeat timeout. A thread that is well may wait this long for a core, and the supervisor,
/// too, which counts a gap between two of its looks as 20 ms.
pub(super) const SHORTEST_HEARTBEAT_TIMEOUT: Duration = Duration::from_millis(100);

/// Takes a line that a kernel printed, with the launch it came from.
type PrintLine = dyn Fn(u32, &str) + Send + Sync;

/// What happens to lines that kernels print. Called by the net's printer thread.
#[derive(Clone)]
pub(super) struct Printer {
    /// For each line.
    pub(super) line: Arc<PrintLine>,
    /// Is called with how many lines were dropped because their reader was too slow.
    pub(super) dropped: Arc<dyn Fn(u64) + Send + Sync>,
}

impl Printer {
    fn standard_output() -> Self {
        // Nobody who reads it is no reason to panic, as println would.
        Self {
            line: Arc::new(|launch, line| {
                let _ = writeln!(std::io::stdout(), "[launch {launch}] {line}");
            }),
            dropped: Arc::new(|count| {
                let why = "the reader of standard output is too slow";
                let _ = writeln!(std::io::stdout(), "[gpunet] {count} lines dropped: {why}");
            }),
        }
    }
}

/// Makes a [`Net`].
///
/// All memory is taken when the net is made: `sockets` slots in the tables, and `ring_memory`
/// for rings (each connection takes two).
#[derive(Clone)]
#[must_use]
pub struct NetBuilder {
    pub(super) gpu: Gpu,
    sockets: u32,
    reserved: Option<u32>,
    ring_memory: Option<u64>,
    proxy_threads: u32,
    request_slots: u32,
    /// What the proxy is told; whatever depends on other settings is filled in at the end.
    pub(super) config: Config,
    pub(super) policy: Policy,
    pub(super) transport: TransportChoice,
    pub(super) placements: Placements,
    pub(super) control_memory: ControlMemory,
    pub(super) printer: Printer,
    pub(super) on_fault: Option<Arc<OnFault>>,
}

/// Half of what a word holds, at most: a time can be added to any clock.
fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(u64::MAX / 2, |ns| ns.min(u64::MAX / 2))
}

impl NetBuilder {
    pub(super) fn new(gpu: &Gpu) -> Self {
        let spin = match gpu.info().kind {
            GpuKind::Emulated => Duration::from_micros(20),
            _ => Duration::from_millis(1),
        };
        Self {
            gpu: gpu.clone(),
            sockets: 256,
            reserved: None,
            ring_memory: None,
            proxy_threads: 1,
            request_slots: 64,
            config: Config {
                ring: 64 << 10,
                unaccepted: 16,
                reserved: 0,
                timeout_ns: 0,
                heartbeat_timeout_ns: ns(Duration::from_secs(10)),
                linger_ns: ns(Duration::from_secs(30)),
                shutdown_ns: ns(Duration::from_secs(5)),
                spin_ns: ns(spin),
                idle_sleep_ns: ns(Duration::from_micros(50)),
                longest_sleep_ns: ns(Duration::from_millis(100)),
                pacing: Pacing::USUAL,
            },
            policy: Policy::open(),
            transport: TransportChoice::Auto,
            placements: Placements::ALL,
            control_memory: ControlMemory::Auto,
            printer: Printer::standard_output(),
            on_fault: None,
        }
    }

    /// Sockets that can be open at once (256), listeners and pollers included; and, beside these,
    /// those of [`reserved`](Self::reserved).
    pub fn sockets(mut self, sockets: u32) -> Self {
        self.sockets = sockets;
        self
    }

    /// Sockets that peers cannot take, beside [`sockets`](Self::sockets): what kernels make themselves,
    /// listeners and pollers included, finds room however many connections there are. A quarter of
    /// `sockets`, and at most 64, unless it is set.
    pub fn reserved(mut self, sockets: u32) -> Self {
        self.reserved = Some(sockets);
        self
    }

    /// Connections that a listener may have and that no kernel has accepted yet (16, or its backlog if
    /// that is less). Only these cost the net something; further peers wait in the system's queue, up
    /// to the backlog.
    pub fn unaccepted(mut self, connections: u32) -> Self {
        self.config.unaccepted = connections;
        self
    }

    /// Capacity of each of a connection's two rings (64 KiB) unless its socket asks for another;
    /// rounded up to a power of two from 4 KiB to 1 GiB.
    pub fn ring(mut self, bytes: u32) -> Self {
        self.config.ring = bytes;
        self
    }

    /// Memory for all rings; by default enough for all sockets with rings of the default size.
    pub fn ring_memory(mut self, bytes: u64) -> Self {
        self.ring_memory = Some(bytes);
        self
    }

    /// Proxy threads (1). A socket stays with one for life.
    pub fn proxy_threads(mut self, threads: u32) -> Self {
        self.proxy_threads = threads;
        self
    }

    /// Requests that can be under way at once for each proxy thread (64).
    pub fn request_slots(mut self, slots: u32) -> Self {
        self.request_slots = slots;
        self
    }

    /// How long calls of a kernel may wait unless its socket says otherwise; zero (the default):
    /// no limit, though a stopped launch or a dead proxy still ends every wait.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout_ns = ns(timeout);
        self
    }

    /// How long a closed socket may take to send what is unsent (30 s).
    pub fn linger(mut self, linger: Duration) -> Self {
        self.config.linger_ns = ns(linger);
        self
    }

    /// How long the proxy's heartbeat may stand still before kernels take it for dead (10 s); at
    /// least 100 ms, which a thread that is well may have to wait for a core.
    pub fn heartbeat_timeout(mut self, heartbeat_timeout: Duration) -> Self {
        self.config.heartbeat_timeout_ns = ns(heartbeat_timeout);
        self
    }

    /// How long a proxy thread polls after the last event before it sleeps (1 ms; 20 us on the
    /// emulated GPU, whose threads need the same cores).
    pub fn spin(mut self, spin: Duration) -> Self {
        self.config.spin_ns = ns(spin);
        self
    }

    /// How long such a sleep is at most (50 us): the latency that a quiet connection pays. The first sleep
    /// after work is 10 us, and later ones are as long as nothing has happened. With more than 200 us the end of
    /// a kernel is noticed up to eight such sleeps later, 20 ms at most. At most half the heartbeat timeout.
    pub fn idle_sleep(mut self, sleep: Duration) -> Self {
        self.config.idle_sleep_ns = ns(sleep);
        self
    }

    /// What kernels may connect to and bind, how many sockets they may have, and how many bytes they
    /// may move; by default whatever the program's user may, and the net has room for. A refused
    /// call gets EACCES, is counted ([`Statistics::denied`](crate::Statistics::denied)) and logged.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How sockets with IP addresses travel unless they say otherwise: by default straight from kernel
    /// to kernel where both are on this machine, else RDMA where both ends have it, else TCP.
    pub fn transport(mut self, transport: TransportChoice) -> Self {
        self.transport = transport;
        self
    }

    /// Where the rings of RDMA streams may lie unless a socket says otherwise: by default wherever
    /// the device can reach them, GPU memory first.
    pub fn placements(mut self, placements: Placements) -> Self {
        self.placements = placements;
        self
    }

    /// Where the words lie that kernels poll: by default in GPU memory where the CPU can map it,
    /// else in host memory. What was chosen, and why, is in
    /// [`Statistics::control_memory`](crate::Statistics::control_memory). On hardware that has such a mapping this
    /// has not run yet.
    pub fn control_memory(mut self, memory: ControlMemory) -> Self {
        self.control_memory = memory;
        self
    }

    /// What happens to lines that kernels print; by default they go to standard output. A thread of
    /// its own calls it, and nothing else waits for it: up to 1,024 lines wait while it is busy,
    /// more are dropped, counted ([`Statistics::print_dropped`](crate::Statistics::print_dropped))
    /// and logged. A net that is dropped gives it two seconds for those that wait.
    pub fn on_print(mut self, printer: impl Fn(u32, &str) + Send + Sync + 'static) -> Self {
        let dropped =
            |count| tracing::warn!("{count} lines dropped: the net's printer is too slow");
        self.printer = Printer { line: Arc::new(printer), dropped: Arc::new(dropped) };
        self
    }

    /// Called when a kernel of the net faults, with the launch's number, the kernel's name and how it
    /// ended: at once, whether or not anyone waits for the launch. A thread of its own calls it, and
    /// nothing else waits for it, but for two seconds a net that is dropped. Faults are logged as
    /// errors with or without it.
    ///
    /// A net whose kernel has faulted launches no more. Listeners that the program made and passed to
    /// that launch alone are closed, so that clients see the end and do not wait; all of them once no
    /// kernel of the net runs, or when the GPU's context is lost.
    pub fn on_fault(
        mut self,
        on_fault: impl Fn(u32, &str, &KernelError) + Send + Sync + 'static,
    ) -> Self {
        self.on_fault = Some(Arc::new(on_fault));
        self
    }

    /// Makes the net and starts its proxy threads.
    ///
    /// # Errors
    /// Settings that make no sense or that this machine cannot fulfil, or memory and threads that
    /// cannot be had.
    pub fn build(mut self) -> Result<Net, NetError> {
        let check =
            |ok: bool, what: &'static str| if ok { Ok(()) } else { Err(NetError::Setting(what)) };
        check((1..=64).contains(&self.proxy_threads), "proxy threads: 1 to 64")?;
        let reserved = self.reserved.unwrap_or((self.sockets / 4).min(64));
        let socket_slots =
            self.sockets.saturating_add(reserved).div_ceil(self.proxy_threads.max(1));
        check(
            self.sockets > 0 && socket_slots <= Handle::MAX_SLOTS,
            "sockets: 1 to 1048576 a thread",
        )?;
        check((1..=4096).contains(&self.config.unaccepted), "unaccepted connections: 1 to 4096")?;
        check((1..=4096).contains(&self.request_slots), "request slots: 1 to 4096")?;
        check((1..=LARGEST_RING).contains(&self.config.ring), "ring: 1 byte to 1 GiB")?;
        check(
            self.config.heartbeat_timeout_ns >= ns(SHORTEST_HEARTBEAT_TIMEOUT),
            "heartbeat timeout: at least 100 ms",
        )?;
        // No heartbeat is written in such a sleep, which may be longer than asked for.
        check(
            self.config.idle_sleep_ns <= self.config.heartbeat_timeout_ns / 2,
            "idle sleep: at most half the heartbeat timeout",
        )?;
        let layout =
            Layout { shards: self.proxy_threads, socket_slots, request_slots: self.request_slots };
        let ring = ring_capacity(self.config.ring);
        let events = (u64::from(self.sockets) * 16).next_power_of_two();
        let ring_memory = self.ring_memory.unwrap_or_else(|| {
            // Room for listeners' and pollers' rings beside those of all connections.
            layout.sockets() as u64 * 2 * u64::from(ring) + 2 * events.max(64 << 10)
        });
        check(ring_memory >= 2 * u64::from(ring), "ring memory: at least two rings")?;
        let ring_memory = ring_memory
            .checked_next_multiple_of(u64::from(crate::pool::SMALLEST_RING))
            .ok_or(NetError::Setting("ring memory: less than there are addresses"))?;
        (self.config.reserved, self.config.ring) = (reserved, ring);
        Net::start(Plan { builder: self, layout, ring_memory })
    }
}
