//! Leases: kernels that the program puts on streams itself run on a net.

use std::ffi::c_char;
use std::time::Duration;

use gpunet_device::Net as gpunet_net;
use gpunet_host::{GpuStream, Lease, LeaseKernel, Task};

use crate::arguments::{Arguments, gpunet_argument, gpunet_shape, shape_of};
use crate::handle::{self, opaque};
use crate::image::gpunet_host_image;
use crate::net::gpunet_host_net;
use crate::status::{Failure, gpunet_status, guard};
use crate::stream::gpunet_host_stream;
use crate::text::{slice, store, text};

/// Streams on which the program runs kernels of a net.
pub struct gpunet_host_lease(());
opaque!(gpunet_host_lease, 12, Lease);

/// A kernel that will run under a lease: one of an image, or, where `image` is null, a function of the CUDA
/// driver's.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct gpunet_lease_kernel {
    /// Its image; null: `function`.
    pub image: *const gpunet_host_image,
    /// Its name in the image.
    pub kernel: *const c_char,
    /// A CUfunction, as cudaGetFuncBySymbol gives it.
    pub function: u64,
    /// Its largest shape.
    pub shape: gpunet_shape,
}

/// Lends a net to kernels that the program puts on these streams itself, and names here. They are given
/// gpunet_lease_net, on these streams and before the lease is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_lease_create(
    net: *const gpunet_host_net,
    streams: *const *const gpunet_host_stream,
    stream_count: usize,
    kernels: *const gpunet_lease_kernel,
    kernel_count: usize,
    lease: *mut *mut gpunet_host_lease,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    let make = || unsafe {
        let net = handle::get(net)?;
        let streams = slice(streams, stream_count, "the streams of the lease")?.iter();
        let streams: Result<Vec<GpuStream>, Failure> =
            streams.map(|stream| handle::get(*stream).map(|stream| (*stream).clone())).collect();
        let given = slice(kernels, kernel_count, "the kernels of the lease")?;
        let mut named = Vec::new();
        for kernel in given {
            named.push(match handle::optional(kernel.image)? {
                Some(image) => Some((image, text(kernel.kernel, "the kernel's name")?)),
                None => None,
            });
        }
        let kernels: Vec<LeaseKernel<'_>> = given
            .iter()
            .zip(&named)
            .map(|(given, named)| match named {
                Some((image, kernel)) => {
                    LeaseKernel::Named { image, kernel, shape: given.shape.shape() }
                }
                None => LeaseKernel::Function {
                    function: given.function as usize,
                    shape: given.shape.shape(),
                },
            })
            .collect();
        Ok(net.lease(&streams?, &kernels)?)
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(lease, make) })
}

/// The net as kernels under a lease take it, by value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_lease_net(
    lease: *const gpunet_host_lease,
    net: *mut gpunet_net,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { store(net, handle::get(lease)?.net()) })
}

/// Puts a kernel of an image on one of the lease's streams, as gpunet_launch_start takes it: on the emulated
/// GPU the only way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_lease_launch(
    lease: *const gpunet_host_lease,
    stream: *const gpunet_host_stream,
    image: *const gpunet_host_image,
    kernel: *const c_char,
    shape: *const gpunet_shape,
    arguments: *const gpunet_argument,
    count: usize,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (lease, stream, image) =
            (handle::get(lease)?, handle::get(stream)?, handle::get(image)?);
        let kernel = text(kernel, "the kernel's name")?;
        let arguments = Arguments::read(arguments, count)?;
        lease.launch_raw(&stream, &image, kernel, shape_of(shape)?, &arguments.raw)?;
        arguments.hand_over();
        Ok(())
    })
}

/// No more kernels use the net: the lease ends when all that is on its streams now is done. Returns at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_lease_close(lease: *const gpunet_host_lease) -> gpunet_status {
    guard(|| handle::get(lease).map(|lease| lease.close()))
}

/// Waits until a lease that was closed has ended, at most so long; how its kernels ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_lease_wait(
    lease: *const gpunet_host_lease,
    timeout_ns: u64,
) -> gpunet_status {
    guard(|| Ok(handle::get(lease)?.wait_timeout(Duration::from_nanos(timeout_ns))?))
}

/// Stores 1 where the lease has ended, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_lease_is_finished(
    lease: *const gpunet_host_lease,
    finished: *mut i32,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { store(finished, handle::get(lease)?.is_finished().into()) })
}

/// Stops kernels under a lease, those that are yet to run, too: their waits return ECANCELED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_lease_abort(lease: *const gpunet_host_lease) -> gpunet_status {
    guard(|| handle::get(lease).map(|lease| lease.abort()))
}

/// Closes a lease and frees the handle. What is on its streams still runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_lease_free(lease: *mut gpunet_host_lease) -> gpunet_status {
    guard(|| handle::free(lease))
}
