//! GPU memory as `gpu-usermap` maps it: allocations describe themselves, and a [`Gpu`] allocates
//! for it.

use std::ptr::NonNull;

use gpu_usermap::{Allocate, Exported, GpuMemory, Location, MemoryError};

use super::memory::{Given, copy_from_shared, copy_to_shared};
use super::{DeviceMemory, Gpu, HostMemory};

// SAFETY: a DeviceMemory owns its allocation until it is dropped, and what it then gives back goes
// after it; it forms no reference to the bytes. The pages of an emulated GPU are valid as long.
unsafe impl GpuMemory for DeviceMemory {
    fn device_address(&self) -> u64 {
        self.device_ptr().expose_provenance() as u64
    }

    fn len(&self) -> usize {
        self.bytes
    }

    fn location(&self) -> Location {
        match (&self.given, NonNull::new(self.device_ptr())) {
            (Some(Given::Pages { .. }), Some(start)) => Location::Emulated(start),
            _ => Location::Device { ordinal: self.owner.ordinal() },
        }
    }

    fn export(&self) -> Result<Exported, MemoryError> {
        let Some(Given::Device { address }) = self.given else {
            return Ok(Exported { descriptor: Self::export(self)?, offset: 0 });
        };
        // The driver exports whole pages, and small allocations begin anywhere in one.
        let offset = address % rustix::param::page_size() as u64;
        let descriptor = self.owner.export(address - offset, self.bytes + offset as usize)?;
        Ok(Exported { descriptor, offset })
    }

    fn buffer_id(&self) -> Result<Option<u64>, MemoryError> {
        Ok(self.owner.buffer_id(self.device_ptr())?)
    }

    fn driver_read(&self, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        Ok(self.read(offset, into)?)
    }

    fn driver_write(&self, offset: usize, from: &[u8]) -> Result<(), MemoryError> {
        Ok(self.write(offset, from)?)
    }
}

// SAFETY: a HostMemory owns its pages until it is dropped, and forms no reference to the bytes.
unsafe impl GpuMemory for HostMemory {
    fn device_address(&self) -> u64 {
        self.device_ptr().expose_provenance() as u64
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn location(&self) -> Location {
        // Pages never lie at address 0.
        NonNull::new(self.as_ptr()).map_or(Location::Device { ordinal: 0 }, Location::Host)
    }

    fn export(&self) -> Result<Exported, MemoryError> {
        let file = self.fd().ok_or("host memory without a file")?;
        Ok(Exported { descriptor: file.try_clone_to_owned()?, offset: 0 })
    }

    fn driver_read(&self, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        let from = self.at(offset, into.len())?;
        // SAFETY: `at` checked the range; kernels write what they share by atomic stores.
        unsafe { copy_from_shared(from, into) };
        Ok(())
    }

    fn driver_write(&self, offset: usize, from: &[u8]) -> Result<(), MemoryError> {
        let to = self.at(offset, from.len())?;
        // SAFETY: as above.
        unsafe { copy_to_shared(from, to) };
        Ok(())
    }
}

impl HostMemory {
    fn at(&self, offset: usize, length: usize) -> Result<*mut u8, super::MemoryError> {
        super::MemoryError::check("bytes", offset, length, self.len())?;
        Ok(self.as_ptr().wrapping_add(offset))
    }
}

impl Allocate for Gpu {
    fn on_device(&self, bytes: usize) -> Result<Box<dyn GpuMemory>, MemoryError> {
        Ok(Box::new(self.device_memory(bytes)?))
    }

    fn on_host(&self, bytes: usize) -> Result<Box<dyn GpuMemory>, MemoryError> {
        Ok(Box::new(self.host_memory(bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use gpu_usermap::{AccessError, Backend, Choice, MapError, Mapper};

    use super::*;
    use crate::gpu::{EmulatedOptions, GpuChoice};

    fn gpu() -> Gpu {
        Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).unwrap()
    }

    #[test]
    fn memory_of_the_emulated_gpu_is_mapped_in_three_ways() {
        for backend in [Backend::Emulated, Backend::DmaBuf, Backend::Host] {
            let mapper = Mapper::new().choice(Choice::Only(backend));
            let mapping = mapper.allocate(&gpu(), 10_000).unwrap();
            assert_eq!(mapping.backend(), backend);
            mapping.view().unwrap().write(4099, b"to the GPU").unwrap();
            let mut bytes = [0; 10];
            mapping.memory().driver_read(4099, &mut bytes).unwrap();
            assert_eq!(&bytes, b"to the GPU");
            mapping.memory().driver_write(9990, b"to the CPU").unwrap();
            mapping.view().unwrap().read(9990, &mut bytes).unwrap();
            assert_eq!(&bytes, b"to the CPU");
            assert!(mapping.memory().driver_read(9991, &mut bytes).is_err());
            assert!(matches!(
                mapping.view().unwrap().read(9991, &mut bytes),
                Err(AccessError::OutOfBounds { .. })
            ));
        }
    }

    #[test]
    fn a_mapping_keeps_its_memory_alive() {
        let mapping = {
            let gpu = gpu();
            Mapper::new().map(gpu.device_memory(4096).unwrap(), 0..4096).unwrap()
        };
        assert_eq!(mapping.backend(), Backend::Emulated);
        mapping.view().unwrap().store(0, 1_u64).unwrap();
        let memory = mapping.unmap();
        let mut byte = [0];
        memory.read(0, &mut byte).unwrap();
        assert_eq!(byte, [1]);
    }

    #[test]
    fn gdrdrv_is_not_for_the_emulated_gpu() {
        let mapper = Mapper::new().choice(Choice::Only(Backend::Gdrdrv));
        let refused = mapper.allocate(&gpu(), 4096).unwrap_err();
        assert!(matches!(refused, MapError::NoBackend { .. }), "{refused}");
        assert!(refused.to_string().contains("not for memory of the emulated GPU"), "{refused}");
    }
}
