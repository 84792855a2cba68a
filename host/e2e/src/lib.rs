//! The harness of the end-to-end suites: scripts that kernels run, and the peers they talk to.
//!
//! ```text
//!   tests/*.rs ─┬─ script  what a group of GPU threads does, and what each step must come to
//!               ├─ job     launches scripts on a net, waits with a deadline, checks
//!               ├─ lateness  how late a busy machine is, which limits leave out
//!               ├─ faults  how long calls still wait when something goes wrong
//!               ├─ peer    ordinary sockets on the CPU, and stream, their two kinds
//!               ├─ relay   a kernel between those and p2p streams
//!               ├─ transport which way all go: TCP, RDMA or from kernel to kernel; where words lie
//!               ├─ memory  arrays in GPU memory, flags that host and kernels share
//!               ├─ attack  launches kernels that spoil what they share with the proxy
//!               ├─ counting  a kernel whose threads count and lock
//!               ├─ child   processes beside the test's own
//!               ├─ heap    an allocator that counts, for tests of memory
//!               ├─ process what this process has: descriptors, mappings
//!               ├─ queued  what tests of stream-ordered operations share
//!               └─ long    how much a run does: a test, or `cargo xtask test --long`
//! ```
//!
//! The suites run on the GPU that `GPUNET_GPU` names (`emulated` unless set). A test that cannot
//! run there adds a line to the file that `GPUNET_SKIP_LOG` names and counts as skipped.

pub mod attack;
pub mod child;
pub mod counting;
pub mod faults;
pub mod heap;
pub mod job;
pub mod lateness;
pub mod long;
pub mod memory;
pub mod own;
pub mod peer;
pub mod process;
pub mod queued;
pub mod relay;
pub mod script;
pub mod stream;
pub mod transport;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gpunet_host::gpu::EmulatedOptions;
use gpunet_host::{Gpu, GpuChoice, GpuKind, Net, NetBuilder};

pub use gpunet_device::abi::option::SocketOption;
pub use gpunet_device::{Domain, Errno, Handle, SocketAddr};
pub use gpunet_e2e_kernels::idle;
pub use gpunet_e2e_kernels::one_call::one_call;
pub use gpunet_e2e_kernels::op::{Outcome, Space};
pub use gpunet_host::Launch;
pub use gpunet_testing::{Folder, skip};
pub use job::{Finished, Job, Started};
pub use memory::Flags;
pub use peer::Peer;
pub use script::{ALL, Script};
pub use transport::{any_port, any_port_v6, is_local, is_rdma, scaled, scaled_time};

/// How long a test's kernel may run before the test fails, also on a busy machine; as all times,
/// longer where [`scaled_time`] says so.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// How long a call may wait unless a test says otherwise; shorter than the deadline, so that a
/// script that times out says where.
pub const TIMEOUT: Duration = Duration::from_secs(45);

/// How long a proxy thread may go without a heartbeat unless a test says otherwise: as long as in any net.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);

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
    transport::of_net(
        builder.timeout(scaled_time(TIMEOUT)).heartbeat_timeout(scaled_time(HEARTBEAT_TIMEOUT)),
    )
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

/// Flags on the GPU of this process.
#[must_use]
pub fn flags() -> Arc<Flags> {
    Arc::new(Flags::new(gpu()))
}

/// Waits until `true` is seen, at most so long on a real machine that has nothing else to do.
#[must_use]
pub fn eventually(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let (begin, lateness) = (std::time::Instant::now(), lateness::Lateness::from_now());
    loop {
        if holds() {
            return true;
        }
        if begin.elapsed() > scaled_time(limit) + lateness.lost() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lets this process open as many files as the system allows at all.
pub fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // A test that needs more says so when it does not get them.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
