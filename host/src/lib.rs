//! Sockets for GPU kernels, the host side: GPUs, nets, the proxy and its transports.
//!
//! ```text
//!   Gpu            memory, modules, launches: CUDA, or emulated with coroutines
//!    └─ Net        a net's memory and threads; launches kernels, hands sockets over and back
//!        ├─ proxy      one state machine and one polling thread a shard
//!        │   └─ transport   tcp, unix: the system's sockets, ring to wire; rdma: the device's
//!        ├─ pool       slots in the tables, ring memory
//!        └─ memory     the words and rings that GPU and CPU share
//! ```
//!
//! A program opens a [`Gpu`], loads the [`Module`] with its kernels, makes a [`Net`] and perhaps
//! [`Buffer`]s, launches. It depends on this crate and on its kernels' crate: what of
//! `gpunet-device` host code uses is found here, too.
//!
//! # Cargo features
//! There are none for users. Those in the manifest are for gpunet's own tests; they may change or go in any
//! version. What a build makes of kernels is chosen by variables of the environment, which
//! `gpunet-builder` lists: `GPUNET_PTX_TOOLCHAIN=none` builds without PTX.

// What build scripts write names this crate, and the device library is built for the crate itself.
extern crate self as gpunet_host;

#[macro_use]
mod sentence;

mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod gpu;
mod lock;
mod memory;
pub mod net;
mod pool;
mod proxy;
mod seldom;
mod settings;
#[cfg(all(test, feature = "simulation"))]
#[allow(unsafe_code, reason = "coroutines, and memory by address")]
mod simulation;
pub mod transport;

pub use error::{
    DownError, GpuError, KernelError, LaunchError, LoadError, MemoryError, NetError, OpenError,
    SocketError, StreamError, StreamLimit, WaitError,
};
pub use gpu::{
    Buffer, Flags, Gpu, GpuChoice, GpuKind, GpuStream, Image, LoadedImage, Module, RawEntry,
    RawKernel,
};
/// Of `gpunet-device`, what host code uses.
pub use gpunet_device::{
    Domain, Errno, Handle, Kernel, KernelArg, Shared, SocketAddr, buf::Plain, kernel_arg, kernels,
    op::Condition,
};
pub use memory::{ControlMemory, ControlMemoryRefused, ControlMemoryReport, RingSlice};
pub use net::{
    Batch, Completions, Graph, Launch, Lease, LeaseKernel, ListenOptions, Net, NetBuilder, Policy,
    Prepared, RawArguments, Rule, RuleError, Shape, StreamQueue, Task,
};
pub use proxy::message::Released;
pub use proxy::statistics::{SocketState, Statistics};
pub use transport::rdma::AdapterReport;
pub use transport::{Placement, Placements, Transport, TransportChoice, TransportNames};

/// The PTX module of a kernel crate, as the build script's `gpunet_builder::Builder` left it;
/// named as the crate is, with underscores.
#[macro_export]
macro_rules! include_module {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".module.rs"))
    };
}
