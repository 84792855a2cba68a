//! The GPU of this process, and nets on it.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gpunet_host::gpu::EmulatedOptions;
use gpunet_host::{Gpu, GpuChoice, GpuKind, Net, NetBuilder};

use crate::limits::{soon, timeout};
use crate::transport::{self, is_local};

/// Capacity of the rings of the nets that tests use: the smallest there is.
pub const RING: u32 = 4096;

/// The GPU of this process, with the kernels loaded.
///
/// # Panics
/// When the GPU that was asked for is not there: the suite cannot run.
pub fn gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| {
        let choice = std::env::var("GPUNET_GPU").unwrap_or_else(|_| "emulated".to_owned());
        let choice: GpuChoice = choice.parse().expect("GPUNET_GPU names a GPU");
        let gpu = Gpu::open(choice).expect("the GPU opens");
        let module = gpunet_host::include_module!("gpunet_e2e_kernels");
        // Before the first launch: a running kernel would hold the driver up.
        gpu.load(&module).expect("the kernels load");
        // And the kernel of streams.
        gpu.stream().expect("a stream");
        gpu
    })
}

/// Whether the suite runs on a real GPU.
pub fn is_cuda() -> bool {
    gpu().info().kind == GpuKind::Cuda
}

/// A net with small rings, to be shaped further.
pub fn net_builder() -> NetBuilder {
    net_builder_on(gpu())
}

/// The same on a GPU of the test's own.
pub fn net_builder_on(gpu: &Gpu) -> NetBuilder {
    let builder = Net::builder(gpu).sockets(64).ring(RING);
    transport::of_net(builder.timeout(timeout()).heartbeat_timeout(timeout()))
}

/// A net with small rings.
///
/// # Panics
/// When it cannot be made.
pub fn net() -> Net {
    net_builder().build().expect("a net")
}

/// A net on an emulated GPU of its own, whose threads run in an order drawn from `seed`.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn seeded_net(seed: u64) -> Net {
    // Memory of the two kinds of GPU is not shared, and the relay is on the suite's.
    if is_cuda() && is_local() {
        return net();
    }
    let choice = GpuChoice::Emulated(EmulatedOptions::seeded(seed));
    let gpu = Gpu::open(choice).expect("the emulated GPU opens");
    net_builder_on(&gpu).build().expect("a net")
}

/// Drops a net whose kernels stop and whose threads end by themselves.
///
/// # Panics
/// When one of them did not, and was killed or left behind.
pub fn drop_in_order(net: Net) {
    // What does not end is given up after 5 s, and threads after 7 s.
    const LEAVE: Duration = Duration::from_secs(7);
    let (stuck, begin) = (net.stuck(), Instant::now());
    drop(net);
    assert_eq!(stuck.load(Ordering::Relaxed), 0, "kernels and threads that did not end");
    assert!(begin.elapsed() < LEAVE + soon(), "it took {:?}", begin.elapsed());
}
