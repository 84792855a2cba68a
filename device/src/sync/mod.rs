//! Atomics and locks for kernels: what threads of several blocks share in GPU memory.
//!
//! [`AtomicRef`] names a word of a buffer ([`Shared::atomic`](crate::Shared::atomic)) and has the calls
//! of `core::sync::atomic`; the scope is part of its type: [`Gpu`], by default, or [`System`].
//! [`Lock`] and [`RwLock`] are made of one 32-bit word, 0 at first, and held by one thread.
//!
//! ```
//! use core::sync::atomic::Ordering;
//! use gpunet_device::Shared;
//! use gpunet_device::sync::Lock;
//!
//! /// Counts in one word, and under the lock of another; every thread by itself.
//! fn count(words: Shared<u32>, total: Shared<u64>) -> Option<u32> {
//!     let before = words.atomic(0)?.fetch_add(1, Ordering::Relaxed);
//!     let guard = Lock::new(words.atomic(1)?).lock(1_000_000_000)?;
//!     total.set(0, total.get(0)? + 1);
//!     drop(guard);
//!     Some(before)
//! }
//! ```
//!
//! # Scope, ordering and PTX
//! `S` stands for the scope: `gpu` or `sys`.
//!
//! | here | Relaxed | Acquire | Release | AcqRel | SeqCst |
//! | --- | --- | --- | --- | --- | --- |
//! | `load` | `ld.relaxed.S` | `ld.acquire.S` | as SeqCst | as SeqCst | `fence.sc.S; ld.acquire.S` |
//! | `store` | `st.relaxed.S` | as SeqCst | `st.release.S` | as SeqCst | `fence.sc.S; st.relaxed.S` |
//! | `swap`, `compare_exchange`, `fetch_*` | `atom.relaxed.S` | `atom.acquire.S` | `atom.release.S` | `atom.acq_rel.S` | `fence.sc.S; atom.acquire.S` |
//! | [`fence`] | nothing | `fence.acq_rel.S` | `fence.acq_rel.S` | `fence.acq_rel.S` | `fence.sc.S` |
//!
//! On the emulated GPU they are those of `core`, for which the scopes are one.
//!
//! | scope | who sees it in order | for |
//! | --- | --- | --- |
//! | [`Gpu`] | all threads of this GPU | words that kernels share; the faster one |
//! | [`System`] | also the CPU and other GPUs | words that the host writes or reads while a kernel runs |
//!
//! **Host memory.** GPUs on PCIe (an H200 is one) do not do atomics of host memory
//! (`HOST_NATIVE_ATOMIC_SUPPORTED` is 0): a `swap`, `compare_exchange` or `fetch_*` of the GPU on a word
//! in host memory is not atomic against the CPU, in either scope. Words that both touch have one writer
//! each, and are loaded and stored; counters and locks belong in GPU memory.
//!
//! # What of `core::sync::atomic` is safe in kernels
//! The compiler (rustc 1.96) turns its atomics into these instructions:
//!
//! | `core::sync::atomic` | PTX | in kernels |
//! | --- | --- | --- |
//! | `load`, `store` | `ld`, `st` with the ordering, `.sys` | right, in the widest scope |
//! | `compare_exchange` | `atom.cas` with the ordering, `.sys` | right, in the widest scope |
//! | `fence` | `fence` with the ordering, `.sys` | right, in the widest scope |
//! | `swap`, `fetch_*` | `atom` without ordering, GPU scope | **wrong** with any ordering but `Relaxed`, and for words that the CPU sees |
//!
//! Atomics of a thread's own variables (local memory) are undefined in PTX, those of `core` too.
//!
//! # Groups
//! A lock is taken and released by one thread, and all threads of the group use what it protects in
//! between. [`Group::leader_only`](crate::Group::leader_only) waits for all of them first: a leader that
//! took the lock before could keep those away that its group still waits for.
//!
//! ```
//! # use gpunet_device::{Group, Shared, buf, sync::RwLock};
//! # fn copy_out<G: Group>(group: G, lock: RwLock, from: Shared<u8>, to: Shared<u8>) -> bool {
//! let [held] = group.leader_only(|| {
//!     let guard = lock.read(1_000_000_000);
//!     [u64::from(guard.map(|guard| guard.into_raw()).is_some())]
//! });
//! if held != 0 {
//!     buf::copy(group, from, to);
//!     // All have copied before the leader lets others write.
//!     group.barrier();
//!     if group.is_leader() {
//!         lock.release_read();
//!     }
//! }
//! # held != 0
//! # }
//! ```

mod atomic;
mod lock;
mod rwlock;
#[cfg(test)]
mod tests;
mod wait;

pub use atomic::{AtomicInteger, AtomicRef, Gpu, MemoryScope, System, fence};
pub use lock::{Guard, Lock};
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
