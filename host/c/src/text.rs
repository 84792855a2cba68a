//! Strings and memory of the caller's.

use std::ffi::{CStr, c_char, c_void};

use crate::status::Failure;

/// A string that the caller gives.
///
/// # Safety
/// Null, or a C string that lives as long as the result.
pub(crate) unsafe fn text<'a>(from: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if from.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map_err(|_| Failure::argument(format!("{what} is no UTF-8")))
}

/// Memory that the caller gives; of no bytes the address does not matter.
///
/// # Safety
/// Null, or as many elements that live as long as the result, and that nobody writes meanwhile.
pub(crate) unsafe fn slice<'a, T>(
    from: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    match count {
        0 => Ok(&[]),
        _ if from.is_null() => Err(Failure::null(what)),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(from, count) }),
    }
}

/// Stores a result at an address that the caller gives.
///
/// # Safety
/// Null, or valid to write.
pub(crate) unsafe fn store<T>(to: *mut T, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::null("the address to store the result at"));
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// The same where the caller may not want it.
///
/// # Safety
/// As [`store`].
pub(crate) unsafe fn store_if_wanted<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write(value) };
    }
}

/// Stores a string in memory of the caller's: cut off where it does not fit, with a zero at its end in any
/// case; and how long it is, without the zero.
///
/// # Safety
/// `to` is valid to write for `capacity` bytes, `length` is null or valid to write.
pub(crate) unsafe fn store_text(
    text: &str,
    to: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Result<(), Failure> {
    if to.is_null() && capacity > 0 {
        return Err(Failure::null("the address to store the text at"));
    }
    if let Some(most) = capacity.checked_sub(1) {
        let bytes = text.len().min(most);
        // SAFETY: less than the capacity, by the caller's promise.
        unsafe {
            to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), bytes);
            to.add(bytes).write(0);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { store_if_wanted(length, text.len()) };
    Ok(())
}

/// A copy of bytes that the caller frees with `gpunet_free`; null of none.
pub(crate) fn lend(bytes: &[u8]) -> Result<*mut u8, Failure> {
    if bytes.is_empty() {
        return Ok(std::ptr::null_mut());
    }
    // SAFETY: of more than no bytes.
    let copy = unsafe { libc::malloc(bytes.len()) }.cast::<u8>();
    if copy.is_null() {
        return Err(Failure::new(crate::status::GPUNET_EMEMORY, "no memory for the bytes"));
    }
    // SAFETY: as many bytes, which nobody else has.
    unsafe { copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(copy)
}

/// Frees bytes that a function of this library has allocated. Null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_free(bytes: *mut c_void) {
    // SAFETY: the caller's promise: from `lend`, freed once.
    unsafe { libc::free(bytes) };
}
