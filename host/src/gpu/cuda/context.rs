//! The primary context of one device: shared by every [`Gpu`](super::super::Gpu) of this process
//! on that device, with everything that lives in it.
//!
//! Calls that would wait for running kernels (freeing and unregistering memory, loading and
//! unloading modules) happen only under the state's lock, with no kernel in flight: launches take
//! the same lock, so none can slip in between.
//!
//! Why it is so: decision 16 of docs/explanation/decisions.md.

use std::collections::HashMap;
use std::mem;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use cudarc::driver::sys::{CUcontext, CUdevice, CUmemRangeHandleType, CUpointer_attribute};

use super::super::launch::{Shape, too_much_shared};
use super::super::ledger::{Ledger, Ticket};
use super::super::memory::{Given, Owner};
use super::super::{GpuError, KernelError, LaunchError, LaunchSpec, OpenError, deferred_free};
use super::copier::Copier;
use super::driver::{self, Failed, call};
use super::facts::Facts;
use super::mark::{Mark, PROGRAM_STREAMS, SpareStream};
use super::module::{Kernel, Loaded};
use super::queues;
use super::stream::Lane;
use crate::lock::lock;

/// Contexts that are open, by ordinal. Two would not know of each other's kernels.
static OPEN: Mutex<Vec<(i32, Weak<Context>)>> = Mutex::new(Vec::new());

/// A kernel that was launched.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) kernel: String,
    pub(super) ticket: Ticket,
    lane: Mutex<Option<Lane>>,
    pub(super) outcome: OnceLock<Result<(), KernelError>>,
}

impl Flight {
    pub(super) fn new(kernel: String, ticket: Ticket, lane: Lane) -> Self {
        Self { kernel, ticket, lane: Mutex::new(Some(lane)), outcome: OnceLock::new() }
    }

    /// Whether it has ended, by the driver; a flight that has landed has no lane any more.
    fn is_over(&self) -> Result<bool, Failed> {
        lock(&self.lane).as_ref().map_or(Ok(true), Lane::is_done)
    }
}

/// What changes, under one lock.
#[derive(Default)]
pub(super) struct State {
    pub(super) ledger: Ledger<Given>,
    pub(super) flights: Vec<Arc<Flight>>,
    /// What is behind the work of streams that is not done.
    pub(super) streams: Vec<(Arc<Mark>, Ticket)>,
    /// Streams on which the program may put kernels that nobody else sees, each as often as it is held.
    pub(super) held: Vec<(Arc<Mark>, Ticket)>,
    /// Lanes for launches, one for each of the hardware's queues, all made when the context is
    /// opened: the driver hands the queues out in turn, and making a stream beside running kernels
    /// waits for them whenever the driver's own pool has to grow (seen at the 35th).
    pub(super) spare: Vec<Lane>,
    /// Streams for programs that nobody has, made at the same time for the same reason.
    pub(super) program_streams: Vec<SpareStream>,
    pub(super) modules: HashMap<String, Loaded>,
    /// The fault was reported to some kernel.
    fault_reported: bool,
}

/// See the module.
pub(super) struct Context {
    ordinal: i32,
    device: CUdevice,
    context: CUcontext,
    pub(super) facts: Facts,
    /// Why the context is dead.
    lost: OnceLock<String>,
    pub(super) state: Mutex<State>,
    pub(super) copier: Mutex<Option<Copier>>,
}

