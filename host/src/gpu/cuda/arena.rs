//! Arenas of CUDA devices: the driver's virtual memory management, with handles that are file
//! descriptors. None of its calls waits for running kernels.

use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemAllocationProp_st__bindgen_ty_1 as Flags, CUmemAllocationType,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType, CUresult,
};
use rustix::io::{FdFlags, fcntl_setfd};

use super::super::backing::Backing;
use super::super::memory::Owner;
use super::super::window::{AddressRange, Reserved, Window};
use super::super::{GpuError, MemoryError};
use super::Cuda;
use super::context::Context;
use super::driver::{Failed, call};

/// The driver's unit of memory for such mappings.
const GRANULARITY: usize = 2 << 20;
/// Exponents of the window's size: 1 TiB, and no less than 1 GiB.
const WINDOW_BITS: RangeInclusive<u32> = 30..=40;
/// One for all devices: their addresses are one space.
static WINDOW: Reserved = Reserved::new();

const DESCRIPTOR: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
const ON_DEVICE: CUmemLocationType = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;

impl Cuda {
    pub(super) fn shared_window(&self) -> Result<&'static Window, MemoryError> {
        self.context.facts.sharing.possible.clone()?;
        self.context.bind()?;
        WINDOW.get(WINDOW_BITS, |bytes| {
            let mut base = 0;
            // SAFETY: writes one address.
            unsafe { call!(cuMemAddressReserve(&mut base, bytes, GRANULARITY, 0, 0)) }
                .map_err(|failed| self.memory_error("addresses for GPU memory", bytes, failed))?;
            Ok(ptr::with_exposed_provenance_mut(base as usize))
        })
    }

    pub(super) fn new_arena(&self, bytes: usize) -> Result<Mapped, MemoryError> {
        let refused = |failed| self.memory_error("GPU memory", bytes, failed);
        let impossible = |why: &str| MemoryError::Refused {
            what: "GPU memory",
            asked: bytes,
            why: why.to_owned(),
        };
        if bytes == 0 {
            return Err(impossible("the size must not be 0"));
        }
        let rounded = bytes
            .checked_next_multiple_of(GRANULARITY)
            .ok_or_else(|| impossible("larger than the address space"))?;
        let range = self.shared_window()?.allocate(rounded)?;
        let properties = CUmemAllocationProp {
            type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: DESCRIPTOR,
            location: CUmemLocation { type_: ON_DEVICE, id: self.context.ordinal() },
            win32HandleMetaData: ptr::null_mut(),
            allocFlags: Flags {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        };
        let mut handle = 0;
        // SAFETY: writes one handle; the properties outlive the call.
        unsafe { call!(cuMemCreate(&mut handle, rounded, &properties, 0)) }.map_err(refused)?;
        let allocation = Allocation(handle);
        let mapped = Mapped::new(range, allocation, self.context.clone()).map_err(refused)?;
        let address = mapped.address();
        // SAFETY: the memory was just mapped there with that size.
        self.context.copy(|copier| unsafe { copier.clear(address, rounded) })?;
        Ok(mapped)
    }

    pub(super) fn import(&self, file: OwnedFd, bytes: usize) -> Result<Mapped, MemoryError> {
        let refused = |failed: Failed| match failed.code {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => self.memory_error("GPU memory", bytes, failed),
            // Of other calls this one ends the context; an untrusted descriptor must not.
            CUresult::CUDA_ERROR_UNKNOWN => MemoryError::Foreign(failed.line()),
            _ => match self.context.failed(failed) {
                GpuError::Driver { .. } => MemoryError::Foreign(failed.line()),
                error => error.into(),
            },
        };
        if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
            let why = format!("a size of {bytes} bytes was announced, which no arena has");
            return Err(MemoryError::Foreign(why));
        }
        let range = self.shared_window()?.allocate(bytes)?;
        let mut handle = 0;
        // The driver wants the descriptor's number in the pointer, and does not keep it.
        let number = ptr::without_provenance_mut(file.as_raw_fd() as usize);
        // SAFETY: writes one handle; the descriptor is open during the call.
        unsafe { call!(cuMemImportFromShareableHandle(&mut handle, number, DESCRIPTOR)) }
            .map_err(refused)?;
        let allocation = Allocation(handle);
        match allocation.device().map_err(refused)? {
            Some(device) => check_reach(self.context.ordinal(), device)?,
            None => {
                let why = "it is no memory of a GPU".to_owned();
                return Err(MemoryError::Foreign(why));
            }
        }
        Mapped::new(range, allocation, self.context.clone()).map_err(refused)
    }
}

/// An error where one device does not reach another's memory.
fn check_reach(device: i32, memory: i32) -> Result<(), MemoryError> {
    if device == memory {
        return Ok(());
    }
    let (mut from, mut to, mut reaches) = (0, 0, 0);
    // SAFETY: writes one number.
    unsafe { call!(cuDeviceGet(&mut from, device)) }.map_err(GpuError::from)?;
    // SAFETY: as above.
    unsafe { call!(cuDeviceGet(&mut to, memory)) }.map_err(GpuError::from)?;
    // SAFETY: as above.
    unsafe { call!(cuDeviceCanAccessPeer(&mut reaches, from, to)) }.map_err(GpuError::from)?;
    if reaches == 0 {
        let why = format!("it is on cuda:{memory}, to which cuda:{device} has no peer access");
        return Err(MemoryError::Foreign(why));
    }
    Ok(())
}

