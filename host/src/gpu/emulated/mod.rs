//! The emulated GPU: a block's threads are coroutines, a launch has OS threads of its own.
//!
//! [`Gpu`](super::Gpu) calls it. It is stricter than hardware: a barrier that not all threads
//! reach, or reach from different places, and cooperative calls whose arguments differ end the
//! launch with a report. What it cannot see is a thread that neither waits nor ends.
//!
//! ```text
//!   Gpu, memory, Running ──> Keeper ──> Machine <── Launch <── worker threads
//! ```
//! When the last of the left has gone, nobody can see the kernels any more: the keeper kills
//! them. Memory that they may still touch stays in the machine until they have ended.

mod arena;
mod block;
#[cfg(test)]
mod c_abi_tests;
mod call;
mod object;
mod panics;
pub(crate) mod random;
mod shared;
mod stack;
#[cfg(test)]
pub(crate) mod stage;
mod stream;
#[cfg(test)]
mod tests;
mod thread;
mod worker;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::image::ImageKernel;
use super::launch::{Handle, Shape, too_much_shared};
use super::ledger::{Ledger, Ticket};
use super::memory::{Given, Mapping, Owner, copy_from_shared, copy_to_shared};
use super::stream::StreamBackend;
use super::{
    Arena, ArenaWindow, Backend, DeviceMemory, Dim3, EmulatedOptions, Entry, GpuError, GpuInfo,
    GpuKind, HostMemory, Image, KernelError, LaunchError, LaunchSpec, LoadError, MemoryError,
    Module, RemoteWrites, Running, StreamError, deferred_free,
};
use crate::lock::lock;
use arena::Pages;
use stack::Stacks;
use worker::Worker;

/// Threads of a block, as on every CUDA device.
const MAX_THREADS_PER_BLOCK: u32 = 1024;
/// Shared memory of a block, as on an H200.
const MAX_SHARED_BYTES: u32 = 227 << 10;
/// Blocks that are resident at once, if threads allow.
const MAX_BLOCKS: u32 = 2048;

/// There is one; the first letter sets it apart from CUDA devices.
const IDENTITY: [u8; 17] = *b"Emulated         ";

/// What outlives the handles as long as kernels run.
struct Machine {
    options: EmulatedOptions,
    stacks: Stacks,
    ledger: Mutex<Ledger<Given>>,
    launches: Mutex<Vec<Weak<Launch>>>,
    /// Turns that coroutines of ended workers have taken.
    turns: AtomicU64,
}

/// Held by every handle a program has.
struct Keeper {
    machine: Arc<Machine>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        for launch in lock(&self.machine.launches).iter().filter_map(Weak::upgrade) {
            launch.request(Stop::Killed);
        }
    }
}

impl Owner for Keeper {
    fn take_back(&self, memory: Given) {
        let free = {
            let mut ledger = lock(&self.machine.ledger);
            ledger.defer(memory);
            ledger.drain()
        };
        drop(free);
    }

    fn read(&self, address: *const u8, into: &mut [u8]) -> Result<(), GpuError> {
        let observer = self.machine.options.observer;
        if !observer.is_some_and(|observer| observer.read(address, into)) {
            // SAFETY: DeviceMemory checked the range and owns the pages; kernels write what they share
            // with the host by atomic stores (the memory contract).
            unsafe { copy_from_shared(address, into) };
        }
        Ok(())
    }

    fn write(&self, address: *mut u8, from: &[u8]) -> Result<(), GpuError> {
        let observer = self.machine.options.observer;
        if !observer.is_some_and(|observer| observer.write(address, from)) {
            // SAFETY: as for `read`.
            unsafe { copy_to_shared(from, address) };
        }
        Ok(())
    }

    fn ordinal(&self) -> i32 {
        0
    }

    fn buffer_id(&self, _: *const u8) -> Result<Option<u64>, GpuError> {
        Ok(None)
    }

    fn export(&self, _: u64, _: usize) -> Result<OwnedFd, GpuError> {
        let remedy = "its memory is pages of a file";
        Err(GpuError::Unsupported { what: "a driver's dma-buf", kind: "emulated", remedy })
    }
}

/// The backend.
pub(super) struct Emulated {
    info: GpuInfo,
    keeper: Arc<Keeper>,
}

impl Emulated {
    pub(super) fn open(options: EmulatedOptions, reason: &str) -> Self {
        panics::install_hook();
        let info = GpuInfo {
            kind: GpuKind::Emulated,
            name: "emulated GPU".to_owned(),
            multiprocessors: workers(&options, MAX_BLOCKS).try_into().unwrap_or(u32::MAX),
            driver: None,
            compute_capability: None,
            max_threads_per_block: MAX_THREADS_PER_BLOCK,
            max_shared_bytes: MAX_SHARED_BYTES,
            max_kernels: u32::try_from(options.queues).unwrap_or(u32::MAX),
            reason: reason.to_owned(),
        };
        let machine = Machine {
            stacks: Stacks::new(options.stack_bytes),
            ledger: Mutex::new(Ledger::new(options.queues)),
            options,
            launches: Mutex::default(),
            turns: AtomicU64::new(0),
        };
        Self { info, keeper: Arc::new(Keeper { machine: Arc::new(machine) }) }
    }
}

