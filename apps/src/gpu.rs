//! Opens a GPU with the kernels of this folder loaded.

use gpunet_host::gpu::{EmulatedOptions, GpuInfo};
use gpunet_host::{Gpu, GpuChoice, GpuKind, Module};

use crate::failure::{Failure, one_line};
use crate::print::say;

static MODULE: Module = gpunet_host::include_module!("gpunet_kernels");

/// Opens a GPU with the kernels loaded; and why that one.
///
/// With `auto`, a CUDA device that cannot run what this build holds makes way for the emulated
/// GPU, and one line on standard error, in the name of `program`, says so.
///
/// # Errors
/// No such GPU, or one that does not take the kernels.
pub fn open(program: &str, choice: &GpuChoice) -> Result<(Gpu, String), Failure> {
    let gpu = Gpu::open(choice.clone())?;
    match gpu.load(&MODULE) {
        Ok(()) => {
            let reason = gpu.info().reason.clone();
            Ok((gpu, reason))
        }
        Err(error) if matches!(choice, GpuChoice::Auto) => {
            let reason =
                format!("{} is not used: {}", gpu.info().name, one_line(&error.to_string()));
            say(&format!("{program}: {reason}; using the emulated GPU"));
            let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default()))?;
            gpu.load(&MODULE)?;
            Ok((gpu, reason))
        }
        Err(error) => Err(error.into()),
    }
}

/// Threads of a block where the user did not choose: an emulated one costs a switch for each.
#[must_use]
pub fn default_threads(info: &GpuInfo) -> u32 {
    match info.kind {
        GpuKind::Emulated => 32,
        _ => 256,
    }
}
