//! RDMA streams with rsocket's protocol on the wire, with buffers that lie where the caller says.
//!
//! ```text
//!  stream, listener     a connection over verbs: rdma_cm, one queue pair, one completion queue
//!    │        │
//!    │     protocol     rsocket as a state machine: no I/O, no clock, no memory of its own
//!    │        │
//!    │       work       what one asks a queue pair to do, and what it says when it is done
//!    │        │
//!  verbs ─────┘         librdmacm and libibverbs, made safe
//!    │
//!   sys                 their raw bindings, loaded at run time
//! ```
//!
//! Why it is so: decision 18 of docs/explanation/decisions.md.

pub mod load;
pub mod protocol;
pub mod stock;
pub mod stream;
pub mod sys;
pub mod verbs;
pub mod work;
