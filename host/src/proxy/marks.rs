//! Where a socket stands in the schedule of its shard.

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Turns left in which it is tried without asking epoll.
    pub(super) busy_turns: u32,
    pub(super) busy: bool,
    pub(super) waits_for_head: bool,
    pub(super) sending: bool,
    pub(super) ending: bool,
    pub(super) writing: bool,
    pub(super) timer_ns: Option<u64>,
}
