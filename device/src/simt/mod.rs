//! What a GPU thread can do: know its place, meet others at a barrier, share a value, read a
//! clock, reach shared memory. One backend a file: `nvptx.rs` (intrinsics and asm, nowhere else)
//! and `emulated.rs` (a coroutine on the CPU).
//!
//! | here | PTX | emulated |
//! | --- | --- | --- |
//! | [`position`] | `%tid`, `%ntid`, `%ctaid`, `%nctaid` | kept by the scheduler |
//! | barrier, block | `barrier.sync` (convergent intrinsic) | a switch, divergence reported |
//! | barrier, warp | `bar.warp.sync` (convergent intrinsic) | the same over 32 threads |
//! | broadcast, block | shared scratch words between two barriers | words that are brought to a barrier |
//! | broadcast, warp | `shfl.sync.idx` | the same |
//! | closure in the first warp or thread, block | its work between two barriers | the same, and a broadcast |
//! | one lane's word, any lane | `shfl.sync.idx`, `vote.any.sync`, whole warps | the same |
//! | the next lane's line | `shfl.sync.idx`, whole warps | not there: a line is loaded again |
//! | [`now_ns`] | `%globaltimer` | monotonic clock or virtual time |
//! | [`pause`] | nothing | lets other coroutines run |
//! | atomics of [`crate::sync`] | `ld`, `st`, `atom`, `fence` in assembly | those of the CPU |
//! | back-off | `nanosleep` | nothing |
//!
//! Why it is so: decision 2 of docs/explanation/decisions.md.

pub(crate) mod atomic;
#[cfg(not(target_arch = "nvptx64"))]
pub mod emulated;
pub(crate) mod fence;
#[cfg(feature = "loom")]
pub(crate) mod model;
#[cfg(target_arch = "nvptx64")]
mod nvptx;
mod plain;
pub(crate) mod shape;

#[cfg(target_arch = "nvptx64")]
pub(crate) use nvptx::{
    compare_exchange, load_two, load_two_acquire, replace, set_bits, set_bits_if,
    store_release_on_gpu, store_two,
};

#[cfg(not(target_arch = "nvptx64"))]
use emulated as backend;
#[cfg(target_arch = "nvptx64")]
use nvptx as backend;

pub(crate) use fence::{acquire_fence, release_fence};
pub(crate) use plain::{load_plain, store_plain};
pub use shape::{Position, SCRATCH_WORDS, Scope, WARP};

use crate::shared::SharedBuf;

/// Where the calling thread stands.
#[inline(always)]
pub fn position() -> Position {
    backend::position()
}

/// Nanoseconds on a monotonic clock.
#[inline(always)]
pub fn now_ns() -> u64 {
    backend::now_ns()
}

/// A fine clock of unknown rate, for short intervals measured on one thread.
#[inline(always)]
pub fn cycles() -> u64 {
    backend::cycles()
}

/// One turn of a wait loop: on the emulated GPU, lets other threads run.
#[inline(always)]
pub fn pause() {
    backend::pause();
}

/// A turn of a wait that has lasted long: lets up to twice that time pass.
#[inline(always)]
pub(crate) fn back_off(ns: u32) {
    backend::back_off(ns);
}

/// The same number, of which the compiler knows nothing: what is computed from it is computed
/// here, and not kept in registers from before a loop.
#[inline(always)]
pub(crate) fn opaque(number: usize) -> usize {
    backend::opaque(number)
}

/// The same for half a register.
#[inline(always)]
pub(crate) fn opaque_half(number: u32) -> u32 {
    backend::opaque_half(number)
}

/// The same for an address.
#[inline(always)]
pub(crate) fn opaque_pointer(pointer: *mut u8) -> *mut u8 {
    backend::opaque_pointer(pointer)
}

/// A wait has ended.
#[inline(always)]
pub(crate) fn progress() {
    backend::progress();
}

