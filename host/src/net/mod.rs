//! A net: memory, proxy threads, and the kernels that run on it.
//!
//! ```no_run
//! # use gpunet_device::{kernels, Handle};
//! # kernels! { pub fn server(net: Net, listener: Handle) { let _ = (net, listener); } }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use gpunet_host::{Gpu, GpuChoice, Net, Shape, Task};
//! let gpu = Gpu::open(GpuChoice::Auto)?;
//! let net = Net::builder(&gpu).sockets(1000).build()?;
//! let (listener, address) = net.listen("127.0.0.1:0".parse::<std::net::SocketAddr>()?)?;
//! println!("serving on {address}");
//! net.launch(server, Shape::new(8, 256).shared_memory(16 << 10), (listener,))?.wait()?;
//! # Ok(()) }
//! ```

pub mod builder;
mod faults;
#[cfg(feature = "fault-injection")]
mod injection;
mod kept;
mod launch;
mod launches;
mod lease;
mod printing;
pub mod queue;
mod raw;
mod sockets;
mod start;
mod state;
mod supervisor;
mod task;
mod watchdog;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpunet_device::abi::errno::Errno;

pub use crate::settings::policy::{Policy, Rule, RuleError};
pub use builder::NetBuilder;
pub use launch::{Launch, Shape};
pub use lease::{Lease, LeaseKernel};
pub use queue::{Batch, Completions, Graph, Prepared, StreamQueue};
pub use raw::RawArguments;
pub use sockets::ListenOptions;
pub use task::Task;

use crate::error::{DownError, SocketError};
use crate::gpu::{DeviceMemory, Gpu};
use crate::lock::lock;
use crate::proxy::control::Control;
use crate::proxy::message::Message;
use crate::proxy::shared::Shared;
use crate::proxy::statistics::{Counters, SocketState, Statistics};
use crate::transport::rdma::AdapterReport;
use faults::Faults;
use launches::Launches;
use printing::Printing;

/// How long a proxy thread may take to answer its own net.
const ANSWER: Duration = Duration::from_secs(5);
/// How long kernels may take to end after the net stopped them.
const STOP: Duration = Duration::from_secs(5);
/// How long the net's threads may take to end: longer than they send what is unsent.
const LEAVE: Duration = Duration::from_secs(7);

/// A net. Dropping it stops its kernels (their waits return ECANCELED), sends what is unsent,
/// closes all sockets and ends the threads, all within bounded time. A forked process drops nothing: the net
/// is its parent's.
pub struct Net {
    gpu: Gpu,
    shared: Arc<Shared>,
    control: Arc<Control>,
    launches: Arc<Mutex<Launches>>,
    faults: Arc<Faults>,
    counters: Vec<Arc<Counters>>,
    threads: Vec<JoinHandle<()>>,
    supervisor: Option<JoinHandle<()>>,
    printing: Option<Printing>,
    without_rdma: Option<String>,
    /// What operations of streams leave behind of sockets; made with the first queue.
    latches: OnceLock<Arc<DeviceMemory>>,
}

impl Net {
    /// A net on that GPU, to be shaped.
    pub fn builder(gpu: &Gpu) -> NetBuilder {
        NetBuilder::new(gpu)
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

    fn check_alive(&self) -> Result<(), DownError> {
        self.check_process()?;
        match self.control.control_memory_lost.get() {
            Some(gone) => Err(DownError::ControlMemoryLost(*gone)),
            None if self.control.down.load(Ordering::Acquire) => Err(DownError::Panicked),
            None => Ok(()),
        }
    }

    /// Whether this process has the net's threads.
    fn check_process(&self) -> Result<(), DownError> {
        Ok(self.gpu.check_process()?)
    }

    fn no_answer(&self, call: &'static str) -> SocketError {
        match self.check_alive() {
            Err(down) => down.into(),
            Ok(()) => SocketError::NoAnswer { call, seconds: ANSWER.as_secs() },
        }
    }

    /// What the proxy has done so far; nothing in a forked process.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        if self.check_process().is_err() {
            return Statistics::default();
        }
        let (sockets, free_ring_bytes) = self.shared.pool.usage();
        let control_memory = self.shared.memory.host_control.report().clone();
        let mut sum =
            Statistics { sockets, free_ring_bytes, control_memory, ..Statistics::default() };
        for counters in &self.counters {
            sum.add(counters);
        }
        sum
    }

    /// Describes every socket: for a kernel that seems stuck.
    ///
    /// # Errors
    /// A proxy thread that does not answer.
    pub fn dump(&self) -> Result<Vec<SocketState>, SocketError> {
        self.check_process()?;
        let mut all = Vec::new();
        for shard in 0..self.shared.queues.len() {
            let (to, answer) = mpsc::channel();
            self.shared.send(shard, Message::Dump(to));
            all.extend(answer.recv_timeout(ANSWER).map_err(|_| self.no_answer("dump"))?);
        }
        Ok(all)
    }

    /// Stops all kernels of this net: their waits return ECANCELED. Nothing happens in a forked process.
    pub fn abort(&self) {
        if self.check_process().is_err() {
            return;
        }
        for launch in &lock(&self.launches).launches {
            launch.stop(Errno::ECANCELED);
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            let threads = (std::mem::take(&mut self.threads), self.supervisor.take());
            let shared = (Arc::clone(&self.shared), Arc::clone(&self.faults));
            std::mem::forget((threads, self.printing.take(), shared));
            return;
        }
        self.abort();
        let launches = lock(&self.launches).launches.clone();
        // Without the lock: a lease is closed once nobody puts anything on its stream.
        launches.iter().for_each(|launch| launch.close());
        // What was put there meanwhile.
        self.abort();
        if let Some(supervisor) = &self.supervisor {
            supervisor.thread().unpark();
        }
        let deadline = Instant::now() + STOP;
        // Queues without work are launches, too.
        wait_until(deadline, || lock(&self.launches).taken.is_empty());
        let stuck: Vec<_> = lock(&self.launches).launches.drain(..).collect();
        self.control.stuck.fetch_add(stuck.len() as u32, Ordering::Relaxed);
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
        for queue in &self.shared.queues {
            queue.wake();
        }
        if let Some(supervisor) = &self.supervisor {
            supervisor.thread().unpark();
        }
        self.shared.drain.wake();
        let deadline = Instant::now() + LEAVE;
        for thread in self.threads.drain(..).chain(self.supervisor.take()) {
            wait_until(deadline, || thread.is_finished());
            if thread.is_finished() {
                // A panic was caught and reported where it happened.
                let _ = thread.join();
            } else {
                // It hangs in a call of the system. What it uses lives as long as it does.
                self.control.stuck.fetch_add(1, Ordering::Relaxed);
                let name = thread.thread().name().unwrap_or_default();
                tracing::error!(name, "a thread did not end with its net, and is left behind");
            }
        }
        self.faults.finish();
        if let Some(printing) = self.printing.take() {
            let queued = self.statistics().printed;
            let queue = lock(&self.shared.printer).clone();
            printing.finish(&queue, queued);
        }
    }
}

/// Waits until a condition holds, at most until the deadline.
fn wait_until(deadline: Instant, holds: impl Fn() -> bool) {
    while !holds() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_micros(200));
    }
}

debug_by_methods! {
    Net { statistics }
    Launch { kernel, number, is_finished }
    Lease { number, streams, is_finished }
    StreamQueue { stream }
    Completions { statuses }
    Graph<'_> { statuses }
    Prepared { statuses }
}
