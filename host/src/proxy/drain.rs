//! Draining: a socket that the host has closed may still be in use by launches that run. Its slot, rings
//! and inboxes are given to another socket only when no group can be inside a call on it.
//!
//! A socket closed by a kernel needs none of this: its record's locks are taken for good by then. Where
//! the host closes one (the launch that owned it has ended, its listener was closed), other launches may
//! know the handle. A thread of the net does the following for each; a driver that keeps it waiting keeps nobody
//! else:
//!
//! 1. The descriptor was withdrawn: a launch that has not used the socket finds that first (EBADF).
//! 2. It reads the record. One that is being made is looked at again later: whoever makes it has seen the
//!    descriptor. One that is open it closes, by a copy into the record's state word. Groups look at that
//!    word when a call begins and in every turn of a wait: EBADF.
//!    Only then is the other end of a p2p stream notified: its kernel answers by itself, and these groups would
//!    take that for the end of the stream.
//! 3. It looks at the locks of both directions. None was taken for a while (`Pacing::grace_ns`): nobody is inside.
//!
//! The fast path of a call loads the state beside the lock, not behind it, and `gpoll` takes no lock; who
//! closes a socket, or shuts it down, waits for a lock whatever the state is. None of them does anything
//! else in between, and the grace is long against all. A launch that ends is inside no call, so what those
//! hold that ran when the socket was closed ends with them at the latest.
//!
//! Why it is so: decision 13 of docs/explanation/decisions.md.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread::Thread;
use std::time::{Duration, Instant};

use gpunet_device::Handle;
use gpunet_device::abi::bits::{Position, RecordState};
use gpunet_device::abi::layout::{RECORD_LOCKS, RECORD_STATE, RECORD_WORDS};
use gpunet_device::planted::{Bug, planted};

use super::message::Message;
use super::running::RunningLaunch;
use super::shared::Shared;
use crate::lock::lock;

/// Between two looks at a record.
const AGAIN_NS: u64 = 2_000_000;
/// Records that are looked at in one step: each takes a copy or two of the GPU's driver.
const A_STEP: usize = 64;

/// Between two steps, while sockets drain and while none does.
const BUSY: Duration = Duration::from_millis(1);
const QUIET: Duration = Duration::from_secs(1);

/// A socket that is closed and not free yet.
struct Draining {
    handle: Handle,
    /// The launches that ran when it was closed.
    users: Vec<RunningLaunch>,
    /// Looked at from then on.
    due_ns: u64,
    /// It was closed for groups, or is being made and could not be yet.
    looked_at: bool,
    /// Groups find it closed.
    seen_closed: bool,
    /// Its shard waits to be notified that groups find it closed.
    notifies: bool,
    /// Since when all looks have found it closed, with no group inside.
    quiet_ns: Option<u64>,
}

/// The sockets of a net that drain.
#[derive(Default)]
pub(crate) struct Drain {
    sockets: Mutex<Vec<Draining>>,
    /// How many drain.
    count: AtomicUsize,
    /// Those that a kernel has closed at the same time: it has their locks, for good.
    left: Mutex<Vec<Handle>>,
    /// Signalled when all sockets that drain by now are closed for the groups that use them.
    waiting: Mutex<Vec<mpsc::Sender<()>>>,
    /// Who calls `step`.
    thread: OnceLock<Thread>,
}

impl Drain {
    /// The thread of a net that drains its sockets, until the net goes. Who sets `stopping` wakes it.
    pub(crate) fn run(&self, shared: &Shared, stopping: &AtomicBool) {
        // Only this thread sets it.
        let _ = self.thread.set(std::thread::current());
        let started = Instant::now();
        while !stopping.load(Ordering::Acquire) {
            if self.step(shared, started.elapsed().as_nanos() as u64) {
                continue;
            }
            std::thread::park_timeout(if self.is_idle() { QUIET } else { BUSY });
        }
    }

