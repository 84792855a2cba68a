//! The data path: how bytes get from a socket's inbox and ring into a buffer, and from a buffer to the
//! other end. Wait for a counter, copy, publish a counter; where the bytes and counters lie is in the
//! socket's record.
//!
//! | file | who runs it | what for |
//! | --- | --- | --- |
//! | `fast` | the first warp of a group | short packets where nothing is in the way: no calls, few registers |
//! | `beside` | the first warp of a group | short packets of a stream, while a poller that watches it has no other event |
//! | `long` | all warps | longer messages, as far as warps do better than threads |
//! | `quick` | a group's leader | takes the direction and plans at once, where nothing is in the way |
//! | `receive`, `send` | a group's leader | take the direction, wait, plan |
//! | `job` | all threads | what was planned |
//! | `packet` | all threads | short messages: bytes and tags together |
//! | `eights` | a lane | eight bytes of a message |
//! | `copy` | all threads | between ring and buffer |
//! | `finish` | one thread | publish how far the group is, give the direction back |
//!
//! Why it is so: decision 7 of docs/explanation/decisions.md.

pub(crate) mod beside;
pub(crate) mod copy;
mod eights;
pub(crate) mod fast;
mod finish;
pub(crate) mod job;
pub(crate) mod long;
mod packet;
mod plan;
mod quick;
mod receive;
mod send;
mod warps;

#[cfg(feature = "loom")]
pub mod model;

pub(crate) use finish::{Finish, finish};
pub(crate) use plan::Plan;
pub(crate) use receive::receive;
pub(crate) use send::send;
pub(crate) use warps::Warps;
