//! The extension module of the Python package `gpunet`: the host crate's types, as thin classes that the
//! package's own (`python/gpunet`) are made of. Python calls it; kernels on the emulated GPU find the device
//! functions here by their C names.
//!
//! ```text
//!   gpunet (Python)   Gpu, Net, Launch, Buffer, kernel ...      arguments, conversions, context managers
//!        └─ _gpunet   Gpu, Image, Memory, Net, Launch, Queue    waits with the GIL released, fork, exit
//!             └─ gpunet-host
//! ```
//!
//! Nothing waits with the GIL held; a wait looks for signals every 50 ms (`process::wait`). A process that was forked
//! off owns nothing: calls are refused, and drops do nothing (`process::Owned`).
#![allow(unsafe_code, reason = "kernels of other languages, and memory of other libraries")]

mod arguments;
mod batch;
mod error;
mod gpu;
mod graph;
mod launch;
mod net;
mod objects;
mod pending;
mod process;
mod queue;
mod settings;

use pyo3::prelude::*;

gpunet_device::export_c_abi!();

/// The module's contents.
#[pymodule]
mod _gpunet {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::gpu::{Flags, Gpu, Image, Memory, Stream};
    #[pymodule_export]
    use crate::graph::Graph;
    #[pymodule_export]
    use crate::launch::{Launch, Lease};
    #[pymodule_export]
    use crate::net::{Net, errno_name};
    #[pymodule_export]
    use crate::process::finish;
    #[pymodule_export]
    use crate::queue::{Completions, Queue};
    #[pymodule_export]
    use crate::settings::net_settings;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let [major, minor] = gpunet_device::c_abi::GPUNET_C_ABI;
        module.add("C_ABI", (major, minor))
    }
}
