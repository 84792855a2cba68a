//! The ends that run in kernels: launches through gpunet-host, and what comes back from them.

use std::io;
use std::time::Duration;

use gpunet_apps::failure::Failure;
use gpunet_apps::gpu::{LOOK, end, finish};
use gpunet_apps::stop::Stop;
use gpunet_apps::transport::{self, RingPlacement, SocketTransport, Travelled};
use gpunet_device::{Errno, Handle, SocketAddr};
use gpunet_host::gpu::Buffer;
use gpunet_host::{AdapterReport, Gpu, Launch, Net, NetError, Shape, SocketError, Task, WaitError};
use gpunet_kernels::echo::{self, NOT_CONNECTED, OUTCOME, Outcome, echo_client, echo_server};

use crate::address::{cannot_connect, cannot_listen};
use crate::end::{Echoed, End, SEED, Server, Work};

/// Shared memory of a block, where the kernels' buffers lie: what every GPU grants.
const SHARED: u32 = 48 << 10;

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
}

impl GpuEnd {
    pub(crate) fn new(gpu: &Gpu, settings: Settings, stop: &Stop) -> Result<Self, Failure> {
        // Both ends may be here, and the connections of one size may still close while those of the
        // next open.
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
        Ok(Self { gpu: gpu.clone(), net, settings, stop: stop.clone() })
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

    fn shape(&self, blocks: u32) -> Shape {
        let shared = SHARED.min(self.gpu.info().max_shared_bytes);
        Shape::new(blocks, self.settings.threads).shared_memory(shared)
    }

    /// Runs a client's kernel, a block for each connection.
    fn run_client(&self, to: &SocketAddr, work: &Work) -> Result<Vec<Outcome>, Failure> {
        let outcomes: Buffer<i64> = self.gpu.buffer(work.connections as usize * OUTCOME)?;
        let kernel_work = echo::Work {
            server: *to,
            messages: work.messages,
            bytes: work.bytes,
            seed: SEED,
            ring: u64::from(self.settings.ring),
            timeout_ns: work.timeout.as_nanos() as u64,
        };
        let shape = self.shape(work.connections);
        let launch = self.net.launch(echo_client, shape, (kernel_work, &outcomes))?;
        finish(&launch, &self.stop)?;
        let words = outcomes.to_vec()?;
        let (outcomes, _) = words.as_chunks::<OUTCOME>();
        Ok(outcomes.iter().map(|words| Outcome::from_words(*words)).collect())
    }

    /// Whether a block did what it should.
    fn check(&self, to: &SocketAddr, work: &Work, outcome: &Outcome) -> Result<(), Failure> {
        let (result, verified) = (outcome.result, outcome.verified);
        if result != 0 {
            let errno = Errno(i32::try_from(-result).unwrap_or(Errno::EIO.0));
            let connected = outcome.transport != NOT_CONNECTED;
            return Err(self.because(self.of_block(to, connected, errno)));
        }
        let bytes = work.messages * work.bytes;
        match u64::try_from(verified) == Ok(bytes) {
            true => Ok(()),
            false => Err(Failure::lost(format!("{verified} of {bytes} bytes came back"))),
        }
    }

    /// Why a block did not reach its server, or what happened to it then.
    fn of_block(&self, to: &SocketAddr, connected: bool, errno: Errno) -> Failure {
        use io::ErrorKind as Kind;
        let error = io::Error::from_raw_os_error(errno.0);
        let no_way = matches!(
            error.kind(),
            Kind::ConnectionRefused
                | Kind::NotFound
                | Kind::PermissionDenied
                | Kind::NetworkUnreachable
                | Kind::HostUnreachable
        );
        let no_answer = matches!(error.kind(), Kind::TimedOut | Kind::CrossesDevices);
        if no_way || errno == Errno::ENODEV || no_answer && !connected {
            return cannot_connect(to, self.settings.transport, &error);
        }
        Failure::of_kernel("round trip", errno)
    }
}

impl End for GpuEnd {
    fn serve(&self, at: &SocketAddr) -> Result<Box<dyn Server + '_>, Failure> {
        let (listener, address) = self.net.listen(*at).map_err(|error| match error {
            SocketError::Listen { errno, .. } => {
                cannot_listen(at, &io::Error::from_raw_os_error(errno.0))
            }
            error => error.into(),
        })?;
        match self.net.launch(echo_server, self.shape(self.settings.blocks), (listener,)) {
            Ok(launch) => Ok(Box::new(GpuServer { end: self, listener, address, launch })),
            Err(error) => {
                let _ = self.net.take_back(listener);
                Err(error.into())
            }
        }
    }

    fn echo(&self, to: &SocketAddr, work: &Work) -> Echoed {
        let outcomes = match self.run_client(to, work) {
            Ok(outcomes) => outcomes,
            Err(failure) => return Echoed::failed(failure),
        };
        // All go the same way.
        let connected = outcomes.iter().find(|block| block.transport != NOT_CONNECTED);
        let travelled =
            connected.map(|block| Travelled::from_options(block.transport, block.placement));
        let checked = outcomes.iter().try_for_each(|block| self.check(to, work, block));
        let elapsed_ns: i64 = outcomes.iter().map(|block| block.elapsed_ns).sum();
        let messages = work.messages as f64 * f64::from(work.connections);
        let mean = Duration::from_nanos((elapsed_ns as f64 / messages) as u64);
        Echoed { travelled, mean: checked.map(|()| mean) }
    }
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
        match self.launch.wait_timeout(LOOK) {
            Err(WaitError::StillRunning { .. }) => Ok(()),
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
