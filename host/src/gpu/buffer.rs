//! Typed buffers in GPU memory: a program makes, fills and reads them, kernels get them as
//! [`Shared`].
//!
//! A buffer never gives its address to host code as a pointer: that would let a safe program read GPU
//! memory directly, or launch a kernel on memory that is gone. A launch asks for it ([`LaunchArg`]).
//! Programs in other languages get it as a number ([`Buffer::device_address`]).

use std::marker::PhantomData;
use std::sync::Arc;

use gpunet_device::Shared;
use gpunet_device::buf::Plain;
use gpunet_device::kernel::{LaunchArg, LaunchArgs, Launching, Memory};

use super::{DeviceMemory, Gpu, LaunchError, MemoryError};

/// What both backends align memory to, at least: cuMemAlloc's alignment.
const ALIGNMENT: usize = 256;

/// `len` elements of `T` in the memory of a GPU, made by [`Gpu::buffer`].
///
/// A launch takes `&buffer` where its kernel has a [`Shared<T>`](Shared), and
/// [`kernel_arg!`](gpunet_device::kernel_arg) structs take it for such a field through their
/// `launch_arg`. The memory stays until every kernel that was given it has ended, whatever becomes
/// of the buffer and of the launch.
///
/// ```
/// # use gpunet_device::{Shared, kernel_arg, kernels, simt};
/// kernels! {
///     /// Doubles each number.
///     pub fn double(net: Net, numbers: Shared<u32>) {
///         let thread = simt::position().thread as usize;
///         numbers.set(thread, 2 * numbers.get(thread).unwrap_or(0));
///         # let _ = net;
///     }
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use gpunet_host::{Gpu, GpuChoice, Net, Shape, Task as _};
/// # let gpu = Gpu::open("emulated".parse::<GpuChoice>()?)?;
/// # let net = Net::builder(&gpu).build()?;
/// let numbers = gpu.buffer::<u32>(64)?;
/// numbers.write(0, &[1, 2, 3])?;
/// net.launch(double, Shape::new(1, 64), (&numbers,))?.wait()?;
/// assert_eq!(numbers.to_vec()?[..4], [2, 4, 6, 0]);
/// # Ok(()) }
/// ```
pub struct Buffer<T> {
    /// None of no elements.
    pub(super) memory: Option<Arc<DeviceMemory>>,
    len: usize,
    elements: PhantomData<fn() -> T>,
}

impl Gpu {
    /// A buffer of `len` elements in the GPU's memory, zeroed. One of no elements takes none.
    ///
    /// # Errors
    /// A size beyond the GPU's memory, or what the driver says.
    pub fn buffer<T: Plain + Send>(&self, len: usize) -> Result<Buffer<T>, MemoryError> {
        const { assert!(align_of::<T>() <= ALIGNMENT && size_of::<T>() > 0) };
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| MemoryError::Refused {
            what: "GPU memory",
            asked: usize::MAX,
            why: format!("{len} elements are larger than the address space"),
        })?;
        let memory = match bytes {
            0 => None,
            bytes => Some(Arc::new(self.device_memory(bytes)?)),
        };
        Ok(Buffer { memory, len, elements: PhantomData })
    }
}

impl<T: Plain> Buffer<T> {
    /// How many elements it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the elements from `offset` on out. Waits for no kernel; of an element that a kernel
    /// writes meanwhile, each byte is the old or the new one.
    ///
    /// # Errors
    /// Elements beyond the end, or what the driver says.
    pub fn read(&self, offset: usize, into: &mut [T]) -> Result<(), MemoryError> {
        let start = self.start(offset, into.len())?;
        let Some(memory) = &self.memory else { return Ok(()) };
        let bytes = size_of_val(into);
        // SAFETY: as many bytes as the slice has, borrowed alone; any bytes are a `T` (Plain).
        let into = unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast(), bytes) };
        memory.read(start, into)
    }

    /// Copies elements in, from `offset` on. Waits for no kernel, and a kernel that reads meanwhile
    /// finds old and new bytes.
    ///
    /// # Errors
    /// Elements beyond the end, or what the driver says.
    pub fn write(&self, offset: usize, from: &[T]) -> Result<(), MemoryError> {
        let start = self.start(offset, from.len())?;
        let Some(memory) = &self.memory else { return Ok(()) };
        // SAFETY: as many bytes as the slice has, all initialised: a `T` has no padding (Plain).
        let from = unsafe { std::slice::from_raw_parts(from.as_ptr().cast(), size_of_val(from)) };
        memory.write(start, from)
    }

    /// Copies all elements out, as [`read`](Self::read) does.
    ///
    /// # Errors
    /// What the driver says.
    pub fn to_vec(&self) -> Result<Vec<T>, MemoryError> {
        // SAFETY: zeros are a `T`, as any bytes are (Plain).
        let mut elements = vec![unsafe { std::mem::zeroed() }; self.len];
        self.read(0, &mut elements)?;
        Ok(elements)
    }

    /// The same memory as elements of another type; as many as fit. Either keeps it.
    #[must_use]
    pub fn cast<U: Plain + Send>(&self) -> Buffer<U> {
        const { assert!(align_of::<U>() <= ALIGNMENT && size_of::<U>() > 0) };
        let len = self.len * size_of::<T>() / size_of::<U>();
        Buffer { memory: self.memory.clone(), len, elements: PhantomData }
    }

    /// Where it begins, for kernels; 0 of no elements. The address is good while the buffer lives, or what
    /// was given it to keep.
    #[must_use]
    pub fn device_address(&self) -> u64 {
        let address = |memory: &Arc<DeviceMemory>| memory.device_ptr().expose_provenance() as u64;
        self.memory.as_ref().map_or(0, address)
    }

    /// What it lies in; nothing of no elements.
    pub(crate) fn memory(&self) -> Option<&Arc<DeviceMemory>> {
        self.memory.as_ref()
    }

    /// Where that element begins, in bytes.
    pub(super) fn start(&self, offset: usize, len: usize) -> Result<usize, MemoryError> {
        MemoryError::check("elements", offset, len, self.len)?;
        Ok(offset * size_of::<T>())
    }
}

// SAFETY: the launch keeps the memory.
unsafe impl<T: Plain + Send> LaunchArg<Shared<T>> for &Buffer<T> {
    fn resolve(self, launching: &mut Launching) -> Shared<T> {
        let Some(memory) = &self.memory else { return Shared::EMPTY };
        launching.keep(Arc::clone(memory) as Memory);
        // SAFETY: the memory has that many elements, aligned, of which any bytes are valid; it is
        // kept, and the kernel's threads order their accesses.
        unsafe { Shared::from_raw(memory.device_ptr().cast(), self.len) }
    }
}

/// The arguments of a kernel that is launched on `gpu` next, and the buffers among them. The caller
/// holds these until the launch is made: from then on the GPU itself frees nothing before the kernel
/// has ended (`ledger`), so that buffers and launches may be dropped in any order.
pub(crate) fn resolve<A>(
    gpu: &Gpu,
    arguments: impl LaunchArgs<A>,
) -> Result<(A, Vec<Memory>), LaunchError> {
    // SAFETY: the net hands the arguments to the launch alone, and the ledger keeps the memory.
    let mut launching = unsafe { Launching::new() };
    let arguments = arguments.resolve(&mut launching);
    let kept = launching.into_kept();
    gpu.check_reach(&kept)?;
    Ok((arguments, kept))
}

impl<T> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("element", &std::any::type_name::<T>())
            .field("len", &self.len)
            .finish()
    }
}
