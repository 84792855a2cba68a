//! How a net begins: its transports, its memory, then its threads.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

use gpunet_device::abi::layout::Layout;
use rsocket_shim::load::Libraries;
use rustix::event::{EventfdFlags, eventfd};

use super::Net;
use super::NetBuilder;
use super::builder::Printer;
use super::faults::Faults;
use super::printing::{self, Line, Printing};
use super::supervisor::Supervisor;
use crate::error::{MemoryError, NetError};
use crate::memory::{HostControl, Memory};
use crate::pool::Pool;
use crate::proxy::drain::Drain;
use crate::proxy::message::Message;
use crate::proxy::running::RunningLaunches;
use crate::proxy::shard::Shard;
use crate::proxy::shared::{MessageQueue, Shared};
use crate::proxy::statistics::Counters;
use crate::proxy::thread::ProxyThread;
use crate::transport::linux::Linux;
use crate::transport::p2p::P2p;
use crate::transport::rdma::Rdma;
use crate::transport::{Placement, Placements, Provider, TransportChoice, Transports};

/// GPU memory that p2p streams may take, at least; as a rule four times that of rings.
const LEAST_ARENAS: u64 = 256 << 20;

/// What a net is made from, as its builder has checked it.
pub(super) struct Plan {
    pub(super) builder: NetBuilder,
    pub(super) layout: Layout,
    pub(super) ring_memory: u64,
}

/// Where a shard gets its messages, and what wakes it.
type ShardEnd = (Receiver<Message>, OwnedFd);

impl Plan {
    /// What p2p streams need; none where the net does without.
    fn p2p(&self) -> Result<Option<P2p>, NetError> {
        let p2p =
            if !matches!(self.builder.transport, TransportChoice::Auto | TransportChoice::Local) {
                Err("another transport was asked for".to_owned())
            } else if self.builder.policy.limits.slow() {
                Err("the policy limits bytes, which nobody would count".to_owned())
            } else {
                let most = self.ring_memory.saturating_mul(4).max(LEAST_ARENAS);
                P2p::new(&Linux, &self.builder.gpu, most)
            };
        match p2p {
            Ok(p2p) => Ok(Some(p2p)),
            Err(why) if self.builder.transport == TransportChoice::Local => {
                Err(NetError::Local(why))
            }
            Err(why) => {
                tracing::info!(why, "no p2p streams on this net");
                Ok(None)
            }
        }
    }

    fn memory(&self, has_rdma: bool, has_p2p: bool) -> Result<Memory, NetError> {
        let window = has_p2p.then(|| self.builder.gpu.arena_window()).transpose()?;
        let control =
            HostControl::new(&self.builder.gpu, &self.layout, self.builder.control_memory)?;
        tracing::info!(control_memory = %control.report(), "where kernels of this net poll");
        Ok(Memory::new(
            &self.builder.gpu,
            self.layout,
            control,
            self.ring_memory as usize,
            has_rdma && self.builder.placements != Placements::only(Placement::Bounce),
            window.as_ref(),
            self.builder.config.heartbeat_timeout_ns,
        )?)
    }
}

