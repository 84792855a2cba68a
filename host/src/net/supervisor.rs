//! The supervisor: a thread of each net that notices when kernels end or fault, when the GPU's context
//! is lost, and when proxy threads hang. It calls nothing of the program's, which might keep it.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpu_usermap::AccessError;
use gpunet_device::abi::errno::Errno;

use super::faults::Faults;
use super::launches::Launches;
use super::state::LaunchState;
use super::watchdog::Watchdog;
use crate::gpu::{Gpu, KernelError};
use crate::lock::lock;
use crate::proxy::control::Control;
use crate::proxy::message::Message;
use crate::proxy::shared::Shared;

/// Between two looks at the kernels, while some run and while none does.
const BUSY: Duration = Duration::from_micros(200);
const QUIET: Duration = Duration::from_millis(20);
/// How long the shards may take to close what a kernel left open.
const CLOSE: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct Supervisor<'a> {
    gpu: &'a Gpu,
    shared: &'a Shared,
    control: &'a Control,
    launches: &'a Mutex<Launches>,
    faults: &'a Faults,
    watchdog: Watchdog,
    /// The GPU's context is lost, and that was reported.
    gpu_lost: bool,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        gpu: &'a Gpu,
        shared: &'a Shared,
        control: &'a Control,
        launches: &'a Mutex<Launches>,
        faults: &'a Faults,
    ) -> Self {
        let watchdog = Watchdog::new(shared);
        Self { gpu, shared, control, launches, faults, watchdog, gpu_lost: false }
    }

    /// Runs until the net goes and no kernel is left. Who sets `stopping` unparks it.
    pub(crate) fn run(mut self) {
        let (shared, control, launches) = (self.shared, self.control, self.launches);
        // A net whose proxy threads sleep long to save power is looked after more rarely still: a look
        // asks the driver.
        let sleep = Duration::from_nanos(shared.config.idle_sleep_ns);
        let pace = if sleep > BUSY { (8 * sleep).min(QUIET) } else { BUSY };
        loop {
            // Without the lock, which an abort wants: a driver may take long to answer.
            let running = lock(launches).launches.clone();
            let mut ended = Vec::new();
            for state in running {
                match state.running.poll() {
                    Some(outcome) => ended.push((state, outcome)),
                    None => state.check_for_work(),
                }
            }
            for (state, outcome) in ended {
                self.finish(&state, outcome);
            }
            self.check_gpu();
            self.check_memory();
            let busy = control.running.load(Ordering::Acquire) > 0;
            // Threads that have nothing to do sleep longer than some heartbeat timeouts.
            if busy && !control.blind.load(Ordering::Acquire) {
                self.watchdog.check(shared, launches);
            } else {
                self.watchdog.rest();
            }
            if control.stopping.load(Ordering::Acquire) && lock(launches).launches.is_empty() {
                return;
            }
            std::thread::park_timeout(if busy { pace } else { QUIET });
        }
    }

    /// Sees whether a fault, perhaps of another net's kernel, has ended the GPU's context: no kernel
    /// will serve this net's listeners.
    fn check_gpu(&mut self) {
        if self.gpu_lost {
            return;
        }
        let Some(cause) = self.gpu.lost() else { return };
        self.gpu_lost = true;
        tracing::error!(cause, "the GPU's context is lost; the net closes its listeners");
        lock(self.launches).faulted = true;
        self.send_to_all(&|done| Message::CloseListeners { which: None, done });
    }

    /// Sees whether the words that kernels poll are still there. Without them the net is of no use;
    /// its kernels are stopped as far as words reach them, and the process lives on.
    fn check_memory(&self) {
        if self.control.control_memory_lost.get().is_none() {
            let checked = match self.control.takes_control_memory.load(Ordering::Acquire) {
                true => Err(AccessError::Revoked),
                false => self.shared.memory.host_control.check(),
            };
            let Err(gone) = checked else { return };
            // Before anything else is stored there.
            self.shared.memory.host_control.abandon();
            tracing::error!(%gone, "the control memory of a net is lost; the net is down");
            // Only this thread sets it.
            let _ = self.control.control_memory_lost.set(gone);
        }
        // Again and again: a launch may have been on its way.
        for launch in &lock(self.launches).launches {
            launch.stop(Errno::ENETDOWN);
        }
    }

    /// Sends a message to all shards, and waits until they have answered.
    fn send_to_all(&mut self, message: &dyn Fn(mpsc::Sender<()>) -> Message) {
        let (done, closed) = mpsc::channel();
        for shard in 0..self.shared.queues.len() {
            self.shared.send(shard, message(done.clone()));
        }
        drop(done);
        // Each shard answers once; a dead one drops its end, which counts, too. One that hangs
        // finds the message when it goes on, before anything of a later launch.
        let deadline = Instant::now() + CLOSE;
        while !self.hangs() && Instant::now() < deadline {
            if let Err(RecvTimeoutError::Disconnected) = closed.recv_timeout(BUSY) {
                break;
            }
        }
    }

    fn hangs(&mut self) -> bool {
        self.check_memory();
        !self.control.blind.load(Ordering::Acquire)
            && self.watchdog.check(self.shared, self.launches)
    }

    /// Closes what the kernel left open, then notifies who waits for it.
    fn finish(&mut self, state: &Arc<LaunchState>, outcome: Result<(), KernelError>) {
        if let Err(error) = &outcome {
            // First of all: the rest may take its time.
            self.faults.report(state.slot, state.running.kernel(), error);
        }
        let (last, unserved) = {
            let mut running = lock(self.launches);
            running.launches.retain(|other| other.slot != state.slot);
            running.faulted |= outcome.is_err();
            // Slots rather than launches: one that is being made may have accepted already.
            let last = running.taken.iter().all(|slot| *slot == state.slot);
            (last, running.unserved(state, last, outcome.is_err()))
        };
        // Before the shards are notified: none of them takes in a socket of this launch afterwards.
        self.shared.launches.set(state.slot, false);
        if last && self.shared.queues.len() > 1 {
            // What the kernel accepted, and in which shard it is, before any shard closes its part.
            self.send_to_all(&Message::CommitAccepts);
        }
        self.send_to_all(&|done| Message::LaunchEnded { launch: state.slot, last, done });
        if let Some(which) = unserved {
            self.send_to_all(&|done| Message::CloseListeners { which: which.clone(), done });
        }
        // Before the slot is free: an abort that finds no outcome stops this launch and no other.
        state.finish(outcome);
        lock(self.launches).taken.remove(&state.slot);
    }
}
