//! The NVIDIA half of [`simt`](super): intrinsics and inline assembly, and nothing else is here.
//!
//! Barriers, shuffles and votes come from convergent intrinsics alone: inline assembly is not
//! marked convergent, and LLVM merges divergent calls of it. They are named as LLVM 22 names them;
//! `core::arch::nvptx::_syncthreads` uses an older name, which that LLVM does not list. Barriers are
//! not `.aligned`: the leader of a group comes to them from code that the rest of its warp does not
//! run, and LLVM also copies them into both arms of a branch (seen under either name), which only
//! the non-aligned form permits.

#![allow(unsafe_code, reason = "the one place of intrinsics and assembly")]

use core::arch::{asm, global_asm, nvptx};

mod atomic;
mod memory;

pub(crate) use atomic::fence as atomic_fence;
pub(crate) use memory::*;

use super::shape::{Position, SCRATCH_WORDS, Scope, WARP};

// The block's scratch words. Images of kernels have scratch words of
// their own, under another name: the linker knows nothing of shared memory that two images share.
#[cfg(feature = "library")]
global_asm!(".shared .align 16 .b8 gpunet_scratch[160];");
// Two of them, for broadcasts, and the name of the launch-sized shared memory.
#[cfg(not(feature = "library"))]
global_asm!(
    ".shared .align 16 .b8 gpunet_kernel_scratch[16];",
    ".extern .shared .align 16 .b8 gpunet_dynamic[];"
);
// The assembler would unroll loops that are written to be short, those over single bytes above all. What
// is worth it is unrolled in the source.
#[cfg(feature = "library")]
global_asm!(".pragma \"nounroll\";");
/// The scratch words of this image.
#[cfg(feature = "library")]
macro_rules! scratch_name {
    () => {
        "gpunet_scratch"
    };
}
#[cfg(not(feature = "library"))]
macro_rules! scratch_name {
    () => {
        "gpunet_kernel_scratch"
    };
}
const _: () = assert!(SCRATCH_WORDS * 8 == 160);

unsafe extern "C" {
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shfl_sync_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    fn vote_any_sync(mask: u32, yes: bool) -> bool;
    #[link_name = "llvm.nvvm.barrier.cta.sync.all"]
    fn barrier_cta_sync(barrier: u32);
    #[link_name = "llvm.nvvm.barrier.cta.red.or.all"]
    fn barrier_cta_or(barrier: u32, yes: bool) -> bool;
}

#[inline(always)]
pub(crate) fn position() -> Position {
    // SAFETY: these intrinsics read special registers and have no preconditions.
    unsafe {
        let (tx, ty, tz) = (nvptx::_thread_idx_x(), nvptx::_thread_idx_y(), nvptx::_thread_idx_z());
        let (nx, ny, nz) = (nvptx::_block_dim_x(), nvptx::_block_dim_y(), nvptx::_block_dim_z());
        let (bx, by, bz) = (nvptx::_block_idx_x(), nvptx::_block_idx_y(), nvptx::_block_idx_z());
        let (gx, gy, gz) = (nvptx::_grid_dim_x(), nvptx::_grid_dim_y(), nvptx::_grid_dim_z());
        Position {
            thread: ((tz * ny + ty) * nx + tx) as u32,
            threads: (nx * ny * nz) as u32,
            block: ((bz * gy + by) * gx + bx) as u32,
            blocks: (gx * gy * gz) as u32,
        }
    }
}

/// The lanes of this warp that hold threads; the last warp of a block may be partial. Worked out for
/// whole warps, too: where the mask is a constant, lanes that come apart to a barrier leave it apart,
/// and copies behind it run one way after the other (streams got 39 GB/s for 45).
#[inline(always)]
fn lanes() -> u32 {
    let position = position();
    let first = position.thread / WARP * WARP;
    let present = position.threads - first;
    if present >= WARP { u32::MAX } else { (1 << present) - 1 }
}

#[inline(always)]
pub(crate) fn barrier(scope: Scope) {
    match scope {
        Scope::Block => block_barrier(),
        Scope::Warp => warp_barrier(),
    }
}

