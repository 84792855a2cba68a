//! Which kernels run, what share of the GPU they take, and which memory waits for them to end.
//!
//! Both backends keep one ledger under their lock. It decides only; no call of a driver or of the
//! system happens here. Memory that is given back while a kernel runs is deferred: the kernel may
//! still touch it, and on CUDA freeing would wait for the kernel.

use gpunet_device::planted::{Bug, planted};

use super::{LaunchError, StreamLimit, deferred_free};

/// Kernels that a GPU runs at once: queues of the hardware that a driver feeds at most (measured; one
/// more waits for another's end). The emulated GPU has the same limit.
pub(super) const MAX_KERNELS: usize = 32;

/// Queues that streams leave to others: kernels of the program and copies.
const QUEUES_FOR_OTHERS: usize = 2;

/// The whole GPU, as a share.
const WHOLE: u128 = 1 << 64;

/// Names a kernel in the ledger, and among all of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// `M` is what is deferred.
#[derive(Debug)]
pub(super) struct Ledger<M> {
    running: Vec<(Ticket, u128)>,
    /// Of these, on streams, which have their queues already.
    on_streams: Vec<Ticket>,
    /// Streams with work that is not done: each has a queue, and keeps what a kernel does.
    streams: Vec<Ticket>,
    /// Queues: kernels and streams that may run at once.
    most: usize,
    deferred: Vec<M>,
}

impl<M> Default for Ledger<M> {
    fn default() -> Self {
        Self::new(MAX_KERNELS)
    }
}

impl<M> Drop for Ledger<M> {
    fn drop(&mut self) {
        // A GPU that goes while kernels run leaves its ledger to the process.
        let running = self.running.iter().map(|(ticket, _)| ticket);
        running.chain(&self.streams).for_each(|ticket| deferred_free::end(ticket.0));
    }
}

impl<M> Ledger<M> {
    /// Of a GPU that runs so many kernels at once.
    pub(super) fn new(most: usize) -> Self {
        Self {
            running: Vec::new(),
            on_streams: Vec::new(),
            streams: Vec::new(),
            most,
            deferred: Vec::new(),
        }
    }

    /// Kernels that run, and streams that have work.
    pub(super) fn running(&self) -> usize {
        self.running.len() - self.on_streams.len() + self.streams.len()
    }

    /// A stream gets work that may wait: it has a queue of the hardware from now on, of which two are
    /// left to others. With all of them held by waits no other stream of the process would move.
    pub(super) fn begin_stream(&mut self) -> Result<Ticket, StreamLimit> {
        let possible = self.most.saturating_sub(QUEUES_FOR_OTHERS);
        if self.running() >= possible && !planted(Bug::QueueLimitIgnored) {
            let remedy = match self.most < MAX_KERNELS {
                true => "start the program with CUDA_DEVICE_MAX_CONNECTIONS=32 in its environment",
                false => "wait for one of them, or put operations of several on one stream",
            };
            let streams = self.streams.len();
            let kernels = self.running() - streams;
            return Err(StreamLimit::Streams { streams, kernels, possible, remedy });
        }
        Ok(self.hold_stream())
    }

    /// A stream has work, whatever else there is. From now on it may reach any arena.
    pub(super) fn hold_stream(&mut self) -> Ticket {
        let ticket = Ticket(deferred_free::begin());
        self.streams.push(ticket);
        ticket
    }

    /// All work of a stream is done. A second call for one ticket does nothing.
    pub(super) fn end_stream(&mut self, ticket: Ticket) {
        self.streams.retain(|other| *other != ticket);
        deferred_free::end(ticket.0);
    }

    /// Whether a grid would be resident as a whole on an empty GPU.
    pub(super) fn fits_alone(
        &self,
        kernel: &str,
        blocks: u32,
        possible: u32,
    ) -> Result<(), LaunchError> {
        if blocks <= possible {
            return Ok(());
        }
        let (asked, possible) = (u64::from(blocks), u64::from(possible));
        let (kernel, beside) = (kernel.to_owned(), String::new());
        Err(LaunchError::NotResident { kernel, asked, possible, beside })
    }

