//! What crates of this workspace share for their tests and programs. It imports the device crate alone, so that all
//! others can use it.
//!
//! ```text
//!   pattern   bytes that both ends of a connection make and check, and numbers drawn from a seed; for kernels, too
//!   testing   what tests share; not for kernels
//! ```
//!
//! A library without kernels, so that each kernel crate that uses it exports its own alone.

#![cfg_attr(target_arch = "nvptx64", no_std)]

pub mod pattern;
#[cfg(not(target_arch = "nvptx64"))]
pub mod testing;
