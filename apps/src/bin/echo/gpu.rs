//! The ends that run in kernels: launches through gpunet-host, and what comes back from them.

use std::time::{Duration, Instant};

use gpunet_device::{Errno, Handle, SocketAddr};
use gpunet_host::gpu::{EmulatedOptions, GpuInfo};
use gpunet_host::{Gpu, GpuChoice, GpuKind, Launch, Module, Net, NetError, Shape};
use gpunet_kernels::echo::{Work, echo_client, echo_server, stream_sink, stream_source};

use crate::address::{cannot_connect, cannot_listen};
use crate::end::{End, RoundTrips, SEED, Server, Service, Streaming};
use crate::failure::{Failure, one_line};
use crate::results::Results;
use crate::stop::Stop;

/// Shared memory of a block, at least; the kernels' buffers lie there.
const LEAST_SHARED: u64 = 16 << 10;
/// And at most: what every GPU grants, and more blocks fit beside each other.
const MOST_SHARED: u64 = 48 << 10;
/// How often a wait for a kernel looks whether the program should stop.
const LOOK: Duration = Duration::from_millis(50);
/// How long a kernel that was told to stop may take.
const STOPPING: Duration = Duration::from_secs(5);

static MODULE: Module = gpunet_host::include_module!("gpunet_kernels");

/// Opens a GPU with the kernels loaded; and why that one.
///
/// With `auto`, a CUDA device that cannot run what this build holds makes way for the emulated
/// GPU, and one line on standard error says so.
pub(crate) fn open(choice: &GpuChoice) -> Result<(Gpu, String), Failure> {
    let gpu = Gpu::open(choice.clone())?;
    match gpu.load(&MODULE) {
        Ok(()) => {
            let reason = gpu.info().reason.clone();
            Ok((gpu, reason))
        }
        Err(error) if matches!(choice, GpuChoice::Auto) => {
            let reason = format!("{} is not used: {}", gpu.info().name, one_line(&error.to_string()));
            eprintln!("echo: {reason}; using the emulated GPU");
            let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default()))?;
            gpu.load(&MODULE)?;
            Ok((gpu, reason))
        }
        Err(error) => Err(error.into()),
    }
}

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
}

/// Threads of a block where the user did not choose: an emulated one costs a switch for each.
pub(crate) fn default_threads(info: &GpuInfo) -> u32 {
    match info.kind {
        GpuKind::Emulated => 32,
        _ => 256,
    }
}

/// Ends that run on the GPU, on one net.
pub(crate) struct GpuEnd {
    gpu: Gpu,
    net: Net,
    settings: Settings,
    stop: Stop,
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
            .build()?;
        Ok(Self { gpu: gpu.clone(), net, settings, stop: stop.clone() })
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
            patience_ns: timeout.as_nanos() as u64,
        }
    }

    /// Waits for a client's kernel, which ends by itself: all its calls have a time-out.
    fn finish(&self, launch: &Launch, limit: Duration) -> Result<(), Failure> {
        let begin = Instant::now();
        loop {
            match launch.wait_for(LOOK) {
                Err(gpunet_host::LaunchError::StillRunning(_)) => {}
                ended => return Ok(ended?),
            }
            let interrupted = self.stop.is_set();
            if interrupted || begin.elapsed() > limit {
                end(launch)?;
                let late = format!("{} did not end within {limit:?}", launch.kernel());
                return Err(if interrupted { Failure::Interrupted } else { Failure::lost(late) });
            }
        }
    }
}

impl End for GpuEnd {
    fn serve(&self, service: Service, at: &SocketAddr) -> Result<Box<dyn Server + '_>, Failure> {
        let (listener, address) = self.net.listen(*at).map_err(|error| match error {
            NetError::Socket { errno, .. } => {
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
            Ok(launch) => Ok(Box::new(GpuServer { net: &self.net, listener, address, launch })),
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
        // Each call may take the time-out; no measurement that works comes near the sum.
        self.finish(&launch, work.timeout * 4 + Duration::from_secs(120))?;
        results.check("round trip", to, work.messages * work.bytes)?;
        results.round_trips_ns()
    }

    fn stream(&self, to: &SocketAddr, work: &Streaming) -> Result<Duration, Failure> {
        let results = Results::new(&self.gpu, work.connections as usize, 0)?;
        let kernel_work = self.work(to, 0, work.bytes, work.timeout);
        let shape = self.shape(work.connections, MOST_SHARED);
        let launch = self.net.launch(stream_source, shape, (kernel_work, results.outcomes()))?;
        self.finish(&launch, work.timeout * 4 + Duration::from_secs(120))?;
        results.check("stream", to, work.bytes)?;
        results.slowest()
    }
}

/// Why a block did not reach its server, or what happened to it then.
pub(crate) fn of_block(doing: &str, to: &SocketAddr, errno: Errno) -> Failure {
    match errno {
        Errno::ECONNREFUSED | Errno::ENOENT | Errno::EACCES | Errno::ENETUNREACH => {
            cannot_connect(to, &std::io::Error::from_raw_os_error(errno.0))
        }
        errno => Failure::of_kernel(doing, errno),
    }
}

/// Tells a kernel to stop and waits for it.
fn end(launch: &Launch) -> Result<(), Failure> {
    launch.abort();
    Ok(launch.wait_for(STOPPING)?)
}

/// A server's kernel, and the listener that it accepts from.
struct GpuServer<'n> {
    net: &'n Net,
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
            Ok(()) => Err(Failure::lost("the server's kernel ended by itself")),
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
        if ended.is_ok() && self.net.take_back(self.listener).is_ok() {
            // A socket that was taken back keeps its path.
            if let Some(path) = self.address.to_path() {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
