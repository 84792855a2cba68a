//! A socket as the GPU keeps it: its record in GPU memory, how it is made and ended, and what the
//! proxy is asked for.

mod lifecycle;
mod record;
mod request;

pub(crate) use lifecycle::{
    adopt_rings, begin_close, enter, group_name, lock_to_leave, own, reinstall, tell_proxy,
    watch_both_ends,
};
pub(crate) use record::{Direction, Inbox, Info, Socket};
pub(crate) use request::{Payload, ask};
