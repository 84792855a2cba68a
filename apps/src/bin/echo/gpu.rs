//! The ends that run in kernels: launches through gpunet-host, and what comes back from them.

use std::cell::Cell;
use std::time::{Duration, Instant};

use gpunet_apps::failure::Failure;
use gpunet_apps::stop::Stop;
use gpunet_apps::transport::{self, RingPlacement, SocketTransport, Travelled};
use gpunet_device::{Errno, Handle, SocketAddr};
use gpunet_host::{AdapterReport, Gpu, Launch, Net, NetError, Shape};
use gpunet_kernels::echo::{Work, echo_client, echo_server, stream_sink, stream_source};

use crate::address::{cannot_connect, cannot_listen};
use crate::end::{End, RoundTrips, SEED, Server, Service, Streaming};
use crate::results::Results;

/// Shared memory of a block, at least; the kernels' buffers lie there.
const LEAST_SHARED: u64 = 16 << 10;
/// And at most: what every GPU grants, and more blocks fit beside each other.
pub(crate) const MOST_SHARED: u64 = 48 << 10;
/// How often a wait for a kernel looks whether the program should stop.
const LOOK: Duration = Duration::from_millis(50);
/// How long a kernel that was told to stop may take.
const STOPPING: Duration = Duration::from_secs(5);

/// How the kernels are launched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Blocks of a server: connections that it serves at once.
    pub(crate) blocks: u32,
    /// Threads of a block.
    pub(crate) threads: u32,
    pub(crate) proxy_threads: u32,
    /// Bytes of each of a connection's two rings.
    pub(crate) ring: u32,
    /// Connections of a client.
    pub(crate) connections: u32,
    /// The largest message, where known.
    pub(crate) largest: u64,
    pub(crate) transport: SocketTransport,
    pub(crate) placement: Option<RingPlacement>,
    /// How long a client's kernel waits for its connection. A server's waits for peers, with no limit.
    pub(crate) timeout: Option<Duration>,
}

/// Ends that run on the GPU, on one net.
pub(crate) struct GpuEnd {
    gpu: Gpu,
    net: Net,
    settings: Settings,
    stop: Stop,
    travelled: Cell<Option<Travelled>>,
}

impl GpuEnd {
    pub(crate) fn new(gpu: &Gpu, settings: Settings, stop: &Stop) -> Result<Self, Failure> {
        // Both ends may be here, and the connections of one measurement may still close while
        // those of the next open.
        let sockets = 4 * settings.connections + 2 * settings.blocks + 32;
        let net = Net::builder(gpu)
            .sockets(sockets)
            .ring(settings.ring)
            .proxy_threads(settings.proxy_threads)
            .transport(settings.transport.into())
            .placements(RingPlacement::of_net(settings.placement))
            .timeout(settings.timeout.unwrap_or_default())
            .build()
            .map_err(|error| match error {
                NetError::Rdma(missing) => Failure::refused(missing.to_string()),
                NetError::Local(why) => transport::without_local(&why),
                error => {
                    Failure::refused(format!("{error}; a smaller --ring or fewer blocks need less"))
                }
            })?;
        let travelled = Cell::default();
        Ok(Self { gpu: gpu.clone(), net, settings, stop: stop.clone(), travelled })
    }

    /// How its sockets travel.
    pub(crate) fn transport(&self) -> SocketTransport {
        self.settings.transport
    }

    /// Why no socket travels by RDMA, if that is so.
    pub(crate) fn without_rdma(&self) -> Option<&str> {
        self.net.without_rdma()
    }

    /// What the RDMA devices that were used made of the rings.
    pub(crate) fn rdma_devices(&self) -> Vec<AdapterReport> {
        self.net.rdma_adapters()
    }

    /// What a failure comes from.
    fn because(&self, failure: Failure) -> Failure {
        transport::refusal(&self.net, self.settings.placement).unwrap_or(failure)
    }

    fn target<'a>(&self, to: &'a SocketAddr) -> Target<'a> {
        Target { to, transport: self.settings.transport }
    }

    fn shape(&self, blocks: u32, wanted: u64) -> Shape {
        let shared = wanted.next_multiple_of(32).clamp(LEAST_SHARED, MOST_SHARED);
        let shared = shared.min(u64::from(self.gpu.info().max_shared_bytes));
        Shape::new(blocks, self.settings.threads).shared_memory(shared as u32)
    }

    fn work(&self, to: &SocketAddr, messages: u64, bytes: u64, timeout: Duration) -> Work {
        Work {
            server: *to,
            messages,
            bytes,
            seed: SEED,
            ring: u64::from(self.settings.ring),
            timeout_ns: timeout.as_nanos() as u64,
        }
    }

    /// Waits for a client's kernel. All its calls have a time-out, so it ends by itself, unless
    /// something is wrong with it: then nothing moves for longer than that.
    fn finish(&self, launch: &Launch, timeout: Duration) -> Result<(), Failure> {
        let transferred_bytes = || {
            let statistics = self.net.statistics();
            statistics.sent_bytes + statistics.received_bytes
        };
        // Nobody counts what goes straight from kernel to kernel.
        let may_be_p2p =
            matches!(self.settings.transport, SocketTransport::Auto | SocketTransport::Local);
        let mut counted = !may_be_p2p;
        let mut transferred = transferred_bytes();
        let mut since = Instant::now();
        loop {
            match launch.wait_for(LOOK) {
                Err(gpunet_host::LaunchError::StillRunning(_)) => {}
                ended => return Ok(ended?),
            }
            if self.stop.is_set() {
                end(launch)?;
                return Err(Failure::Interrupted);
            }
            let now = transferred_bytes();
            if now != transferred {
                (transferred, since, counted) = (now, Instant::now(), true);
            } else if counted && since.elapsed() > timeout * 2 + STOPPING {
                end(launch)?;
                let kernel = launch.kernel();
                return Err(Failure::lost(format!("{kernel} neither moved a byte nor gave up")));
            }
        }
    }
}

