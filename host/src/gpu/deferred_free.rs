//! Which launches of this process run, on all its GPUs, and arenas that were dropped meanwhile.
//!
//! A kernel may reach any arena: all lie in one window, and two GPUs may share one. It may do so a
//! moment after its socket was closed, too, since a poll holds no direction of the sockets that it looks
//! at. So an arena stays mapped, and its addresses are nobody else's, until every launch has ended
//! that ran when it was dropped, unless its user knew that none looks there any more
//! ([`Arena::allow_free`](super::Arena::allow_free)): that one does not come here.
//!
//! It decides only; the ledgers say when launches begin and end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::backing::Backing;

/// Of this process.
static PROCESS: Mutex<DeferredFree<Arc<dyn Backing>>> = Mutex::new(DeferredFree::new());

fn process() -> MutexGuard<'static, DeferredFree<Arc<dyn Backing>>> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A moment of the process, as launches have it: those before it have lower numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Moment {
    /// This one.
    pub(crate) fn now() -> Self {
        process().now()
    }

    /// Whether every launch has ended that ran then.
    pub(crate) fn is_over(self) -> bool {
        process().is_over(self)
    }
}

/// A launch begins: its number in this process, which no other has.
pub(super) fn begin() -> u64 {
    process().begin()
}

/// A launch that runs as long as this lives.
#[cfg(test)]
pub(crate) struct RunningKernel(u64);

#[cfg(test)]
impl RunningKernel {
    pub(crate) fn new() -> Self {
        Self(begin())
    }
}

#[cfg(test)]
impl Drop for RunningKernel {
    fn drop(&mut self) {
        end(self.0);
    }
}

/// It has ended; a second call for it does nothing. Arenas that only it has kept go at the next
/// [`release`].
pub(super) fn end(launch: u64) {
    process().running.remove(&launch);
}

/// Takes an arena that its owner has dropped.
pub(super) fn keep(arena: Arc<dyn Backing>) {
    {
        let mut process = process();
        let now = process.now();
        process.kept.push((now, arena));
    }
    release();
}

/// Gives up the arenas that no launch keeps any more.
pub(super) fn release() {
    let free = process().take_free();
    // Not under the lock: a driver is called.
    drop(free);
}

/// `M` is what is kept.
struct DeferredFree<M> {
    begun: u64,
    running: BTreeSet<u64>,
    kept: Vec<(Moment, M)>,
}

impl<M> DeferredFree<M> {
    const fn new() -> Self {
        Self { begun: 0, running: BTreeSet::new(), kept: Vec::new() }
    }

    fn begin(&mut self) -> u64 {
        let launch = self.begun;
        self.begun += 1;
        self.running.insert(launch);
        launch
    }

    fn now(&self) -> Moment {
        Moment(self.begun)
    }

    fn is_over(&self, moment: Moment) -> bool {
        self.running.first().is_none_or(|oldest| *oldest >= moment.0)
    }

    fn take_free(&mut self) -> Vec<M> {
        let oldest = self.running.first().copied().unwrap_or(u64::MAX);
        let free = self.kept.extract_if(.., |(dropped, _)| dropped.0 <= oldest);
        free.map(|(_, kept)| kept).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_waits_for_the_launches_of_its_time() {
        let mut deferred = DeferredFree::new();
        let drop_now = |deferred: &mut DeferredFree<&'static str>, what| {
            let now = deferred.now();
            deferred.kept.push((now, what));
            now
        };
        drop_now(&mut deferred, "before");
        assert_eq!(deferred.take_free(), ["before"]);
        let [first, second] = [(); 2].map(|()| deferred.begin());
        let during = drop_now(&mut deferred, "during");
        let later = deferred.begin();
        let after = drop_now(&mut deferred, "after");
        deferred.running.remove(&second);
        assert!(deferred.take_free().is_empty() && !deferred.is_over(during));
        deferred.running.remove(&first);
        // The third began when it was gone already.
        assert_eq!(deferred.take_free(), ["during"]);
        assert!(deferred.is_over(during) && !deferred.is_over(after));
        deferred.running.remove(&later);
        assert_eq!(deferred.take_free(), ["after"]);
        assert!(deferred.is_over(deferred.now()));
    }
}
