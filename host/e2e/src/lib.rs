//! The harness of the end-to-end suites: scripts that kernels run, and the peers that they connect to.
//!
//! ```text
//!   tests/*.rs ─┬─ script  what a group of GPU threads does, and what each step must come to
//!               ├─ job     launches scripts on a net, waits with a deadline, checks
//!               ├─ limits  how long things may take
//!               ├─ nets    the GPU of the suites, and nets on it
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
//!               └─ long    how much a run does: a test, or `cargo xtask release`
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
pub mod limits;
pub mod long;
pub mod memory;
pub mod nets;
pub mod own;
pub mod peer;
pub mod process;
pub mod queued;
pub mod relay;
pub mod script;
pub mod stream;
pub mod transport;

pub use gpunet_device::abi::option::SocketOption;
pub use gpunet_device::{Domain, Errno, Handle, SocketAddr};
pub use gpunet_e2e_kernels::idle;
pub use gpunet_e2e_kernels::one_call::one_call;
pub use gpunet_e2e_kernels::op::{Outcome, Space};
pub use gpunet_host::Launch;
pub use gpunet_support::testing::{Folder, skip};
pub use job::{Finished, Job, Started};
pub use limits::{
    about, at_once, deadline, eventually, scaled, scaled_time, slowness, soon, timeout,
};
pub use memory::{Flags, flags};
pub use nets::{RING, drop_in_order, gpu, is_cuda, net, net_builder, net_builder_on, seeded_net};
pub use peer::Peer;
pub use process::raise_file_limit;
pub use script::{ALL, Script};
pub use transport::{any_port, any_port_v6, is_local, is_rdma};
