//! Launches by name: kernels of images in other languages, with arguments as bytes.

use std::sync::Arc;

use gpunet_device::Handle;
use gpunet_device::buf::Plain;
use gpunet_device::kernel::Memory;

use super::kept::Kept;
use super::{Launch, Net, Shape};
use crate::error::LaunchError;
use crate::gpu::{Buffer, Flags, Gpu, LaunchSpec, LoadedImage, Word};

/// The arguments of a kernel behind its net, as bytes.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RawArguments {
    values: Vec<Box<[u8]>>,
    pub(super) sockets: Vec<Handle>,
    pub(super) kept: Vec<Memory>,
}

impl RawArguments {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an argument with these bytes.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.values.push(bytes.into());
        self
    }

    /// Adds a number.
    pub fn value<T: Plain>(self, value: T) -> Self {
        let bytes = crate::memory::bytes_of(&value);
        self.bytes(&bytes)
    }

    /// Adds a socket: a listener among the arguments is closed when the launch fails and no other that runs
    /// has it.
    pub fn socket(mut self, socket: Handle) -> Self {
        self.sockets.push(socket);
        self.value(socket.0)
    }

    /// Adds the address of a buffer's first element, and keeps the buffer. One of no elements is null.
    pub fn buffer<T: Plain>(self, buffer: &Buffer<T>) -> Self {
        self.value(buffer.device_address()).keep_buffer(buffer)
    }

    /// Keeps a buffer that an argument names in another way, by an address inside it, say.
    pub fn keep_buffer<T: Plain>(mut self, buffer: &Buffer<T>) -> Self {
        self.kept.extend(buffer.memory().map(|memory| Arc::clone(memory) as Memory));
        self
    }

    /// Adds the address of the first of some words in host memory, and keeps them.
    pub fn flags<W: Word>(self, flags: &Flags<W>) -> Self {
        self.value(flags.device_address()).keep(Arc::clone(flags.memory()) as Memory)
    }

    /// Keeps memory that an argument names until the kernel has ended.
    pub fn keep(mut self, memory: Memory) -> Self {
        self.kept.push(memory);
        self
    }

    /// A launch with these, on a net.
    pub(super) fn spec(
        &self,
        gpu: &Gpu,
        (image, kernel, shape): (&LoadedImage, &str, Shape),
        device_net: gpunet_device::Net,
    ) -> Result<LaunchSpec<'static>, LaunchError> {
        check_image(gpu, image)?;
        gpu.check_reach(&self.kept)?;
        let mut params = vec![crate::memory::bytes_of(&device_net)];
        params.extend(self.values.iter().cloned());
        image.spec(kernel, shape.parts(), params)
    }
}

/// Whether an image is loaded on that GPU.
pub(super) fn check_image(gpu: &Gpu, image: &LoadedImage) -> Result<(), LaunchError> {
    match image.gpu().is_same(gpu) {
        true => Ok(()),
        false => Err(LaunchError::OtherGpu(format!("image '{}'", image.name()))),
    }
}

impl Net {
    /// Starts a kernel of an image with this net as its first argument and `arguments` behind it. Their
    /// number and sizes are compared with those that the image has.
    ///
    /// # Safety
    /// The arguments are what the kernel takes, in its layout. Memory that they name stays until the kernel
    /// has ended: because [`RawArguments::keep`] keeps it, or by the caller. The kernel's code may do what
    /// it does, on the emulated GPU in this process.
    ///
    /// # Errors
    /// As [`launch`](Self::launch), and a kernel that the image does not have
    /// ([`LaunchError::UnknownKernel`]) or arguments of other sizes ([`LaunchError::Parameters`]).
    #[allow(unsafe_code, reason = "a promise of the caller's")]
    pub unsafe fn launch_raw(
        &self,
        image: &LoadedImage,
        kernel: &str,
        shape: Shape,
        arguments: &RawArguments,
    ) -> Result<Launch, LaunchError> {
        let (sockets, kept) = (arguments.sockets.clone(), Kept::new(&arguments.kept));
        self.start_kernel(sockets, kept, |device_net| {
            arguments.spec(self.gpu(), (image, kernel, shape), device_net)
        })
    }
}