/// Waits for all threads of the block.
#[inline(always)]
#[track_caller]
pub fn block_barrier() {
    backend::barrier(Scope::Block);
}

/// Waits for all threads of the caller's warp.
#[inline(always)]
#[track_caller]
pub fn warp_barrier() {
    backend::barrier(Scope::Warp);
}

/// The launch-sized shared memory of the block, the same for all its threads.
#[inline(always)]
pub fn shared_memory() -> SharedBuf {
    let (address, bytes) = backend::shared_memory();
    SharedBuf::of_shared_memory(address, bytes)
}

/// Checks, on the emulated GPU alone, that all threads of the scope make the same call.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn agree(scope: Scope, call: &'static str, arguments: &[u64]) {
    backend::agree(scope, call, arguments);
}

/// Gives every thread of the scope the words that its first thread brought.
#[inline(always)]
pub(crate) fn broadcast<const N: usize>(scope: Scope, words: [u64; N]) -> [u64; N] {
    backend::broadcast(scope, words)
}

/// The calling thread's place in its warp.
#[inline(always)]
pub(crate) fn lane() -> u32 {
    backend::lane()
}

/// Threads of the block.
#[inline(always)]
pub(crate) fn block_threads() -> u32 {
    backend::block_threads()
}

/// Waits for all threads of the block, whose warps are all whole, and brings each warp together.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn whole_block_barrier() {
    backend::whole_block_barrier();
}

/// Stores one of the [`SCRATCH_WORDS`] that all threads of a block can reach, for what its first warp
/// found. In the instructions of shared memory: an address that may be of any memory takes longer to make
/// and to use.
///
/// # Safety
/// There is such a word, and a barrier is between this and what other threads do with it.
#[inline(always)]
#[allow(unsafe_code, reason = "a word that threads share")]
pub(crate) unsafe fn keep_word(at: u32, word: u64) {
    // SAFETY: the caller's promise.
    unsafe { backend::keep_word(at, word) };
}

/// Loads it.
///
/// # Safety
/// As [`keep_word`].
#[inline(always)]
#[allow(unsafe_code, reason = "a word that threads share")]
pub(crate) unsafe fn kept_word(at: u32) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { backend::kept_word(at) }
}

/// Stores two of them, of which the first has an even number.
///
/// # Safety
/// As [`keep_word`].
#[inline(always)]
#[allow(unsafe_code, reason = "a word that threads share")]
pub(crate) unsafe fn keep_two(at: u32, words: [u64; 2]) {
    // SAFETY: the caller's promise.
    unsafe { backend::keep_two(at, words) };
}

/// Loads them.
///
/// # Safety
/// As [`keep_two`].
#[inline(always)]
#[allow(unsafe_code, reason = "a word that threads share")]
pub(crate) unsafe fn kept_two(at: u32) -> [u64; 2] {
    // SAFETY: the caller's promise.
    unsafe { backend::kept_two(at) }
}

/// Waits for all lanes of the caller's warp, a whole one, which need not be found out.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn whole_warp_barrier() {
    backend::whole_warp_barrier();
}

/// Brings the lanes of the caller's warp, a whole one, together, whose ways have parted. For the end
/// of a function that all lanes call: the compiler takes lanes that come back from one for a warp
/// that is whole, and leaves out barriers behind it (seen on an H200, where the lanes of a warp went
/// on without the first one, which still reported a message to the proxy).
#[inline(always)]
pub(crate) fn come_together() {
    backend::come_together();
}

/// Waits for all threads of the scope; nothing for a single thread.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
pub(crate) fn meet(scope: Option<Scope>) {
    backend::meet(scope);
}

/// Gives every thread of the scope the words of its first one. All threads have met since the last time,
/// and meet here.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
pub(crate) fn share(scope: Option<Scope>, first: u64, second: u64) -> (u64, u64) {
    backend::share(scope, first, second)
}

