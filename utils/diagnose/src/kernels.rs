//! The kernels that this program carries: to run them, and to look at their PTX.

use gpunet_host::Module;

/// The kernels, as this program carries them.
pub(crate) static MODULE: Module = gpunet_host::include_module!("gpunet_diagnose_kernels");