    /// Enters a kernel of `blocks` blocks where, on an empty GPU, `possible` would be resident.
    ///
    /// Kernels of different shapes are compared by the share of the GPU each takes.
    pub(super) fn admit(
        &mut self,
        kernel: &str,
        blocks: u32,
        possible: u32,
    ) -> Result<Ticket, LaunchError> {
        if self.running() >= self.most {
            return Err(self.too_many());
        }
        self.enter(kernel, blocks, possible)
    }

    /// The same for a kernel of a stream, which has its queue already.
    pub(super) fn admit_on_stream(
        &mut self,
        kernel: &str,
        blocks: u32,
        possible: u32,
    ) -> Result<Ticket, LaunchError> {
        let ticket = self.enter(kernel, blocks, possible)?;
        self.on_streams.push(ticket);
        Ok(ticket)
    }

    /// Whether a grid would be resident as a whole beside the kernels that run.
    pub(super) fn fits_beside(
        &self,
        kernel: &str,
        blocks: u32,
        possible: u32,
    ) -> Result<(), LaunchError> {
        self.share(kernel, blocks, possible).map(drop)
    }

    fn enter(&mut self, kernel: &str, blocks: u32, possible: u32) -> Result<Ticket, LaunchError> {
        let share = self.share(kernel, blocks, possible)?;
        let ticket = Ticket(deferred_free::begin());
        self.running.push((ticket, share));
        Ok(ticket)
    }

    /// The share of the GPU that a grid takes, if that is free.
    fn share(&self, kernel: &str, blocks: u32, possible: u32) -> Result<u128, LaunchError> {
        let taken: u128 = self.running.iter().map(|(_, share)| share).sum();
        // Rounded down, so that shares which fit exactly (three thirds) are not refused.
        let share = u128::from(blocks) * WHOLE / u128::from(possible.max(1));
        if possible == 0 || taken + share > WHOLE {
            let left = WHOLE.saturating_sub(taken) * u128::from(possible) / WHOLE;
            return Err(LaunchError::NotResident {
                kernel: kernel.to_owned(),
                asked: u64::from(blocks),
                possible: u64::try_from(left).unwrap_or(u64::MAX),
                beside: match self.running.len() {
                    0 => String::new(),
                    running => format!(" beside {running} running kernel(s)"),
                },
            });
        }
        Ok(share)
    }

    /// Why a kernel is not launched that would not begin.
    pub(super) fn too_many(&self) -> LaunchError {
        let remedy = if self.most < MAX_KERNELS {
            "start the program with CUDA_DEVICE_MAX_CONNECTIONS=32 in its environment, or wait for \
             one of them to end"
        } else {
            "wait for one of them to end, or have one kernel of more blocks do the work of several"
        };
        LaunchError::TooManyKernels { running: self.running(), remedy }
    }

    /// The kernel has ended. A second call for one ticket does nothing.
    pub(super) fn retire(&mut self, ticket: Ticket) {
        self.running.retain(|(other, _)| *other != ticket);
        self.on_streams.retain(|other| *other != ticket);
        deferred_free::end(ticket.0);
    }

    /// Takes memory that its owner gave back.
    pub(super) fn defer(&mut self, memory: M) {
        self.deferred.push(memory);
    }

    /// What may be freed now: everything deferred when no kernel runs, else nothing. The caller
    /// frees it after leaving the lock.
    #[must_use]
    pub(super) fn drain(&mut self) -> Vec<M> {
        if self.running.is_empty() && self.streams.is_empty() {
            std::mem::take(&mut self.deferred)
        } else {
            Vec::new()
        }
    }

