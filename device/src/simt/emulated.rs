//! The emulated GPU's half of [`simt`](super): what a thread can do when it is a coroutine.
//!
//! The emulator lives in the host crate. It implements [`EmulatedThread`] and names the thread
//! that is about to run with [`set_current`]; device code then finds itself through a
//! thread-local. Nothing here knows how coroutines are switched.

use core::cell::Cell;
use core::panic::Location;
use core::ptr::NonNull;
use std::string::String;

use super::fence::release_fence;
use super::plain::{load_plain, store_plain};
use super::shape::{Position, SCRATCH_WORDS, Scope, WARP};

mod atomic;
mod site;
mod warp;

pub(crate) use atomic::fence as atomic_fence;
pub use site::{Site, announce, announced};
pub use warp::{Shuffle, ballot, present, shuffle};

/// A thread's place in up to three dimensions (x, y, z), as CUDA's `threadIdx` and its siblings say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    /// `threadIdx`.
    pub thread: [u32; 3],
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `blockDim`.
    pub threads: [u32; 3],
    /// `gridDim`.
    pub blocks: [u32; 3],
}

/// What the emulator supplies to one running GPU thread.
pub trait EmulatedThread {
    /// Where this thread stands in its block and grid.
    fn position(&self) -> Position;

    /// The same in three dimensions.
    fn place(&self) -> Place;

    /// Returns once every thread of the scope (the block, or this thread's warp) has arrived.
    ///
    /// Stricter than hardware: threads that arrive from different places (`site`), or that ended
    /// without arriving, make the launch fail with a report of who was where.
    fn barrier(&self, scope: Scope, site: Site);

    /// The same barrier. Threads may contribute up to `into.len()` words. `into` then holds those of the
    /// last thread; it stays as it is where none contributed any.
    ///
    /// A barrier costs a switch for each thread, and words in scratch memory would need two or three: one
    /// before they are overwritten, one before they are read.
    fn exchange(&self, scope: Scope, site: Site, brought: Option<&[u64]>, into: &mut [u64]);

    /// A barrier at which all threads of the scope must also bring the same call and the same
    /// arguments, from wherever (`site`); otherwise the launch fails with a report of both.
    fn agree(&self, scope: Scope, call: &'static str, arguments: &[u64], site: Site);

    /// Lets other threads run; every turn of a wait loop calls it.
    fn pause(&self);

    /// A wait has ended: what the thread does next is no polling.
    fn progress(&self);

    /// Nanoseconds on a monotonic clock.
    fn now_ns(&self) -> u64;

    /// The launch-sized shared memory of this thread's block: address (16-byte aligned) and size.
    fn shared_memory(&self) -> (*mut u8, usize);

    /// Memory of the block for a variable that a kernel declares as shared, the same for all threads
    /// that name it by the same `key`: 128-byte aligned, with anything inside, freed with the block.
    ///
    /// # Errors
    /// More than a block can have, or another size than it was asked for first.
    fn shared_variable(&self, key: usize, bytes: usize) -> Result<*mut u8, String>;

    /// [`SCRATCH_WORDS`] words that the threads of the block share.
    fn scratch(&self) -> *mut u64;

    /// A word for each of the 32 lanes of this thread's warp, apart from the scratch words.
    fn lane_words(&self) -> *mut u64;

    /// Whether that is memory of this thread alone: its stack.
    fn is_private(&self, address: *const u8) -> bool;

    /// From now on this thread is ended without unwinding: it runs code that has no tables for it, as
    /// compilers at run time make it.
    fn forbid_unwinding(&self);

    /// Whether this thread may be unwound.
    fn unwinds(&self) -> bool;

    /// Ends the kernel with a fault, without unwinding.
    fn fail(&self, message: String) -> !;
}

std::thread_local! {
    static CURRENT: Cell<Option<NonNull<dyn EmulatedThread>>> = const { Cell::new(None) };
}

/// Names the emulated thread that runs on this OS thread from now on.
///
/// # Safety
/// The pointee must stay valid until the next call of this function on this OS thread.
#[inline]
#[expect(unsafe_code, reason = "stores a lifetime-erased pointer")]
pub unsafe fn set_current(thread: Option<NonNull<dyn EmulatedThread>>) {
    CURRENT.with(|current| current.set(thread));
}

/// Runs `f` with the current emulated thread.
///
/// # Panics
/// When called outside a kernel: device functions exist only there.
#[inline(always)]
#[expect(unsafe_code, reason = "reads the pointer that set_current stored")]
fn with<R>(f: impl FnOnce(&dyn EmulatedThread) -> R) -> R {
    // The value is copied out first: `f` may switch coroutines, and the pointer of the one that
    // runs next is stored in the same cell.
    let current = CURRENT.with(Cell::get).expect("device code runs only inside a kernel");
    // SAFETY: set_current's caller keeps the pointee valid while its thread runs.
    f(unsafe { current.as_ref() })
}

#[inline(always)]
pub(crate) fn position() -> Position {
    with(|thread| thread.position())
}

/// Where the calling thread stands, in three dimensions.
pub fn place() -> Place {
    with(|thread| thread.place())
}

#[inline(always)]
#[track_caller]
pub(crate) fn barrier(scope: Scope) {
    barrier_at(scope, Location::caller().into());
}

/// A barrier that a kernel reaches there.
#[inline(always)]
pub fn barrier_at(scope: Scope, site: Site) {
    with(|thread| thread.barrier(scope, site));
}

#[inline(always)]
#[track_caller]
pub(crate) fn agree(scope: Scope, call: &'static str, arguments: &[u64]) {
    agree_at(scope, call, arguments, Location::caller().into());
}

/// A call that a kernel makes there, which all threads of the scope make with the same arguments.
#[inline(always)]
pub(crate) fn agree_at(scope: Scope, call: &'static str, arguments: &[u64], site: Site) {
    with(|thread| thread.agree(scope, call, arguments, site));
}

/// Whether that is memory of the calling thread alone.
pub(crate) fn is_private(address: *const u8) -> bool {
    with(|thread| thread.is_private(address))
}

/// The calling thread runs code that cannot be unwound; see [`EmulatedThread::forbid_unwinding`].
pub fn forbid_unwinding() {
    with(|thread| thread.forbid_unwinding());
}

/// Runs a device function that code of another language calls: a panic in it is the kernel's fault, and
/// passes through that code only where it can.
pub(crate) fn guarded<R>(call: impl FnOnce() -> R) -> R {
    if with(|thread| thread.unwinds()) {
        return call();
    }
    // What is left behind is of this thread alone, which ends.
    let call = std::panic::AssertUnwindSafe(call);
    std::panic::catch_unwind(call).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = std::format!("panic: {}", text.unwrap_or("(no message)"));
        drop(payload);
        with(|thread| thread.fail(message))
    })
}

