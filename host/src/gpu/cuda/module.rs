//! Loaded modules: kernels linked with the device library, and what each kernel needs.
//!
//! A module's PTX calls functions of the device library, whose PTX this crate carries. The driver
//! compiles both and its linker joins them, so the library is translated once for a module and not
//! once for each of its kernels. The driver keeps what it made in its cache.
//!
//! Everything about a kernel that a call of the driver can tell is asked when the module is
//! loaded, while no kernel runs, so that launches beside running kernels ask as little as
//! possible.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::ptr;

use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute, CUjit_option, CUjitInputType, CUlimit, CUlinkState, CUmodule,
};

use super::super::library::LIBRARY;
use super::super::{GpuError, KernelNeeds, Module};
use super::driver::{self, Failed, call};
use super::image::{ABI_MARK, LIBRARY_MARK, calls_library, check_abi, entries, reached};

/// Registers a thread may have in the largest blocks: 65,536 of a multiprocessor by 1,024.
const TIGHT_REGISTERS: usize = 64;
/// Threads of the largest blocks.
const LARGEST_BLOCK: u32 = 1024;
/// Room for the compiler's log.
const LOG_BYTES: usize = 8 << 10;

/// One kernel of a loaded module.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) function: CUfunction,
    /// Threads of a block that its registers allow.
    pub(super) max_threads: u32,
    /// Shared memory that the kernel declares itself.
    pub(super) static_shared: u32,
    /// Registers of a thread.
    registers: u32,
    /// Bytes of stack of a thread.
    stack: u32,
    /// Bytes of each parameter, where the driver tells.
    parameters: Option<Vec<usize>>,
}

/// A loaded module.
///
/// The library never has more registers than the largest blocks allow. Kernels are compiled twice where
/// that is needed: with as many registers as their code wants, for small blocks, and with few, for blocks
/// up to the largest, where they spill into memory.
#[derive(Debug)]
pub(super) struct Loaded {
    /// As the program carries it.
    pub(super) ptx: Result<&'static [u8], &'static str>,
    modules: Vec<CUmodule>,
    /// Each kernel's compilations, the one with more registers first.
    kernels: BTreeMap<String, Vec<Kernel>>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Loaded {}

impl Loaded {
    /// Compiles and checks; no kernel may run, and the context must be current.
    pub(super) fn new(module: &Module, text: &str, max_shared: u32) -> Result<Self, GpuError> {
        let mut loaded = Self { ptx: module.ptx, modules: Vec::new(), kernels: BTreeMap::new() };
        match loaded.link(module.name, text, max_shared) {
            Ok(()) => Ok(loaded),
            Err(error) => {
                loaded.unload();
                Err(error)
            }
        }
    }

    /// No kernel may run.
    pub(super) fn unload(self) {
        for module in self.modules {
            // SAFETY: loaded by `compile`, and its functions are forgotten with `self`.
            let _ = unsafe { call!(cuModuleUnload(module)) };
        }
    }