    /// Looks at those that are due, those that never were first, and notifies shards of free ones.
    /// Whether some are still to be looked at for the first time. One thread calls it.
    pub(crate) fn step(&self, shared: &Shared, now_ns: u64) -> bool {
        // Without the lock, which proxy threads want: a driver may take long to answer.
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        // Before the sockets: one that began to drain and was left in between is found by the next step.
        let left = std::mem::take(&mut *lock(&self.left));
        let mut sockets = std::mem::take(&mut *lock(&self.sockets));
        sockets.sort_by_key(|socket| socket.due_ns);
        let mut looked = 0;
        sockets.retain_mut(|socket| {
            let ended = !socket.users.iter().any(|user| shared.launches.still_runs(*user));
            let mut free = ended || left.contains(&socket.handle);
            if !free && now_ns >= socket.due_ns && looked < A_STEP {
                looked += 1;
                free = socket.advance(shared, now_ns);
            }
            let shard = socket.handle.shard() as usize;
            if socket.seen_closed && std::mem::take(&mut socket.notifies) {
                shared.send(shard, Message::SeenClosed(socket.handle));
            }
            if free {
                shared.send(shard, Message::Drained(socket.handle));
                self.count.fetch_sub(1, Ordering::AcqRel);
            }
            !free
        });
        let more = sockets.iter().any(|socket| !socket.looked_at);
        if !more {
            waiting.iter().for_each(|done| {
                let _ = done.send(());
            });
        } else {
            lock(&self.waiting).extend(waiting);
        }
        lock(&self.sockets).append(&mut sockets);
        more
    }

    /// Ends the thread's sleep.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Whether no socket drains.
    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Has a socket drained whose descriptor was withdrawn. False: no launch runs, and it is free. `notifies`: its
    /// shard wants to know when groups find it closed.
    pub(crate) fn begin(&self, handle: Handle, users: Vec<RunningLaunch>, notifies: bool) -> bool {
        if users.is_empty() {
            return false;
        }
        lock(&self.sockets).push(Draining {
            handle,
            users,
            due_ns: 0,
            looked_at: false,
            seen_closed: false,
            notifies,
            quiet_ns: None,
        });
        self.count.fetch_add(1, Ordering::AcqRel);
        self.wake();
        true
    }

    /// A kernel has closed a socket that drains. It is freed by the next step, which has no copy into its
    /// record on the way.
    pub(crate) fn left_by_kernel(&self, handle: Handle) {
        lock(&self.left).push(handle);
        self.wake();
    }

    /// Has `done` notified once calls on all sockets that drain by now fail: at once where there are none.
    pub(crate) fn notify_when_closed(&self, done: mpsc::Sender<()>) {
        // Also those that a step has in its hands at this moment.
        if !self.is_idle() {
            lock(&self.waiting).push(done);
            self.wake();
        } else {
            // Whoever asked may have stopped waiting.
            let _ = done.send(());
        }
    }
}

/// What a record says of a socket that drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Groups can begin calls on it.
    Open,
    /// A group makes its record.
    Installing,
    /// A group may be inside a call on it.
    InUse,
    /// Nobody is inside a call on it, or can come to be.
    Unused,
}

impl Draining {
    /// One step further; whether it is free.
    fn advance(&mut self, shared: &Shared, now_ns: u64) -> bool {
        let index = shared.index(self.handle);
        self.due_ns = now_ns + AGAIN_NS;
        self.looked_at = true;
        // A driver that refuses has lost its kernels: their launches end.
        let Ok(record) = shared.memory.record(index) else { return false };
        match self.check(&record, now_ns, shared.config.pacing.grace_ns) {
            Found::Open => {
                let closing = RecordState::new(self.handle.generation(), RecordState::CLOSING);
                // Where the driver refuses, the next look finds it open again.
                self.seen_closed = shared.memory.close_record(index, closing).is_ok();
                planted(Bug::UsedAgainTooEarly)
            }
            Found::Installing => false,
            Found::InUse => {
                self.seen_closed = true;
                false
            }
            Found::Unused => true,
        }
    }

