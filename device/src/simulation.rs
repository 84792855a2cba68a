//! The simulation harness's way into the device side, in builds with the feature `simulation`.
//!
//! The harness lives in the host crate. While it runs, every access to a shared word and to ring
//! bytes on its OS thread goes through [`Harness`], from both sides: it decides what is seen, and
//! who goes on. Without it everything is as in any other build.

#![allow(
    unsafe_code,
    reason = "a thread-local pointer to the harness, and plain values by address"
)]

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::abi::bits::{Position, Progress};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::planted::Bug;
use crate::simt;
use crate::socket::{Direction, Socket, report_progress};
use crate::wait::{Deadline, Watch, wait_until};

/// A fence of the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// What is read next is no older than what was read.
    Acquire,
    /// What was done is seen before what is stored next.
    Release,
    /// The same, by threads of the same GPU alone.
    GpuRelease,
}

/// What decides, in place of the memory.
pub trait Harness {
    /// A load of the word at that address.
    fn load(&self, at: *mut u64, acquire: bool) -> u64;
    /// A store.
    fn store(&self, at: *mut u64, value: u64, release: bool);
    /// A compare-and-exchange, acquiring and releasing; whether it did.
    fn compare_exchange(&self, at: *mut u64, current: u64, new: u64) -> bool;
    /// Sets bits; what was there before. Without an acquire, what the calling thread stores next stands
    /// behind a branch on it.
    fn set(&self, at: *mut u64, bits: u64, acquire: bool) -> u64;
    /// A fence.
    fn fence(&self, fence: Fence);
    /// Reads plain bytes; false where the harness has no say.
    fn read(&self, at: *const u8, into: &mut [MaybeUninit<u8>]) -> bool;
    /// Writes plain bytes; false where the harness has no say.
    fn write(&self, at: *mut u8, from: &[u8]) -> bool;
    /// The bug that is planted.
    fn planted(&self) -> Option<Bug>;
}

std::thread_local! {
    static HARNESS: Cell<Option<NonNull<dyn Harness>>> = const { Cell::new(None) };
}

/// Puts the harness in charge of this OS thread, or nobody.
///
/// # Safety
/// The harness lives until the next call on this OS thread.
pub unsafe fn set_harness(harness: Option<NonNull<dyn Harness>>) {
    HARNESS.with(|cell| cell.set(harness));
}

/// Runs `f` with the harness, if one is in charge.
pub fn with<R>(f: impl FnOnce(&dyn Harness) -> R) -> Option<R> {
    let harness = HARNESS.with(Cell::get)?;
    // SAFETY: `set_harness`'s caller keeps it alive.
    Some(f(unsafe { harness.as_ref() }))
}

/// Reads a plain value through the harness, where it has a say.
///
/// # Safety
/// `from` is valid to read.
pub unsafe fn read<T: Copy>(from: *const T) -> Option<T> {
    with(|harness| {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the bytes of `value`.
        let bytes =
            unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast(), size_of::<T>()) };
        // SAFETY: the harness has filled it with the bytes of a `T` that stood there.
        harness.read(from.cast(), bytes).then(|| unsafe { value.assume_init() })
    })
    .flatten()
}

/// Writes a plain value through the harness; false where it has no say.
///
/// # Safety
/// `to` is valid to write, and `T` has no padding.
pub unsafe fn write<T: Copy>(to: *mut T, value: T) -> bool {
    with(|harness| {
        // SAFETY: the bytes of `value`, which has no padding.
        let bytes = unsafe {
            core::slice::from_raw_parts(core::ptr::from_ref(&value).cast(), size_of::<T>())
        };
        harness.write(to.cast(), bytes)
    })
    .unwrap_or(false)
}

/// How long the other end of a stream may take to skip as much.
const SKIP_NS: u64 = 2_000_000_000;

/// Sends more bytes of a p2p stream than a simulation could, without any of them: as if they had gone by
/// the ring. The other end skips as many. One thread calls it, for its group.
pub fn skip_send(net: Net, handle: Handle, bytes: u64) -> Result<(), Errno> {
    let socket = Socket::open(net, handle)?;
    let shard = socket.shard();
    let position = socket.lock(Direction::Send, true)?;
    let end = position.advance(bytes);
    let arrives = |count: u64| {
        wait_until(net, shard, Deadline::after(SKIP_NS), Watch::Stop, || {
            let head = socket.progress(Direction::Send);
            let over = head.is_over().then_some(Err(Errno::EPIPE));
            if head.count() == count { Some(Ok(head)) } else { over }
        })
        .flatten()
    };
    let begins = arrives(position.count());
    if let Err(errno) = begins {
        simt::gpu_release_fence();
        socket.unlock(Direction::Send, position);
        return Err(errno);
    }
    simt::release_fence();
    socket.publishes(Direction::Send).store(Progress::new(end.count(), 0).0);
    let skipped = arrives(end.count()).map(|head| socket.remember_head(head));
    if socket.inbox().watched().load() != 0 {
        report_progress(net, handle, Direction::Send, end.count());
    }
    simt::gpu_release_fence();
    socket.unlock(Direction::Send, end);
    skipped
}

/// The other end of [`skip_send`]: the calling thread leads the group that receives.
pub fn skip_receive(net: Net, handle: Handle, bytes: u64) -> Result<(), Errno> {
    let socket = Socket::open(net, handle)?;
    let position = socket.lock(Direction::Receive, true)?;
    let end = Position(position.0 + bytes);
    let deadline = Deadline::after(SKIP_NS);
    let skipped = wait_until(net, socket.shard(), deadline, Watch::Stop, || {
        let tail = socket.progress(Direction::Receive);
        let over = tail.is_over().then_some(Err(Errno::ECONNRESET));
        if tail.count() == end.count() { Some(Ok(())) } else { over }
    });
    let skipped = skipped.flatten();
    if skipped.is_ok() {
        socket.publishes(Direction::Receive).store(Progress::new(end.count(), 0).0);
        if socket.inbox().watched().load() != 0 {
            report_progress(net, handle, Direction::Receive, end.count());
        }
    }
    simt::gpu_release_fence();
    socket.unlock(Direction::Receive, if skipped.is_ok() { end } else { position });
    skipped
}
