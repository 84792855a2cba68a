//! Leases: kernels that the program launches itself, on streams of its own, run on a net.
//!
//! ```text
//!   program: lease = net.lease(streams, kernels) ─ kernel<<<..., stream>>>(lease.net(), ...) ─ lease.close()
//!   stream:                                        kernel ──▶ kernel ──▶ ... ──▶ mark: the lease has ended
//! ```
//!
//! A lease is a launch of its net, with a stop word of its own, that lasts until it is closed and all that was
//! put on its streams before that is done. Its maker names the kernels that will run. These are loaded then: the first
//! use of a function may load it, which waits for every kernel that runs, for ever if one of them waits for
//! the other.

use std::time::Duration;

use super::kept::Kept;
use super::raw::{RawArguments, check_image};
use super::state::Work;
use super::{Launch, Net, Shape, Task};
use crate::error::{LaunchError, StreamError, StreamLimit, WaitError};
use crate::gpu::{self, GpuStream, LoadedImage};

/// A kernel that will run under a lease, in its largest shape.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum LeaseKernel<'a> {
    /// One of a loaded image.
    Named {
        /// The image.
        image: &'a LoadedImage,
        /// Its name.
        kernel: &'a str,
        /// Its largest shape.
        shape: Shape,
    },
    /// A function of the CUDA driver's (`CUfunction`, as `cudaGetFuncBySymbol` gives it).
    Function {
        /// As a number.
        function: usize,
        /// Its largest shape.
        shape: Shape,
    },
}

/// Streams on which the program runs kernels of a net. Dropping it closes it.
///
/// While it is open it counts as a running kernel: memory that is given back meanwhile is freed when it has
/// ended, no module is loaded on CUDA, and proxy threads do not sleep long.
#[must_use = "a lease is closed when it is dropped"]
pub struct Lease {
    launch: Launch,
    streams: Vec<GpuStream>,
}

impl Net {
    /// Lends this net to kernels that the program puts on streams itself, and that it names here.
    ///
    /// # Safety
    /// Kernels are given [`Lease::net`] only on these streams and before the lease is closed; memory that
    /// they use stays until they have ended. Functions are of this GPU's context.
    ///
    /// # Errors
    /// A stream of another GPU or one whose kernel has faulted; a kernel that is not loaded while loading it
    /// would wait for one that runs ([`LoadError::WhileRunning`](crate::LoadError::WhileRunning)), or whose grid does not fit beside what
    /// runs ([`LaunchError::NotResident`]); as many streams as the hardware has queues for
    /// ([`StreamLimit::Streams`]); a net that is of no more use.
    #[allow(unsafe_code, reason = "a promise of the caller's")]
    pub unsafe fn lease(
        &self,
        streams: &[GpuStream],
        kernels: &[LeaseKernel<'_>],
    ) -> Result<Lease, StreamError> {
        if streams.is_empty() {
            return Err(StreamLimit::NoStream.into());
        }
        self.check_streams(streams)?;
        for kernel in kernels {
            match *kernel {
                LeaseKernel::Named { image, kernel, shape } => {
                    check_image(&self.gpu, image)?;
                    let spec = image.spec_to_check(kernel, shape.parts())?;
                    self.gpu.check_beside(&spec)?;
                }
                LeaseKernel::Function { function, shape } => {
                    // SAFETY: the caller's promise.
                    unsafe { self.gpu.check_function(function, shape.parts()) }?;
                }
            }
        }
        let starting = self.start_launch()?;
        let (running, lease) = gpu::Lease::of_program(streams)?;
        let work = Work::until_end(starting.keep_awake());
        let state = starting.run(running, work, Some(lease), Vec::new(), Kept::default());
        Ok(Lease { launch: Launch { state }, streams: streams.to_vec() })
    }

    /// Whether kernels of this net can be put on these streams.
    pub(super) fn check_streams(&self, streams: &[GpuStream]) -> Result<(), StreamError> {
        self.check_alive()?;
        for stream in streams {
            if !stream.gpu().is_same(&self.gpu) {
                return Err(LaunchError::OtherGpu("the stream".to_owned()).into());
            }
            // The launch would end with that fault, and the net with it.
            if let Err(error) = stream.is_done() {
                return Err(StreamError::Failed(error.to_string()));
            }
        }
        Ok(())
    }
}

impl Lease {
    /// The net as its kernels take it, by value: 16 bytes.
    #[must_use]
    pub fn net(&self) -> gpunet_device::Net {
        self.launch.state.device_net
    }

    /// Its streams.
    #[must_use]
    pub fn streams(&self) -> &[GpuStream] {
        &self.streams
    }

    /// The lease's number among the launches of its net, as statistics and printed lines name it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.launch.number()
    }

    /// Puts a kernel of an image on one of its streams: on the emulated GPU the only way, on CUDA one beside
    /// those of the program. What the arguments keep stays until the kernel has ended, on CUDA until the
    /// lease has.
    ///
    /// # Safety
    /// As [`Net::launch_raw`].
    ///
    /// # Errors
    /// As [`Net::launch_raw`], a stream that is not one of the lease's, or a lease that is closed.
    #[allow(unsafe_code, reason = "a promise of the caller's")]
    pub unsafe fn launch_raw(
        &self,
        stream: &GpuStream,
        image: &LoadedImage,
        kernel: &str,
        shape: Shape,
        arguments: &RawArguments,
    ) -> Result<(), StreamError> {
        if !self.streams.iter().any(|own| own.is_same(stream)) {
            return Err(StreamError::OtherStream);
        }
        let state = &self.launch.state;
        let kernel = state.raw_kernel(stream, (image, kernel, shape), arguments)?;
        let gone = "the lease is closed, or its net is gone: take a new one";
        state.put_on_stream(gone, || stream.submit(&[kernel])).map(drop)
    }

    /// No more kernels use the net: the lease ends when all that is on its streams now is done. Returns at
    /// once.
    pub fn close(&self) {
        self.launch.state.close();
    }
}

impl Task for Lease {
    fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.launch.wait_timeout(timeout)
    }

    fn abort(&self) {
        self.launch.abort();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.close();
    }
}
