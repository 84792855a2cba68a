//! Streams, and queues of kernels and operations on them.

use std::ffi::c_char;
use std::time::Duration;

use gpunet_host::{GpuStream, StreamQueue, Task};

use crate::arguments::{Arguments, gpunet_argument, gpunet_shape, shape_of};
use crate::batch::{gpunet_host_batch, gpunet_host_completions, locked};
use crate::gpu::gpunet_host_gpu;
use crate::handle::{self, opaque};
use crate::image::gpunet_host_image;
use crate::net::gpunet_host_net;
use crate::status::{Failure, GPUNET_ETIMEOUT, gpunet_status, guard};
use crate::text::{store, text};

/// A stream of a GPU.
pub struct gpunet_host_stream(());
opaque!(gpunet_host_stream, 7, GpuStream);

/// A queue of kernels and operations on a stream.
pub struct gpunet_host_queue(());
opaque!(gpunet_host_queue, 8, StreamQueue);

/// Makes a stream. The first one of a GPU loads a kernel, so it is made before others run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_stream_create(
    gpu: *const gpunet_host_gpu,
    stream: *mut *mut gpunet_host_stream,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(stream, || Ok(handle::get(gpu)?.stream()?)) })
}

/// Takes a stream that the program has: a CUstream or cudaStream_t of the device's primary context, as a
/// number. It is not destroyed before what uses it is freed. The emulated GPU has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_stream_from_raw(
    gpu: *const gpunet_host_gpu,
    raw: u64,
    stream: *mut *mut gpunet_host_stream,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    let make = || unsafe { Ok(handle::get(gpu)?.stream_from_raw(raw as usize)?) };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(stream, make) })
}

/// Waits until all that gpunet has put on a stream is done, at most so long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_stream_wait(
    stream: *const gpunet_host_stream,
    timeout_ns: u64,
) -> gpunet_status {
    guard(|| {
        let timeout = Duration::from_nanos(timeout_ns);
        if handle::get(stream)?.wait(timeout)? {
            return Ok(());
        }
        let sentence = format!("the stream is not done after {timeout:?}");
        Err(Failure::new(GPUNET_ETIMEOUT, sentence))
    })
}

/// Stores 1 where all that gpunet has put on a stream is done, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_stream_is_done(
    stream: *const gpunet_host_stream,
    done: *mut i32,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { store(done, handle::get(stream)?.is_done()?.into()) })
}

/// Frees the handle. What is on the stream still runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_stream_free(stream: *mut gpunet_host_stream) -> gpunet_status {
    guard(|| handle::free(stream))
}

/// Opens a queue on a stream. `timeout_ns` is how long an operation may take where its batch does not say; 0:
/// 30 s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_queue_create(
    net: *const gpunet_host_net,
    stream: *const gpunet_host_stream,
    timeout_ns: u64,
    queue: *mut *mut gpunet_host_queue,
) -> gpunet_status {
    let make = || {
        let made = handle::get(net)?.queue(&*handle::get(stream)?)?;
        Ok(match timeout_ns {
            0 => made,
            _ => made.timeout(Duration::from_nanos(timeout_ns)),
        })
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(queue, make) })
}

/// Puts a kernel on the stream, as gpunet_launch_start takes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_queue_launch(
    queue: *const gpunet_host_queue,
    image: *const gpunet_host_image,
    kernel: *const c_char,
    shape: *const gpunet_shape,
    arguments: *const gpunet_argument,
    count: usize,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (queue, image) = (handle::get(queue)?, handle::get(image)?);
        let kernel = text(kernel, "the kernel's name")?;
        let arguments = Arguments::read(arguments, count)?;
        queue.launch_raw(&image, kernel, shape_of(shape)?, &arguments.raw)?;
        arguments.hand_over();
        Ok(())
    })
}

/// Puts the operations of a batch on the stream: all of them, or none. `completions` says how they go.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_queue_post(
    queue: *const gpunet_host_queue,
    batch: *const gpunet_host_batch,
    completions: *mut *mut gpunet_host_completions,
) -> gpunet_status {
    let make = || {
        let (queue, batch) = (handle::get(queue)?, handle::get(batch)?);
        let batch = locked(&batch).clone();
        Ok(queue.post(&batch)?)
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(completions, make) })
}

/// Stops what is on the stream: waits return ECANCELED, of later operations, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_queue_abort(queue: *const gpunet_host_queue) -> gpunet_status {
    guard(|| handle::get(queue).map(|queue| queue.abort()))
}

/// Closes a queue. What is on the stream still runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_queue_free(queue: *mut gpunet_host_queue) -> gpunet_status {
    guard(|| handle::free(queue))
}
