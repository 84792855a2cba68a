//! How long an attempt to connect may take: a timer beside a descriptor, for who waits on one alone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gpunet_device::abi::errno::Errno;

use super::ready_set::ReadySet;
use super::system::SystemRef;

/// The end of an attempt: a timer, and a descriptor for it and the attempt.
pub(super) struct Timeout {
    system: SystemRef,
    timer: OwnedFd,
    either: ReadySet,
}

impl Timeout {
    pub(super) fn new(
        system: SystemRef,
        attempt: Option<BorrowedFd<'_>>,
        time: Duration,
    ) -> Result<Self, Errno> {
        let timer = system.timer(time)?;
        let either = ReadySet::new(system)?;
        if let Some(attempt) = attempt {
            either.add(attempt, 0)?;
        }
        either.add(timer.as_fd(), 1)?;
        Ok(Self { system, timer, either })
    }

    pub(super) fn is_over(&self) -> bool {
        self.system.is_over(self.timer.as_fd())
    }
}

impl AsFd for Timeout {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.as_fd()
    }
}