/// Memory of the block for a shared variable of the kernel; see [`EmulatedThread::shared_variable`].
///
/// # Panics
/// Where there is none: the kernel's fault.
pub fn shared_variable(key: usize, bytes: usize) -> *mut u8 {
    match with(|thread| thread.shared_variable(key, bytes)) {
        Ok(address) => address,
        Err(why) => panic!("{why}"),
    }
}

pub(crate) fn opaque(number: usize) -> usize {
    number
}

pub(crate) fn opaque_pointer(pointer: *mut u8) -> *mut u8 {
    pointer
}

pub(crate) fn opaque_half(number: u32) -> u32 {
    number
}

pub(crate) fn gpu_release_fence() {
    #[cfg(feature = "simulation")]
    if crate::simulation::harness::with(|harness| {
        harness.fence(crate::simulation::harness::Fence::GpuRelease)
    })
    .is_some()
    {
        return;
    }
    release_fence();
}

pub(crate) fn pause() {
    with(|thread| thread.pause());
}

pub(crate) fn progress() {
    with(|thread| thread.progress());
}

pub(crate) fn now_ns() -> u64 {
    with(|thread| thread.now_ns())
}

/// Cycles are nanoseconds here.
pub(crate) fn cycles() -> u64 {
    now_ns()
}

pub(crate) fn lane() -> u32 {
    position().thread % WARP
}

pub(crate) fn shared_memory() -> (*mut u8, usize) {
    with(|thread| thread.shared_memory())
}

/// A barrier at which some threads bring words, and all threads get them; zeros where no thread brought any.
/// Inlined, like every function between a kernel and a switch: the CPU mispredicts each return after one.
#[inline(always)]
#[track_caller]
fn exchange<const N: usize>(scope: Scope, brought: Option<[u64; N]>) -> [u64; N] {
    const { assert!(N <= SCRATCH_WORDS) };
    let (site, mut words) = (Location::caller().into(), [0; N]);
    let brought = brought.as_ref().map(<[u64; N]>::as_slice);
    with(|thread| thread.exchange(scope, site, brought, &mut words));
    words
}

#[inline(always)]
#[track_caller]
pub(crate) fn broadcast<const N: usize>(scope: Scope, words: [u64; N]) -> [u64; N] {
    exchange(scope, is_first(scope).then_some(words))
}

#[inline(always)]
#[track_caller]
pub(crate) fn meet(scope: Option<Scope>) {
    if let Some(scope) = scope {
        barrier(scope);
    }
}

#[inline(always)]
#[track_caller]
pub(crate) fn share(scope: Option<Scope>, first: u64, second: u64) -> (u64, u64) {
    match scope {
        None => (first, second),
        Some(scope) => broadcast(scope, [first, second]).into(),
    }
}

