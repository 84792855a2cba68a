//! How long an attempt to connect may take: a timer beside a descriptor, for who waits on one alone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gpunet_device::abi::errno::Errno;

use super::ready_set::{ReadySet, errno};

/// The end of an attempt: a timer, and a descriptor for it and the attempt.
pub(super) struct Timeout {
    timer: OwnedFd,
    either: ReadySet,
}

impl Timeout {
    pub(super) fn new(attempt: Option<BorrowedFd<'_>>, time: Duration) -> Result<Self, Errno> {
        let timer = timer(time)?;
        let either = ReadySet::new()?;
        if let Some(attempt) = attempt {
            either.add(attempt, 0)?;
        }
        either.add(timer.as_fd(), 1)?;
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

impl AsFd for Timeout {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.as_fd()
    }
}

fn timer(time: Duration) -> Result<OwnedFd, Errno> {
    #[cfg(feature = "simulation")]
    if let Some(timer) = crate::simulation::control::timer(time) {
        return timer;
    }
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).map_err(errno)?;
    let once = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    let time = Itimerspec { it_interval: Timespec::default(), it_value: once };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &time).map_err(errno)?;
    Ok(timer)
}
