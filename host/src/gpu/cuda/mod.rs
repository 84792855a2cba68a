//! The CUDA backend: real GPUs through the driver, which is loaded at run time.
//!
//! [`Gpu`](super::Gpu) calls it. It uses the device's primary context and makes it current on
//! each calling thread. A program that shares that context (the CUDA runtime does) blocks in its
//! own frees and synchronisations while a kernel of ours runs, as the driver has it.
//!
//! | file | concept |
//! | --- | --- |
//! | `driver` | the library, its errors |
//! | `context` | the primary context and what lives in it, kernels in flight, deferred frees |
//! | `image` | what the text of PTX says |
//! | `module` | loading PTX, the ABI check, facts about kernels |
//! | `binary` | loading cubins and fatbins |
//! | `stream` | a stream with its event; waiting by polling |
//! | `ordered` | streams of the program, graphs |
//! | `foreign` | functions of the program |
//! | `copier` | copies that wait for no kernel |
//! | `arena` | memory that other processes can be given |

mod arena;
mod binary;
mod context;
mod copier;
mod driver;
mod facts;
mod foreign;
mod image;
mod link;
mod mark;
mod module;
mod ordered;
mod queues;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys;

use super::image::ImageKernel;
use super::launch::Handle;
use super::memory::{Given, Mapping, Owner};
use super::stream::StreamBackend;
use super::{
    Arena, ArenaWindow, Backend, DeviceMemory, Dim3, GpuError, GpuInfo, GpuKind, HostMemory, Image,
    KernelError, KernelNeeds, LaunchError, LaunchSpec, LoadError, MemoryError, Module, OpenError,
    RemoteWrites, Running, StreamError,
};
use crate::lock::lock;
use context::{Context, Flight, State};
use copier::Copier;
use driver::{Failed, call};
use module::{Loaded, Origin};
use stream::Pace;

/// CU_MEMHOSTREGISTER_PORTABLE and CU_MEMHOSTREGISTER_DEVICEMAP.
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

/// The backend.
pub(super) struct Cuda {
    info: GpuInfo,
    context: Arc<Context>,
}

impl Cuda {
    /// Whether what is to be loaded is there already; if not, it may be loaded now.
    fn is_loaded(&self, state: &mut State, name: &str, origin: &Origin) -> Result<bool, LoadError> {
        if let Some(loaded) = state.modules.get(name) {
            return match loaded.origin == *origin {
                true => Ok(true),
                false => Err(LoadError::Conflict(name.to_owned())),
            };
        }
        self.context.reap(state);
        match state.ledger.running() {
            0 => Ok(false),
            running => Err(LoadError::WhileRunning { module: name.to_owned(), running }),
        }
    }

    pub(super) fn open(ordinal: i32, reason: String) -> Result<Self, OpenError> {
        let context = Context::open(ordinal)?;
        let facts = context.facts.clone();
        let info = GpuInfo {
            kind: GpuKind::Cuda,
            name: facts.name,
            multiprocessors: facts.multiprocessors,
            driver: Some(facts.driver),
            compute_capability: Some(facts.compute_capability),
            max_threads_per_block: facts.max_threads,
            max_shared_bytes: facts.max_shared,
            max_kernels: u32::try_from(queues::count()).unwrap_or(u32::MAX),
            reason,
        };
        Ok(Self { info, context })
    }

    /// Says how much there is when there is not enough.
    fn memory_error(&self, what: &'static str, asked: usize, failed: Failed) -> MemoryError {
        match self.context.failed(failed) {
            GpuError::Driver { call, name, text } => {
                MemoryError::Refused { what, asked, why: format!("{call}: {name} ({text})") }
            }
            error => error.into(),
        }
    }
}

impl Backend for Cuda {
    fn info(&self) -> &GpuInfo {
        &self.info
    }

    fn load(&self, module: &Module) -> Result<(), LoadError> {
        let text = module.text()?;
        self.context.bind()?;
        let mut state = lock(&self.context.state);
        if !self.is_loaded(&mut state, module.name, &Origin::Module(module.ptx))? {
            let loaded = Loaded::new(module, &text, &self.context.facts)?;
            state.modules.insert(module.name.to_owned(), loaded);
        }
        Ok(())
    }

