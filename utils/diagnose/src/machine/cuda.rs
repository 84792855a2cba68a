//! Asks the CUDA driver: its devices, their attributes, whether their memory can be exported and
//! mapped.
#![expect(unsafe_code, reason = "calls the driver, and maps a dma-buf")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::ptr;

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};
use gpunet_host::{Gpu, GpuChoice};
use rustix::mm::{MapFlags, ProtFlags};

use super::answers::{Cuda, CudaDevice};
use super::text::one_line;

/// What is asked of each device.
const ATTRIBUTES: &[(&str, Attribute)] = &[
    ("gpu_direct_rdma", Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED),
    ("dma_buf", Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED),
    ("writes_ordering", Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING),
    ("flush_writes_options", Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
    ("can_flush_remote_writes", Attribute::CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES),
    ("stream_mem_ops_64", Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS),
    ("host_native_atomics", Attribute::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED),
];

/// Bytes that are exported to try: the driver wants whole pages, and its own have 64 KiB.
const EXPORTED: usize = 64 << 10;

/// Asks; the first device is opened as gpunet opens it.
pub(super) fn ask() -> Cuda {
    let gpu = match Gpu::open(GpuChoice::Cuda { ordinal: 0 }) {
        Ok(gpu) => gpu,
        Err(error) => {
            return Cuda { driver: Err(one_line(&error.to_string())), devices: Vec::new() };
        }
    };
    // From here on every function that is called below is known to be there, but for one.
    let mut count = 0;
    // SAFETY: writes one number; the driver runs as long as `gpu` is open.
    let counted = unsafe { sys::cuDeviceGetCount(&mut count) };
    let count = if counted == CUresult::CUDA_SUCCESS { count } else { 0 };
    let mut devices: Vec<CudaDevice> = (0..count).filter_map(device).collect();
    if let Some(first) = devices.first_mut() {
        let (export, mapping) = export(&gpu);
        (first.export, first.mapping) = (Some(export), mapping);
    }
    let driver = gpu.info().driver.clone().unwrap_or_default();
    Cuda { driver: Ok(driver), devices }
}

fn device(ordinal: i32) -> Option<CudaDevice> {
    let mut device = 0;
    // SAFETY: writes one number.
    let found = unsafe { sys::cuDeviceGet(&mut device, ordinal) };
    if found != CUresult::CUDA_SUCCESS {
        return None;
    }
    let attribute = |attribute| {
        let mut value = 0;
        // SAFETY: writes one number.
        let known = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
        (known == CUresult::CUDA_SUCCESS).then_some(value)
    };
    let number = |of| attribute(of).and_then(|value| u32::try_from(value).ok()).unwrap_or(0);
    let attributes: BTreeMap<_, _> = ATTRIBUTES
        .iter()
        .filter_map(|(name, which)| Some(((*name).to_owned(), attribute(*which)?)))
        .collect();
    let name = text(|to, length| {
        // SAFETY: writes a C string of at most that length.
        unsafe { sys::cuDeviceGetName(to, length, device) }
    });
    // SAFETY: the symbol is looked up and not called through this type.
    let tells_place =
        unsafe { sys::culib().get::<unsafe extern "C" fn()>(b"cuDeviceGetPCIBusId") }.is_ok();
    let place = || {
        text(|to, length| {
            // SAFETY: as above, and the function is there.
            unsafe { sys::cuDeviceGetPCIBusId(to, length, device) }
        })
    };
    Some(CudaDevice {
        name: one_line(&name.unwrap_or_default()),
        pci: tells_place.then(place).flatten().map(|place| place.to_lowercase()),
        compute_capability: (
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        ),
        attributes,
        export: None,
        mapping: None,
    })
}

/// A string that the driver writes.
fn text(ask: impl FnOnce(*mut c_char, i32) -> CUresult) -> Option<String> {
    let mut bytes = [0_u8; 256];
    if ask(bytes.as_mut_ptr().cast(), bytes.len() as i32 - 1) != CUresult::CUDA_SUCCESS {
        return None;
    }
    let text = CStr::from_bytes_until_nul(&bytes).ok()?;
    Some(text.to_string_lossy().into_owned())
}

/// Whether GPU memory can be exported as a dma-buf, and that be mapped.
fn export(gpu: &Gpu) -> (Result<(), String>, Option<Result<(), String>>) {
    let exported = gpu.device_memory(EXPORTED).and_then(|memory| {
        let buffer = memory.export()?;
        Ok((memory, buffer))
    });
    let (_memory, buffer) = match exported {
        Ok(exported) => exported,
        Err(error) => return (Err(one_line(&error.to_string())), None),
    };
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at a place of the system's choice, which nobody reads or writes.
    let mapped = unsafe {
        rustix::mm::mmap(ptr::null_mut(), EXPORTED, protection, MapFlags::SHARED, &buffer, 0)
    };
    let mapping = match mapped {
        Ok(address) => {
            // SAFETY: mapped above, with that length, and used by nobody.
            let _ = unsafe { rustix::mm::munmap(address, EXPORTED) };
            Ok(())
        }
        Err(errno) => Err(format!("mmap says error {}", errno.raw_os_error())),
    };
    (Ok(()), Some(mapping))
}