/// Brings the threads of each warp together at the end of a function of the library.
#[inline(always)]
pub(crate) fn leave(scope: Option<Scope>) {
    backend::leave(scope);
}

/// Whether any lane of the caller's warp, a whole one, said yes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn any_lane(yes: bool) -> bool {
    backend::any_lane(yes)
}

/// The word that a lane of the caller's warp, a whole one, brought.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn from_lane(word: u64, lane: u32) -> u64 {
    backend::from_lane(word, lane)
}

/// The same of a word of half the size.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn half_from_lane(half: u32, lane: u32) -> u32 {
    backend::half_from_lane(half, lane)
}

/// Whether lanes of a warp pass lines to each other in less time than it takes to load them again.
#[inline(always)]
pub(crate) fn passes_lines() -> bool {
    backend::passes_lines()
}

/// The line that a lane (its number is taken modulo 32) of the caller's warp, a whole one, brought.
/// Where [`passes_lines`].
#[inline(always)]
pub(crate) fn line_of_lane(line: [u64; 2], lane: u32) -> [u64; 2] {
    backend::line_of_lane(line, lane)
}

/// Once all threads of the scope have come, runs `f` in its first warp, and gives all threads the
/// words that the first thread's `f` brought.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn in_first_warp<const N: usize>(
    scope: Scope,
    f: impl FnOnce() -> [u64; N],
) -> [u64; N] {
    backend::in_first_warp(scope, f)
}

/// Once all threads of the scope have come, runs `f` in its first thread, and gives all threads the
/// words that it brought.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn in_first_thread<const N: usize>(
    scope: Scope,
    f: impl FnOnce() -> [u64; N],
) -> [u64; N] {
    backend::in_first_thread(scope, f)
}

/// Whether any thread of the scope said yes.
#[inline(always)]
pub(crate) fn any(scope: Scope, yes: bool) -> bool {
    backend::any(scope, yes)
}

/// Reads 16 aligned bytes with one instruction if `yes`; otherwise nothing is read, and the line may be
/// anything. Without a branch, behind which the next load would wait.
///
/// # Safety
/// If `yes`, `from` is 16-byte aligned and valid to read.
#[inline(always)]
#[allow(unsafe_code, reason = "a raw load")]
pub(crate) unsafe fn load_line_if(yes: bool, from: *const [u64; 2]) -> [u64; 2] {
    // SAFETY: the caller's promise.
    unsafe { backend::load_line_if(yes, from) }
}

/// The same of a ring, which is read once: on a GPU past the first-level cache, where the stacks of functions
/// that wait would have to make room.
///
/// # Safety
/// As [`load_line_if`]; if `yes`, `from` is in memory of a GPU or of the host.
#[inline(always)]
#[allow(unsafe_code, reason = "a raw load")]
pub(crate) unsafe fn load_ring_line_if(yes: bool, from: *const [u64; 2]) -> [u64; 2] {
    // SAFETY: the caller's promise.
    unsafe { backend::load_ring_line_if(yes, from) }
}

/// Writes 16 aligned bytes with one instruction if `yes`.
///
/// # Safety
/// If `yes`, `to` is 16-byte aligned and valid to write.
#[inline(always)]
#[allow(unsafe_code, reason = "a raw store")]
pub(crate) unsafe fn store_line_if(yes: bool, to: *mut [u64; 2], line: [u64; 2]) {
    // SAFETY: the caller's promise.
    unsafe { backend::store_line_if(yes, to, line) }
}

/// Orders memory accesses of the calling thread, for all of the system or for this GPU.
#[inline(always)]
pub(crate) fn atomic_fence(system: bool, order: atomic::Ordering) {
    backend::atomic_fence(system, order);
}

/// Makes everything this thread has seen and done visible on this GPU before its next stores.
#[inline(always)]
pub(crate) fn gpu_release_fence() {
    backend::gpu_release_fence();
}
