//! Raw bindings of libibverbs and librdmacm, their functions looked up at run time.
//!
//! `types`, `ibverbs` and `rdmacm` are written by `cargo xtask bindings`; `inline` holds by hand
//! what the headers define as inline functions, which no library exports. Nothing here is safe:
//! [`verbs`](crate::verbs) is.

#![allow(unsafe_code, reason = "foreign functions")]

#[allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "written by bindgen"
)]
pub mod ibverbs;
pub mod inline;
#[allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "written by bindgen"
)]
pub mod rdmacm;
#[allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "written by bindgen"
)]
pub mod types;

pub use ibverbs::Ibverbs;
pub use rdmacm::Rdmacm;
