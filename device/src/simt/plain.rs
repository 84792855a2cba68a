//! Plain loads and stores, which the simulation harness may decide.

#![allow(unsafe_code, reason = "raw loads and stores")]

/// Reads a plain value.
///
/// # Safety
/// `from` is valid to read.
#[inline(always)]
pub(crate) unsafe fn load_plain<T: Copy>(from: *const T) -> T {
    #[cfg(feature = "simulation")]
    // SAFETY: the caller's promise.
    if let Some(value) = unsafe { crate::simulation::harness::read(from) } {
        return value;
    }
    // SAFETY: the caller's promise.
    unsafe { from.read() }
}

/// Writes a plain value.
///
/// # Safety
/// `to` is valid to write.
#[inline(always)]
pub(crate) unsafe fn store_plain<T: Copy>(to: *mut T, value: T) {
    #[cfg(feature = "simulation")]
    // SAFETY: the caller's promise.
    if unsafe { crate::simulation::harness::write(to, value) } {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) }
}