// SAFETY: the driver's handles may be used from any thread once the context is current there,
// which `bind` sees to; everything else is behind locks.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// The context of a device; the same one as long as anyone has it.
    pub(super) fn open(ordinal: i32) -> Result<Arc<Self>, OpenError> {
        driver::find()?;
        // Before the driver reads the environment.
        let queues = queues::count();
        tracing::debug!(queues, "kernels that run at once on a CUDA device");
        driver::start()?;
        let mut open = lock(&OPEN);
        open.retain(|(_, context)| context.strong_count() > 0);
        let known = open.iter().find(|(other, _)| *other == ordinal);
        if let Some(context) = known.and_then(|(_, context)| context.upgrade()) {
            context.bind()?;
            return Ok(context);
        }
        let context = Arc::new(Self::new(ordinal)?);
        open.push((ordinal, Arc::downgrade(&context)));
        Ok(context)
    }

    fn new(ordinal: i32) -> Result<Self, OpenError> {
        let mut count = 0;
        // SAFETY: writes one number.
        unsafe { call!(cuDeviceGetCount(&mut count)) }.map_err(Failed::no_device)?;
        if !(0..count).contains(&ordinal) {
            return Err(OpenError::UnknownOrdinal { ordinal, count });
        }
        let mut device = 0;
        // SAFETY: writes one number.
        unsafe { call!(cuDeviceGet(&mut device, ordinal)) }.map_err(Failed::no_device)?;
        let facts = Facts::ask(device).map_err(Failed::no_device)?;
        let mut context = ptr::null_mut();
        // SAFETY: writes one handle; released by Drop.
        unsafe { call!(cuDevicePrimaryCtxRetain(&mut context, device)) }.map_err(|failed| {
            // A kernel of this process faulted before.
            if failed.kills_context() {
                GpuError::ContextLost { cause: failed.line() }.into()
            } else {
                failed.no_device()
            }
        })?;
        let context = Self {
            ordinal,
            device,
            context,
            facts,
            lost: OnceLock::new(),
            state: Mutex::new(State { ledger: Ledger::new(queues::count()), ..State::default() }),
            copier: Mutex::new(None),
        };
        context.bind()?;
        *lock(&context.copier) = Some(Copier::new().map_err(Failed::no_device)?);
        for _ in 0..queues::count() {
            let lane = Lane::new().map_err(Failed::no_device)?;
            lock(&context.state).spare.push(lane);
        }
        for _ in 0..PROGRAM_STREAMS {
            let stream = SpareStream::new().map_err(Failed::no_device)?;
            lock(&context.state).program_streams.push(stream);
        }
        Ok(context)
    }

    /// Why it is dead, as far as anyone has noticed.
    pub(super) fn lost(&self) -> Option<&String> {
        self.lost.get()
    }

    /// Makes the context current on this thread; an error once it is lost.
    pub(super) fn bind(&self) -> Result<(), GpuError> {
        if let Some(cause) = self.lost.get() {
            return Err(GpuError::ContextLost { cause: cause.clone() });
        }
        self.make_current().map_err(|failed| self.failed(failed))
    }

    fn make_current(&self) -> Result<(), Failed> {
        // SAFETY: the context is retained as long as `self` lives.
        unsafe { call!(cuCtxSetCurrent(self.context)) }
    }

    /// An error of a driver call; remembers one that ends the context.
    pub(super) fn failed(&self, failed: Failed) -> GpuError {
        if !failed.kills_context() {
            return failed.into();
        }
        let cause = self.lost.get_or_init(|| failed.line());
        GpuError::ContextLost { cause: cause.clone() }
    }

    /// Whether the flight is over, without taking the state's lock while it is not.
    pub(super) fn is_over(&self, flight: &Flight) -> bool {
        flight.outcome.get().is_some()
            || self.lost.get().is_some()
            || self.make_current().and_then(|()| flight.is_over()).unwrap_or(true)
    }

    /// Lands every kernel that has ended, and frees what waited for that.
    pub(super) fn reap(&self, state: &mut State) {
        self.reap_for(None, state);
    }

    /// The same, on behalf of someone who asks for `asked`: a fault is reported to that one.
    pub(super) fn reap_for(&self, asked: Option<&Arc<Flight>>, state: &mut State) {
        let current = self.make_current();
        let mut over = Vec::new();
        state.flights.retain(|flight| {
            let result = match (current, self.lost.get()) {
                (Ok(()), None) => flight.is_over().map_err(Some),
                (Ok(()), Some(_)) => flight.is_over().map_err(Some).and(Err(None)),
                (Err(failed), _) => Err(Some(failed)),
            };
            if matches!(result, Ok(false)) {
                return true;
            }
            over.push((flight.clone(), result));
            false
        });
        over.sort_by_key(|(flight, _)| !asked.is_some_and(|asked| Arc::ptr_eq(asked, flight)));
        let count = over.len() + state.flights.len();
        for (flight, result) in over {
            let outcome = match result {
                Ok(_) => Ok(()),
                Err(failed) => Err(self.fault(&flight.kernel, failed, count, state)),
            };
            let well = outcome.is_ok();
            let _ = flight.outcome.set(outcome);
            state.ledger.retire(flight.ticket);
            if let Some(lane) = lock(&flight.lane).take()
                && well
            {
                state.spare.push(lane);
            }
        }
        self.reap_streams(current, state);
        for memory in state.ledger.drain() {
            self.free(memory);
        }
        deferred_free::release();
    }

    /// Forgets streams whose work is done. Nothing is done in a context that is lost, and nothing more
    /// will run there.
    fn reap_streams(&self, current: Result<(), Failed>, state: &mut State) {
        let State { streams, ledger, .. } = state;
        streams.retain(|(mark, ticket)| {
            let passed = current.and_then(|()| mark.has_passed());
            if matches!(passed, Ok(false)) {
                return true;
            }
            if let Err(failed) = passed {
                let _ = self.failed(failed);
            }
            ledger.end_stream(*ticket);
            false
        });
    }

    /// Whether all that was put on a stream is done.
    pub(super) fn is_stream_done(&self, mark: &Mark) -> Result<bool, KernelError> {
        let passed = self.make_current().and_then(|()| mark.has_passed());
        match (passed, self.lost.get()) {
            (Ok(false), None) => Ok(false),
            (Ok(true), None) => {
                self.reap(&mut lock(&self.state));
                Ok(true)
            }
            (failed, _) => {
                let kernel = "operations".to_owned();
                let mut state = lock(&self.state);
                let count = state.flights.len() + state.streams.len();
                let error = self.fault(&kernel, failed.err(), count, &mut state);
                self.reap(&mut state);
                Err(error)
            }
        }
    }

    /// Whether that context is this one.
    pub(super) fn is_of(&self, context: CUcontext) -> bool {
        ptr::eq(self.context, context)
    }

    /// A kernel of a loaded module, if it takes such parameters, with what of its launch fits the device.
    pub(super) fn kernel_of(
        &self,
        state: &State,
        spec: &LaunchSpec<'_>,
    ) -> Result<(Kernel, Shape), LaunchError> {
        let loaded = state
            .modules
            .get(&*spec.module)
            .ok_or_else(|| LaunchError::NotLoaded(spec.module.to_string()))?;
        let kernel = loaded.kernel(&spec.module, &spec.kernel, spec.block.count())?.clone();
        kernel.check_parameters(&spec.kernel, &spec.params)?;
        let shape = spec.shape(kernel.max_threads.min(self.facts.max_threads))?;
        let shared = u64::from(spec.shared_bytes) + u64::from(kernel.static_shared);
        if shared > u64::from(self.facts.max_shared) {
            return Err(too_much_shared(&spec.kernel, shared, self.facts.max_shared));
        }
        Ok((kernel, shape))
    }

    /// The function of a launch, its shape, and how many of its blocks an empty GPU has room for.
    pub(super) fn fits(
        &self,
        state: &State,
        spec: &LaunchSpec<'_>,
    ) -> Result<(Kernel, Shape, u32), LaunchError> {
        let (kernel, shape) = self.kernel_of(state, spec)?;
        let mut resident = 0;
        // SAFETY: writes one number; the function belongs to a loaded module.
        unsafe {
            call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut resident,
                kernel.function,
                shape.threads as i32,
                spec.shared_bytes as usize,
            ))
        }
        .map_err(|failed| self.failed(failed))?;
        let possible = u32::try_from(resident).unwrap_or(0) * self.facts.multiprocessors;
        Ok((kernel, shape, possible))
    }

    /// What is reported of a kernel whose event the driver answers with an error. The driver says that
    /// some kernel faulted, not which: the first one that is asked for gets the fault.
    fn fault(
        &self,
        kernel: &str,
        failed: Option<Failed>,
        count: usize,
        state: &mut State,
    ) -> KernelError {
        let line = failed.map(Failed::line);
        let cause = self.lost.get_or_init(|| line.clone().unwrap_or_default());
        let message = line.unwrap_or_else(|| cause.clone());
        let kernel = kernel.to_owned();
        if mem::replace(&mut state.fault_reported, true) {
            return KernelError::ContextLost { kernel, cause: message };
        }
        let several = match count {
            1 => String::new(),
            count => format!("; {count} kernels ran and the driver does not say whose fault it is"),
        };
        KernelError::Fault { kernel, block: None, thread: None, message: message + &several }
    }

    /// Gives memory back to the driver and the system; no kernel may run. A lost context has
    /// nothing to give back to: the pages alone are unmapped.
    fn free(&self, memory: Given) {
        let alive = self.lost.get().is_none();
        let result = match &memory {
            Given::Pages { pages, registered: true } if alive => {
                // SAFETY: the pages were registered by this context and are still mapped.
                unsafe { call!(cuMemHostUnregister(pages.as_ptr().cast())) }
            }
            Given::Device { address } if alive => {
                // SAFETY: the memory was allocated by this context and has no owner any more.
                unsafe { call!(cuMemFree_v2(*address)) }
            }
            _ => Ok(()),
        };
        if let Err(failed) = result {
            let _ = self.failed(failed);
            tracing::warn!(error = failed.line(), "GPU memory was not given back");
        }
    }

    /// Runs `f` with the copier.
    pub(super) fn copy<R>(
        &self,
        f: impl FnOnce(&mut Copier) -> Result<R, Failed>,
    ) -> Result<R, GpuError> {
        self.bind()?;
        match lock(&self.copier).as_mut() {
            Some(copier) => f(copier).map_err(|failed| self.failed(failed)),
            None => Err(GpuError::ContextLost { cause: "it is being closed".to_owned() }),
        }
    }
}

