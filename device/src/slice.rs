//! Slices of a ring as a kernel uses them: received bytes to read, space to write into.
//!
//! All threads of a group open one, use it and close it together; meanwhile the group has that
//! direction of the stream. A slice that wraps has two pieces, which the copies take care of.

#![allow(unsafe_code, reason = "names ring memory, and calls the library")]

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::ring::{RingAddress, Span};
use crate::buf::{self, Received, SharedBuf, Space};
use crate::group::Group;
use crate::library::{self, RECEIVE_DIRECTION, SEND_DIRECTION};
use crate::on::On;
use crate::owned::{Owned, is_unwinding};

/// An open slice, the same in every thread of the group.
#[derive(Clone, Copy)]
pub(crate) struct RingSlice {
    ring: RingAddress,
    span: Span,
}

impl RingSlice {
    /// Opens a slice of at most `most` bytes, at least `least`; none at the end of the stream.
    #[inline(always)]
    pub(crate) fn open<G: Group>(
        on: On<G>,
        handle: Handle,
        direction: u32,
        least: usize,
        most: usize,
    ) -> Result<Option<Self>, Errno> {
        let mut ring = 0;
        // SAFETY: the thread's own variable.
        let opened = unsafe {
            library::open_slice(on.net, on.group, handle.0, direction, least, &raw mut ring)
        };
        let span = Span(Errno::check(opened)?);
        // What is open must be closed, also where nothing of it is wanted.
        let is_open = span.length() > 0;
        Ok(is_open.then(|| Self { ring: RingAddress(ring), span: span.at_most(most) }))
    }

    /// Publishes that `used` bytes were consumed or filled.
    #[inline(always)]
    pub(crate) fn close<G: Group>(self, on: On<G>, handle: Handle, direction: u32, used: usize) {
        let used = used.min(self.len());
        // SAFETY: numbers alone.
        unsafe { library::close_slice(on.net, on.group, handle.0, direction, used) };
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

    /// Calls `copy` with each part of the bytes from `offset` on: where it lies, how far behind
    /// `offset` it begins, and its length; `length` bytes or what there is. How many in all.
    #[inline(always)]
    fn parts(
        self,
        offset: usize,
        length: usize,
        mut copy: impl FnMut(*mut u8, usize, usize),
    ) -> usize {
        let [first, second] = self.pieces();
        let head = first.slice(offset, length);
        let tail = second.slice(offset.saturating_sub(first.len()), length - head.len());
        copy(head.as_ptr(), 0, head.len());
        if !tail.is_empty() {
            copy(tail.as_ptr(), head.len(), tail.len());
        }
        head.len() + tail.len()
    }
}

/// Received bytes, in the ring ([`Stream::peek`](crate::Stream::peek)). No other group receives until this goes.
pub struct Peek<'s, G: Group> {
    socket: &'s Owned<G>,
    slice: RingSlice,
    used: usize,
}

impl<'s, G: Group> Peek<'s, G> {
    /// See [`Stream::peek`](crate::Stream::peek).
    #[inline(always)]
    pub(crate) fn open(socket: &'s Owned<G>, least: usize) -> Result<Option<Self>, Errno> {
        let (on, handle) = (socket.on, socket.handle);
        on.group.agree("peek", &[handle.0, least as u64]);
        let slice = RingSlice::open(on, handle, RECEIVE_DIRECTION, least.max(1), usize::MAX)?;
        Ok(slice.map(|slice| Self { socket, slice, used: 0 }))
    }

    /// The bytes, in two pieces; the second is empty unless they wrap.
    #[inline(always)]
    pub fn pieces(&self) -> [Received<'_>; 2] {
        self.slice.pieces().map(Received::new)
    }

    /// How many there are.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Copies the bytes from `offset` on into a buffer, as many as it holds and as there are; how many.
    /// All threads of the group call it with the same arguments, and each does its share: behind the
    /// group's next barrier all of them are there. Nothing is consumed.
    #[inline(always)]
    pub fn copy_to(&self, offset: usize, to: SharedBuf) -> usize {
        let (on, handle) = (self.socket.on, self.socket.handle);
        let (address, length) = (to.as_ptr(), to.len());
        on.group.agree("Peek::copy_to", &[handle.0, offset as u64, address as u64, length as u64]);
        self.slice.parts(offset, length, |ring, at, length| {
            // SAFETY: a part of the ring, which is the group's to read, and of the buffer.
            unsafe { library::copy(on.net, on.group, ring, address.add(at), length) };
        })
    }

    /// Consumes the first `bytes` of them; without it nothing is consumed.
    #[inline(always)]
    pub fn consume(mut self, bytes: usize) {
        self.used = bytes;
    }
}

impl<G: Group> Drop for Peek<'_, G> {
    #[inline(always)]
    fn drop(&mut self) {
        let (on, handle) = (self.socket.on, self.socket.handle);
        if !is_unwinding() {
            self.slice.close(on, handle, RECEIVE_DIRECTION, self.used);
        }
    }
}

/// Space in the ring ([`Stream::reserve`](crate::Stream::reserve)). No other group sends until this goes.
pub struct Reserve<'s, G: Group> {
    socket: &'s Owned<G>,
    slice: RingSlice,
    used: usize,
}

impl<'s, G: Group> Reserve<'s, G> {
    /// See [`Stream::reserve`](crate::Stream::reserve).
    #[inline(always)]
    pub(crate) fn open(socket: &'s Owned<G>, least: usize, most: usize) -> Result<Self, Errno> {
        let (on, handle) = (socket.on, socket.handle);
        on.group.agree("reserve", &[handle.0, least as u64, most as u64]);
        let slice = RingSlice::open(on, handle, SEND_DIRECTION, least.max(1), most.max(least))?;
        slice.map(|slice| Self { socket, slice, used: 0 }).ok_or(Errno::EPIPE)
    }

    /// The space, in two pieces; the second is empty unless it wraps.
    #[inline(always)]
    pub fn pieces(&self) -> [Space<'_>; 2] {
        self.slice.pieces().map(Space::new)
    }

    /// How much there is.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Copies bytes into the space from `offset` on, as many as fit there; how many. All threads of the
    /// group call it with the same arguments, and each does its share. [`Self::commit`] waits for all of
    /// them, and sends.
    #[inline(always)]
    pub fn copy_from(&self, offset: usize, from: impl buf::From<G>) -> usize {
        let (on, handle) = (self.socket.on, self.socket.handle);
        let (address, length, same) = from.source();
        on.group.agree("Reserve::copy_from", &[handle.0, offset as u64, same, length as u64]);
        self.slice.parts(offset, length, |ring, at, length| {
            // SAFETY: a part of the ring, which is the group's to write, and of the buffer.
            unsafe { library::copy(on.net, on.group, address.add(at), ring, length) };
        })
    }

    /// Sends the first `bytes` of it; without it nothing is sent.
    #[inline(always)]
    pub fn commit(mut self, bytes: usize) {
        self.used = bytes;
    }
}

impl<G: Group> Drop for Reserve<'_, G> {
    #[inline(always)]
    fn drop(&mut self) {
        let (on, handle) = (self.socket.on, self.socket.handle);
        if !is_unwinding() {
            self.slice.close(on, handle, SEND_DIRECTION, self.used);
        }
    }
}
