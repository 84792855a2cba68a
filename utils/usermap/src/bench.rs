//! What the commands work on: a GPU, a mapper, and mappings of memory of that GPU.

use gpu_usermap::{AccessError, Backend, GpuMemory, MapError, Mapper, Mapping};
use gpunet_apps::failure::Failure;
use gpunet_host::Gpu;
use gpunet_terminal::output::one_line;

use crate::options::Common;
use crate::report::{Facts, Passed};

/// Memory that was allocated to be mapped, with its mapping.
pub(crate) type Mapped = Mapping<Box<dyn GpuMemory>>;

/// See the module.
pub(crate) struct Bench {
    pub(crate) gpu: Gpu,
    pub(crate) mapper: Mapper,
    reason: String,
}

impl Bench {
    pub(crate) fn open(common: &Common) -> Result<Self, Failure> {
        let (gpu, reason) = gpunet_apps::gpu::open("usermap", &common.gpu)?;
        Ok(Self { gpu, mapper: Mapper::new().choice(common.backend), reason })
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<Mapped, Failure> {
        self.mapper.allocate(&self.gpu, bytes).map_err(|error| refused(&error))
    }

    /// What the report says of a mapping.
    pub(crate) fn facts(&self, mapping: &Mapped) -> Facts {
        let info = self.gpu.info();
        Facts {
            gpu: info.kind.to_string(),
            gpu_name: info.name.clone(),
            gpu_reason: self.reason.clone(),
            backend: mapping.backend().to_string(),
            caching: mapping.caching().to_string(),
            bytes_on: if mapping.backend() == Backend::Host { "host" } else { "gpu" },
            passed_over: mapping
                .passed_over()
                .iter()
                .map(|passed| Passed {
                    backend: passed.backend.to_string(),
                    why: one_line(&passed.why.to_string()),
                })
                .collect(),
        }
    }
}

/// A mapping that cannot be made.
pub(crate) fn refused(error: &MapError) -> Failure {
    let remedy = match error {
        MapError::NoBackend { .. } => "; --backend auto takes what works",
        _ => "",
    };
    Failure::refused(format!("{error}{remedy}"))
}

/// A mapping that fails while it is measured.
pub(crate) fn lost(error: AccessError) -> Failure {
    Failure::lost(error.to_string())
}
