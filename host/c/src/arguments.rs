//! Shapes and arguments of launches by name.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpunet_host::{Handle, RawArguments, Shape};

use crate::handle;
use crate::memory::{gpunet_host_buffer, gpunet_host_flags};
use crate::status::{Failure, GPUNET_EPARAMETERS, GPUNET_ERANGE};
use crate::text::slice;

/// Bytes that no parameter has more of: CUDA's limit since 12.1.
const MOST_BYTES: usize = 32 << 10;

/// How a launch is laid out. In `blocks` and `threads` x comes first; a y or z of 0 counts as 1.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct gpunet_shape {
    /// Blocks of the grid.
    pub blocks: [u32; 3],
    /// Threads of each block.
    pub threads: [u32; 3],
    /// Launch-sized shared memory of each block, bytes.
    pub shared_bytes: u32,
    /// 0.
    pub reserved: u32,
}

/// An argument with these bytes: `value` is their address, `size` how many.
pub const GPUNET_ARGUMENT_BYTES: u32 = 0;
/// A socket: `value` is the address of its uint64_t. A listener among the arguments is closed when the launch
/// fails and no other has it.
pub const GPUNET_ARGUMENT_SOCKET: u32 = 1;
/// The address of a buffer, `size` bytes from its beginning: `value` is the gpunet_host_buffer, which is kept.
pub const GPUNET_ARGUMENT_BUFFER: u32 = 2;
/// The address of flags: `value` is the gpunet_host_flags, which are kept.
pub const GPUNET_ARGUMENT_FLAGS: u32 = 3;
/// No argument: a gpunet_host_buffer that another argument names, by an address inside a struct, say, is kept.
pub const GPUNET_KEEP_BUFFER: u32 = 4;
/// No argument: the same for gpunet_host_flags.
pub const GPUNET_KEEP_FLAGS: u32 = 5;
/// No argument: `release` is called with `value`, by any thread, once the kernel has ended. Where the call
/// fails it is not called.
pub const GPUNET_KEEP: u32 = 6;

/// An argument of a kernel, behind the net; or something that is kept until the kernel has ended.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct gpunet_argument {
    /// GPUNET_ARGUMENT_BYTES and its siblings.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// As the kind says.
    pub size: u64,
    /// As the kind says.
    pub value: *const c_void,
    /// Of GPUNET_KEEP; else null.
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

impl gpunet_shape {
    pub(crate) fn shape(&self) -> Shape {
        let sizes = |[x, y, z]: [u32; 3]| (x, y.max(1), z.max(1));
        Shape::new(sizes(self.blocks), sizes(self.threads)).shared_memory(self.shared_bytes)
    }
}

/// A shape that the caller gives.
///
/// # Safety
/// Null, or valid to read.
pub(crate) unsafe fn shape_of(of: *const gpunet_shape) -> Result<Shape, Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { of.as_ref() }.ok_or_else(|| Failure::null("the shape of the launch"))?;
    Ok(given.shape())
}

/// Calls a function of the program's when it goes, if it was made to.
struct Release {
    function: unsafe extern "C" fn(*mut c_void),
    value: *mut c_void,
    armed: AtomicBool,
}

// SAFETY: any thread may call the function with the value (`GPUNET_KEEP`).
unsafe impl Send for Release {}
// SAFETY: as above.
unsafe impl Sync for Release {}

impl Drop for Release {
    fn drop(&mut self) {
        if *self.armed.get_mut() {
            // SAFETY: as the program has promised; this is the only call.
            unsafe { (self.function)(self.value) };
        }
    }
}

/// The arguments of a launch. What they keep is the program's until the launch is made.
pub(crate) struct Arguments {
    pub(crate) raw: RawArguments,
    releases: Vec<Arc<Release>>,
}

impl Arguments {
    /// Reads the caller's.
    ///
    /// # Safety
    /// So many arguments as `gpunet_argument` is documented.
    pub(crate) unsafe fn read(
        arguments: *const gpunet_argument,
        count: usize,
    ) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        let given = unsafe { slice(arguments, count, "the array of arguments") }?;
        let (mut raw, mut releases) = (RawArguments::new(), Vec::new());
        for (at, argument) in given.iter().enumerate() {
            let what = format!("the value of argument {at}");
            let size = usize::try_from(argument.size).unwrap_or(usize::MAX);
            raw = match argument.kind {
                GPUNET_ARGUMENT_BYTES => {
                    // Before it is copied: what memory does not hold would end the process.
                    if size > MOST_BYTES {
                        let sentence = format!(
                            "argument {at} has {size} bytes: at most {MOST_BYTES} are possible, \
                             pass more in a buffer"
                        );
                        return Err(Failure::new(GPUNET_EPARAMETERS, sentence));
                    }
                    // SAFETY: the caller's promise.
                    raw.bytes(unsafe { slice(argument.value.cast::<u8>(), size, &what) }?)
                }
                GPUNET_ARGUMENT_SOCKET => {
                    // SAFETY: the caller's promise.
                    let socket = unsafe { slice(argument.value.cast::<[u8; 8]>(), 1, &what) }?;
                    raw.socket(Handle(u64::from_ne_bytes(socket[0])))
                }
                GPUNET_ARGUMENT_BUFFER => {
                    let buffer = handle::get(argument.value.cast::<gpunet_host_buffer>())?;
                    if size > buffer.len() {
                        let len = buffer.len();
                        let sentence =
                            format!("argument {at} is byte {size} of a buffer of {len} bytes");
                        return Err(Failure::new(GPUNET_ERANGE, sentence));
                    }
                    raw.value(buffer.device_address() + size as u64).keep_buffer(&buffer)
                }
                GPUNET_ARGUMENT_FLAGS => {
                    let flags = handle::get(argument.value.cast::<gpunet_host_flags>())?;
                    raw.value(flags.address()).keep(flags)
                }
                GPUNET_KEEP_BUFFER => {
                    let buffer = handle::get(argument.value.cast::<gpunet_host_buffer>())?;
                    raw.keep_buffer(&buffer)
                }
                GPUNET_KEEP_FLAGS => {
                    raw.keep(handle::get(argument.value.cast::<gpunet_host_flags>())?)
                }
                GPUNET_KEEP => {
                    let function = argument.release;
                    let function = function.ok_or_else(|| Failure::null("a function `release`"))?;
                    let value = argument.value.cast_mut();
                    let armed = AtomicBool::new(false);
                    let release = Arc::new(Release { function, value, armed });
                    releases.push(Arc::clone(&release));
                    raw.keep(release)
                }
                kind => {
                    return Err(Failure::argument(format!(
                        "argument {at} is of kind {kind}: 0 to 6"
                    )));
                }
            };
        }
        Ok(Self { raw, releases })
    }

    /// The launch is made: it keeps them now.
    pub(crate) fn hand_over(self) {
        for release in &self.releases {
            // The last one to let go reads it; that is ordered by the count of references.
            release.armed.store(true, Ordering::Relaxed);
        }
    }
}
