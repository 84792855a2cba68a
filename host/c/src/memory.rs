//! Buffers in GPU memory, and flags: words in host memory that kernels and streams wait for.

use std::ffi::c_void;

use gpunet_host::{Buffer, Flags};

use crate::gpu::gpunet_host_gpu;
use crate::handle::{self, opaque};
use crate::status::{Failure, GPUNET_ERANGE, gpunet_status, guard};
use crate::text::{slice, store};

/// Bytes in the memory of a GPU.
pub struct gpunet_host_buffer(());
opaque!(gpunet_host_buffer, 3, Buffer<u8>);

/// Words in host memory, of 32 or 64 bits.
pub struct gpunet_host_flags(());
opaque!(gpunet_host_flags, 4, Words);

/// Flags of one width.
pub enum Words {
    /// 32 bits.
    Bits32(Flags<u32>),
    /// 64 bits.
    Bits64(Flags<u64>),
}

impl Words {
    fn len(&self) -> usize {
        match self {
            Self::Bits32(words) => words.len(),
            Self::Bits64(words) => words.len(),
        }
    }

    pub(crate) fn address(&self) -> u64 {
        match self {
            Self::Bits32(words) => words.device_address(),
            Self::Bits64(words) => words.device_address(),
        }
    }

    fn check(&self, index: u64) -> Result<usize, Failure> {
        let len = self.len();
        let found = usize::try_from(index).ok().filter(|index| *index < len);
        found.ok_or_else(|| Failure::new(GPUNET_ERANGE, format!("flag {index} of {len}, from 0")))
    }
}

/// A value for a word of 32 bits.
pub(crate) fn narrow(value: u64) -> Result<u32, Failure> {
    let wrong = |_| Failure::argument(format!("{value} does not fit a word of 32 bits"));
    u32::try_from(value).map_err(wrong)
}

/// Allocates GPU memory, zeroed. Of 0 bytes none, and the address is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_buffer_create(
    gpu: *const gpunet_host_gpu,
    bytes: usize,
    buffer: *mut *mut gpunet_host_buffer,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(buffer, || Ok(handle::get(gpu)?.buffer(bytes)?)) })
}

/// Copies bytes out. Waits for no kernel; of what one writes meanwhile, each byte is the old or the new one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_buffer_read(
    buffer: *const gpunet_host_buffer,
    offset: usize,
    to: *mut c_void,
    bytes: usize,
) -> gpunet_status {
    guard(|| {
        let buffer = handle::get(buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        if to.is_null() {
            return Err(Failure::null("the address to copy to"));
        }
        if offset.checked_add(bytes).is_none_or(|end| end > buffer.len()) {
            let len = buffer.len();
            let sentence = format!("{bytes} bytes at {offset} of a buffer of {len} bytes");
            return Err(Failure::new(GPUNET_ERANGE, sentence));
        }
        // SAFETY: the caller's promise: so many bytes, its own. They may not be initialised yet.
        let to = unsafe {
            to.cast::<u8>().write_bytes(0, bytes);
            std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes)
        };
        Ok(buffer.read(offset, to)?)
    })
}

/// Copies bytes in. Waits for no kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_buffer_write(
    buffer: *const gpunet_host_buffer,
    offset: usize,
    from: *const c_void,
    bytes: usize,
) -> gpunet_status {
    guard(|| {
        let buffer = handle::get(buffer)?;
        // SAFETY: the caller's promise.
        let from = unsafe { slice(from.cast::<u8>(), bytes, "the address to copy from") }?;
        Ok(buffer.write(offset, from)?)
    })
}

/// Where a buffer begins, for kernels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_buffer_address(
    buffer: *const gpunet_host_buffer,
    address: *mut u64,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { store(address, handle::get(buffer)?.device_address()) })
}

/// How many bytes a buffer has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_buffer_size(
    buffer: *const gpunet_host_buffer,
    bytes: *mut usize,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { store(bytes, handle::get(buffer)?.len()) })
}

/// Frees a buffer: its memory goes when every kernel and operation that was given it has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_buffer_free(buffer: *mut gpunet_host_buffer) -> gpunet_status {
    guard(|| handle::free(buffer))
}

/// Makes so many flags, of 32 or 64 bits each, all 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_flags_create(
    gpu: *const gpunet_host_gpu,
    count: usize,
    bits: u32,
    flags: *mut *mut gpunet_host_flags,
) -> gpunet_status {
    let make = || {
        let gpu = handle::get(gpu)?;
        match bits {
            _ if count == 0 => Err(Failure::argument("0 flags: make at least 1")),
            32 => Ok(Words::Bits32(gpu.flags(count)?)),
            64 => Ok(Words::Bits64(gpu.flags(count)?)),
            _ => Err(Failure::argument(format!("flags of {bits} bits: 32 or 64"))),
        }
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(flags, make) })
}

/// Reads a flag, with all that its writer did before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_flags_load(
    flags: *const gpunet_host_flags,
    index: u64,
    value: *mut u64,
) -> gpunet_status {
    guard(|| {
        let flags = handle::get(flags)?;
        let index = flags.check(index)?;
        let found = match &*flags {
            Words::Bits32(words) => words.load(index).into(),
            Words::Bits64(words) => words.load(index),
        };
        // SAFETY: the caller's promise.
        unsafe { store(value, found) }
    })
}

/// Sets a flag; who waits for it sees all that was done before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_flags_store(
    flags: *const gpunet_host_flags,
    index: u64,
    value: u64,
) -> gpunet_status {
    guard(|| {
        let flags = handle::get(flags)?;
        let index = flags.check(index)?;
        match &*flags {
            Words::Bits32(words) => words.store(index, narrow(value)?),
            Words::Bits64(words) => words.store(index, value),
        }
        Ok(())
    })
}

/// Where the first flag is, for kernels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_flags_address(
    flags: *const gpunet_host_flags,
    address: *mut u64,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { store(address, handle::get(flags)?.address()) })
}

/// Frees flags; what was given them keeps them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_flags_free(flags: *mut gpunet_host_flags) -> gpunet_status {
    guard(|| handle::free(flags))
}
