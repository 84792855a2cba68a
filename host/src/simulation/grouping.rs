//! Which threads of a launch act as one.

/// Who makes calls together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    Blocks,
    Warps,
    Threads,
}