    /// The kernel of that name, in the compilation that serves blocks of so many threads best.
    pub(super) fn kernel(
        &self,
        module: &str,
        kernel: &str,
        threads: u128,
    ) -> Result<&Kernel, GpuError> {
        let compilations = self.kernels.get(kernel);
        let fitting = compilations.and_then(|all| {
            let fits = |kernel: &&Kernel| u128::from(kernel.max_threads) >= threads;
            all.iter().find(fits).or(all.last())
        });
        fitting.ok_or_else(|| GpuError::UnknownKernel {
            module: module.to_owned(),
            kernel: kernel.to_owned(),
            known: self.kernels.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// What each kernel needs, in each of its compilations.
    pub(super) fn needs(&self) -> Vec<KernelNeeds> {
        let needs = |name: &str, kernel: &Kernel| KernelNeeds {
            kernel: name.to_owned(),
            registers: kernel.registers,
            stack: kernel.stack,
            max_threads: kernel.max_threads,
        };
        let all = self.kernels.iter();
        all.flat_map(|(name, compiled)| compiled.iter().map(move |kernel| needs(name, kernel)))
            .collect()
    }

    fn link(&mut self, name: &str, text: &str, max_shared: u32) -> Result<(), GpuError> {
        check_abi(name, text, ABI_MARK)?;
        let mut images = Vec::new();
        if calls_library(text) {
            let library = LIBRARY.text()?;
            check_abi(LIBRARY.name, &library, LIBRARY_MARK)?;
            let mut image = Image::new(c"gpunet device library", name, &reached(&library, text))?;
            image.most_registers = Some(TIGHT_REGISTERS);
            images.push(image);
        }
        images.push(Image::new(c"kernels", name, text)?);
        let module = link(name, &images)?;
        self.modules.push(module);
        self.inspect(module, text, max_shared)?;
        let smallest = self.kernels.values().flatten().map(|kernel| kernel.max_threads).min();
        if smallest.is_some_and(|threads| threads < LARGEST_BLOCK) {
            for image in &mut images {
                image.most_registers = Some(TIGHT_REGISTERS);
            }
            let module = link(name, &images)?;
            self.modules.push(module);
            self.inspect(module, text, max_shared)?;
        }
        reserve_stacks(self.kernels.values().flatten().map(|kernel| kernel.stack).max())?;
        Ok(())
    }

    fn inspect(&mut self, module: CUmodule, text: &str, max_shared: u32) -> Result<(), GpuError> {
        for (entry, parameters) in entries(text) {
            let symbol = CString::new(entry).unwrap_or_default();
            let mut function = ptr::null_mut();
            // SAFETY: writes one handle; the name is a C string.
            unsafe { call!(cuModuleGetFunction(&mut function, module, symbol.as_ptr())) }?;
            let kernel = Kernel::inspect(function, parameters, max_shared)?;
            self.kernels.entry(entry.to_owned()).or_default().push(kernel);
        }
        Ok(())
    }
}

impl Kernel {
    fn inspect(function: CUfunction, count: usize, max_shared: u32) -> Result<Self, Failed> {
        use CUfunction_attribute::{
            CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES as STACK,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as DYNAMIC_SHARED,
            CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK as MAX_THREADS,
            CU_FUNC_ATTRIBUTE_NUM_REGS as REGISTERS,
            CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as STATIC_SHARED,
        };
        let ask = |attribute| -> Result<u32, Failed> {
            let mut value = 0;
            // SAFETY: writes one number; the function was just given by the driver.
            unsafe { call!(cuFuncGetAttribute(&mut value, attribute, function)) }?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let static_shared = ask(STATIC_SHARED)?;
        // Beyond 48 KiB a kernel must be told; the rest of the checks is at launch.
        let dynamic = max_shared.saturating_sub(static_shared) as i32;
        // SAFETY: takes numbers and the function.
        unsafe { call!(cuFuncSetAttribute(function, DYNAMIC_SHARED, dynamic)) }?;
        Ok(Self {
            function,
            max_threads: ask(MAX_THREADS)?,
            static_shared,
            registers: ask(REGISTERS)?,
            stack: ask(STACK)?,
            parameters: parameters(function, count),
        })
    }

    /// The driver would read as many bytes as the PTX says, whatever was given.
    pub(super) fn check_parameters(&self, name: &str, given: &[Box<[u8]>]) -> Result<(), GpuError> {
        let Some(expected) = &self.parameters else {
            return Ok(());
        };
        if expected.iter().copied().eq(given.iter().map(|bytes| bytes.len())) {
            return Ok(());
        }
        let given: Vec<usize> = given.iter().map(|bytes| bytes.len()).collect();
        Err(GpuError::Parameters {
            kernel: name.to_owned(),
            expected: format!("{expected:?}"),
            given: format!("{given:?}"),
        })
    }
}

/// Has the driver set stacks of that size aside now, while no kernel runs. Otherwise the first
/// launch of a kernel that needs more than any before waits for every kernel that runs and has a
/// stack, for ever if that is a server.
fn reserve_stacks(largest: Option<u32>) -> Result<(), Failed> {
    let wanted = largest.unwrap_or(0) as usize;
    let mut reserved = 0;
    // SAFETY: writes one number.
    unsafe { call!(cuCtxGetLimit(&mut reserved, CUlimit::CU_LIMIT_STACK_SIZE)) }?;
    if wanted > reserved {
        // SAFETY: takes two numbers.
        unsafe { call!(cuCtxSetLimit(CUlimit::CU_LIMIT_STACK_SIZE, wanted)) }?;
    }
    Ok(())
}

/// Sizes of a kernel's parameters, of which its PTX shows so many; drivers before CUDA 12.4 do not
/// tell.
fn parameters(function: CUfunction, count: usize) -> Option<Vec<usize>> {
    if !driver::has("cuFuncGetParamInfo") {
        return None;
    }
    let size = |index| {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: writes two numbers; an index behind the last parameter is an error.
        let told = unsafe { call!(cuFuncGetParamInfo(function, index, &mut offset, &mut size)) };
        told.ok().map(|()| size)
    };
    (0..count).map(size).collect()
}

/// PTX that goes into a link.
struct Image {
    label: &'static CStr,
    text: CString,
    /// Registers that a thread may have in it.
    most_registers: Option<usize>,
}

impl Image {
    fn new(label: &'static CStr, module: &str, text: &str) -> Result<Self, GpuError> {
        let text = CString::new(text).map_err(|_| GpuError::ModuleRefused {
            module: module.to_owned(),
            name: "no PTX".to_owned(),
            log: "it holds a zero byte".to_owned(),
        })?;
        Ok(Self { label, text, most_registers: None })
    }
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
fn link(name: &str, images: &[Image]) -> Result<CUmodule, GpuError> {
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
            let bytes = image.text.as_bytes_with_nul();
            let mut option = CUjit_option::CU_JIT_MAX_REGISTERS;
            let mut most = ptr::without_provenance_mut(image.most_registers.unwrap_or(0));
            let options = u32::from(image.most_registers.is_some());
            // SAFETY: the driver copies the text, which has that many bytes and ends in a zero, and reads
            // one option and its value, or none.
            unsafe {
                call!(cuLinkAddData_v2(
                    link.0,
                    CUjitInputType::CU_JIT_INPUT_PTX,
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
        let log = String::from_utf8_lossy(&log[..end]);
        let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let log = lines.iter().take(3).copied().collect::<Vec<_>>().join("; ");
        GpuError::ModuleRefused {
            module: name.to_owned(),
            name: failed.name(),
            log: if log.is_empty() { failed.text() } else { log },
        }
    })
}