impl Net {
    pub(super) fn start(plan: Plan) -> Result<Self, NetError> {
        plan.builder.gpu.check_process().map_err(MemoryError::from)?;
        let libraries = match plan.builder.transport {
            TransportChoice::Tcp => Err("tcp was asked for".to_owned()),
            TransportChoice::Local => Err("local was asked for".to_owned()),
            TransportChoice::Rdma => Ok(Libraries::load()?),
            TransportChoice::Auto => Libraries::load().map_err(|missing| missing.to_string()),
        };
        let p2p = plan.p2p()?;
        let memory = plan.memory(libraries.is_ok(), p2p.is_some())?;
        let Plan { builder, layout, ring_memory } = plan;
        let NetBuilder { gpu, config, .. } = builder;
        let (host_rings, gpu_rings) = memory.rings();
        let ring_bytes = [ring_memory, gpu_rings.as_ref().map_or(0, |rings| rings.len() as u64)];
        // In the order in which they are tried.
        let mut providers: Vec<Arc<dyn Provider>> = Vec::new();
        providers.extend(p2p.map(|p2p| Arc::new(p2p) as _));
        let without_rdma = libraries.map(|libraries| {
            let (gpu, placements) = (gpu.clone(), builder.placements);
            let rdma = Rdma::new(libraries, gpu, host_rings, gpu_rings, placements);
            providers.push(Arc::new(rdma));
        });
        let without_rdma = without_rdma.err();
        if let Some(why) = &without_rdma {
            tracing::info!(why, "IP sockets of this net travel by tcp");
        }
        let rings = 2 * u64::from(config.ring);
        let (print, lines) = printing::queue();
        let (queues, ends) = message_queues(layout.shards)?;
        let mut net = Self {
            gpu,
            shared: Arc::new(Shared {
                memory,
                pool: Pool::new(&layout, ring_bytes).reserving(config.reserved, rings),
                config,
                policy: builder.policy,
                transports: Transports::new(builder.transport, &Linux, providers),
                queues,
                launches: RunningLaunches::default(),
                drain: Drain::default(),
                waiting: Mutex::default(),
                printer: Mutex::new(print),
                on_free: |_| {},
            }),
            control: Arc::default(),
            launches: Arc::default(),
            faults: Arc::new(Faults::new(builder.on_fault)),
            counters: Vec::new(),
            threads: Vec::new(),
            supervisor: None,
            printing: None,
            without_rdma,
            latches: OnceLock::new(),
        };
        // Dropped where one of its threads does not start, which ends the others.
        net.start_proxy(ends)?;
        net.start_others(lines, builder.printer)?;
        Ok(net)
    }

    fn start_proxy(&mut self, ends: Vec<ShardEnd>) -> Result<(), NetError> {
        for (id, (queue, waker)) in ends.into_iter().enumerate() {
            let counters = Arc::new(Counters::default());
            self.counters.push(Arc::clone(&counters));
            let shard = Shard::new(id, Arc::clone(&self.shared), counters, queue);
            let proxy = ProxyThread::new(shard, waker, Arc::clone(&self.control))
                .map_err(failed("epoll_create"))?;
            let thread = spawn(format!("gpunet-proxy-{id}"), move || proxy.run());
            self.threads.push(thread.map_err(failed("starting a proxy thread"))?);
        }
        Ok(())
    }

    fn start_others(&mut self, lines: Receiver<Line>, printer: Printer) -> Result<(), NetError> {
        let counters = self.counters.clone();
        let dropped = move || counters.iter().map(|counters| counters.print_dropped.get()).sum();
        let printing = Printing::start(lines, printer, dropped);
        self.printing = Some(printing.map_err(failed("starting the printer thread"))?);
        let (shared, control) = (Arc::clone(&self.shared), Arc::clone(&self.control));
        let drain = move || shared.drain.run(&shared, &control.stopping);
        let drain = spawn("gpunet-drain".to_owned(), drain);
        self.threads.push(drain.map_err(failed("starting the drain thread"))?);
        let (gpu, shared) = (self.gpu.clone(), Arc::clone(&self.shared));
        let (control, launches) = (Arc::clone(&self.control), Arc::clone(&self.launches));
        let faults = Arc::clone(&self.faults);
        let run = move || Supervisor::new(&gpu, &shared, &control, &launches, &faults).run();
        let supervisor = spawn("gpunet-supervisor".to_owned(), run);
        self.supervisor = Some(supervisor.map_err(failed("starting the supervisor thread"))?);
        Ok(())
    }
}

/// The ways to the shards, and the shards' ends of them.
fn message_queues(shards: u32) -> Result<(Vec<MessageQueue>, Vec<ShardEnd>), NetError> {
    let (mut queues, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..shards {
        let (sender, receiver) = mpsc::channel();
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| failed("eventfd")(errno.into()))?;
        let other = waker.try_clone().map_err(failed("dup"))?;
        queues.push(MessageQueue { sender, waker });
        ends.push((receiver, other));
    }
    Ok((queues, ends))
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(run)
}

fn failed(call: &'static str) -> impl Fn(io::Error) -> NetError {
    move |source| NetError::System { call, source }
}
