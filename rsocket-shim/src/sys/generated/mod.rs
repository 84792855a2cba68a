//! What `cargo xtask bindings` writes from Debian's headers. This file alone is written by hand.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "written by bindgen"
)]

pub(super) mod ibverbs;
pub(super) mod rdmacm;
pub mod types;
