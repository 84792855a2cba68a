//! The kernel of the end-to-end suites: an interpreter of socket scripts.
//!
//! A test writes a script on the host, an array of [`op::Op`]s; a group of GPU threads runs it op
//! after op through the calls and types of `gpunet_device` and notes what each came to. So one
//! kernel serves all tests, on the emulated GPU and on CUDA.
//!
//! ```text
//!   test ── ops, registers, addresses ──▶ GPU memory ──▶ interpreter ──▶ outcomes ──▶ test
//!                                                           ├─ data   bytes, checked
//!                                                           ├─ slices the ring itself
//!                                                           ├─ poll   gpoll, pollers
//!                                                           └─ wrong  faults, divergence
//! ```
//!
//! Beside it stand the kernels of [`hostile`], which spoil what they share with the proxy.
//! In [`soak`] is the kernel of the soak: one plan, many connections; in [`relay`] the one that
//! stands between programs and p2p streams; in [`one_call`] one whose lanes part before a call;
//! in [`counting`] one whose threads count and lock in GPU memory;
//! in [`queues`] those that run between stream-ordered operations;
//! in [`buffers`] one that gets a program's buffers; in [`faulting`] a server that faults.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

pub mod buffers;
pub mod counting;
mod data;
pub mod faulting;
pub mod hostile;
mod interpreter;
pub mod one_call;
pub mod op;
mod plain;
mod poll;
pub mod queues;
mod receiver;
pub mod relay;
mod script;
mod slices;
pub mod soak;
mod wrong;

#[cfg(not(target_arch = "nvptx64"))]
pub use interpreter::{idle, script_block, script_thread, script_warp};
