//! A set of descriptors that is a descriptor itself, for who waits on one alone: ready when any of its
//! members is, and asked it says which.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use gpunet_device::abi::errno::Errno;

use super::system::SystemRef;

/// Members that are named in one answer.
pub(super) const AT_ONCE: usize = 64;

/// See the module. Members leave it when they are closed.
pub(crate) struct ReadySet {
    system: SystemRef,
    set: OwnedFd,
}

impl ReadySet {
    pub(super) fn new(system: SystemRef) -> Result<Self, Errno> {
        Ok(Self { system, set: system.ready_set()? })
    }

    /// Adds a member, under a key.
    pub(super) fn add(&self, member: BorrowedFd<'_>, key: u64) -> Result<(), Errno> {
        self.system.add(self.as_fd(), member, key)
    }

    pub(super) fn remove(&self, member: BorrowedFd<'_>) {
        self.system.remove(self.as_fd(), member);
    }

    /// The keys of members that are ready, some of them where there are many.
    pub(super) fn ready(&self) -> Result<Vec<u64>, Errno> {
        self.system.ready(self.as_fd(), AT_ONCE)
    }
}

impl AsFd for ReadySet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}
