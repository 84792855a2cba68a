//! GPUs.

use std::ffi::c_char;

use gpunet_host::{Gpu, GpuChoice};

use crate::handle::{self, opaque};
use crate::status::{Failure, gpunet_status, guard};
use crate::text::{store, store_text, text};

/// An open GPU.
pub struct gpunet_host_gpu(());
opaque!(gpunet_host_gpu, 0, Gpu);

/// Opens a GPU: "auto" (a CUDA device, and where there is none the emulated GPU), "cuda", "cuda:N" or
/// "emulated".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_gpu_open(
    choice: *const c_char,
    gpu: *mut *mut gpunet_host_gpu,
) -> gpunet_status {
    let open = || {
        // SAFETY: the caller's promise.
        let choice: GpuChoice = unsafe { text(choice, "the choice of a GPU") }?.parse()?;
        Ok(Gpu::open(choice)?)
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(gpu, open) })
}

/// Says something about a GPU: "name", "kind" ("cuda" or "emulated"), "reason" (why this one was chosen),
/// "driver" (the CUDA version of the driver, empty on the emulated GPU).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_gpu_text(
    gpu: *const gpunet_host_gpu,
    name: *const c_char,
    to: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> gpunet_status {
    guard(|| {
        let gpu = handle::get(gpu)?;
        let info = gpu.info();
        // SAFETY: the caller's promise.
        let found = match unsafe { text(name, "the name") }? {
            "name" => info.name.clone(),
            "kind" => info.kind.to_string(),
            "reason" => info.reason.clone(),
            "driver" => info.driver.clone().unwrap_or_default(),
            other => {
                let known = "name, kind, reason, driver";
                return Err(Failure::argument(format!("a GPU has no text '{other}': {known}")));
            }
        };
        // SAFETY: the caller's promise.
        unsafe { store_text(&found, to, capacity, length) }
    })
}

/// A number of a GPU: "multiprocessors", "compute_capability" (90 for 9.0, 0 on the emulated GPU),
/// "max_threads_per_block", "max_shared_bytes", "max_kernels".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_gpu_number(
    gpu: *const gpunet_host_gpu,
    name: *const c_char,
    number: *mut u64,
) -> gpunet_status {
    guard(|| {
        let gpu = handle::get(gpu)?;
        let info = gpu.info();
        // SAFETY: the caller's promise.
        let found = match unsafe { text(name, "the name") }? {
            "multiprocessors" => info.multiprocessors,
            "compute_capability" => {
                info.compute_capability.map_or(0, |(major, minor)| major * 10 + minor)
            }
            "max_threads_per_block" => info.max_threads_per_block,
            "max_shared_bytes" => info.max_shared_bytes,
            "max_kernels" => info.max_kernels,
            other => {
                let known = "multiprocessors, compute_capability, max_threads_per_block, \
                             max_shared_bytes, max_kernels";
                return Err(Failure::argument(format!("a GPU has no number '{other}': {known}")));
            }
        };
        // SAFETY: the caller's promise.
        unsafe { store(number, found.into()) }
    })
}

/// Frees the handle. What was made of the GPU keeps it open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_gpu_free(gpu: *mut gpunet_host_gpu) -> gpunet_status {
    guard(|| handle::free(gpu))
}
