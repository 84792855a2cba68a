//! The supervisor: a thread of each net that notices when kernels end or proxy threads hang. It
//! calls nothing of the program's, which might keep it.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpu_usermap::AccessError;
use gpunet_device::abi::errno::Errno;

use super::launch::LaunchState;
use super::watchdog::Watchdog;
use crate::gpu::KernelError;
use crate::proxy::message::Message;
use crate::proxy::shared::Shared;
use crate::proxy::thread::Control;

/// Between two looks at the kernels, while some run and while none does.
const BUSY: Duration = Duration::from_micros(200);
const QUIET: Duration = Duration::from_millis(20);
/// How long the shards may take to close what a kernel left open.
const CLOSE: Duration = Duration::from_secs(5);

/// The launches of a net that have not ended.
#[derive(Default)]
pub(crate) struct Launches {
    running: Mutex<Running>,
}

#[derive(Default)]
pub(crate) struct Running {
    pub(crate) launches: Vec<Arc<LaunchState>>,
    /// Slots whose launch is being made or has not been cleaned up.
    pub(crate) taken: std::collections::BTreeSet<u32>,
    /// Launches so far.
    pub(crate) launched: u64,
    /// A kernel has faulted.
    pub(crate) faulted: bool,
}

impl Launches {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs until the net goes and no kernel is left. Who sets `stopping` unparks it.
pub(crate) fn run(shared: &Shared, control: &Control, launches: &Launches) {
    let mut watchdog = Watchdog::new(shared);
    // A net whose proxy threads sleep long to save power is looked after as rarely.
    let pace = BUSY.max(2 * Duration::from_nanos(shared.config.nap_ns)).min(QUIET);
    loop {
        // Without the lock, which an abort wants: a driver may take long to answer.
        let running = launches.lock().launches.clone();
        let ended: Vec<_> = running
            .into_iter()
            .filter_map(|state| state.running.poll().map(|outcome| (state, outcome)))
            .collect();
        for (state, outcome) in ended {
            finish(shared, control, launches, &mut watchdog, &state, outcome);
        }
        look_at_words(shared, control, launches);
        let busy = control.running.load(Ordering::Acquire) > 0;
        // Threads that have nothing to do sleep longer than some silences are.
        if busy && !is_blind(control) {
            watchdog.look(shared, launches);
        } else {
            watchdog.rest();
        }
        if control.stopping.load(Ordering::Acquire) && launches.lock().launches.is_empty() {
            return;
        }
        std::thread::park_timeout(if busy { pace } else { QUIET });
    }
}

/// Sees whether the words that kernels poll are still there. Without them the net is of no use; its
/// kernels are told as far as words reach them, and the process lives on.
fn look_at_words(shared: &Shared, control: &Control, launches: &Launches) {
    if control.words_lost.get().is_none() {
        let Err(gone) = check_words(shared, control) else { return };
        // Before anything else is stored there.
        shared.memory.abandon_words();
        tracing::error!(%gone, "the words of a net are lost; the net is down");
        // Only this thread sets it.
        let _ = control.words_lost.set(gone);
    }
    // Again and again: a launch may have been on its way.
    for launch in &launches.lock().launches {
        launch.stop(Errno::ENETDOWN);
    }
}

#[cfg(feature = "fault-injection")]
fn check_words(shared: &Shared, control: &Control) -> Result<(), AccessError> {
    if control.takes_words.load(Ordering::Acquire) {
        return Err(AccessError::Revoked);
    }
    shared.memory.check_words()
}

#[cfg(not(feature = "fault-injection"))]
fn check_words(shared: &Shared, _: &Control) -> Result<(), AccessError> {
    shared.memory.check_words()
}

/// Whether heartbeats are not to be looked at, for a test.
#[cfg(feature = "fault-injection")]
fn is_blind(control: &Control) -> bool {
    control.blind.load(Ordering::Acquire)
}

#[cfg(not(feature = "fault-injection"))]
const fn is_blind(_: &Control) -> bool {
    false
}

/// Closes what the kernel left open, then tells who waits for it.
fn finish(
    shared: &Shared,
    control: &Control,
    launches: &Launches,
    watchdog: &mut Watchdog,
    state: &Arc<LaunchState>,
    outcome: Result<(), KernelError>,
) {
    let last = {
        let mut running = launches.lock();
        running.launches.retain(|other| other.slot != state.slot);
        running.faulted |= outcome.is_err();
        // Slots rather than launches: one that is being made may have accepted already.
        running.taken.iter().all(|slot| *slot == state.slot)
    };
    // Before the shards are told: none of them takes in a socket of this launch afterwards.
    shared.launches.set(state.slot, false);
    let mut tell_all = |message: &dyn Fn(mpsc::Sender<()>) -> Message| {
        let (done, closed) = mpsc::channel();
        for shard in 0..shared.inboxes.len() {
            shared.tell(shard, message(done.clone()));
        }
        drop(done);
        // Each shard answers once; a dead one drops its end, which counts, too. One that hangs
        // finds the message when it goes on, before anything of a later launch.
        let deadline = Instant::now() + CLOSE;
        let hangs = |watchdog: &mut Watchdog| {
            look_at_words(shared, control, launches);
            !is_blind(control) && watchdog.look(shared, launches)
        };
        while !hangs(watchdog) && Instant::now() < deadline {
            if let Err(RecvTimeoutError::Disconnected) = closed.recv_timeout(BUSY) {
                break;
            }
        }
    };
    if last && shared.inboxes.len() > 1 {
        // What the kernel accepted, and in which shard it is, before any shard closes its part.
        tell_all(&Message::Settle);
    }
    tell_all(&|done| Message::LaunchEnded { launch: state.slot, last, done });
    if let Err(error) = &outcome {
        tracing::error!(kernel = state.running.kernel(), %error, "kernel failed");
    }
    control.running.fetch_sub(1, Ordering::AcqRel);
    // Before the slot is free: an abort that finds no outcome stops this launch and no other.
    state.finish(outcome);
    launches.lock().taken.remove(&state.slot);
}
