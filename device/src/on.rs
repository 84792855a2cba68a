//! Who calls: a net, and the group of threads that uses it. Every type of the API begins with one.

use crate::abi::net::Net;
use crate::group::{Block, Group, Thread, Warp};

/// A net, and the group that uses it.
#[derive(Clone, Copy)]
pub struct On<G: Group = Block> {
    pub(crate) net: Net,
    pub(crate) group: G,
}

impl Net {
    /// The calling block on this net.
    #[inline(always)]
    pub const fn block(self) -> On<Block> {
        On { net: self, group: Block }
    }

    /// The calling warp on this net.
    #[inline(always)]
    pub const fn warp(self) -> On<Warp> {
        On { net: self, group: Warp }
    }

    /// The calling thread on this net.
    #[inline(always)]
    pub const fn thread(self) -> On<Thread> {
        On { net: self, group: Thread }
    }
}

impl<G: Group> On<G> {
    /// The net.
    #[inline(always)]
    pub const fn net(self) -> Net {
        self.net
    }

    /// The group.
    #[inline(always)]
    pub const fn group(self) -> G {
        self.group
    }
}