impl Owner for Context {
    fn take_back(&self, memory: Given) {
        let mut state = lock(&self.state);
        state.ledger.defer(memory);
        self.reap(&mut state);
    }

    fn read(&self, address: *const u8, into: &mut [u8]) -> Result<(), GpuError> {
        // SAFETY: DeviceMemory checked the range and owns the memory.
        self.copy(|copier| unsafe { copier.read(address.addr() as u64, into) })
    }

    fn write(&self, address: *mut u8, from: &[u8]) -> Result<(), GpuError> {
        // SAFETY: DeviceMemory checked the range and owns the memory.
        self.copy(|copier| unsafe { copier.write(address.addr() as u64, from) })
    }

    fn ordinal(&self) -> i32 {
        self.ordinal
    }

    fn buffer_id(&self, address: *const u8) -> Result<Option<u64>, GpuError> {
        self.bind()?;
        let mut id = 0_u64;
        let what = CUpointer_attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID;
        let to = (&raw mut id).cast();
        // SAFETY: writes one number of eight bytes; of an address that is none it says so.
        unsafe { call!(cuPointerGetAttribute(to, what, address.addr() as u64)) }
            .map_err(|failed| self.failed(failed))?;
        Ok(Some(id))
    }

    fn export(&self, address: u64, bytes: usize) -> Result<OwnedFd, GpuError> {
        const EXPORT: &str = "cuMemGetHandleForAddressRange";
        if !driver::has(EXPORT) {
            return Err(GpuError::DriverTooOld { symbol: EXPORT });
        }
        self.bind()?;
        // The driver wants whole pages; its own are larger, so these are all ours.
        let bytes = bytes.next_multiple_of(rustix::param::page_size());
        let kind = CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        let mut file = -1_i32;
        let to = (&raw mut file).cast();
        // SAFETY: writes one descriptor; DeviceMemory owns the memory.
        unsafe { call!(cuMemGetHandleForAddressRange(to, address, bytes, kind, 0)) }
            .map_err(|failed| self.failed(failed))?;
        // SAFETY: the driver has just opened it for us.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut state = mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.reap(&mut state);
        let copier = self.copier.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if !state.flights.is_empty() || !state.streams.is_empty() || !state.held.is_empty() {
            // Everything here would wait for the kernel, perhaps for ever, or pull its memory
            // away: it is left to the end of the process.
            tracing::warn!(
                kernels = state.flights.len() + state.streams.len() + state.held.len(),
                "a GPU was dropped while kernels run on it; its memory stays with them"
            );
            mem::forget((state, copier));
            return;
        }
        if self.lost.get().is_none() {
            state.spare.drain(..).for_each(Lane::destroy);
            state.program_streams.drain(..).for_each(SpareStream::destroy);
            state.modules.drain().for_each(|(_, module)| module.unload());
            if let Some(copier) = copier {
                copier.destroy();
            }
        }
        // SAFETY: retained once by `new`; nothing of it is used after this.
        let _ = unsafe { call!(cuDevicePrimaryCtxRelease_v2(self.device)) };
    }
}
