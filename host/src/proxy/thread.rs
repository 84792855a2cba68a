//! The thread around a shard: epoll, a clock, and sleep.
//!
//! A GPU cannot wake a thread, so while kernels run the thread polls, and once nothing has
//! happened for a while it sleeps, for a short time; that is the latency that a quiet
//! connection pays. While no kernel runs it sleeps until a message or a peer wakes it, longer and
//! longer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::MAX_LAUNCHES;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use super::control::Control;
use super::rounds::{Next, Outside, Rounds};
use super::shard::Shard;
use super::shared::Readiness;

/// The key of the eventfd that wakes the thread.
const WAKER: u64 = u64::MAX;
/// Events taken at once.
const EVENTS: usize = 256;

/// epoll, as the shard needs it, and the eventfd that ends its sleep.
struct Epoll {
    epoll: OwnedFd,
    waker: OwnedFd,
    /// A sleep has just ended by its time: nothing was ready.
    slept: bool,
}

impl Readiness for Epoll {
    fn add(&mut self, descriptor: BorrowedFd<'_>, key: u64) -> Result<(), Errno> {
        use epoll::EventFlags;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        match epoll::add(&self.epoll, descriptor, epoll::EventData::new_u64(key), flags) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(errno) => Err(Errno(errno.raw_os_error())),
        }
    }

    fn remove(&mut self, descriptor: BorrowedFd<'_>) {
        // One that was never added is as good as removed.
        let _ = epoll::delete(&self.epoll, descriptor);
    }
}

impl Epoll {
    /// Waits until something is ready, at most so long. Whether something is.
    fn wait(&mut self, wait: Duration) -> bool {
        // epoll_wait counts in milliseconds; ppoll on the epoll descriptor does not.
        let timeout =
            Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut one = [PollFd::new(&self.epoll, PollFlags::IN)];
        let ready = poll(&mut one, Some(&timeout));
        self.slept = matches!(ready, Ok(0));
        matches!(ready, Ok(1..))
    }
}

impl Outside for Epoll {
    fn poll(&mut self, shard: &mut Shard) -> bool {
        // What has come since ends the next sleep at once.
        if std::mem::take(&mut self.slept) {
            return false;
        }
        let mut events = [const { std::mem::MaybeUninit::uninit() }; EVENTS];
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&zero)) else {
            // Interrupted; there is another turn.
            return false;
        };
        for event in events.iter() {
            let key = event.data.u64();
            if key == WAKER {
                // Resets the counter; it is there to be read.
                let _ = rustix::io::read(&self.waker, &mut [0_u8; 8]);
            } else {
                shard.ready(key);
            }
        }
        !events.is_empty()
    }
}

/// A proxy thread before it starts.
pub(crate) struct ProxyThread {
    shard: Shard,
    epoll: Epoll,
    control: Arc<Control>,
}

impl ProxyThread {
    pub(crate) fn new(
        shard: Shard,
        waker: OwnedFd,
        control: Arc<Control>,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::IN;
        epoll::add(&epoll, waker.as_fd(), epoll::EventData::new_u64(WAKER), flags)?;
        Ok(Self { shard, epoll: Epoll { epoll, waker, slept: false }, control })
    }

    /// Runs until the net stops. A panic ends the net, and every kernel's waits with ENETDOWN.
    pub(crate) fn run(mut self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.turns()));
        if outcome.is_err() {
            self.control.down.store(true, Ordering::SeqCst);
            for launch in 0..MAX_LAUNCHES as usize {
                self.shard.sockets.context.shared.memory.stop(launch, Errno::ENETDOWN);
            }
            tracing::error!(
                shard = self.shard.sockets.context.id,
                "a proxy thread panicked; the net is down"
            );
        }
    }

    fn turns(&mut self) {
        // Sleeps are as short as asked for, not rounded up by the usual 50 us.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
        // One clock for all threads, as what they share needs it.
        static START: OnceLock<Instant> = OnceLock::new();
        let start = *START.get_or_init(Instant::now);
        let crowded = std::thread::available_parallelism()
            .is_ok_and(|cores| cores.get() <= self.shard.sockets.context.shared.queues.len() + 1);
        let mut rounds = Rounds::default();
        loop {
            let now = start.elapsed().as_nanos() as u64;
            match rounds.round(&mut self.shard, &self.control, now, &mut self.epoll) {
                Next::Again => {}
                Next::Spin if crowded => std::thread::yield_now(),
                // A busy socket's system call is pause enough.
                Next::Spin if self.shard.is_busy() => {}
                Next::Spin => std::hint::spin_loop(),
                Next::Sleep(ns) => {
                    if self.epoll.wait(Duration::from_nanos(ns)) {
                        self.epoll.poll(&mut self.shard);
                    }
                }
                Next::End => return,
            }
        }
    }
}
