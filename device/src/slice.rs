//! A slice of a ring as a kernel uses it: received bytes to look at, space to write into.
//!
//! All threads of a group open it, use it and close it together; meanwhile the group has that side
//! of the stream.

#![allow(unsafe_code, reason = "names ring memory, and calls the library")]

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::ring::{RingPlace, Span};
use crate::buf::SharedBuf;
use crate::group::Group;
use crate::library;
use crate::stream::On;

/// An open slice, the same in every thread of the group.
#[derive(Clone, Copy)]
pub(crate) struct RingSlice {
    ring: RingPlace,
    span: Span,
}

impl RingSlice {
    /// Opens a slice of at most `most` bytes, at least `least`; none at the end of the stream.
    #[inline(always)]
    pub(crate) fn open<G: Group>(
        on: On<G>,
        handle: Handle,
        side: u32,
        least: usize,
        most: usize,
    ) -> Result<Option<Self>, Errno> {
        let mut ring = 0;
        // SAFETY: the thread's own variable.
        let opened =
            unsafe { library::open_slice(on.net, on.group, handle.0, side, least, &raw mut ring) };
        let span = Span(Errno::check(opened)?);
        // What is open must be closed, also where nothing of it is wanted.
        let is_open = span.length() > 0;
        Ok(is_open.then(|| Self { ring: RingPlace(ring), span: span.at_most(most) }))
    }

    /// Publishes that `used` bytes were consumed or filled.
    #[inline(always)]
    pub(crate) fn close<G: Group>(self, on: On<G>, handle: Handle, side: u32, used: usize) {
        let used = used.min(self.len());
        // SAFETY: numbers alone.
        unsafe { library::close_slice(on.net, on.group, handle.0, side, used) };
    }

    /// Bytes of the slice.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.span.length()
    }

    /// Its two pieces; the second is empty unless it wraps.
    #[inline(always)]
    pub(crate) fn pieces(self) -> [SharedBuf; 2] {
        // SAFETY: the pieces lie in the ring, and until the slice closes they are the group's; the
        // types that programs get of them borrow it.
        self.ring
            .pieces(self.span)
            .map(|(address, length)| unsafe { SharedBuf::from_raw(address, length) })
    }
}
