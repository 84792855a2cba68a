//! Machine code that was compiled elsewhere: cubins and fatbins. What they hold is asked of the driver once
//! they are loaded.
//!
//! One that is linked is loaded as it is, with whatever device library it has inside. One that is
//! relocatable is linked with the library that this crate carries, unless it brings one.

use std::ffi::CStr;
use std::ptr;

use cudarc::driver::sys::{CUfunction, CUjitInputType, CUmodule, CUresult};

use super::super::elf::Elf;
use super::super::image::{C_ABI_MARK, check_c_abi};
use super::super::{GpuError, LoadError};
use super::driver::{self, Failed, call};
use super::facts::Facts;
use super::image::{ABI_MARK, LIBRARY_MARK, check_words};
use super::link::{Input, library, link, refused};

/// What lists a module's functions; since CUDA 12.4.
const LISTING: [&str; 3] =
    ["cuModuleGetFunctionCount", "cuModuleEnumerateFunctions", "cuFuncGetName"];

/// Loads machine code, linked with the device library where it is relocatable. The context is current.
pub(super) fn load(
    name: &str,
    bytes: &[u8],
    is_cubin: bool,
    facts: &Facts,
) -> Result<CUmodule, LoadError> {
    if let Some(symbol) = LISTING.into_iter().find(|symbol| !driver::has(symbol)) {
        return Err(GpuError::DriverTooOld { symbol }.into());
    }
    if !is_cubin {
        // Nobody but the driver can look inside. One that is relocatable does not load, or its kernels, which
        // the driver loads late, are not found.
        match load_linked(bytes) {
            Ok(module) if functions(module).is_ok() => return Ok(module),
            // SAFETY: it was just loaded, and nobody has anything of it.
            Ok(module) => unsafe { call!(cuModuleUnload(module)) }?,
            Err(failed) if failed.code == CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU => {
                return Err(refused(name, failed, "", facts));
            }
            Err(_) => {}
        }
        let kind = CUjitInputType::CU_JIT_INPUT_FATBINARY;
        return link(name, &[library(name, None)?, Input::binary(kind, bytes)], facts);
    }
    if !Elf::parse(bytes).is_some_and(|elf| elf.is_relocatable()) {
        return load_linked(bytes).map_err(|failed| refused(name, failed, "", facts));
    }
    // The names of symbols, among others.
    let text = String::from_utf8_lossy(bytes);
    let mut inputs = Vec::new();
    if text.contains("gpunet_") && !text.contains(LIBRARY_MARK) {
        inputs.push(library(name, Some(&text))?);
    }
    inputs.push(Input::binary(CUjitInputType::CU_JIT_INPUT_CUBIN, bytes));
    link(name, &inputs, facts)
}

fn load_linked(bytes: &[u8]) -> Result<CUmodule, Failed> {
    let mut module = ptr::null_mut();
    // SAFETY: writes one handle; an ELF file or a fat binary says itself how large it is, and damaged ones
    // are refused by the driver, whose parser is trusted.
    unsafe { call!(cuModuleLoadData(&mut module, bytes.as_ptr().cast())) }?;
    Ok(module)
}

/// Compares the versions that a loaded module carries with this program's.
pub(super) fn check_marks(name: &str, module: CUmodule) -> Result<(), LoadError> {
    let library = words::<4>(module, LIBRARY_MARK)?;
    if let Some(found) = library {
        check_words(name, found)?;
    }
    if let Some(found) = words::<4>(module, ABI_MARK)? {
        return check_words(name, found);
    }
    match words::<2>(module, C_ABI_MARK)? {
        // What was linked with the library calls it.
        None if library.is_some() => check_c_abi(name, None),
        None => Ok(()),
        found => check_c_abi(name, found),
    }
}

/// A variable of a module, if it has one of that name and size. No kernel runs.
fn words<const N: usize>(module: CUmodule, name: &str) -> Result<Option<[u32; N]>, LoadError> {
    let symbol = std::ffi::CString::new(name).unwrap_or_default();
    let (mut address, mut bytes) = (0, 0);
    // SAFETY: writes an address and a size; the name is a C string.
    match unsafe { call!(cuModuleGetGlobal_v2(&mut address, &mut bytes, module, symbol.as_ptr())) }
    {
        Err(Failed { code: CUresult::CUDA_ERROR_NOT_FOUND, .. }) => return Ok(None),
        other => other?,
    }
    let mut words = [0_u32; N];
    let room = size_of_val(&words);
    if bytes < room {
        return Ok(None);
    }
    // SAFETY: the variable has as many bytes, and so has the array.
    unsafe { call!(cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), address, room)) }?;
    Ok(Some(words))
}

/// A module's kernels. Asking for one loads it, where the driver does that late.
pub(super) fn functions(module: CUmodule) -> Result<Vec<(String, CUfunction)>, LoadError> {
    let mut count = 0;
    // SAFETY: writes one number.
    unsafe { call!(cuModuleGetFunctionCount(&mut count, module)) }?;
    let mut functions: Vec<CUfunction> = vec![ptr::null_mut(); count as usize];
    // SAFETY: writes as many handles as there is room for.
    unsafe { call!(cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, module)) }?;
    let mut named = Vec::new();
    for listed in functions.into_iter().filter(|function| !function.is_null()) {
        let mut name = ptr::null();
        // SAFETY: writes one pointer to a string of the driver.
        unsafe { call!(cuFuncGetName(&mut name, listed)) }?;
        // SAFETY: it lives as long as the module.
        let name = unsafe { CStr::from_ptr(name) };
        let mut function = ptr::null_mut();
        // SAFETY: writes one handle; the name is a C string.
        unsafe { call!(cuModuleGetFunction(&mut function, module, name.as_ptr())) }?;
        named.push((name.to_string_lossy().into_owned(), function));
    }
    Ok(named)
}
