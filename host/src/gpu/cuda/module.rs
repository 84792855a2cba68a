//! Loaded modules: the driver's compiler, the check of the ABI, what each kernel needs.
//!
//! Everything about a kernel that a call of the driver can tell is asked when the module is
//! loaded, while no kernel runs, so that launches beside running kernels ask as little as
//! possible.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::ptr;

use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute, CUjit_option, CUlimit, CUmodule, CUresult,
};
use gpunet_device::abi::ABI;

use super::super::{GpuError, Module};
use super::copier::Copier;
use super::driver::{self, Failed, call};

/// The name under which PTX carries the ABI it was built for.
const ABI_SYMBOL: &CStr = c"GPUNET_ABI";
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
    /// Bytes of stack of a thread.
    stack: u32,
    /// Bytes of each parameter, where the driver tells.
    parameters: Option<Vec<usize>>,
}

/// A loaded module.
///
/// It is compiled twice where that is needed: with as many registers as the code wants, for small
/// blocks, and with few, for blocks up to the largest, where the data path spills into memory.
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
    pub(super) fn new(
        module: &Module,
        text: &str,
        max_shared: u32,
        copier: &mut Copier,
    ) -> Result<Self, GpuError> {
        let mut loaded = Self { ptx: module.ptx, modules: Vec::new(), kernels: BTreeMap::new() };
        match loaded.compile(module.name, text, max_shared, copier) {
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

    fn compile(
        &mut self,
        name: &str,
        text: &str,
        max_shared: u32,
        copier: &mut Copier,
    ) -> Result<(), GpuError> {
        let module = compile(name, text, None)?;
        self.modules.push(module);
        Self::check_abi(module, name, copier)?;
        self.inspect(module, text, max_shared)?;
        let smallest = self.kernels.values().flatten().map(|kernel| kernel.max_threads).min();
        if smallest.is_some_and(|threads| threads < LARGEST_BLOCK) {
            let module = compile(name, text, Some(TIGHT_REGISTERS))?;
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

    fn check_abi(module: CUmodule, name: &str, copier: &mut Copier) -> Result<(), GpuError> {
        let mismatch = |found: String| GpuError::AbiMismatch {
            module: name.to_owned(),
            expected: describe(ABI),
            found,
        };
        let (mut address, mut bytes) = (0, 0);
        let symbol = ABI_SYMBOL.as_ptr();
        // SAFETY: writes an address and a size; the name is a C string.
        match unsafe { call!(cuModuleGetGlobal_v2(&mut address, &mut bytes, module, symbol)) } {
            Err(Failed { code: CUresult::CUDA_ERROR_NOT_FOUND, .. }) => {
                return Err(mismatch("it does not say which".to_owned()));
            }
            other => other?,
        }
        let mut words = [0; 16];
        if bytes != words.len() {
            return Err(mismatch(format!("its mark has {bytes} bytes")));
        }
        // SAFETY: the driver just said that 16 bytes lie there.
        unsafe { copier.read(address, &mut words) }?;
        let mut found = [0; 4];
        for (word, bytes) in found.iter_mut().zip(words.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        if found == ABI { Ok(()) } else { Err(mismatch(describe(found))) }
    }
}

impl Kernel {
    fn inspect(function: CUfunction, count: usize, max_shared: u32) -> Result<Self, Failed> {
        use CUfunction_attribute::{
            CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES as STACK,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as DYNAMIC_SHARED,
            CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK as MAX_THREADS,
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

fn compile(name: &str, ptx: &str, registers: Option<usize>) -> Result<CUmodule, GpuError> {
    let refused = |error: String, log: String| GpuError::ModuleRefused {
        module: name.to_owned(),
        name: error,
        log,
    };
    let image = CString::new(ptx)
        .map_err(|_| refused("no PTX".to_owned(), "it holds a zero byte".to_owned()))?;
    let mut log = vec![0_u8; LOG_BYTES];
    let mut options = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        CUjit_option::CU_JIT_MAX_REGISTERS,
    ];
    let mut values: [*mut c_void; 3] = [
        log.as_mut_ptr().cast(),
        ptr::without_provenance_mut(LOG_BYTES),
        ptr::without_provenance_mut(registers.unwrap_or(0)),
    ];
    let mut module = ptr::null_mut();
    // SAFETY: the image is a C string, options and values go in pairs, and the log has the size
    // given; all outlive the call.
    let result = unsafe {
        call!(cuModuleLoadDataEx(
            &mut module,
            image.as_ptr().cast(),
            if registers.is_some() { 3 } else { 2 },
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        ))
    };
    result.map(|()| module).map_err(|failed| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(0);
        let log = String::from_utf8_lossy(&log[..end]);
        let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let log = lines.iter().take(3).copied().collect::<Vec<_>>().join("; ");
        refused(failed.name(), if log.is_empty() { failed.text() } else { log })
    })
}

/// The kernels in a PTX text: names, and how many parameters they have.
fn entries(ptx: &str) -> Vec<(&str, usize)> {
    let mut entries: Vec<(&str, usize)> = Vec::new();
    // Whether the lines are those of a kernel's parameters.
    let mut listing = false;
    for line in ptx.lines().map(|line| line.split("//").next().unwrap_or("")) {
        if let Some((_, rest)) = line.split_once(".entry ") {
            let name = rest.trim_start().split(|c: char| c == '(' || c.is_whitespace()).next();
            entries.extend(name.filter(|name| !name.is_empty()).map(|name| (name, 0)));
            listing = true;
        }
        if let (true, Some((_, parameters))) = (listing, entries.last_mut()) {
            *parameters += line.matches(".param ").count();
        }
        listing &= !line.contains(')');
    }
    entries
}

fn describe([magic, version, net, _]: [u32; 4]) -> String {
    if magic == ABI[0] {
        format!("ABI {version} with a net of {net} bytes")
    } else {
        format!("unknown mark {magic:#x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_in_ptx() {
        let ptx = "// .entry not(\n.visible .entry echo(\n\t.param .b8 x[8],\n\t.param .u64 y\n)\n\
                   { .param .b64 p; }\n.visible .func helper(.param .b32 q)\n\
                   .entry  spin\n(\n)\n{ .param .b64 p; }";
        assert_eq!(entries(ptx), [("echo", 2), ("spin", 0)]);
    }

    #[test]
    fn abis_are_described() {
        assert!(describe(ABI).starts_with(&format!("ABI {} with a net", ABI[1])));
        assert_eq!(describe([7, 1, 1, 0]), "unknown mark 0x7");
    }
}
