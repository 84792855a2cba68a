//! How long an attempt may take: a timer beside a descriptor, for who waits on one alone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use rustix::event::epoll;

/// The end of an attempt: a timer, and a descriptor for it and the attempt.
pub(super) struct Patience {
    timer: OwnedFd,
    either: OwnedFd,
}

impl Patience {
    pub(super) fn new(attempt: Option<BorrowedFd<'_>>, time: Duration) -> Result<Self, Errno> {
        #[cfg(feature = "simulation")]
        if let Some(timer) = crate::simulation::control::timer(time) {
            let timer = timer?;
            let either = either([attempt, Some(timer.as_fd())])?;
            return Ok(Self { timer, either });
        }
        use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer =
            rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).map_err(errno)?;
        let once =
            Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let time = Itimerspec { it_interval: Timespec::default(), it_value: once };
        rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &time).map_err(errno)?;
        let either = either([attempt, Some(timer.as_fd())])?;
        Ok(Self { timer, either })
    }

    pub(super) fn is_over(&self) -> bool {
        #[cfg(feature = "simulation")]
        if let Some(over) = crate::simulation::control::is_over(self.timer.as_fd()) {
            return over;
        }
        // Readable once the time has come.
        rustix::io::read(&self.timer, &mut [0_u8; 8]).is_ok()
    }
}

impl AsFd for Patience {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.as_fd()
    }
}

/// Readable when any of them is.
pub(super) fn either<const N: usize>(
    descriptors: [Option<BorrowedFd<'_>>; N],
) -> Result<OwnedFd, Errno> {
    let set = new_set()?;
    for descriptor in descriptors.into_iter().flatten() {
        also(&set, descriptor)?;
    }
    Ok(set)
}

fn new_set() -> Result<OwnedFd, Errno> {
    #[cfg(feature = "simulation")]
    if let Some(set) = crate::simulation::control::set() {
        return set;
    }
    epoll::create(epoll::CreateFlags::CLOEXEC).map_err(errno)
}

/// Adds one. It leaves the set when it is closed.
pub(super) fn also(set: &OwnedFd, descriptor: BorrowedFd<'_>) -> Result<(), Errno> {
    #[cfg(feature = "simulation")]
    if let Some(joined) = crate::simulation::control::join(set.as_fd(), descriptor) {
        return joined;
    }
    let data = epoll::EventData::new_u64(0);
    epoll::add(set, descriptor, data, epoll::EventFlags::IN).map_err(errno)
}

/// Takes one out.
pub(super) fn no_more(set: &OwnedFd, descriptor: BorrowedFd<'_>) {
    #[cfg(feature = "simulation")]
    if crate::simulation::control::leave(descriptor).is_some() {
        return;
    }
    // One that is not in it is as good as taken out.
    let _ = epoll::delete(set, descriptor);
}

fn errno(errno: rustix::io::Errno) -> Errno {
    Errno(errno.raw_os_error())
}