#[inline(always)]
#[track_caller]
pub(crate) fn from_lane(word: u64, lane: u32) -> u64 {
    let [word] = exchange(Scope::Warp, (position().thread % WARP == lane).then_some([word]));
    word
}

#[inline(always)]
#[track_caller]
pub(crate) fn half_from_lane(half: u32, lane: u32) -> u32 {
    from_lane(half.into(), lane) as u32
}

/// Threads are one by one here, and barriers are left out by nobody.
pub(crate) fn come_together() {}

/// As above.
pub(crate) fn leave(_scope: Option<Scope>) {}

/// Its turns are long anyhow.
pub(crate) fn back_off(_ns: u32) {}

pub(crate) fn block_threads() -> u32 {
    position().threads
}

#[inline(always)]
#[track_caller]
pub(crate) fn whole_block_barrier() {
    barrier(Scope::Block);
}

/// A block's scratch words from that one on.
fn scratch_at(at: u32) -> *mut u64 {
    with(|thread| thread.scratch()).cast::<u64>().wrapping_add(at as usize)
}

#[allow(unsafe_code, reason = "a word that threads share")]
pub(crate) unsafe fn keep_word(at: u32, word: u64) {
    // SAFETY: the caller's promise.
    unsafe { scratch_at(at).write(word) };
}

#[allow(unsafe_code, reason = "a word that threads share")]
pub(crate) unsafe fn kept_word(at: u32) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { scratch_at(at).read() }
}

#[allow(unsafe_code, reason = "a word that threads share")]
pub(crate) unsafe fn keep_two(at: u32, words: [u64; 2]) {
    // SAFETY: the caller's promise.
    unsafe { scratch_at(at).cast::<[u64; 2]>().write(words) };
}

#[allow(unsafe_code, reason = "a word that threads share")]
pub(crate) unsafe fn kept_two(at: u32) -> [u64; 2] {
    // SAFETY: the caller's promise.
    unsafe { scratch_at(at).cast::<[u64; 2]>().read() }
}

#[inline(always)]
#[track_caller]
pub(crate) fn whole_warp_barrier() {
    barrier(Scope::Warp);
}

#[inline(always)]
#[track_caller]
pub(crate) fn any_lane(yes: bool) -> bool {
    any(Scope::Warp, yes)
}

#[track_caller]
pub(crate) fn in_first_warp<const N: usize>(
    scope: Scope,
    f: impl FnOnce() -> [u64; N],
) -> [u64; N] {
    barrier(scope);
    let runs = scope == Scope::Warp || position().thread < WARP;
    broadcast(scope, if runs { f() } else { [0; N] })
}

#[track_caller]
pub(crate) fn in_first_thread<const N: usize>(
    scope: Scope,
    f: impl FnOnce() -> [u64; N],
) -> [u64; N] {
    barrier(scope);
    broadcast(scope, if is_first(scope) { f() } else { [0; N] })
}

/// Whether any thread of the scope said yes.
#[inline(always)]
#[track_caller]
pub(crate) fn any(scope: Scope, yes: bool) -> bool {
    exchange(scope, yes.then_some([1])) != [0]
}

#[inline(always)]
fn is_first(scope: Scope) -> bool {
    let thread = position().thread;
    match scope {
        Scope::Block => thread == 0,
        Scope::Warp => thread.is_multiple_of(WARP),
    }
}

/// # Safety
/// As [`super::load_line_if`].
#[allow(unsafe_code, reason = "a raw load")]
pub(crate) unsafe fn load_line_if(yes: bool, from: *const [u64; 2]) -> [u64; 2] {
    // SAFETY: the caller's promise.
    if yes { unsafe { load_plain(from) } } else { [0; 2] }
}

// There is no cache to pass by.
pub(crate) use self::load_line_if as load_ring_line_if;

/// # Safety
/// As [`super::store_line_if`].
#[allow(unsafe_code, reason = "a raw store")]
pub(crate) unsafe fn store_line_if(yes: bool, to: *mut [u64; 2], line: [u64; 2]) {
    if yes {
        // SAFETY: the caller's promise.
        unsafe { store_plain(to, line) };
    }
}

/// A lane's turn is a switch. Only in a test are lanes OS threads that pass lines.
#[cfg(not(test))]
pub(crate) fn passes_lines() -> bool {
    false
}

/// Nobody asks: see [`passes_lines`].
#[cfg(not(test))]
pub(crate) fn line_of_lane(line: [u64; 2], _lane: u32) -> [u64; 2] {
    line
}

#[cfg(test)]
pub(crate) use lanes::{line_of_lane, passes_lines};

#[cfg(test)]
pub(crate) mod lanes;
