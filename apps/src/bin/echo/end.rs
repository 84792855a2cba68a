//! The two ends of a connection, wherever they run: what the CPU and the GPU both do.

use std::time::Duration;

use gpunet_apps::failure::Failure;
use gpunet_apps::transport::Travelled;
use gpunet_device::SocketAddr;

/// Where an end runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Processor {
    /// In a kernel on the GPU.
    Gpu,
    /// In threads of this program.
    Cpu,
}

impl Processor {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
        }
    }
}

/// Messages to send and get back, on each of several connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    pub(crate) connections: u32,
    pub(crate) timeout: Duration,
}

/// What became of it.
pub(crate) struct Echoed {
    /// How the connections went; none where none was made.
    pub(crate) travelled: Option<Travelled>,
    /// The mean of all round trips; every byte was checked.
    pub(crate) mean: Result<Duration, Failure>,
}

impl Echoed {
    /// Of work that could not begin.
    pub(crate) fn failed(failure: Failure) -> Self {
        Self { travelled: None, mean: Err(failure) }
    }
}

/// Seed of the bytes that are sent; each connection adds its rank.
pub(crate) const SEED: u64 = 0x6750_754e_6574;

/// A processor that can be either end.
pub(crate) trait End {
    /// Starts an echo server at an address; port 0 lets the system choose.
    fn serve(&self, at: &SocketAddr) -> Result<Box<dyn Server + '_>, Failure>;

    /// Sends messages and checks every byte that comes back.
    fn echo(&self, to: &SocketAddr, work: &Work) -> Echoed;
}

/// A server that runs.
pub(crate) trait Server {
    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// Waits a moment; an error once it has ended by itself.
    fn watch(&self) -> Result<(), Failure>;

    /// Ends it, with all its connections.
    fn stop(self: Box<Self>) -> Result<(), Failure>;
}
