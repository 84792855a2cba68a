//! Raw bindings of libibverbs and librdmacm, their functions looked up at run time.
//!
//! `types`, `ibverbs` and `rdmacm` are generated; `inline` holds by hand what the headers define as
//! inline functions, which no library exports. Nothing here is safe: [`verbs`](crate::verbs) is.

#![allow(unsafe_code, reason = "foreign functions")]

mod generated;
pub mod inline;

pub use generated::ibverbs::Ibverbs;
pub use generated::rdmacm::Rdmacm;
pub use generated::types;