/// OS threads of a launch. A seed wants one: several would interleave as they like.
fn workers(options: &EmulatedOptions, blocks: u32) -> usize {
    if options.seed.is_some() {
        return 1;
    }
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    options.workers.unwrap_or_else(cores).clamp(1, blocks as usize)
}

impl Backend for Emulated {
    fn info(&self) -> &GpuInfo {
        &self.info
    }

    fn load(&self, _: &Module) -> Result<(), LoadError> {
        Ok(())
    }

    fn load_image(
        &self,
        name: &str,
        image: &Image,
    ) -> Result<BTreeMap<String, ImageKernel>, LoadError> {
        object::load(name, image)
    }

    fn host_memory(&self, bytes: usize) -> Result<HostMemory, MemoryError> {
        let pages = Mapping::new("host memory", bytes)?;
        let device = pages.as_ptr();
        Ok(HostMemory::new(pages, device, bytes, false, self.keeper.clone()))
    }

    fn device_memory(&self, bytes: usize) -> Result<DeviceMemory, MemoryError> {
        let pages = Mapping::new("GPU memory", bytes)?;
        let device = pages.as_ptr();
        let given = Given::Pages { pages, registered: false };
        Ok(DeviceMemory::new(given, device, bytes, self.keeper.clone()))
    }

    fn owns(&self, memory: &DeviceMemory) -> bool {
        memory.is_owned_by(&self.keeper)
    }

    fn owns_host(&self, memory: &HostMemory) -> bool {
        memory.is_owned_by(&self.keeper)
    }

    fn remote_writes(&self) -> RemoteWrites {
        RemoteWrites::Ordered
    }

    fn flush_remote_writes(&self) -> Result<(), GpuError> {
        Ok(())
    }

    fn arenas_work(&self) -> Result<(), GpuError> {
        Ok(())
    }

    fn arena_window(&self) -> Result<ArenaWindow, MemoryError> {
        arena::window().map(|window| window.whole())
    }

    fn arena(&self, bytes: usize) -> Result<Arena, MemoryError> {
        Pages::new(bytes, self.keeper.machine.options.observer).map(Arena::new)
    }

    fn import_arena(&self, file: OwnedFd, bytes: usize) -> Result<Arena, MemoryError> {
        Pages::import(file, bytes, self.keeper.machine.options.observer).map(Arena::new)
    }

    fn identity(&self) -> [u8; 17] {
        IDENTITY
    }

    fn cuda_ordinal(&self) -> Option<i32> {
        None
    }

    fn launch(&self, spec: LaunchSpec<'_>) -> Result<Running, LaunchError> {
        let handle = launch_on(&self.keeper, &spec, false)?;
        Ok(Running::new(handle))
    }

    fn check_beside(&self, spec: &LaunchSpec<'_>) -> Result<(), LaunchError> {
        let (shape, possible) = fits(&self.keeper.machine, spec)?;
        let ledger = lock(&self.keeper.machine.ledger);
        ledger.fits_beside(&spec.kernel, shape.blocks, possible)
    }

    fn stream(&self, raw: Option<usize>) -> Result<Arc<dyn StreamBackend>, StreamError> {
        match raw {
            None => Ok(Arc::new(stream::EmulatedStream::new(&self.keeper)?)),
            Some(_) => Err(GpuError::Unsupported {
                what: "a stream of the CUDA driver",
                kind: "emulated",
                remedy: "make one with Gpu::stream",
            }
            .into()),
        }
    }
}

/// Starts a kernel; one of a stream has its queue already.
fn launch_on(
    keeper: &Arc<Keeper>,
    spec: &LaunchSpec<'_>,
    of_stream: bool,
) -> Result<EmulatedHandle, LaunchError> {
    let (launch, workers) = admit(&keeper.machine, spec, of_stream)?;
    for worker in 0..workers {
        if let Err(error) = launch.spawn(worker, workers, spec.entry.clone()) {
            launch.request(Stop::Killed);
            (worker..workers).for_each(|_| launch.leave(Ok(())));
            return Err(GpuError::system("pthread_create", error).into());
        }
    }
    Ok(EmulatedHandle { launch, _keeper: Arc::clone(keeper) })
}

/// The shape of a launch, and how many of its blocks an empty GPU has room for.
fn fits(machine: &Machine, spec: &LaunchSpec<'_>) -> Result<(Shape, u32), LaunchError> {
    let shape = spec.shape(MAX_THREADS_PER_BLOCK)?;
    if spec.shared_bytes > MAX_SHARED_BYTES {
        return Err(too_much_shared(&spec.kernel, spec.shared_bytes.into(), MAX_SHARED_BYTES));
    }
    let possible = MAX_BLOCKS.min(machine.options.max_threads / shape.threads);
    Ok((shape, possible))
}

