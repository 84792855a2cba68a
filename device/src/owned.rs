//! Who closes a socket: its owner when it goes out of scope, and nobody who has it borrowed. All
//! threads of a group own or borrow it together.

use core::mem::ManuallyDrop;
use core::ops::Deref;

use crate::abi::address::SocketAddr;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::option::SocketOption;
use crate::calls::{self, SOCK_STREAM};
use crate::group::Group;
use crate::on::On;

/// Whether the emulated thread is being unwound: its group will not come together any more.
#[inline(always)]
pub(crate) fn is_unwinding() -> bool {
    #[cfg(target_arch = "nvptx64")]
    return false;
    #[cfg(not(target_arch = "nvptx64"))]
    std::thread::panicking()
}

/// A socket that is closed with its last owner.
pub(crate) struct Owned<G: Group> {
    pub(crate) on: On<G>,
    pub(crate) handle: Handle,
}

impl<G: Group> Owned<G> {
    /// A socket for the domain of `address`, with more bits of its type in `kind`.
    #[inline(always)]
    pub(crate) fn new(on: On<G>, address: &SocketAddr, kind: i32) -> Result<Self, Errno> {
        let domain = address.domain().ok_or(Errno::EAFNOSUPPORT)? as i32;
        let kind = SOCK_STREAM | kind;
        let handle = Errno::check(calls::gsocket(on.net, on.group, domain, kind, 0))?;
        Ok(Self { on, handle: Handle(handle) })
    }

    #[inline(always)]
    pub(crate) fn set(&self, option: SocketOption, value: u64) -> Result<(), Errno> {
        let done = calls::gsetsockopt(self.on.net, self.on.group, self.handle, option, value);
        Errno::check(done).map(|_| ())
    }

    #[inline(always)]
    pub(crate) fn into_handle(self) -> Handle {
        let handle = self.handle;
        core::mem::forget(self);
        handle
    }

    #[inline(always)]
    pub(crate) fn close(self) -> Result<(), Errno> {
        let on = self.on;
        Errno::check(calls::gclose(on.net, on.group, self.into_handle())).map(|_| ())
    }
}

impl<G: Group> Drop for Owned<G> {
    #[inline(always)]
    fn drop(&mut self) {
        if !is_unwinding() {
            // Nobody is left to take the error; the host closes what a kernel leaves open.
            let _ = calls::gclose(self.on.net, self.on.group, self.handle);
        }
    }
}

/// A listener or a stream that somebody else owns: it has all the calls of one but those that end it,
/// and stays open when this goes out of scope. See [`Listener::borrow`](crate::Listener::borrow) and
/// [`Stream::borrow`](crate::Stream::borrow).
pub struct Borrowed<T>(ManuallyDrop<T>);

impl<T> Borrowed<T> {
    #[inline(always)]
    pub(crate) const fn new(socket: T) -> Self {
        Self(ManuallyDrop::new(socket))
    }
}

impl<T> Deref for Borrowed<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
