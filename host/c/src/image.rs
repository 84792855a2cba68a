//! Images of kernels.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use gpunet_host::gpu::KernelRecord as gpunet_kernel;
use gpunet_host::{Gpu, Image, LoadedImage, RawKernel};

use crate::gpu::gpunet_host_gpu;
use crate::handle::{self, opaque};
use crate::status::{Failure, GPUNET_EIMAGE, gpunet_status, guard};
use crate::text::{slice, store, store_text, text};

/// Kernels that can be launched by name.
pub struct gpunet_host_image(());
opaque!(gpunet_host_image, 5, LoadedImage);

/// Loads an image, whose code is trusted.
///
/// # Safety
/// As [`Gpu::load_image`].
unsafe fn load(gpu: &Gpu, name: &str, image: Image) -> Result<LoadedImage, Failure> {
    // SAFETY: the caller's promise.
    Ok(unsafe { gpu.load_image(name, image) }?)
}

/// Loads PTX text, a cubin or a fatbin, for CUDA. `name` is yours, for errors; one name stands for one image.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_image_load_bytes(
    gpu: *const gpunet_host_gpu,
    name: *const c_char,
    bytes: *const c_void,
    length: usize,
    image: *mut *mut gpunet_host_image,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    let make = || unsafe {
        let (gpu, name) = (handle::get(gpu)?, text(name, "the image's name")?);
        let bytes = slice(bytes.cast::<u8>(), length, "the address of the image")?;
        load(&gpu, name, Image::bytes(bytes)?)
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(image, make) })
}

/// Loads a file: a shared object for the emulated GPU, which runs its initialisers; else PTX, a cubin or a
/// fatbin for CUDA.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_image_load_file(
    gpu: *const gpunet_host_gpu,
    name: *const c_char,
    path: *const c_char,
    image: *mut *mut gpunet_host_image,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    let make = || unsafe {
        let (gpu, name) = (handle::get(gpu)?, text(name, "the image's name")?);
        if path.is_null() {
            return Err(Failure::null("the path of the image"));
        }
        let path = Path::new(OsStr::from_bytes(CStr::from_ptr(path).to_bytes()));
        load(&gpu, name, of_file(path)?)
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(image, make) })
}

/// The machine in the header of code for a CUDA device, and where it stands there.
const MACHINE: std::ops::Range<usize> = 18..20;
const CUDA: [u8; 2] = [190, 0];

/// What a file holds. An object of this machine is named by its path, since the system loads it.
fn of_file(path: &Path) -> Result<Image, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure {
        status: GPUNET_EIMAGE,
        errno: error.raw_os_error().unwrap_or(0),
        sentence: format!("the image {} cannot be read: {error}", path.display()),
    })?;
    if bytes.starts_with(b"\x7fELF") && bytes.get(MACHINE) != Some(&CUDA[..]) {
        return Ok(Image::SharedObject(path.to_owned()));
    }
    Ok(Image::bytes(bytes)?)
}

/// Loads functions of this process as kernels of the emulated GPU: `count` records, as GPUNET_KERNEL makes
/// them in C++ (gpunet_list_kernels has those of the program). What they name stays for as long as the image is
/// used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_image_load_functions(
    gpu: *const gpunet_host_gpu,
    name: *const c_char,
    records: *const *const gpunet_kernel,
    count: usize,
    image: *mut *mut gpunet_host_image,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    let make = || unsafe {
        let (gpu, name) = (handle::get(gpu)?, text(name, "the image's name")?);
        let records = slice(records, count, "the records of kernels")?;
        let kernels: Result<_, _> = records.iter().map(|record| of_record(*record)).collect();
        load(&gpu, name, Image::Functions(kernels?))
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(image, make) })
}

/// A kernel of its record.
///
/// # Safety
/// Null, or a record as `gpunet_kernel` is documented.
unsafe fn of_record(record: *const gpunet_kernel) -> Result<RawKernel, Failure> {
    let wrong = |why: &str| Failure::new(GPUNET_EIMAGE, format!("a record of a kernel {why}"));
    // SAFETY: the caller's promise.
    let record = unsafe { record.as_ref() }.ok_or_else(|| Failure::null("a record of a kernel"))?;
    if (record.size as usize) < size_of::<gpunet_kernel>() {
        return Err(wrong("is too small: build it with the headers of this version"));
    }
    let entry = record.entry.ok_or_else(|| wrong("has no function"))?;
    let count = usize::try_from(record.count).ok().filter(|count| *count <= 4096);
    let count = count.ok_or_else(|| wrong("has more than 4096 parameters"))?;
    // SAFETY: the caller's promise.
    let name = unsafe { text(record.name, "the name in a record of a kernel") }?;
    // SAFETY: the caller's promise.
    let sizes = unsafe { slice(record.sizes, count, "the sizes in a record of a kernel") }?;
    let sizes: Vec<usize> = sizes.iter().map(|size| *size as usize).collect();
    // SAFETY: the caller's promise.
    Ok(unsafe { RawKernel::new(name, entry, sizes, None) })
}

/// The names of an image's kernels, a line for each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_image_kernels(
    image: *const gpunet_host_image,
    to: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> gpunet_status {
    guard(|| {
        let names: Vec<String> = handle::get(image)?.kernels().map(str::to_owned).collect();
        // SAFETY: the caller's promise.
        unsafe { store_text(&names.join("\n"), to, capacity, length) }
    })
}

/// The bytes of each parameter of a kernel, the net as the first of them: at most `capacity` at `sizes`, and at
/// `count` how many there are. 0 where that is not known, as of machine code before CUDA 12.4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_image_parameters(
    image: *const gpunet_host_image,
    kernel: *const c_char,
    sizes: *mut u64,
    capacity: usize,
    count: *mut usize,
) -> gpunet_status {
    guard(|| {
        let image = handle::get(image)?;
        // SAFETY: the caller's promise.
        let found = image.parameters(unsafe { text(kernel, "the kernel's name") }?)?;
        let found = found.unwrap_or_default();
        if sizes.is_null() && capacity > 0 {
            return Err(Failure::null("the address to store the sizes at"));
        }
        for (at, bytes) in found.iter().take(capacity).enumerate() {
            // SAFETY: below the capacity, by the caller's promise.
            unsafe { sizes.add(at).write(*bytes as u64) };
        }
        // SAFETY: the caller's promise.
        unsafe { store(count, found.len()) }
    })
}

/// The driver's handle (CUfunction) of a kernel for blocks of so many threads, for programs that launch it
/// themselves under a lease; 0 on the emulated GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_image_cuda_function(
    image: *const gpunet_host_image,
    kernel: *const c_char,
    threads: u32,
    function: *mut u64,
) -> gpunet_status {
    guard(|| {
        let image = handle::get(image)?;
        // SAFETY: the caller's promise.
        let kernel = unsafe { text(kernel, "the kernel's name") }?;
        let found = image.cuda_function(kernel, threads)?.unwrap_or(0) as u64;
        // SAFETY: the caller's promise.
        unsafe { store(function, found) }
    })
}

/// Frees the handle. The image stays loaded as long as its GPU is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_image_free(image: *mut gpunet_host_image) -> gpunet_status {
    guard(|| handle::free(image))
}
