//! Streams on a real RDMA device: against one another, and against stock rsocket.
//!
//! Needs an RDMA device with an IPv4 and an IPv6 address, soft-RoCE suffices, and the programs
//! `ip` and `rdma`. Run with `--ignored`. Every wait is for an edge on a stream's descriptor, as
//! the proxy waits, and ends with a failure: so all of these tests find a lost wake-up.

#[path = "../common/mod.rs"]
mod common;
mod connecting;
mod ending;
mod flowing;
mod hostile;
mod stock;
mod world;
