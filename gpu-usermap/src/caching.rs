//! How the processor treats mapped memory: what decides which loads, stores and fences an access takes.

/// How the processor treats the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caching {
    /// Stores are collected and sent later, in any order; loads go across the bus, each by itself.
    WriteCombining,
    /// As its own memory.
    Cached,
    /// Every access goes across the bus, in order.
    Device,
}

impl std::fmt::Display for Caching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::WriteCombining => "write-combining",
            Self::Cached => "cached",
            Self::Device => "device",
        })
    }
}
