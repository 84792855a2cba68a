//! A socket as the GPU keeps it: its record in GPU memory, how it is made and ended, and what the
//! proxy is asked for.

mod lifecycle;
mod record;
mod request;

#[cfg(feature = "loom")]
pub(crate) use lifecycle::own;
pub(crate) use lifecycle::{
    acquire, adopt_rings, begin_close, group_name, lock_to_leave, reinstall, tell_proxy,
    watch_both_ends,
};
pub(crate) use record::{Direction, Fetched, Inbox, Info, Socket};
pub(crate) use request::{Payload, ask};
