//! libgpunet: the host side for C, and for every language that can call C.
//!
//! ```text
//!   gpunet.h ─ this crate ─ gpunet-host          gpu, net, buffers, images, launches, queues, leases
//!   device.h ─ export_c_abi! ─ gpunet-device     what kernels call, on the emulated GPU
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `status` | codes, whose fault each is, and the sentence of the last error |
//! | `handle` | handles: numbers that are never used twice, behind which objects stand |
//! | `text` | strings and memory of the caller's |
//! | `gpu`, `options`, `net`, `address` | GPUs, nets and their settings |
//! | `memory` | buffers and flags |
//! | `image`, `arguments`, `launch` | kernels by name |
//! | `stream`, `batch`, `graph`, `lease` | kernels and operations on streams |
//!
//! Each function is one `guard`: it catches panics, keeps the error's sentence for the thread, and returns a
//! status. `include/gpunet/gpunet.h` is written from these files (`tests/header.rs`), so that what stands
//! above a function here is its documentation there; `abi-1.txt` records what is never changed.

#![allow(unsafe_code, reason = "addresses that C programs give")]
#![allow(non_camel_case_types, reason = "names of the C ABI")]
#![allow(clippy::missing_safety_doc, reason = "gpunet.h says it once, for all functions")]

mod address;
mod arguments;
mod batch;
mod gpu;
mod graph;
mod handle;
mod image;
mod launch;
mod lease;
mod memory;
mod net;
mod options;
mod status;
mod stream;
mod text;

pub use address::*;
pub use arguments::*;
pub use batch::*;
pub use gpu::*;
pub use graph::*;
pub use image::*;
pub use launch::*;
pub use lease::*;
pub use memory::*;
pub use net::*;
pub use options::*;
pub use status::*;
pub use stream::*;
pub use text::gpunet_free;

gpunet_device::export_c_abi!();
