//! Batches of operations, and how they went.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpunet_host::{Batch, Completions, Condition, Handle, Task};

use crate::handle::{self, opaque};
use crate::memory::{Words, gpunet_host_buffer, gpunet_host_flags, narrow};
use crate::status::{Failure, GPUNET_ERANGE, gpunet_status, guard};
use crate::text::store;

/// Operations in their order, to be posted on queues as often as wanted.
pub struct gpunet_host_batch(());
opaque!(gpunet_host_batch, 9, Mutex<Batch>);

/// Operations that were posted.
pub struct gpunet_host_completions(());
opaque!(gpunet_host_completions, 10, Completions);

/// The word has reached the value; cyclic: the difference is not negative, so that counters may wrap.
pub const GPUNET_WAIT_GREATER_OR_EQUAL: u32 = 0;
/// The word is the value.
pub const GPUNET_WAIT_EQUAL: u32 = 1;
/// The word and the value have a bit in common.
pub const GPUNET_WAIT_AND: u32 = 2;
/// Some bit is set in neither the word nor the value.
pub const GPUNET_WAIT_NOR: u32 = 3;

pub(crate) fn locked(batch: &Mutex<Batch>) -> MutexGuard<'_, Batch> {
    batch.lock().unwrap_or_else(PoisonError::into_inner)
}

fn condition(number: u32) -> Result<Condition, Failure> {
    Ok(match number {
        GPUNET_WAIT_GREATER_OR_EQUAL => Condition::GreaterOrEqual,
        GPUNET_WAIT_EQUAL => Condition::Equal,
        GPUNET_WAIT_AND => Condition::And,
        GPUNET_WAIT_NOR => Condition::Nor,
        _ => return Err(Failure::argument(format!("{number} is no condition: 0 to 3"))),
    })
}

/// Bytes of a buffer, as a range.
fn range(offset: usize, bytes: usize) -> Result<std::ops::Range<usize>, Failure> {
    let end = offset.checked_add(bytes);
    let end = end.ok_or_else(|| Failure::new(GPUNET_ERANGE, "bytes beyond all addresses"))?;
    Ok(offset..end)
}

/// Makes an empty batch. `timeout_ns` is how long each operation may take, from when the stream comes to it; 0:
/// as the queue has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_batch_create(
    timeout_ns: u64,
    batch: *mut *mut gpunet_host_batch,
) -> gpunet_status {
    let make = || {
        Ok(Mutex::new(match timeout_ns {
            0 => Batch::new(),
            _ => Batch::new().timeout(Duration::from_nanos(timeout_ns)),
        }))
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(batch, make) })
}

/// Sends bytes of a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_batch_send(
    batch: *mut gpunet_host_batch,
    socket: u64,
    buffer: *const gpunet_host_buffer,
    offset: usize,
    bytes: usize,
) -> gpunet_status {
    guard(|| {
        let (batch, buffer) = (handle::get(batch)?, handle::get(buffer)?);
        locked(&batch).send(Handle(socket), &buffer, range(offset, bytes)?)?;
        Ok(())
    })
}

/// Fills bytes of a buffer with what is received.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_batch_receive(
    batch: *mut gpunet_host_batch,
    socket: u64,
    buffer: *const gpunet_host_buffer,
    offset: usize,
    bytes: usize,
) -> gpunet_status {
    guard(|| {
        let (batch, buffer) = (handle::get(batch)?, handle::get(buffer)?);
        locked(&batch).receive(Handle(socket), &buffer, range(offset, bytes)?)?;
        Ok(())
    })
}

/// Sends bytes of GPU memory that the program has from elsewhere, and keeps until the operation is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_batch_send_raw(
    batch: *mut gpunet_host_batch,
    socket: u64,
    address: u64,
    bytes: usize,
) -> gpunet_status {
    guard(|| {
        let batch = handle::get(batch)?;
        let address = std::ptr::with_exposed_provenance(address as usize);
        // SAFETY: the caller's promise.
        unsafe {
            locked(&batch).send_raw(Handle(socket), address, bytes)?;
        }
        Ok(())
    })
}

/// Fills such memory with what is received.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_batch_receive_raw(
    batch: *mut gpunet_host_batch,
    socket: u64,
    address: u64,
    bytes: usize,
) -> gpunet_status {
    guard(|| {
        let batch = handle::get(batch)?;
        let address = std::ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: the caller's promise.
        unsafe {
            locked(&batch).receive_raw(Handle(socket), address, bytes)?;
        }
        Ok(())
    })
}