    fn load_image(
        &self,
        name: &str,
        image: &Image,
    ) -> Result<BTreeMap<String, ImageKernel>, LoadError> {
        let origin = Origin::of(name, image)?;
        self.context.bind()?;
        let mut state = lock(&self.context.state);
        if !self.is_loaded(&mut state, name, &origin)? {
            let loaded = Loaded::from_image(name, image, &self.context.facts)?;
            state.modules.insert(name.to_owned(), loaded);
        }
        let loaded = state.modules.get(name).into_iter().flat_map(Loaded::parameters);
        let kernel = |parameters: Option<&[usize]>| ImageKernel {
            parameters: parameters.map(<[usize]>::to_vec),
            entry: None,
        };
        Ok(loaded.map(|(name, parameters)| (name.to_owned(), kernel(parameters))).collect())
    }

    fn cuda_function(
        &self,
        image: &str,
        kernel: &str,
        threads: u32,
    ) -> Result<Option<usize>, LaunchError> {
        let state = lock(&self.context.state);
        let loaded =
            state.modules.get(image).ok_or_else(|| LaunchError::NotLoaded(image.to_owned()))?;
        let kernel = loaded.kernel(image, kernel, threads.into())?;
        Ok(Some(kernel.function.expose_provenance()))
    }

    fn kernel_needs(&self, module: &str) -> Vec<KernelNeeds> {
        lock(&self.context.state).modules.get(module).map_or_else(Vec::new, Loaded::needs)
    }

    fn host_memory(&self, bytes: usize) -> Result<HostMemory, MemoryError> {
        self.context.bind()?;
        let pages = Mapping::new("host memory", bytes)?;
        let start = pages.as_ptr().cast::<c_void>();
        // SAFETY: the pages are mapped and stay so until they are unregistered (Context::free).
        unsafe { call!(cuMemHostRegister_v2(start, pages.mapped(), PORTABLE_AND_MAPPED)) }
            .map_err(|failed| self.memory_error("host memory", bytes, failed))?;
        let mut device = 0;
        // SAFETY: writes one address; the pages were just registered.
        let result = unsafe { call!(cuMemHostGetDevicePointer_v2(&mut device, start, 0)) };
        let device = ptr::with_exposed_provenance_mut(device as usize);
        // The handle exists before the error is looked at: dropping it gives the pages back.
        let memory = HostMemory::new(pages, device, bytes, true, self.context.clone());
        result.map(|()| memory).map_err(|failed| self.memory_error("host memory", bytes, failed))
    }

    fn device_memory(&self, bytes: usize) -> Result<DeviceMemory, MemoryError> {
        if bytes == 0 {
            let why = "the size must not be 0".to_owned();
            return Err(MemoryError::Refused { what: "GPU memory", asked: 0, why });
        }
        self.context.bind()?;
        let mut address = 0;
        // SAFETY: writes one address.
        unsafe { call!(cuMemAlloc_v2(&mut address, bytes)) }
            .map_err(|failed| self.memory_error("GPU memory", bytes, failed))?;
        let device = ptr::with_exposed_provenance_mut(address as usize);
        let given = Given::Device { address };
        let memory = DeviceMemory::new(given, device, bytes, self.context.clone());
        let clear = |copier: &mut Copier| {
            // SAFETY: the memory was just allocated with that size.
            unsafe { copier.clear(address, bytes) }
        };
        self.context.copy(clear)?;
        Ok(memory)
    }

    fn owns(&self, memory: &DeviceMemory) -> bool {
        memory.is_owned_by(&self.context)
    }

    fn owns_host(&self, memory: &HostMemory) -> bool {
        memory.is_owned_by(&self.context)
    }

    fn remote_writes(&self) -> RemoteWrites {
        self.context.facts.remote_writes
    }

    fn flush_remote_writes(&self) -> Result<(), GpuError> {
        self.context.bind()?;
        let target = sys::CUflushGPUDirectRDMAWritesTarget::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX;
        let scope = sys::CUflushGPUDirectRDMAWritesScope::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER;
        // SAFETY: takes two numbers; `remote_writes` says so only where the driver has it.
        unsafe { call!(cuFlushGPUDirectRDMAWrites(target, scope)) }
            .map_err(|failed| self.context.failed(failed))
    }

    fn arenas_work(&self) -> Result<(), GpuError> {
        self.context.facts.sharing.possible.clone()
    }

    fn arena_window(&self) -> Result<ArenaWindow, MemoryError> {
        self.shared_window().map(|window| window.whole())
    }

    fn arena(&self, bytes: usize) -> Result<Arena, MemoryError> {
        self.new_arena(bytes).map(Arena::new)
    }

