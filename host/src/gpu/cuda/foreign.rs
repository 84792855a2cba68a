//! Functions that the program has loaded itself, and will launch itself under a lease.

use std::ffi::CStr;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUfunctionLoadingState};

use super::super::{Dim3, GpuError, LaunchSpec, LoadError, StreamError};
use super::context::Context;
use super::driver::{self, Failed, call};
use super::module::{reserve_stacks, reserved_stack};
use crate::lock::lock;

/// What says whether a function is loaded; since CUDA 12.4.
const LOADING: [&str; 3] = ["cuFuncIsLoaded", "cuFuncLoad", "cuFuncGetName"];

/// Has a function loaded, where that waits for no kernel, and checks that such a grid of it would be
/// resident beside the kernels that run.
///
/// # Safety
/// It is a function of this context.
pub(super) unsafe fn check(
    context: &Context,
    function: CUfunction,
    (grid, block, shared_bytes): (Dim3, Dim3, u32),
) -> Result<(), StreamError> {
    if let Some(symbol) = LOADING.into_iter().find(|symbol| !driver::has(symbol)) {
        return Err(GpuError::DriverTooOld { symbol }.into());
    }
    context.bind()?;
    let failed = |failed| context.failed(failed);
    let mut state = lock(&context.state);
    context.reap(&mut state);
    let name = name(function).map_err(failed)?;
    let wait = |running| match running {
        0 => Ok(()),
        running => Err(LoadError::WhileRunning { module: name.clone(), running }),
    };
    let mut loading = CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_LOADED;
    // SAFETY: writes one number.
    unsafe { call!(cuFuncIsLoaded(&mut loading, function)) }.map_err(failed)?;
    if loading == CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_UNLOADED {
        wait(state.ledger.running())?;
        // SAFETY: a function of the context.
        unsafe { call!(cuFuncLoad(function)) }.map_err(failed)?;
    }
    let ask = |attribute| -> Result<u32, Failed> {
        let mut value = 0;
        // SAFETY: writes one number.
        unsafe { call!(cuFuncGetAttribute(&mut value, attribute, function)) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let stack = ask(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES).map_err(failed)?;
    if stack as usize > reserved_stack().map_err(failed)? {
        wait(state.ledger.running())?;
        reserve_stacks(Some(stack)).map_err(failed)?;
    }
    let most =
        ask(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK).map_err(failed)?;
    let spec = LaunchSpec {
        module: "".into(),
        kernel: name.as_str().into(),
        grid,
        block,
        shared_bytes,
        params: Vec::new(),
        entry: Arc::new(|| unreachable!("only its shape is looked at")),
    };
    let shape = spec.shape(most.min(context.facts.max_threads))?;
    let mut resident = 0;
    // SAFETY: writes one number.
    unsafe {
        call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &mut resident,
            function,
            shape.threads as i32,
            shared_bytes as usize,
        ))
    }
    .map_err(failed)?;
    let possible = u32::try_from(resident).unwrap_or(0) * context.facts.multiprocessors;
    Ok(state.ledger.fits_beside(&name, shape.blocks, possible)?)
}

/// A function's name, as its compiler gave it.
fn name(function: CUfunction) -> Result<String, Failed> {
    let mut name = ptr::null();
    // SAFETY: writes one pointer to a string of the driver.
    unsafe { call!(cuFuncGetName(&mut name, function)) }?;
    // SAFETY: it lives as long as the function.
    Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}
