//! The simulation harness's way into the device side, in builds with the feature `simulation`.
//!
//! The harness lives in the host crate. While it runs, every access to a shared word and to ring
//! bytes on its OS thread goes through [`Harness`], from both sides: it decides what is seen, and
//! who goes on. Without it everything is as in any other build.

pub(crate) mod harness;
mod skip;

pub use harness::{Fence, Harness, read, set_harness, with, write};
pub use skip::{skip_receive, skip_send};
