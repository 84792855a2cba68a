//! The driver's linker: what goes into a link, and what it says of images that it refuses.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use cudarc::driver::sys::{CUjit_option, CUjitInputType, CUlinkState, CUmodule, CUresult};

use super::super::LoadError;
use super::super::image::wrong_architecture;
use super::super::library::LIBRARY;
use super::driver::{Failed, call};
use super::facts::Facts;
use super::image::{LIBRARY_MARK, check_abi, missing, reached};

/// Registers a thread may have in the largest blocks: 65,536 of a multiprocessor by 1,024.
const TIGHT_REGISTERS: usize = 64;
/// Room for the compiler's log.
const LOG_BYTES: usize = 8 << 10;

/// What goes into a link.
pub(super) struct Input {
    label: &'static CStr,
    kind: CUjitInputType,
    bytes: Vec<u8>,
    /// Registers that a thread may have in it, where it is compiled now.
    most_registers: Option<usize>,
}

impl Input {
    pub(super) fn ptx(label: &'static CStr, module: &str, text: &str) -> Result<Self, LoadError> {
        let text = CString::new(text).map_err(|_| {
            let why = "does not load: no PTX: it holds a zero byte";
            LoadError::Refused(format!("module '{module}' {why}"))
        })?;
        let kind = CUjitInputType::CU_JIT_INPUT_PTX;
        Ok(Self { label, kind, bytes: text.into_bytes_with_nul(), most_registers: None })
    }

    /// Has it compiled for the largest blocks.
    pub(super) fn limit_registers(&mut self) {
        self.most_registers = Some(TIGHT_REGISTERS);
    }

    /// Machine code.
    pub(super) fn binary(kind: CUjitInputType, bytes: &[u8]) -> Self {
        Self { label: c"kernels", kind, bytes: bytes.to_owned(), most_registers: None }
    }
}

/// The device library for a link, as far as names in `text` reach it, or all of it.
pub(super) fn library(module: &str, text: Option<&str>) -> Result<Input, LoadError> {
    let library = LIBRARY.text()?;
    check_abi(LIBRARY.name, &library, LIBRARY_MARK)?;
    let wanted = text.map_or_else(|| library.clone(), |text| reached(&library, text));
    let mut input = Input::ptx(c"gpunet device library", module, &wanted)?;
    input.limit_registers();
    Ok(input)
}

/// A link in the making; it goes with this.
struct Link(CUlinkState);

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: made by `link`, and not used behind this.
        let _ = unsafe { call!(cuLinkDestroy(self.0)) };
    }
}

/// Has the driver compile images and link them.
pub(super) fn link(name: &str, images: &[Input], facts: &Facts) -> Result<CUmodule, LoadError> {
    let mut log = vec![0_u8; LOG_BYTES];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: [*mut c_void; 2] =
        [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG_BYTES)];
    let linked = (|| {
        let mut state = ptr::null_mut();
        // SAFETY: options and values go in pairs, and the log has the size given; all outlive the
        // link, which keeps the log's address.
        unsafe {
            call!(cuLinkCreate_v2(2, options.as_mut_ptr(), values.as_mut_ptr(), &mut state))
        }?;
        let link = Link(state);
        for image in images {
            let bytes = &image.bytes;
            let mut option = CUjit_option::CU_JIT_MAX_REGISTERS;
            let mut most = ptr::without_provenance_mut(image.most_registers.unwrap_or(0));
            let options = u32::from(image.most_registers.is_some());
            // SAFETY: the driver copies what has that many bytes, and reads one option and its value, or
            // none. A text ends in a zero.
            unsafe {
                call!(cuLinkAddData_v2(
                    link.0,
                    image.kind,
                    bytes.as_ptr().cast_mut().cast(),
                    bytes.len(),
                    image.label.as_ptr(),
                    options,
                    &raw mut option,
                    &raw mut most,
                ))
            }?;
        }
        let (mut cubin, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: writes an address and a size; the memory is the link's.
        unsafe { call!(cuLinkComplete(link.0, &mut cubin, &mut bytes)) }?;
        let mut module = ptr::null_mut();
        // SAFETY: the driver's own cubin, which lives as long as the link.
        unsafe { call!(cuModuleLoadData(&mut module, cubin)) }?;
        Ok(module)
    })();
    linked.map_err(|failed: Failed| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        refused(name, failed, &String::from_utf8_lossy(&log[..end]), facts)
    })
}

/// Why the driver did not take an image, with what its compiler or linker said.
pub(super) fn refused(name: &str, failed: Failed, log: &str, facts: &Facts) -> LoadError {
    let missing = missing(log);
    if !missing.is_empty() {
        return LoadError::MissingSymbols { image: name.to_owned(), symbols: missing.join(", ") };
    }
    if failed.code == CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU {
        let (major, minor) = facts.compute_capability;
        let architecture = format!("sm_{major}{minor}");
        return wrong_architecture(name, &architecture);
    }
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let log = lines.iter().take(3).copied().collect::<Vec<_>>().join("; ");
    let log = if log.is_empty() { failed.text() } else { log };
    LoadError::Refused(format!("module '{name}' does not load: {}: {log}", failed.name()))
}