    /// What its record says, that was read at that time. `grace_ns`: so long nobody is to be found inside.
    fn check(&mut self, record: &[u64; RECORD_WORDS], now_ns: u64, grace_ns: u64) -> Found {
        let generation = self.handle.generation();
        let state = RecordState(record[RECORD_STATE]).bare();
        let is = |what| state == RecordState::new(generation, what);
        if is(RecordState::INSTALLING) {
            return Found::Installing;
        }
        if is(RecordState::OPEN) && !planted(Bug::CloseByHostNotReported) {
            // Also where a kernel began to close it and gave up: calls have begun since.
            self.quiet_ns = None;
            return Found::Open;
        }
        if !state.is_of(generation) {
            // No group has made its record, and none can without the descriptor.
            return Found::Unused;
        }
        // Where a kernel has closed it at the same time, its request says so.
        let taken = |lock: &u64| Position(*lock).has(Position::TAKEN);
        if record[RECORD_LOCKS..RECORD_LOCKS + 2].iter().any(taken) {
            // Who closes it, or shuts it down, may wait for this group, and takes the lock behind it
            // without a look at the state.
            self.quiet_ns = None;
            return Found::InUse;
        }
        let since = *self.quiet_ns.get_or_insert(now_ns);
        if now_ns >= since + grace_ns { Found::Unused } else { Found::InUse }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE_NS: u64 = 10 * AGAIN_NS;
    const CLOSING: u64 = RecordState::CLOSING;
    const OPEN: u64 = RecordState::OPEN;

    /// One that drains.
    fn socket(handle: Handle) -> Draining {
        Draining {
            handle,
            users: Vec::new(),
            due_ns: 0,
            looked_at: false,
            seen_closed: false,
            notifies: false,
            quiet_ns: None,
        }
    }

    /// A socket that drains, and a way to look at its record: state, locks, time.
    fn draining() -> impl FnMut(u64, [u64; 2], u64) -> Found {
        let handle = Handle::new(0, 1, 5);
        let mut socket = socket(handle);
        move |state, locks, now_ns| {
            let mut record = [0; RECORD_WORDS];
            record[RECORD_STATE] = RecordState::new(5, state).found_in(3).0;
            record[RECORD_LOCKS..RECORD_LOCKS + 2].copy_from_slice(&locks);
            socket.check(&record, now_ns, GRACE_NS)
        }
    }

    #[test]
    fn a_closed_record_is_unused_after_the_grace() {
        let mut look = draining();
        assert_eq!(look(OPEN, [128; 2], 0), Found::Open);
        assert_eq!(look(CLOSING, [128; 2], AGAIN_NS), Found::InUse);
        assert_eq!(look(CLOSING, [128; 2], AGAIN_NS + GRACE_NS - 1), Found::InUse);
        assert_eq!(look(CLOSING, [128; 2], AGAIN_NS + GRACE_NS), Found::Unused);
    }

    #[test]
    fn a_record_in_the_making_is_waited_for() {
        let mut look = draining();
        for time in [0, GRACE_NS, 9 * GRACE_NS] {
            assert_eq!(look(RecordState::INSTALLING, [128; 2], time), Found::Installing);
        }
    }

    #[test]
    fn a_record_of_another_socket_was_never_made() {
        let mut record = [0; RECORD_WORDS];
        record[RECORD_STATE] = RecordState::new(4, OPEN).0;
        let mut socket = socket(Handle::new(0, 1, 5));
        assert_eq!(socket.check(&record, 0, GRACE_NS), Found::Unused);
    }

    /// A kernel that closes a socket waits for the group inside, without a look at the state, and takes
    /// the lock when that one has left.
    #[test]
    fn the_grace_begins_when_the_last_group_has_left() {
        for direction in [0, 1] {
            let mut look = draining();
            let mut inside = [128; 2];
            inside[direction] = Position::new(128).with(Position::TAKEN).0;
            assert_eq!(look(CLOSING, inside, 0), Found::InUse);
            assert_eq!(look(CLOSING, inside, 5 * GRACE_NS), Found::InUse);
            let left = 5 * GRACE_NS + AGAIN_NS;
            assert_eq!(look(CLOSING, [128; 2], left), Found::InUse);
            assert_eq!(look(CLOSING, inside, left + AGAIN_NS), Found::InUse);
            let left = left + 2 * AGAIN_NS;
            assert_eq!(look(CLOSING, [128; 2], left), Found::InUse);
            assert_eq!(look(CLOSING, [128; 2], left + GRACE_NS - 1), Found::InUse);
            assert_eq!(look(CLOSING, [128; 2], left + GRACE_NS), Found::Unused);
        }
    }

    #[test]
    fn the_grace_begins_anew_where_a_kernel_gave_its_close_up() {
        let mut look = draining();
        assert_eq!(look(CLOSING, [128; 2], 0), Found::InUse);
        let again = 2 * GRACE_NS;
        assert_eq!(look(OPEN, [128; 2], again), Found::Open);
        assert_eq!(look(CLOSING, [128; 2], again + AGAIN_NS), Found::InUse);
        assert_eq!(look(CLOSING, [128; 2], again + AGAIN_NS + GRACE_NS), Found::Unused);
    }
}
