//! Sockets for GPU kernels, the device side.
//!
//! A group of GPU threads (a block, a warp, a single thread) opens sockets, connects, accepts,
//! sends, receives, polls and closes in the middle of a kernel. A proxy on the host moves the
//! bytes; the two share memory and nothing else:
//!
//! ```text
//!        GPU                                           CPU
//!  ┌───────────────┐  request slots, counters   ┌───────────────┐
//!  │ g* calls      │ ─────────────────────────▶ │ proxy, one    │      ┌────────┐
//!  │ socket,       │  replies, counters, descriptors  │ thread a      │ ───▶ │ kernel │
//!  │ channel, wait │ ◀───────────────────────── │ shard         │ ◀─── │ sockets│
//!  └──────┬────────┘                            └──────┬────────┘      └───┬────┘
//!         └────────────── byte rings ──────────────────┴───────────────────┘
//! ```
//!
//! From the bottom up: [`abi`] is the memory both sides agree on, and [`abi::word`] the one
//! module through which shared words are read and written. [`simt`] is what a GPU thread can do,
//! and [`group`] makes groups of threads from it. [`buf`] names memory that a group shares.
//! `wait` and `relay` end waits, `socket` is a socket's record and `channel` the data path; `library` holds the functions
//! that kernels call: compiled once, into an image of its own, which the driver's linker joins with
//! kernels. [`calls`] holds the familiar calls (`gsocket`, `gsend` ...) and [`stream`], [`listener`], [`mod@slice`] and [`poller`] the
//! types in the manner of `std::net`. [`kernel`] declares kernels, and [`sync`] has atomics and locks for them. The same source compiles for `nvptx64-nvidia-cuda` and for the
//! host, where threads are coroutines.
//!
//! # Cargo features
//! There are none for users. Those in the manifest are how gpunet compiles the device library and its own
//! tests; they may change or go in any version.

#![no_std]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(asm_experimental_arch, link_llvm_intrinsics, stdarch_nvptx)
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]
// Of what the device library is built on, kernels use a part.
#![cfg_attr(
    all(target_arch = "nvptx64", not(feature = "library")),
    allow(dead_code, unused_imports)
)]

#[cfg(not(target_arch = "nvptx64"))]
extern crate std;

pub mod abi;
pub mod buf;
mod bug;
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
pub mod c_abi;
pub mod calls;
#[cfg(all(not(feature = "loom"), any(not(target_arch = "nvptx64"), feature = "library")))]
mod channel;
#[cfg(feature = "loom")]
pub mod channel;
pub mod group;
pub mod kernel;
pub(crate) mod library;
pub mod listener;
mod on;
pub mod op;
mod owned;
#[doc(hidden)]
pub mod planted;
pub mod poller;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod relay;
mod shared;
pub mod simt;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod slice;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod socket;
pub mod stream;
pub mod sync;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod wait;

pub use abi::address::{Domain, SocketAddr};
pub use abi::errno::Errno;
pub use abi::handle::Handle;
pub use abi::net::Net;
pub use buf::{Received, Shared, SharedBuf, Space};
pub use group::{Block, Group, Thread, Warp};
pub use kernel::{Kernel, KernelArg};
pub use listener::{ListenOptions, Listener};
pub use on::On;
pub use owned::Borrowed;
pub use poller::{Event, Poller};
pub use slice::{Peek, Reserve};
pub use stream::Stream;
