//! Where the words lie that kernels poll: what a program asks for, what it got, and why. Decides
//! when a net is made; memory is taken and mapped here, and no word is touched.

use gpu_usermap::{AccessError, MapError, Mapper, Mapping};
use serde::Serialize;

use crate::gpu::{DeviceMemory, Gpu, GpuKind, MemoryError, RemoteWrites};

/// Where the words of a net may lie that kernels poll: progress of streams, replies, heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlMemory {
    /// In GPU memory where the CPU can map it, so that a poll does not cross PCIe; else in host
    /// memory. Always in host memory on the emulated GPU, which has nothing to gain.
    #[default]
    Auto,
    /// In host memory.
    Host,
    /// In GPU memory; a net that cannot have them there is not made.
    Gpu,
}

/// Where the words that kernels poll lie, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ControlMemoryReport {
    /// How the CPU has mapped the GPU memory that they lie in: `gdrdrv`, `dma-buf` or `emulated`.
    /// None: they lie in host memory.
    pub mapped_by: Option<String>,
    /// Why there, in one line.
    pub why: String,
}

impl std::fmt::Display for ControlMemoryReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.mapped_by {
            Some(backend) => write!(f, "GPU memory, mapped by {backend} ({})", self.why),
            None => write!(f, "host memory ({})", self.why),
        }
    }
}

/// Words cannot lie in GPU memory here.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ControlMemoryRefused {
    /// The system's: the CPU cannot map GPU memory; each way, and why not.
    #[error("no control memory on the GPU: {0}")]
    Unmapped(#[from] MapError),
    /// The GPU's: what the CPU writes might be seen before what it wrote earlier.
    #[error(
        "no control memory on the GPU: this GPU keeps no order among writes to it from outside"
    )]
    Unordered,
    /// The system's: it was lost before it was of use.
    #[error("no control memory on the GPU: {0}")]
    Lost(AccessError),
    /// The GPU's: it gave no memory.
    #[error("no control memory on the GPU: {0}")]
    Memory(#[from] MemoryError),
}

debug_as_sentence!(ControlMemoryRefused);

/// GPU memory that the CPU has mapped, or none and why, or an error where it was asked for by name.
pub(super) fn mapped_if_wanted(
    gpu: &Gpu,
    wish: ControlMemory,
    bytes: usize,
) -> Result<(Option<Mapping<DeviceMemory>>, String), ControlMemoryRefused> {
    decide(wish, gpu.info().kind, || map(gpu, bytes))
}

/// The decision alone; `map` tries.
fn decide<M>(
    wish: ControlMemory,
    kind: GpuKind,
    map: impl FnOnce() -> Result<M, ControlMemoryRefused>,
) -> Result<(Option<M>, String), ControlMemoryRefused> {
    match (wish, kind) {
        (ControlMemory::Host, _) => Ok((None, "host memory was asked for".to_owned())),
        (ControlMemory::Auto, GpuKind::Emulated) => {
            Ok((None, "the emulated GPU has nothing to gain".to_owned()))
        }
        (ControlMemory::Gpu, _) => Ok((Some(map()?), "GPU memory was asked for".to_owned())),
        (ControlMemory::Auto, GpuKind::Cuda) => Ok(match map() {
            Ok(mapping) => (Some(mapping), "the CPU can map it".to_owned()),
            Err(refused) => (None, refused.to_string()),
        }),
    }
}

fn map(gpu: &Gpu, bytes: usize) -> Result<Mapping<DeviceMemory>, ControlMemoryRefused> {
    // The CPU's stores come in by the same door as those of network devices.
    if gpu.remote_writes() != RemoteWrites::Ordered {
        return Err(ControlMemoryRefused::Unordered);
    }
    Ok(Mapper::new().map(gpu.device_memory(bytes)?, 0..bytes)?)
}

#[cfg(test)]
mod tests {
    use gpu_usermap::{Backend, PassedOver, Why};

    use super::*;

    fn refused() -> ControlMemoryRefused {
        let gdrdrv = Why::NoDevice { path: "/dev/gdrdrv" };
        let dmabuf = Why::NotExported("too old".into());
        let passed = vec![
            PassedOver { backend: Backend::Gdrdrv, why: gdrdrv },
            PassedOver { backend: Backend::DmaBuf, why: dmabuf },
        ];
        ControlMemoryRefused::Unmapped(MapError::NoBackend { passed })
    }

    #[test]
    fn auto_takes_gpu_memory_where_it_can_be_mapped() {
        let (taken, why) = decide(ControlMemory::Auto, GpuKind::Cuda, || Ok(7)).unwrap();
        assert_eq!((taken, why.as_str()), (Some(7), "the CPU can map it"));
        let (taken, why) =
            decide::<u8>(ControlMemory::Auto, GpuKind::Cuda, || Err(refused())).unwrap();
        assert_eq!(taken, None);
        assert!(why.contains("/dev/gdrdrv") && why.contains("too old"), "{why}");
        let unordered = || Err(ControlMemoryRefused::Unordered);
        let (taken, why) = decide::<u8>(ControlMemory::Auto, GpuKind::Cuda, unordered).unwrap();
        assert!(taken.is_none() && why.contains("no order"), "{why}");
    }

    #[test]
    fn nothing_is_tried_that_was_not_wanted() {
        let never = || -> Result<u8, ControlMemoryRefused> { panic!("tried") };
        for kind in [GpuKind::Cuda, GpuKind::Emulated] {
            assert_eq!(decide(ControlMemory::Host, kind, never).unwrap().0, None);
        }
        assert_eq!(decide(ControlMemory::Auto, GpuKind::Emulated, never).unwrap().0, None);
    }

    #[test]
    fn an_explicit_choice_fails_with_the_reason_of_each_way_in_one_line() {
        let outcome = decide::<u8>(ControlMemory::Gpu, GpuKind::Cuda, || Err(refused()));
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains("gdrdrv: no /dev/gdrdrv"), "{message}");
        assert!(message.contains("dma-buf: no dma-buf of this memory: too old"), "{message}");
        assert!(!message.contains('\n'), "{message}");
        assert_eq!(decide(ControlMemory::Gpu, GpuKind::Emulated, || Ok(7)).unwrap().0, Some(7));
    }
}