/// The driver's handle of memory, mapped or not.
struct Allocation(CUmemGenericAllocationHandle);

impl Allocation {
    /// The device on which the memory is, if it is on one.
    fn device(&self) -> Result<Option<i32>, Failed> {
        let mut properties = MaybeUninit::<CUmemAllocationProp>::zeroed();
        let to = properties.as_mut_ptr();
        // SAFETY: writes the properties; the handle is ours.
        unsafe { call!(cuMemGetAllocationPropertiesFromHandle(to, self.0)) }?;
        // The driver may know kinds that the bindings do not, so that the whole is no valid value:
        // the two numbers alone are read.
        // SAFETY: all of it is initialised; the kind is read as the number it is.
        let (kind, id) =
            unsafe { ((&raw const (*to).location.type_).cast::<u32>().read(), (*to).location.id) };
        Ok((kind == ON_DEVICE as u32).then_some(id))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and used no more. Memory that is exported, or mapped
        // elsewhere, lives on there.
        if let Err(failed) = unsafe { call!(cuMemRelease(self.0)) } {
            tracing::warn!(error = failed.line(), "an arena's memory was not given back");
        }
    }
}

/// Memory mapped in the window.
pub(super) struct Mapped {
    range: AddressRange,
    allocation: Allocation,
    context: Arc<Context>,
}

impl Mapped {
    /// All of the range becomes the memory, for the context's device.
    fn new(
        range: AddressRange,
        allocation: Allocation,
        context: Arc<Context>,
    ) -> Result<Self, Failed> {
        let address = range.address().expose_provenance() as u64;
        // SAFETY: the range is a part of the window that nobody else has, and nothing is mapped
        // there; the driver checks that the memory is large enough.
        unsafe { call!(cuMemMap(address, range.bytes(), 0, allocation.0, 0)) }?;
        let mapped = Self { range, allocation, context };
        mapped.open_to(mapped.context.ordinal())?;
        Ok(mapped)
    }

    fn address(&self) -> u64 {
        self.range.address().expose_provenance() as u64
    }

    /// Lets a device read and write; others keep what they have.
    fn open_to(&self, device: i32) -> Result<(), Failed> {
        let access = CUmemAccessDesc {
            location: CUmemLocation { type_: ON_DEVICE, id: device },
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range is mapped and ours; the description outlives the call.
        unsafe { call!(cuMemSetAccess(self.address(), self.range.bytes(), &access, 1)) }
    }
}

impl Backing for Mapped {
    fn range(&self) -> &AddressRange {
        &self.range
    }

    fn export(&self) -> Result<OwnedFd, GpuError> {
        self.context.bind()?;
        let mut file = -1_i32;
        let to = (&raw mut file).cast();
        // SAFETY: writes one descriptor; the handle is ours.
        unsafe { call!(cuMemExportToShareableHandle(to, self.allocation.0, DESCRIPTOR, 0)) }
            .map_err(|failed| self.context.failed(failed))?;
        // SAFETY: the driver has just opened it for us.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        fcntl_setfd(&file, FdFlags::CLOEXEC).map_err(|errno| GpuError::system("fcntl", errno))?;
        Ok(file)
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), GpuError> {
        let address = self.address() + offset as u64;
        // SAFETY: Arena checked the range, and it is mapped as long as `self` lives.
        self.context.copy(|copier| unsafe { copier.read(address, into) })
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<(), GpuError> {
        let address = self.address() + offset as u64;
        // SAFETY: as for `read`.
        self.context.copy(|copier| unsafe { copier.write(address, from) })
    }

    fn allow(&self, ordinal: Option<i32>) -> Result<(), MemoryError> {
        let Some(ordinal) = ordinal else {
            return Err(GpuError::Unsupported {
                what: "memory for the emulated GPU",
                kind: "CUDA",
                remedy: "use GPUs of one kind",
            }
            .into());
        };
        if ordinal == self.context.ordinal() {
            return Ok(());
        }
        self.context.bind()?;
        let device = self.allocation.device().map_err(|failed| self.context.failed(failed))?;
        check_reach(ordinal, device.unwrap_or(ordinal))?;
        Ok(self.open_to(ordinal).map_err(|failed| self.context.failed(failed))?)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // Also where the context is lost: the memory may be another process's.
        let _ = self.context.bind();
        // SAFETY: mapped by `new`, and no kernel touches it any more: those that knew it have
        // ended (the deferred free), or it may be freed all the same (`Arena::allow_free`).
        if let Err(failed) = unsafe { call!(cuMemUnmap(self.address(), self.range.bytes())) } {
            self.range.abandon();
            tracing::warn!(error = failed.line(), "an arena was not unmapped");
        }
    }
}
