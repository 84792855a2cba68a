//! Channels of the connection manager: a descriptor through which the events of ids come.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::VerbsError;
use crate::load::Libraries;
use crate::sys::types as c;

/// What a program calls an id or a completion queue by; events carry it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Token(pub usize);

/// Where events of ids arrive. Clones are the same channel.
#[derive(Clone)]
pub struct EventChannel(Arc<Open>);

struct Open {
    libraries: &'static Libraries,
    channel: NonNull<c::rdma_event_channel>,
    /// The library writes an id's fields when it reads its events: held for every use of an id.
    ids: Mutex<()>,
}

// SAFETY: the library has no thread-local state, and all use of the channel's ids is under `ids`.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

impl EventChannel {
    /// Opens a channel.
    pub fn open(libraries: &'static Libraries) -> Result<Self, VerbsError> {
        // SAFETY: no arguments; the result is checked.
        let channel = unsafe { libraries.cm.rdma_create_event_channel() };
        let Some(channel) = NonNull::new(channel) else {
            return Err(VerbsError::last("rdma_create_event_channel"));
        };
        let open = Self(Arc::new(Open { libraries, channel, ids: Mutex::new(()) }));
        set_nonblocking(open.descriptor())?;
        Ok(open)
    }

    pub(super) fn libraries(&self) -> &'static Libraries {
        self.0.libraries
    }

    pub(super) fn as_ptr(&self) -> *mut c::rdma_event_channel {
        self.0.channel.as_ptr()
    }

    /// Held for every use of an id of this channel.
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        // It guards no value that a panic could leave half-changed.
        self.0.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel owns its descriptor and lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.0.channel.as_ref().fd) }
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor()
    }
}

impl AsRawFd for EventChannel {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor().as_raw_fd()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: every id of the channel holds an `Arc` of it, so none is left; every event was
        // acked when it was taken.
        unsafe { self.libraries.cm.rdma_destroy_event_channel(self.channel.as_ptr()) };
    }
}

/// Makes a descriptor of the libraries non-blocking.
pub(super) fn set_nonblocking(descriptor: BorrowedFd<'_>) -> Result<(), VerbsError> {
    let fd = descriptor.as_raw_fd();
    // SAFETY: takes a descriptor and numbers only.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(VerbsError::last("fcntl"));
    }
    Ok(())
}