#[inline(always)]
fn block_barrier() {
    // SAFETY: that all threads of the scope arrive is what the callers promise; the emulated GPU
    // reports those that do not.
    unsafe {
        barrier_cta_sync(0);
        // Threads that came from different ways leave as one warp, or would run what follows one
        // way after the other.
        bar_warp_sync(lanes());
    }
}

#[inline(always)]
fn warp_barrier() {
    // SAFETY: as in `block_barrier`.
    unsafe { bar_warp_sync(lanes()) };
}

/// Gives every thread of the block the words of its first one, behind a barrier.
#[inline(always)]
fn share_in_block(first: u64, second: u64) -> (u64, u64) {
    if position().thread == 0 {
        // SAFETY: between two barriers only this thread touches the scratch words.
        unsafe { keep_two(0, [first, second]) };
    }
    block_barrier();
    // SAFETY: nobody writes before the next broadcast's first barrier.
    let [first, second] = unsafe { kept_two(0) };
    (first, second)
}

/// Gives every thread of the warp the words of its first one, behind a barrier: a shuffle orders no
/// memory, and what one lane copied is to be there for all.
#[inline(always)]
fn share_in_warp(first: u64, second: u64) -> (u64, u64) {
    let lanes = lanes();
    // SAFETY: as in `block_barrier`.
    unsafe { bar_warp_sync(lanes) };
    (shuffle(lanes, first, 0), shuffle(lanes, second, 0))
}

#[inline(always)]
pub(crate) fn lane() -> u32 {
    let lane: u32;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u32 {}, %laneid;", out(reg32) lane, options(nostack, nomem, pure)) };
    lane
}

#[inline(always)]
pub(crate) fn block_threads() -> u32 {
    let threads: u32;
    // SAFETY: reads special registers. Not `pure`: what is asked again takes no register in between.
    unsafe {
        asm!(
            "{{ .reg .u32 %y, %z;",
            "mov.u32 {threads}, %ntid.x; mov.u32 %y, %ntid.y; mov.u32 %z, %ntid.z;",
            "mul.lo.u32 {threads}, {threads}, %y; mul.lo.u32 {threads}, {threads}, %z; }}",
            threads = out(reg32) threads, options(nostack, nomem));
    }
    threads
}

#[inline(always)]
pub(crate) fn whole_block_barrier() {
    // SAFETY: all threads of the block arrive: callers are cooperative.
    unsafe { barrier_cta_sync(0) };
    come_together();
}

#[inline(always)]
pub(crate) unsafe fn keep_word(at: u32, word: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .u32 %here;",
            concat!("mov.u32 %here, ", scratch_name!(), ";"),
            "add.u32 %here, %here, {at}; st.shared.u64 [%here], {word}; }}",
            at = in(reg32) 8 * at, word = in(reg64) word, options(nostack));
    }
}

#[inline(always)]
pub(crate) unsafe fn kept_word(at: u32) -> u64 {
    let word: u64;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .u32 %here;",
            concat!("mov.u32 %here, ", scratch_name!(), ";"),
            "add.u32 %here, %here, {at}; ld.shared.u64 {word}, [%here]; }}",
            at = in(reg32) 8 * at, word = out(reg64) word, options(nostack, readonly));
    }
    word
}

#[inline(always)]
pub(crate) unsafe fn keep_two(at: u32, words: [u64; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .u32 %here;",
            concat!("mov.u32 %here, ", scratch_name!(), ";"),
            "add.u32 %here, %here, {at}; st.shared.v2.u64 [%here], {{{first}, {second}}}; }}",
            at = in(reg32) 8 * at, first = in(reg64) words[0], second = in(reg64) words[1],
            options(nostack));
    }
}

#[inline(always)]
pub(crate) unsafe fn kept_two(at: u32) -> [u64; 2] {
    let (first, second): (u64, u64);
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .u32 %here;",
            concat!("mov.u32 %here, ", scratch_name!(), ";"),
            "add.u32 %here, %here, {at}; ld.shared.v2.u64 {{{first}, {second}}}, [%here]; }}",
            at = in(reg32) 8 * at, first = out(reg64) first, second = out(reg64) second,
            options(nostack, readonly));
    }
    [first, second]
}

