//! The two ends of a connection, wherever they run: what the CPU twin and the GPU both do.

use std::time::Duration;

use gpunet_apps::transport::Travelled;
use gpunet_device::SocketAddr;

use gpunet_apps::failure::Failure;

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

/// What a server does with its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Sends back what comes.
    Echo,
    /// Takes a stream of the pattern to its end, and answers with the number of good bytes.
    Sink,
}

/// Messages to send and get back, on each of several connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrips {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    pub(crate) connections: u32,
    pub(crate) timeout: Duration,
}

/// A stream to send, on each of several connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streaming {
    pub(crate) bytes: u64,
    pub(crate) connections: u32,
    pub(crate) timeout: Duration,
}

/// Seed of the bytes that are sent.
pub(crate) const SEED: u64 = 0x6750_754e_6574;

/// A processor that can be either end.
pub(crate) trait End {
    /// Starts a server at an address; port 0 lets the system choose.
    fn serve(&self, service: Service, at: &SocketAddr) -> Result<Box<dyn Server + '_>, Failure>;

    /// Sends messages, checks every byte that comes back: the nanoseconds of each round trip.
    fn round_trips(&self, to: &SocketAddr, work: &RoundTrips) -> Result<Vec<u64>, Failure>;

    /// Sends streams that a sink checks: how long the slowest took.
    fn stream(&self, to: &SocketAddr, work: &Streaming) -> Result<Duration, Failure>;

    /// How the round trips since the last such question went; none where there were none.
    fn take_travelled(&self) -> Option<Travelled>;
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