/// A launch that fits, and the number of its workers.
fn admit(
    machine: &Arc<Machine>,
    spec: &LaunchSpec<'_>,
    of_stream: bool,
) -> Result<(Arc<Launch>, usize), LaunchError> {
    let (shape, possible) = fits(machine, spec)?;
    let ticket = {
        let mut ledger = lock(&machine.ledger);
        match of_stream {
            false => ledger.admit(&spec.kernel, shape.blocks, possible)?,
            true => ledger.admit_on_stream(&spec.kernel, shape.blocks, possible)?,
        }
    };
    let workers = workers(&machine.options, shape.blocks);
    let launch = Arc::new(Launch {
        kernel: (*spec.kernel).into(),
        blocks: shape.blocks,
        threads: shape.threads,
        shape: (spec.grid, spec.block),
        shared_bytes: spec.shared_bytes,
        machine: machine.clone(),
        ticket,
        stop: AtomicU8::new(Stop::No as u8),
        progress: Mutex::new(Progress { workers, failure: None, ended: false }),
        ended: Condvar::new(),
    });
    let mut launches = lock(&machine.launches);
    launches.retain(|launch| launch.strong_count() > 0);
    launches.push(Arc::downgrade(&launch));
    drop(launches);
    Ok((launch, workers))
}

/// Whether and why a launch must end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Stop {
    No,
    /// A worker has a report.
    Failed,
    /// The host wants it.
    Killed,
}

struct Progress {
    /// Workers that still run.
    workers: usize,
    failure: Option<KernelError>,
    ended: bool,
}

/// One launch, shared by its workers and its handle.
struct Launch {
    kernel: Arc<str>,
    blocks: u32,
    threads: u32,
    /// The same in three dimensions.
    shape: (Dim3, Dim3),
    shared_bytes: u32,
    machine: Arc<Machine>,
    ticket: Ticket,
    stop: AtomicU8,
    progress: Mutex<Progress>,
    ended: Condvar,
}

impl Launch {
    fn stop(&self) -> Stop {
        // Relaxed: nothing is read on the strength of it but the flag itself.
        match self.stop.load(Ordering::Relaxed) {
            0 => Stop::No,
            1 => Stop::Failed,
            _ => Stop::Killed,
        }
    }

    /// The first request stands.
    fn request(&self, stop: Stop) {
        let _ = self.stop.compare_exchange(
            Stop::No as u8,
            stop as u8,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    fn spawn(self: &Arc<Self>, worker: usize, workers: usize, entry: Entry) -> io::Result<()> {
        let launch = self.clone();
        let name = format!("gpu{worker}-{}", self.kernel);
        let body = move || {
            precise_sleep();
            // The worker is dropped, and its threads are unwound, before the launch counts as
            // ended: kernels touch nothing after that.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                Worker::new(launch.clone(), entry, worker as u32, workers).run()
            }));
            launch.leave(result.unwrap_or_else(|_| {
                Err(KernelError::Fault {
                    kernel: launch.kernel.to_string(),
                    block: None,
                    thread: None,
                    message: "the emulated GPU itself panicked; this is a bug in it".to_owned(),
                })
            }));
        };
        std::thread::Builder::new().name(name).spawn(body).map(drop)
    }

    /// A worker ends; the last one ends the launch.
    fn leave(&self, result: Result<(), KernelError>) {
        let last = {
            let mut progress = lock(&self.progress);
            if let Err(report) = result {
                self.request(Stop::Failed);
                progress.failure.get_or_insert(report);
            }
            progress.workers -= 1;
            progress.workers == 0
        };
        if !last {
            return;
        }
        // Before anyone learns of the end, so that a launch that follows finds the room.
        let free = {
            let mut ledger = lock(&self.machine.ledger);
            ledger.retire(self.ticket);
            ledger.drain()
        };
        drop(free);
        deferred_free::release();
        lock(&self.progress).ended = true;
        self.ended.notify_all();
    }
}

impl Progress {
    fn result(&self) -> Option<Result<(), KernelError>> {
        self.ended.then(|| self.failure.clone().map_or(Ok(()), Err))
    }
}

/// What a program holds of a launch.
struct EmulatedHandle {
    launch: Arc<Launch>,
    _keeper: Arc<Keeper>,
}

impl Handle for EmulatedHandle {
    fn kernel(&self) -> &str {
        &self.launch.kernel
    }

    fn poll(&self) -> Option<Result<(), KernelError>> {
        lock(&self.launch.progress).result()
    }

    fn wait(&self, timeout: Option<Duration>) -> Option<Result<(), KernelError>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut progress = lock(&self.launch.progress);
        while !progress.ended {
            let ended = &self.launch.ended;
            progress = match deadline {
                None => ended.wait(progress).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.checked_duration_since(Instant::now())?;
                    let waited = ended.wait_timeout(progress, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        progress.result()
    }

    fn kill(&self) -> Result<(), GpuError> {
        self.launch.request(Stop::Killed);
        Ok(())
    }
}

/// Asks the system for sleeps as short as they are written; its default adds 50 us.
fn precise_sleep() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_u64, 0_u64, 0_u64, 0_u64) };
}
