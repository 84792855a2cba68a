//! Memory that a group's threads share: shared or global memory, at any alignment.
//!
//! A `&mut [u8]` in every thread of a block would be one reference too many, so buffers are a
//! pointer and a length. A single thread may also receive into its own `&mut [u8]`, and sending
//! takes any `&[u8]`.

#![allow(unsafe_code, reason = "reads and writes memory that several threads share")]

use core::marker::PhantomData;

use crate::abi::address::SocketAddr;
use crate::abi::call::{Event, PollFd};
use crate::abi::net::Net;
use crate::group::{Group, Thread};
pub use crate::shared::{Plain, Shared, SharedBuf};

// SAFETY: numbers without padding.
unsafe impl Plain for PollFd {}
// SAFETY: numbers without padding.
unsafe impl Plain for Event {}
// SAFETY: numbers and bytes without padding; what is no family is no address.
unsafe impl Plain for SocketAddr {}

/// Copies as many bytes as both have; all threads of the group call it, and each does its share. A
/// barrier of the group is what says that all is there.
#[inline(always)]
pub fn copy<G: Group>(group: G, from: SharedBuf, to: SharedBuf) {
    let length = from.len().min(to.len());
    // SAFETY: inside both buffers; `from_raw` promises validity, and that nobody else writes. The
    // library's functions take a net first, of which a copy needs nothing.
    unsafe {
        let none = Net::from_words([0; 2]);
        crate::library::copy(none, group, from.as_ptr(), to.as_ptr(), length);
    }
}

/// A piece of a receive ring, to be read while its slice is open.
#[derive(Clone, Copy, Debug)]
pub struct Received<'w> {
    bytes: SharedBuf,
    slice: PhantomData<&'w ()>,
}

/// A piece of a send ring, to be written while its slice is open.
#[derive(Clone, Copy, Debug)]
pub struct Space<'w> {
    bytes: SharedBuf,
    slice: PhantomData<&'w ()>,
}

impl Received<'_> {
    #[inline(always)]
    pub(crate) const fn new(bytes: SharedBuf) -> Self {
        Self { bytes, slice: PhantomData }
    }

    /// How many bytes.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// The byte at `index`; none beyond the end.
    #[inline(always)]
    pub fn get(self, index: usize) -> Option<u8> {
        self.bytes.get(index)
    }

    /// Where it begins, for wider loads.
    #[inline(always)]
    pub const fn as_ptr(self) -> *const u8 {
        self.bytes.as_ptr()
    }
}

impl Space<'_> {
    #[inline(always)]
    pub(crate) const fn new(bytes: SharedBuf) -> Self {
        Self { bytes, slice: PhantomData }
    }

    /// How many bytes.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Sets the byte at `index`; nothing happens beyond the end.
    #[inline(always)]
    pub fn set(self, index: usize, byte: u8) {
        self.bytes.set(index, byte);
    }

    /// Where it begins, for wider stores.
    #[inline(always)]
    pub const fn as_ptr(self) -> *mut u8 {
        self.bytes.as_ptr()
    }
}

/// What a group may receive into.
pub trait Into<G: Group> {
    /// Address and length.
    fn target(self) -> (*mut u8, usize);
}

/// What a group may send from.
pub trait From<G: Group> {
    /// Address, length, and what threads compare on the emulated GPU: the address of memory that
    /// is the same for all, nothing for slices (each thread's may be its own copy).
    fn source(self) -> (*const u8, usize, u64);
}

impl<G: Group> Into<G> for SharedBuf {
    #[inline(always)]
    fn target(self) -> (*mut u8, usize) {
        (self.as_ptr(), self.len())
    }
}

/// A thread's own memory serves a group of one.
impl Into<Thread> for &mut [u8] {
    #[inline(always)]
    fn target(self) -> (*mut u8, usize) {
        (self.as_mut_ptr(), self.len())
    }
}

impl<G: Group> From<G> for SharedBuf {
    #[inline(always)]
    fn source(self) -> (*const u8, usize, u64) {
        (self.as_ptr(), self.len(), self.as_ptr() as u64)
    }
}

/// All threads of the group bring the same bytes, wherever each of them keeps them.
impl<G: Group> From<G> for &[u8] {
    #[inline(always)]
    fn source(self) -> (*const u8, usize, u64) {
        (self.as_ptr(), self.len(), 0)
    }
}