impl End for GpuEnd {
    fn serve(&self, service: Service, at: &SocketAddr) -> Result<Box<dyn Server + '_>, Failure> {
        let (listener, address) = self.net.listen(*at).map_err(|error| match error {
            NetError::Listen { errno, .. } => {
                cannot_listen(at, &std::io::Error::from_raw_os_error(errno.0))
            }
            error => error.into(),
        })?;
        let shape = self.shape(self.settings.blocks, self.settings.largest);
        let launch = match service {
            Service::Echo => self.net.launch(echo_server, shape, (listener,)),
            Service::Sink => self.net.launch(stream_sink, shape, (listener, SEED)),
        };
        match launch {
            Ok(launch) => Ok(Box::new(GpuServer { end: self, listener, address, launch })),
            Err(error) => {
                let _ = self.net.take_back(listener);
                Err(error.into())
            }
        }
    }

    fn round_trips(&self, to: &SocketAddr, work: &RoundTrips) -> Result<Vec<u64>, Failure> {
        let blocks = work.connections as usize;
        let results = Results::new(&self.gpu, blocks, work.messages as usize)?;
        let kernel_work = self.work(to, work.messages, work.bytes, work.timeout);
        let shape = self.shape(work.connections, 2 * work.bytes);
        let arguments = (kernel_work, results.samples(), results.outcomes());
        let launch = self.net.launch(echo_client, shape, arguments)?;
        self.finish(&launch, work.timeout)?;
        self.travelled.set(results.travelled()?);
        let checked = results.check("round trip", self.target(to), work.messages * work.bytes);
        checked.map_err(|failure| self.because(failure))?;
        results.round_trips_ns()
    }

    fn stream(&self, to: &SocketAddr, work: &Streaming) -> Result<Duration, Failure> {
        let results = Results::new(&self.gpu, work.connections as usize, 0)?;
        let kernel_work = self.work(to, 0, work.bytes, work.timeout);
        let shape = self.shape(work.connections, MOST_SHARED);
        let launch = self.net.launch(stream_source, shape, (kernel_work, results.outcomes()))?;
        self.finish(&launch, work.timeout)?;
        let checked = results.check("stream", self.target(to), work.bytes);
        checked.map_err(|failure| self.because(failure))?;
        results.slowest()
    }

    fn take_travelled(&self) -> Option<Travelled> {
        self.travelled.take()
    }
}

/// Where a client's blocks connect to, and how.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    to: &'a SocketAddr,
    transport: SocketTransport,
}

/// Why a block did not reach its server, or what happened to it then.
pub(crate) fn of_block(doing: &str, at: Target<'_>, connected: bool, errno: Errno) -> Failure {
    use std::io::ErrorKind as Kind;
    let error = std::io::Error::from_raw_os_error(errno.0);
    let no_way = matches!(
        error.kind(),
        Kind::ConnectionRefused
            | Kind::NotFound
            | Kind::PermissionDenied
            | Kind::NetworkUnreachable
            | Kind::HostUnreachable
    );
    let no_answer = matches!(error.kind(), Kind::TimedOut | Kind::CrossesDevices);
    let no_device = errno == Errno::ENODEV;
    if no_way || no_device || no_answer && !connected {
        return cannot_connect(at.to, at.transport, &error);
    }
    Failure::of_kernel(doing, errno)
}

/// Tells a kernel to stop and waits for it.
fn end(launch: &Launch) -> Result<(), Failure> {
    if !launch.is_finished() {
        launch.abort();
    }
    Ok(launch.wait_for(STOPPING)?)
}

/// A server's kernel, and the listener that it accepts from.
struct GpuServer<'n> {
    end: &'n GpuEnd,
    listener: Handle,
    address: SocketAddr,
    launch: Launch,
}

impl Server for GpuServer<'_> {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn watch(&self) -> Result<(), Failure> {
        match self.launch.wait_for(LOOK) {
            Err(gpunet_host::LaunchError::StillRunning(_)) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(()) => Err(self.end.because(Failure::lost("the server's kernel ended by itself"))),
        }
    }

    fn stop(self: Box<Self>) -> Result<(), Failure> {
        end(&self.launch)
    }
}

impl Drop for GpuServer<'_> {
    fn drop(&mut self) {
        // After `stop` these find nothing left to do; on the way out of an error they do it all.
        let ended = end(&self.launch);
        if ended.is_ok() && self.end.net.take_back(self.listener).is_ok() {
            // A socket that was taken back keeps its path.
            if let Some(path) = self.address.to_path() {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
