//! Loaded modules and images: kernels linked with the device library, and what each kernel needs.
//!
//! A module's PTX calls functions of the device library, whose PTX this crate carries. The driver
//! compiles both and its linker joins them, so the library is translated once for a module and not
//! once for each of its kernels. The driver keeps what it made in its cache.
//!
//! Everything about a kernel that a call of the driver can report is asked when the module is
//! loaded, while no kernel runs, so that launches beside running kernels ask as little as
//! possible.
//!
//! Why it is so: decision 5 of docs/explanation/decisions.md.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::ptr;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUlimit, CUmodule};

use super::super::image::check_sizes;
use super::super::{GpuKind, Image, KernelNeeds, LaunchError, LoadError, Module};
use super::binary;
use super::driver::{self, Failed, call};
use super::facts::Facts;
use super::image::{ABI_MARK, calls_library, check_abi, check_marks, entries};
use super::link::{Input, library, link};

/// Threads of the largest blocks.
const LARGEST_BLOCK: u32 = 1024;
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
    /// Bytes of each parameter, where the driver reports them.
    parameters: Option<Vec<usize>>,
}

/// A loaded module.
///
/// The library never has more registers than the largest blocks allow. Kernels are compiled twice where
/// that is needed: with as many registers as their code wants, for small blocks, and with few, for blocks
/// up to the largest, where they spill into memory.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) origin: Origin,
    modules: Vec<CUmodule>,
    /// Each kernel's compilations, the one with more registers first.
    kernels: BTreeMap<String, Vec<Kernel>>,
}

/// What was loaded: one name stands for one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// As a program carries it.
    Module(Result<&'static [u8], &'static str>),
    /// The bytes of an image.
    Image(Box<[u8]>),
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Loaded {}

impl Loaded {
    /// Compiles and checks; no kernel may run, and the context must be current.
    pub(super) fn new(module: &Module, text: &str, facts: &Facts) -> Result<Self, LoadError> {
        check_abi(module.name, text, ABI_MARK)?;
        Self::with(Origin::Module(module.ptx), |loaded| loaded.link(module.name, text, facts))
    }

    /// The same of an image that was compiled elsewhere.
    pub(super) fn from_image(name: &str, image: &Image, facts: &Facts) -> Result<Self, LoadError> {
        let origin = Origin::of(name, image)?;
        match image {
            Image::Ptx(text) => {
                check_marks(name, text)?;
                Self::with(origin, |loaded| loaded.link(name, text, facts))
            }
            _ => {
                let Origin::Image(bytes) = origin.clone() else { unreachable!("of an image") };
                Self::with(origin, |loaded| {
                    let is_cubin = matches!(image, Image::Cubin(_));
                    let module = binary::load(name, &bytes, is_cubin, facts)?;
                    loaded.modules.push(module);
                    binary::check_marks(name, module)?;
                    for (name, function) in binary::functions(module)? {
                        let kernel = Kernel::inspect(function, None, facts.max_shared)?;
                        loaded.kernels.entry(name).or_default().push(kernel);
                    }
                    loaded.reserve_stacks()
                })
            }
        }
    }

    fn with(
        origin: Origin,
        load: impl FnOnce(&mut Self) -> Result<(), LoadError>,
    ) -> Result<Self, LoadError> {
        let mut loaded = Self { origin, modules: Vec::new(), kernels: BTreeMap::new() };
        match load(&mut loaded) {
            Ok(()) => Ok(loaded),
            Err(error) => {
                loaded.unload();
                Err(error)
            }
        }
    }