/// Brings a whole warp together whose lanes took different ways. Shuffles and votes do without, but a vote takes
/// some 400 cycles in a warp that has come apart; a shuffle is not faster behind it.
#[inline(always)]
pub(crate) fn come_together() {
    // SAFETY: all lanes are here: callers are cooperative.
    unsafe { bar_warp_sync(u32::MAX) };
}

#[inline(always)]
pub(crate) fn leave(scope: Option<Scope>) {
    #[cfg(feature = "library")]
    meet(scope.map(|_| Scope::Warp));
    #[cfg(not(feature = "library"))]
    if scope.is_some() {
        warp_barrier();
    }
}

#[inline(always)]
pub(crate) fn whole_warp_barrier() {
    come_together();
}

#[inline(always)]
pub(crate) fn agree(_scope: Scope, _call: &'static str, _arguments: &[u64]) {}

/// One function for all kinds of groups.
#[cfg(feature = "library")]
#[inline(never)]
pub(crate) fn meet(scope: Option<Scope>) {
    if scope == Some(Scope::Block) {
        // SAFETY: as in `block_barrier`.
        unsafe { barrier_cta_sync(0) };
    }
    if scope.is_some() {
        // SAFETY: as in `block_barrier`.
        unsafe { bar_warp_sync(lanes()) };
    }
}

/// The same.
#[cfg(feature = "library")]
#[inline(never)]
pub(crate) fn share(scope: Option<Scope>, first: u64, second: u64) -> (u64, u64) {
    match scope {
        None => (first, second),
        Some(Scope::Block) => share_in_block(first, second),
        Some(Scope::Warp) => share_in_warp(first, second),
    }
}

#[inline(always)]
pub(crate) fn broadcast<const N: usize>(scope: Scope, words: [u64; N]) -> [u64; N] {
    if N > 2 {
        // One after the other: what is shared at once is two words.
        return core::array::from_fn(|at| broadcast(scope, [words[at]])[0]);
    }
    if scope == Scope::Block {
        block_barrier();
    }
    share_words(scope, words)
}

/// The same where all threads have met at a barrier since the last one.
#[inline(always)]
fn share_words<const N: usize>(scope: Scope, words: [u64; N]) -> [u64; N] {
    // Not as an array, which would travel through memory.
    let (first, second) = (words[0], words[N - 1]);
    let (first, second) = match scope {
        Scope::Block => share_in_block(first, second),
        Scope::Warp => share_in_warp(first, second),
    };
    core::array::from_fn(|at| if at == 0 { first } else { second })
}

#[inline(always)]
pub(crate) fn from_lane(word: u64, lane: u32) -> u64 {
    shuffle(u32::MAX, word, lane)
}

#[inline(always)]
pub(crate) fn half_from_lane(half: u32, lane: u32) -> u32 {
    // SAFETY: all lanes of a whole warp are here: the call is cooperative.
    unsafe { shfl_sync_idx(u32::MAX, half, lane, 31) }
}

#[inline(always)]
pub(crate) fn any_lane(yes: bool) -> bool {
    come_together();
    // SAFETY: all lanes of a whole warp are here: the call is cooperative.
    unsafe { vote_any_sync(u32::MAX, yes) }
}

/// The word of a lane; all lanes in the mask call it.
#[inline(always)]
fn shuffle(mask: u32, word: u64, lane: u32) -> u64 {
    // SAFETY: all lanes in the mask are here: the call is cooperative.
    let low = unsafe { shfl_sync_idx(mask, word as u32, lane, 31) };
    // SAFETY: as above.
    let high = unsafe { shfl_sync_idx(mask, (word >> 32) as u32, lane, 31) };
    u64::from(high) << 32 | u64::from(low)
}

#[inline(always)]
pub(crate) fn in_first_warp<const N: usize>(
    scope: Scope,
    f: impl FnOnce() -> [u64; N],
) -> [u64; N] {
    barrier(scope);
    let runs = scope == Scope::Warp || position().thread < WARP;
    share_words(scope, if runs { f() } else { [0; N] })
}

#[inline(always)]
pub(crate) fn in_first_thread<const N: usize>(
    scope: Scope,
    f: impl FnOnce() -> [u64; N],
) -> [u64; N] {
    barrier(scope);
    let runs = match scope {
        Scope::Block => position().thread == 0,
        Scope::Warp => position().thread.is_multiple_of(WARP),
    };
    // Its barrier brings the other lanes of the first warp to the one that runs `f`.
    share_words(scope, if runs { f() } else { [0; N] })
}

#[inline(always)]
pub(crate) fn any(scope: Scope, yes: bool) -> bool {
    // SAFETY: all threads of the scope are here: the call is cooperative.
    unsafe {
        match scope {
            Scope::Block => barrier_cta_or(0, yes),
            Scope::Warp => vote_any_sync(lanes(), yes),
        }
    }
}

/// The same number, of which the compiler knows nothing.
#[inline(always)]
pub(crate) fn opaque(number: usize) -> usize {
    let same: usize;
    // SAFETY: copies a register.
    unsafe { asm!("mov.u64 {}, {};", out(reg64) same, in(reg64) number, options(nostack, nomem)) };
    same
}

/// The same for an address.
#[inline(always)]
pub(crate) fn opaque_pointer(pointer: *mut u8) -> *mut u8 {
    let same: *mut u8;
    // SAFETY: copies a register.
    unsafe { asm!("mov.u64 {}, {};", out(reg64) same, in(reg64) pointer, options(nostack, nomem)) };
    same
}

/// The same for a register's half.
#[inline(always)]
pub(crate) fn opaque_half(number: u32) -> u32 {
    let same: u32;
    // SAFETY: copies a register.
    unsafe { asm!("mov.u32 {}, {};", out(reg32) same, in(reg32) number, options(nostack, nomem)) };
    same
}

#[inline(always)]
pub(crate) fn gpu_release_fence() {
    // SAFETY: orders memory accesses, and needs nothing.
    unsafe { asm!("fence.acq_rel.gpu;", options(nostack)) };
}

#[inline(always)]
pub(crate) fn pause() {}

#[inline(always)]
pub(crate) fn back_off(ns: u32) {
    // SAFETY: suspends the thread, for up to twice that time, and needs nothing.
    unsafe { asm!("nanosleep.u32 {};", in(reg32) ns, options(nostack, nomem)) };
}

#[inline(always)]
pub(crate) fn progress() {}

#[inline(always)]
pub(crate) fn now_ns() -> u64 {
    let now: u64;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u64 {}, %globaltimer;", out(reg64) now, options(nostack, nomem)) };
    now
}

#[inline(always)]
pub(crate) fn cycles() -> u64 {
    let now: u64;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u64 {}, %clock64;", out(reg64) now, options(nostack)) };
    now
}

#[inline(always)]
pub(crate) fn passes_lines() -> bool {
    true
}

#[inline(always)]
pub(crate) fn line_of_lane(line: [u64; 2], lane: u32) -> [u64; 2] {
    line.map(|word| shuffle(u32::MAX, word, lane))
}

#[inline(always)]
pub(crate) fn shared_memory() -> (*mut u8, usize) {
    let address: u64;
    let bytes: u32;
    // SAFETY: takes an address and reads special registers.
    unsafe {
        asm!(
            "{{ .reg .u64 %here; mov.u64 %here, gpunet_dynamic; cvta.shared.u64 {}, %here; }}",
            out(reg64) address, options(nostack, nomem, pure));
        asm!("mov.u32 {}, %dynamic_smem_size;", out(reg32) bytes, options(nostack, nomem, pure));
    }
    (address as *mut u8, bytes as usize)
}

/// What comparisons of slices call: no library comes with this target. For
/// kernels: the device library compares none, and the two would define it twice.
///
/// # Safety
/// Both addresses are valid for `length` bytes.
#[cfg(not(feature = "library"))]
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    let mut at = 0;
    // Counted: the bytes.
    while at < length {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { (left.add(at).read(), right.add(at).read()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
        at += 1;
    }
    0
}

/// The same, where only equality matters.
///
/// # Safety
/// Both addresses are valid for `length` bytes.
#[cfg(not(feature = "library"))]
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(left, right, length) }
}

#[panic_handler]
fn trap(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the kernel; the host sees a fault.
    unsafe { nvptx::trap() }
}
