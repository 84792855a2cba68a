//! Launches: a kernel that runs on a net.

use std::ffi::c_char;
use std::time::Duration;

use gpunet_host::{Launch, Task};

use crate::arguments::{Arguments, gpunet_argument, gpunet_shape, shape_of};
use crate::handle::{self, opaque};
use crate::image::gpunet_host_image;
use crate::net::gpunet_host_net;
use crate::status::{gpunet_status, guard};
use crate::text::{store, text};

/// A kernel that was launched.
pub struct gpunet_host_launch(());
opaque!(gpunet_host_launch, 6, Launch);

/// A time to wait that is never over.
pub const GPUNET_FOREVER: u64 = u64::MAX;

/// Starts a kernel of an image with the net as its first argument and `arguments` behind it. Their number and
/// sizes are compared with what the image says; that they are what the kernel takes is the caller's promise.
/// What is passed as a buffer, flags or GPUNET_KEEP is kept until the kernel has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_launch_start(
    net: *const gpunet_host_net,
    image: *const gpunet_host_image,
    kernel: *const c_char,
    shape: *const gpunet_shape,
    arguments: *const gpunet_argument,
    count: usize,
    launch: *mut *mut gpunet_host_launch,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    let make = || unsafe {
        let (net, image) = (handle::get(net)?, handle::get(image)?);
        let kernel = text(kernel, "the kernel's name")?;
        let arguments = Arguments::read(arguments, count)?;
        let launch = net.launch_raw(&image, kernel, shape_of(shape)?, &arguments.raw)?;
        arguments.hand_over();
        Ok(launch)
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(launch, make) })
}

/// Waits until the kernel has ended, at most so long (GPUNET_FOREVER: without a limit); how it ended.
/// GPUNET_ETIMEOUT: it still runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_launch_wait(
    launch: *const gpunet_host_launch,
    timeout_ns: u64,
) -> gpunet_status {
    guard(|| {
        let launch = handle::get(launch)?;
        match timeout_ns {
            GPUNET_FOREVER => launch.wait()?,
            _ => launch.wait_timeout(Duration::from_nanos(timeout_ns))?,
        }
        Ok(())
    })
}

/// Stores 1 where the kernel has ended, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_launch_is_finished(
    launch: *const gpunet_host_launch,
    finished: *mut i32,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { store(finished, handle::get(launch)?.is_finished().into()) })
}

/// How the kernel ended, without waiting: GPUNET_OK, its error, or GPUNET_ETIMEOUT while it runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_launch_result(launch: *const gpunet_host_launch) -> gpunet_status {
    guard(|| Ok(handle::get(launch)?.wait_timeout(Duration::ZERO)?))
}

/// The launch's number on its net, as printed lines and dumps name it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_launch_number(
    launch: *const gpunet_host_launch,
    number: *mut u32,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { store(number, handle::get(launch)?.number()) })
}

/// Stops the kernel: its waits return ECANCELED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_launch_abort(launch: *const gpunet_host_launch) -> gpunet_status {
    guard(|| handle::get(launch).map(|launch| launch.abort()))
}

/// Frees the handle. The kernel runs on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_launch_free(launch: *mut gpunet_host_launch) -> gpunet_status {
    guard(|| handle::free(launch))
}
