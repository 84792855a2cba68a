//! A socket as the GPU keeps it: its record in GPU memory, how it is made and ended, and what the
//! proxy is asked for.

mod direction;
mod inbox;
mod install;
mod lifecycle;
mod line;
pub(crate) mod list;
mod lock;
mod record;
mod request;

pub(crate) use direction::Direction;
pub(crate) use inbox::Inbox;
pub(crate) use install::{adopt_rings, reinstall};
#[cfg(feature = "loom")]
pub(crate) use lifecycle::own;
pub(crate) use lifecycle::{acquire, begin_close, group_name};
pub(crate) use line::RecordLine;
pub(crate) use lock::lock_to_leave;
pub(crate) use record::{Info, Socket};
pub(crate) use request::{FIRST_SHARD, Payload, ask};