    /// Bytes of the parameters of each kernel, where the driver or the PTX has them.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (&str, Option<&[usize]>)> {
        self.kernels.iter().map(|(name, compiled)| {
            (name.as_str(), compiled.first().and_then(|kernel| kernel.parameters.as_deref()))
        })
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
    ) -> Result<&Kernel, LaunchError> {
        let compilations = self.kernels.get(kernel);
        let fitting = compilations.and_then(|all| {
            let fits = |kernel: &&Kernel| u128::from(kernel.max_threads) >= threads;
            all.iter().find(fits).or(all.last())
        });
        fitting.ok_or_else(|| LaunchError::UnknownKernel {
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

    fn link(&mut self, name: &str, text: &str, facts: &Facts) -> Result<(), LoadError> {
        let mut images = Vec::new();
        if calls_library(text) {
            images.push(library(name, Some(text))?);
        }
        images.push(Input::ptx(c"kernels", name, text)?);
        let module = link(name, &images, facts)?;
        self.modules.push(module);
        self.inspect(module, text, facts.max_shared)?;
        let smallest = self.kernels.values().flatten().map(|kernel| kernel.max_threads).min();
        if smallest.is_some_and(|threads| threads < LARGEST_BLOCK) {
            for image in &mut images {
                image.limit_registers();
            }
            let module = link(name, &images, facts)?;
            self.modules.push(module);
            self.inspect(module, text, facts.max_shared)?;
        }
        self.reserve_stacks()
    }

    fn reserve_stacks(&self) -> Result<(), LoadError> {
        reserve_stacks(self.kernels.values().flatten().map(|kernel| kernel.stack).max())?;
        Ok(())
    }

    fn inspect(&mut self, module: CUmodule, text: &str, max_shared: u32) -> Result<(), LoadError> {
        for (entry, parameters) in entries(text) {
            let symbol = CString::new(entry).unwrap_or_default();
            let mut function = ptr::null_mut();
            // SAFETY: writes one handle; the name is a C string.
            unsafe { call!(cuModuleGetFunction(&mut function, module, symbol.as_ptr())) }?;
            let kernel = Kernel::inspect(function, Some(parameters), max_shared)?;
            self.kernels.entry(entry.to_owned()).or_default().push(kernel);
        }
        Ok(())
    }
}

impl Kernel {
    /// `declared`: bytes of its parameters, as far as its text says.
    fn inspect(
        function: CUfunction,
        declared: Option<Vec<usize>>,
        max_shared: u32,
    ) -> Result<Self, Failed> {
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
        // Beyond 48 KiB a kernel needs this attribute; the rest of the checks is at launch.
        let dynamic = max_shared.saturating_sub(static_shared) as i32;
        // SAFETY: takes numbers and the function.
        unsafe { call!(cuFuncSetAttribute(function, DYNAMIC_SHARED, dynamic)) }?;
        Ok(Self {
            function,
            max_threads: ask(MAX_THREADS)?,
            static_shared,
            registers: ask(REGISTERS)?,
            stack: ask(STACK)?,
            parameters: parameters(function).or(declared),
        })
    }

    /// The driver would read as many bytes as the PTX says, whatever was given.
    pub(super) fn check_parameters(
        &self,
        name: &str,
        given: &[Box<[u8]>],
    ) -> Result<(), LaunchError> {
        self.parameters.as_ref().map_or(Ok(()), |expected| check_sizes(name, expected, given))
    }
}

/// Has the driver set stacks of that size aside now, while no kernel runs. Otherwise the first
/// launch of a kernel that needs more than any before waits for every kernel that runs and has a
/// stack, for ever if that is a server.
pub(super) fn reserve_stacks(largest: Option<u32>) -> Result<(), Failed> {
    let wanted = largest.unwrap_or(0) as usize;
    if wanted > reserved_stack()? {
        // SAFETY: takes two numbers.
        unsafe { call!(cuCtxSetLimit(CUlimit::CU_LIMIT_STACK_SIZE, wanted)) }?;
    }
    Ok(())
}

/// Bytes of the stacks that are set aside.
pub(super) fn reserved_stack() -> Result<usize, Failed> {
    let mut reserved = 0;
    // SAFETY: writes one number.
    unsafe { call!(cuCtxGetLimit(&mut reserved, CUlimit::CU_LIMIT_STACK_SIZE)) }?;
    Ok(reserved)
}

/// Sizes of a kernel's parameters; drivers before CUDA 12.4 do not report them.
fn parameters(function: CUfunction) -> Option<Vec<usize>> {
    if !driver::has("cuFuncGetParamInfo") {
        return None;
    }
    let size = |index| {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: writes two numbers; an index behind the last parameter is an error.
        let found = unsafe { call!(cuFuncGetParamInfo(function, index, &mut offset, &mut size)) };
        found.ok().map(|()| size)
    };
    Some((0..).map_while(size).collect())
}

impl Origin {
    /// That of an image for CUDA.
    pub(super) fn of(name: &str, image: &Image) -> Result<Self, LoadError> {
        match image {
            Image::Ptx(text) => Ok(Self::Image(text.as_bytes().into())),
            Image::Cubin(bytes) | Image::Fatbin(bytes) => Ok(Self::Image(bytes.as_slice().into())),
            Image::SharedObject(_) | Image::Functions(_) => {
                Err(image.wrong_kind(name, GpuKind::Cuda, "PTX, a cubin or a fatbin"))
            }
        }
    }
}