/// Waits until a flag is what the condition (GPUNET_WAIT_EQUAL and its siblings) and the value say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_batch_wait_flag(
    batch: *mut gpunet_host_batch,
    flags: *const gpunet_host_flags,
    index: usize,
    how: u32,
    value: u64,
) -> gpunet_status {
    guard(|| {
        let (batch, flags) = (handle::get(batch)?, handle::get(flags)?);
        let (mut batch, how) = (locked(&batch), condition(how)?);
        match &*flags {
            Words::Bits32(words) => batch.wait(words, index, how, narrow(value)?)?,
            Words::Bits64(words) => batch.wait(words, index, how, value)?,
        };
        Ok(())
    })
}

/// Writes a flag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_batch_write_flag(
    batch: *mut gpunet_host_batch,
    flags: *const gpunet_host_flags,
    index: usize,
    value: u64,
) -> gpunet_status {
    guard(|| {
        let (batch, flags) = (handle::get(batch)?, handle::get(flags)?);
        let mut batch = locked(&batch);
        match &*flags {
            Words::Bits32(words) => batch.write(words, index, narrow(value)?)?,
            Words::Bits64(words) => batch.write(words, index, value)?,
        };
        Ok(())
    })
}

/// Waits until a word of a buffer, of 32 or 64 bits, is what the condition and the value say. `index` counts
/// words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_batch_wait_word(
    batch: *mut gpunet_host_batch,
    buffer: *const gpunet_host_buffer,
    index: usize,
    bits: u32,
    how: u32,
    value: u64,
) -> gpunet_status {
    guard(|| {
        let (batch, buffer) = (handle::get(batch)?, handle::get(buffer)?);
        let (mut batch, how) = (locked(&batch), condition(how)?);
        match bits {
            32 => batch.wait(&buffer.cast::<u32>(), index, how, narrow(value)?)?,
            64 => batch.wait(&buffer.cast::<u64>(), index, how, value)?,
            _ => return Err(Failure::argument(format!("a word of {bits} bits: 32 or 64"))),
        };
        Ok(())
    })
}

/// Writes a word of a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_batch_write_word(
    batch: *mut gpunet_host_batch,
    buffer: *const gpunet_host_buffer,
    index: usize,
    bits: u32,
    value: u64,
) -> gpunet_status {
    guard(|| {
        let (batch, buffer) = (handle::get(batch)?, handle::get(buffer)?);
        let mut batch = locked(&batch);
        match bits {
            32 => batch.write(&buffer.cast::<u32>(), index, narrow(value)?)?,
            64 => batch.write(&buffer.cast::<u64>(), index, value)?,
            _ => return Err(Failure::argument(format!("a word of {bits} bits: 32 or 64"))),
        };
        Ok(())
    })
}

/// How many operations a batch has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_batch_length(
    batch: *const gpunet_host_batch,
    length: *mut usize,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { store(length, locked(&*handle::get(batch)?).len()) })
}

/// Frees a batch. What was posted of it is not touched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_batch_free(batch: *mut gpunet_host_batch) -> gpunet_status {
    guard(|| handle::free(batch))
}

/// How many operations were posted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_completions_length(
    completions: *const gpunet_host_completions,
    length: *mut usize,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { store(length, handle::get(completions)?.len()) })
}

/// How an operation goes: `done` gets 1 where it is done, else 0; `error` its error number, 0 where it went
/// well or is not done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_completions_status(
    completions: *const gpunet_host_completions,
    index: usize,
    done: *mut i32,
    error: *mut i32,
) -> gpunet_status {
    guard(|| {
        let completions = handle::get(completions)?;
        let len = completions.len();
        if index >= len {
            let sentence = format!("operation {index} of {len}, from 0");
            return Err(Failure::new(GPUNET_ERANGE, sentence));
        }
        let status = completions.status(index);
        let errno = status.and_then(Result::err).map_or(0, |errno| errno.0);
        // SAFETY: the caller's promise.
        unsafe {
            store(done, status.is_some().into())?;
            store(error, errno)
        }
    })
}

/// Waits until all operations are done, at most so long; how the first went that failed (GPUNET_EPEER or
/// GPUNET_ESOCKET, with gpunet_last_errno).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_completions_wait(
    completions: *const gpunet_host_completions,
    timeout_ns: u64,
) -> gpunet_status {
    guard(|| Ok(handle::get(completions)?.wait_timeout(Duration::from_nanos(timeout_ns))?))
}

/// Frees the handle. The operations go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_completions_free(
    completions: *mut gpunet_host_completions,
) -> gpunet_status {
    guard(|| handle::free(completions))
}
