//! A set of descriptors that is a descriptor itself, for who waits on one alone: ready when any of its
//! members is, and asked it says which.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use gpunet_device::abi::errno::Errno;
use rustix::event::epoll;

/// Members that are named in one answer.
pub(super) const AT_ONCE: usize = 64;

/// See the module. Members leave it when they are closed.
pub(super) struct ReadySet(OwnedFd);

impl ReadySet {
    pub(super) fn new() -> Result<Self, Errno> {
        #[cfg(feature = "simulation")]
        if let Some(set) = crate::simulation::control::set() {
            return Ok(Self(set?));
        }
        epoll::create(epoll::CreateFlags::CLOEXEC).map(Self).map_err(errno)
    }

    /// Adds a member, under a key.
    pub(super) fn add(&self, member: BorrowedFd<'_>, key: u64) -> Result<(), Errno> {
        #[cfg(feature = "simulation")]
        if let Some(joined) = crate::simulation::control::join(self.as_fd(), member, key) {
            return joined;
        }
        let data = epoll::EventData::new_u64(key);
        epoll::add(&self.0, member, data, epoll::EventFlags::IN).map_err(errno)
    }

    pub(super) fn remove(&self, member: BorrowedFd<'_>) {
        #[cfg(feature = "simulation")]
        if crate::simulation::control::leave(member).is_some() {
            return;
        }
        // One that is not in it is as good as taken out.
        let _ = epoll::delete(&self.0, member);
    }

    /// The keys of members that are ready, some of them where there are many.
    pub(super) fn ready(&self) -> Result<Vec<u64>, Errno> {
        #[cfg(feature = "simulation")]
        if let Some(keys) = crate::simulation::control::ready(self.as_fd(), AT_ONCE) {
            return Ok(keys);
        }
        let mut events = Vec::with_capacity(AT_ONCE);
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(&mut events), Some(&at_once)) {
            Ok(_) => Ok(events.iter().map(|event| event.data.u64()).collect()),
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(errno(error)),
        }
    }
}

impl AsFd for ReadySet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(super) fn errno(errno: rustix::io::Errno) -> Errno {
    Errno(errno.raw_os_error())
}