    /// Pieces that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.deferred.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_waits_for_every_kernel() {
        let mut ledger = Ledger::default();
        ledger.defer("before");
        assert_eq!(ledger.drain(), ["before"]);
        let first = ledger.admit("a", 1, 10).unwrap();
        let second = ledger.admit("b", 1, 10).unwrap();
        ledger.defer("during");
        assert!(ledger.drain().is_empty());
        ledger.retire(first);
        ledger.retire(first);
        assert!(ledger.drain().is_empty());
        assert_eq!(ledger.waiting(), 1);
        ledger.retire(second);
        assert_eq!(ledger.drain(), ["during"]);
        assert!(ledger.drain().is_empty());
    }

    #[test]
    fn shares_add_up() {
        let mut ledger = Ledger::<()>::default();
        for _ in 0..3 {
            ledger.admit("third", 1, 3).unwrap();
        }
        match ledger.admit("one more", 1, 2048) {
            Err(LaunchError::NotResident { asked: 1, possible: 0, beside, .. }) => {
                assert_eq!(beside, " beside 3 running kernel(s)");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_grid_larger_than_the_gpu_gets_an_error_that_says_what_fits() {
        let mut ledger = Ledger::<()>::default();
        let half = ledger.admit("half", 5, 10).unwrap();
        match ledger.admit("large", 101, 200) {
            Err(LaunchError::NotResident { asked: 101, possible: 100, .. }) => {}
            other => panic!("{other:?}"),
        }
        ledger.retire(half);
        ledger.admit("large", 101, 200).unwrap();
        assert!(ledger.admit("none", 1, 0).is_err());
    }

    #[test]
    fn streams_leave_two_queues() {
        for (most, remedy) in [(8, "CUDA_DEVICE_MAX_CONNECTIONS=32"), (32, "on one stream")] {
            let mut ledger = Ledger::<&str>::new(most);
            let kernel = ledger.admit("small", 1, 10_000).unwrap();
            let tickets: Vec<_> = (1..most - 2).map(|_| ledger.begin_stream().unwrap()).collect();
            let refused = ledger.begin_stream().unwrap_err();
            let (streams, possible) = (most - 3, most - 2);
            assert!(
                matches!(refused, StreamLimit::Streams { streams: s, kernels: 1, possible: p, .. }
                    if (s, p) == (streams, possible)),
                "{refused}"
            );
            assert!(refused.to_string().contains(remedy), "{refused}");
            // Kernels may have the two that are left.
            for _ in 0..2 {
                ledger.admit("small", 1, 10_000).unwrap();
            }
            assert!(ledger.admit("small", 1, 10_000).is_err());
            // Memory waits for streams, too.
            ledger.retire(kernel);
            ledger.defer("during");
            assert!(ledger.drain().is_empty());
            ledger.end_stream(tickets[0]);
            ledger.end_stream(tickets[0]);
            ledger.begin_stream().unwrap_err();
            tickets.into_iter().for_each(|ticket| ledger.end_stream(ticket));
            assert_eq!(ledger.drain(), [] as [&str; 0], "two kernels run");
        }
    }

    /// A kernel that waits on a stream may reach arenas when its turn comes.
    #[test]
    fn arenas_wait_for_streams() {
        let mut ledger = Ledger::<()>::default();
        let first = ledger.begin_stream().unwrap();
        let then = deferred_free::Moment::now();
        let second = ledger.begin_stream().unwrap();
        assert!(!then.is_over());
        ledger.end_stream(second);
        assert!(!then.is_over());
        drop(ledger);
        // Other tests of this process run kernels, which end.
        while !then.is_over() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let _ = first;
    }

    #[test]
    fn no_more_kernels_than_queues() {
        for (most, remedy) in [(8, "CUDA_DEVICE_MAX_CONNECTIONS=32"), (32, "more blocks")] {
            let mut ledger = Ledger::<()>::new(most);
            let first = ledger.admit("small", 1, 10_000).unwrap();
            for _ in 1..most {
                ledger.admit("small", 1, 10_000).unwrap();
            }
            let refused = ledger.admit("small", 1, 10_000).unwrap_err();
            assert!(
                matches!(refused, LaunchError::TooManyKernels { running, .. } if running == most),
                "{refused}"
            );
            assert!(refused.to_string().contains(remedy), "{refused}");
            ledger.retire(first);
            ledger.admit("small", 1, 10_000).unwrap();
        }
    }
}