    fn import_arena(&self, file: OwnedFd, bytes: usize) -> Result<Arena, MemoryError> {
        self.import(file, bytes).map(Arena::new)
    }

    fn identity(&self) -> [u8; 17] {
        let mut identity = [b'C'; 17];
        identity[1..].copy_from_slice(&self.context.facts.sharing.uuid);
        identity
    }

    fn lost(&self) -> Option<String> {
        self.context.lost().cloned()
    }

    fn cuda_ordinal(&self) -> Option<i32> {
        Some(self.context.ordinal())
    }

    fn stream(&self, raw: Option<usize>) -> Result<Arc<dyn StreamBackend>, StreamError> {
        Ok(Arc::new(ordered::OrderedStream::new(&self.context, raw)?))
    }

    fn check_beside(&self, spec: &LaunchSpec<'_>) -> Result<(), LaunchError> {
        self.context.bind()?;
        let mut state = lock(&self.context.state);
        self.context.reap(&mut state);
        let (_, shape, possible) = self.context.fits(&state, spec)?;
        state.ledger.fits_beside(&spec.kernel, shape.blocks, possible)
    }

    unsafe fn check_function(
        &self,
        function: usize,
        shape: (Dim3, Dim3, u32),
    ) -> Result<(), StreamError> {
        let function = ptr::with_exposed_provenance_mut(function);
        // SAFETY: the caller's promise.
        unsafe { foreign::check(&self.context, function, shape) }
    }

    fn launch(&self, mut spec: LaunchSpec<'_>) -> Result<Running, LaunchError> {
        let context = &self.context;
        context.bind()?;
        let mut state = lock(&context.state);
        context.reap(&mut state);
        let (kernel, shape, possible) = context.fits(&state, &spec)?;
        let ticket = state.ledger.admit(&spec.kernel, shape.blocks, possible)?;
        let Some(lane) = state.spare.pop() else {
            // There is one for each kernel that the ledger admits, but for those that faulted.
            state.ledger.retire(ticket);
            return Err(state.ledger.too_many());
        };
        let mut params: Vec<*mut c_void> =
            spec.params.iter_mut().map(|bytes| bytes.as_mut_ptr().cast()).collect();
        // SAFETY: the function belongs to a loaded module; `params` has one pointer for each of
        // its parameters, to as many bytes as it has (check_parameters, or on old drivers the
        // kernel's declaration); the driver copies them before it returns.
        let launched = unsafe {
            call!(cuLaunchKernel(
                kernel.function,
                spec.grid.x,
                spec.grid.y,
                spec.grid.z,
                spec.block.x,
                spec.block.y,
                spec.block.z,
                spec.shared_bytes,
                lane.stream,
                params.as_mut_ptr(),
                ptr::null_mut(),
            ))
        };
        if let Err(failed) = launched {
            state.ledger.retire(ticket);
            state.spare.push(lane);
            return Err(context.failed(failed).into());
        }
        let marked = lane.mark();
        let flight = Arc::new(Flight::new(spec.kernel.to_string(), ticket, lane));
        // A kernel that runs is in the list, even if its end cannot be seen any more.
        state.flights.push(flight.clone());
        marked.map_err(|failed| context.failed(failed))?;
        let handle = CudaHandle { flight, context: context.clone() };
        Ok(Running::new(handle))
    }
}

/// What a program holds of a launch.
struct CudaHandle {
    flight: Arc<Flight>,
    context: Arc<Context>,
}

impl Handle for CudaHandle {
    fn kernel(&self) -> &str {
        &self.flight.kernel
    }

    fn poll(&self) -> Option<Result<(), KernelError>> {
        if self.flight.outcome.get().is_none() && self.context.is_over(&self.flight) {
            self.context.reap_for(Some(&self.flight), &mut lock(&self.context.state));
        }
        self.flight.outcome.get().cloned()
    }

    fn wait(&self, timeout: Option<Duration>) -> Option<Result<(), KernelError>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut pace = Pace::new();
        loop {
            if let Some(result) = self.poll() {
                return Some(result);
            }
            let sleep = pace.next();
            std::thread::sleep(match deadline {
                None => sleep,
                Some(deadline) => sleep.min(deadline.checked_duration_since(Instant::now())?),
            });
        }
    }

    fn kill(&self) -> Result<(), GpuError> {
        Err(GpuError::Unsupported {
            what: "killing a kernel",
            kind: "CUDA",
            remedy: "stop it through the words it watches, or end the process",
        })
    }
}
