//! The kernels of this program.

/// The kernels, as PTX.
pub(crate) static MODULE: gpunet_host::Module =
    gpunet_host::include_module!("gpunet_bench_kernels");
