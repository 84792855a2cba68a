//! The CUDA driver: is it there, does it have what we call, what do its errors say.
//!
//! The other files of this folder make their calls through [`call!`]. Nothing here holds state.

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::{self, CUresult};

use super::super::{GpuError, LoadError, OpenError};

/// Every driver function this backend calls. The bindings look each one up at its first call and
/// panic when it is missing, so all are looked up when the GPU is opened.
const SYMBOLS: &[&str] = &[
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphAddKernelNode_v2",
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernel",
    "cuLinkAddData_v2",
    "cuLinkComplete",
    "cuLinkCreate_v2",
    "cuLinkDestroy",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer_v2",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuPointerGetAttribute",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamGetCtx",
    "cuStreamIsCapturing",
];

/// A driver call that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    pub(super) call: &'static str,
    pub(super) code: CUresult,
}

/// Calls a function of the driver and turns its code into a `Result` that knows the call.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        $crate::gpu::cuda::driver::check(
            stringify!($name),
            cudarc::driver::sys::$name($($argument),*),
        )
    };
}
pub(super) use call;

pub(super) fn check(call: &'static str, code: CUresult) -> Result<(), Failed> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        // The names of the bindings carry versions that no manual knows.
        code => Err(Failed { call: call.trim_end_matches("_v2"), code }),
    }
}

impl Failed {
    /// The error's name, such as `CUDA_ERROR_NO_DEVICE`.
    pub(super) fn name(self) -> String {
        text_of(|text| {
            // SAFETY: writes one pointer to a string of the driver.
            unsafe { sys::cuGetErrorName(self.code, text) }
        })
        .unwrap_or_else(|| format!("error {}", self.code as u32))
    }

    /// The driver's words for it.
    pub(super) fn text(self) -> String {
        text_of(|text| {
            // SAFETY: writes one pointer to a string of the driver.
            unsafe { sys::cuGetErrorString(self.code, text) }
        })
        .unwrap_or_else(|| "the driver has no words for it".to_owned())
    }

    /// All of it in one line.
    pub(super) fn line(self) -> String {
        let hint = match self.code {
            CUresult::CUDA_ERROR_LAUNCH_FAILED | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION => {
                ", as a panic or a failed check in a kernel gives it"
            }
            _ => "",
        };
        format!("{}: {} ({}{hint})", self.call, self.name(), self.text())
    }

    /// The context is dead after this error: every later call repeats it.
    pub(super) fn kills_context(self) -> bool {
        matches!(
            self.code,
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
                | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
                | CUresult::CUDA_ERROR_ASSERT
                | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
                | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
                | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
                | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
                | CUresult::CUDA_ERROR_INVALID_PC
                | CUresult::CUDA_ERROR_LAUNCH_FAILED
                | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
                | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
                | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
                | CUresult::CUDA_ERROR_UNKNOWN
                | CUresult::CUDA_ERROR_DEINITIALIZED
        )
    }

    /// For a call that fails while a device is opened.
    pub(super) fn no_device(self) -> OpenError {
        let remedy = match self.code {
            CUresult::CUDA_ERROR_NO_DEVICE => {
                "no GPU is visible, look at nvidia-smi and CUDA_VISIBLE_DEVICES"
            }
            CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
                "the driver's library and its kernel module differ, reload the module or reboot"
            }
            CUresult::CUDA_ERROR_STUB_LIBRARY => {
                "the libcuda that was found is the toolkit's stub, put the driver's own first"
            }
            CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => {
                "another process uses it alone, or its compute mode forbids use"
            }
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => "other programs fill its memory",
            _ => "look whether nvidia-smi works, or use the emulated GPU",
        };
        OpenError::NoDevice { call: self.call, name: self.name(), text: self.text(), remedy }
    }
}

impl From<Failed> for GpuError {
    fn from(failed: Failed) -> Self {
        Self::Driver { call: failed.call, name: failed.name(), text: failed.text() }
    }
}

impl From<Failed> for LoadError {
    fn from(failed: Failed) -> Self {
        Self::Gpu(failed.into())
    }
}

fn text_of(ask: impl FnOnce(*mut *const c_char) -> CUresult) -> Option<String> {
    let mut text: *const c_char = std::ptr::null();
    if ask(&mut text) != CUresult::CUDA_SUCCESS || text.is_null() {
        return None;
    }
    // SAFETY: on success the driver gives a string of its own, which lives as long as it.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Looks for the library and its functions.
pub(super) fn find() -> Result<(), OpenError> {
    // SAFETY: loads the driver's library, whose initialisers are trusted like the system's.
    if !unsafe { sys::is_culib_present() } {
        return Err(OpenError::NoDriver);
    }
    match SYMBOLS.iter().find(|symbol| !has(symbol)) {
        Some(symbol) => Err(GpuError::DriverTooOld { symbol }.into()),
        None => Ok(()),
    }
}

/// Starts it, once it was found.
pub(super) fn start() -> Result<(), OpenError> {
    // SAFETY: takes a number only.
    unsafe { call!(cuInit(0)) }.map_err(Failed::no_device)
}

/// Whether the driver has a function; only after [`find`] has found the library.
pub(super) fn has(symbol: &str) -> bool {
    // SAFETY: the symbol is looked up and never called through this type.
    unsafe { sys::culib().get::<unsafe extern "C" fn()>(symbol.as_bytes()) }.is_ok()
}
