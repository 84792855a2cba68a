//! The shape of a launch: threads, warps, blocks, and which of them a call spans.

/// Threads of a warp.
pub const WARP: u32 = 32;

/// Words of scratch memory that a scope has for broadcasts, and for what the first warp of a block has
/// found. A kernel's own image has the first two alone.
pub const SCRATCH_WORDS: usize = 20;

/// Which threads a barrier or a broadcast spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All threads of the block.
    Block,
    /// The threads of the caller's warp.
    Warp,
}

/// A thread's place; ranks of two- and three-dimensional shapes are linear, x fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Rank of the thread in its block.
    pub thread: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Rank of the block in the grid.
    pub block: u32,
    /// Blocks of the grid.
    pub blocks: u32,
}
