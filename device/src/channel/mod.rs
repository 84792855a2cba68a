//! The data path: how bytes get from a socket's inbox and ring into a buffer, and from a buffer to the
//! other end. Wait for a counter, copy, publish a counter; where the bytes and counters lie is in the
//! socket's record.
//!
//! | file | who runs it | what for |
//! | --- | --- | --- |
//! | `receive`, `send` | the first warp of a group, or its leader alone | take the direction, wait, plan |
//! | `fast` | the first warp of a group | the same where nothing is in the way: no calls, few registers |
//! | `job` | all threads | what the first warp planned and left to them |
//! | `packet` | the first warp, or all threads | short messages: bytes and tags together |
//! | `copy` | all threads | between ring and buffer |
//! | `finish` | one thread | publish how far the group is, give the direction back |

pub(crate) mod copy;
mod crew;
pub(crate) mod fast;
mod finish;
pub(crate) mod job;
mod packet;
mod plan;
mod receive;
mod send;

#[cfg(feature = "loom")]
pub mod model;

pub(crate) use finish::{Finish, finish};
pub(crate) use packet::{find as find_packet, packet_in, packet_out};
pub(crate) use plan::{Plan, Step};
pub(crate) use receive::{Mode, receive};
pub(crate) use send::send;

pub(crate) use crew::Crew;
