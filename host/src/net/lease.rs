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

use std::sync::Arc;
use std::time::Duration;

use super::kept::Kept;
use super::launch::{LaunchState, OpenQueue};
use super::raw::{RawArguments, check_image};
use super::{Launch, LaunchError, Net, NetError, Shape};
use crate::gpu::{self, GpuError, GpuKind, GpuStream, LoadedImage, StreamKernel};
use crate::proxy::control::Control;

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
    control: Arc<Control>,
    device_net: gpunet_device::Net,
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
    /// would wait for one that runs ([`GpuError::LoadWhileRunning`]), or whose grid does not fit beside what
    /// runs ([`GpuError::NotResident`]); as many streams as the hardware has queues for
    /// ([`GpuError::TooManyStreams`]); a net that is of no more use.
    #[allow(unsafe_code, reason = "a promise of the caller's")]
    pub unsafe fn lease(
        &self,
        streams: &[GpuStream],
        kernels: &[LeaseKernel<'_>],
    ) -> Result<Lease, NetError> {
        self.check_alive()?;
        if streams.is_empty() {
            return Err(NetError::Setting("a lease needs a stream"));
        }
        for stream in streams {
            if !stream.gpu().is_same(&self.gpu) {
                return Err(GpuError::OtherGpu.into());
            }
            // The lease would end with that fault, and the net with it.
            if let Err(error) = stream.is_done() {
                return Err(GpuError::StreamFailed { cause: error.to_string() }.into());
            }
        }
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
        let (slot, epoch) = self.take_slot()?;
        self.shared.memory.clear_stop(slot as usize);
        // As for launches: a proxy thread that panicked before then has stopped nobody.
        let leased = self.check_alive().and_then(|()| Ok(gpu::Lease::of_program(streams)?));
        let (running, lease) = match leased {
            Ok(leased) => leased,
            Err(error) => {
                self.give_slot_back(slot);
                return Err(error);
            }
        };
        self.count_launch();
        let (shared, queue) = (Arc::clone(&self.shared), Some(OpenQueue::of_program(lease)));
        let state = LaunchState::new(slot, running, shared, Vec::new(), queue);
        Ok(Lease {
            launch: Launch { state: self.note_launch(state) },
            control: Arc::clone(&self.control),
            device_net: self.shared.memory.device_net(slot, epoch),
            streams: streams.to_vec(),
        })
    }
}

impl Lease {
    /// The net as its kernels take it, by value: 16 bytes.
    #[must_use]
    pub fn net(&self) -> gpunet_device::Net {
        self.device_net
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
    ) -> Result<(), NetError> {
        if !self.streams.iter().any(|own| own.is_same(stream)) {
            return Err(NetError::OtherStream);
        }
        let spec = arguments.spec(stream.gpu(), (image, kernel, shape), self.device_net)?;
        let mut kernel = StreamKernel { spec: Arc::new(spec), kept: Vec::new() };
        stream.check(&kernel)?;
        let (state, kept) = (&self.launch.state, Kept::new(arguments.kept()));
        // The net's memory, on a GPU that does not know of it.
        kernel.kept.push(Arc::clone(state) as _);
        match stream.gpu().info().kind {
            GpuKind::Emulated => kernel.kept.push(Arc::new(kept)),
            GpuKind::Cuda => state.keep(kept),
        }
        state.sockets().extend(arguments.sockets());
        match state.put_on_stream(&self.control, || stream.submit(&[kernel])) {
            Ok(_) => Ok(()),
            Err(NetError::Gone) => Err(NetError::LeaseClosed),
            Err(error) => Err(error),
        }
    }

    /// No more kernels use the net: the lease ends when all that is on its streams now is done. Returns at
    /// once.
    pub fn close(&self) {
        self.launch.state.close();
    }

    /// Waits until the lease has ended, at most so long. One that is not closed ends by a fault alone.
    ///
    /// # Errors
    /// How its kernels ended, when not well, or [`LaunchError::StillRunning`].
    pub fn wait(&self, timeout: Duration) -> Result<(), LaunchError> {
        self.launch.wait_for(timeout)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.launch.is_finished()
    }

    /// Stops its kernels, those that are yet to run, too: their waits return ECANCELED.
    pub fn abort(&self) {
        self.launch.abort();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease")
            .field("number", &self.number())
            .field("streams", &self.streams.len())
            .field("finished", &self.is_finished())
            .finish()
    }
}
