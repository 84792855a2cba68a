//! Handles: how a kernel names a socket.

/// A socket's name: its slot in a shard, the shard, and the generation of that slot.
///
/// Bits 0-19 slot, 20-27 shard, 28-59 generation, 60-63 zero, so that a handle is never taken
/// for a negative error number. Generation 0 is never alive: the zero handle names nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(pub u64);

impl Handle {
    /// Slots a shard may have.
    pub const MAX_SLOTS: u32 = 1 << 20;
    /// Shards a net may have.
    pub const MAX_SHARDS: u32 = 1 << 8;
    /// Names no socket.
    pub const NONE: Self = Self(0);

    /// Puts a handle together.
    #[inline(always)]
    pub const fn new(shard: u32, slot: u32, generation: u32) -> Self {
        Self((generation as u64) << 28 | (shard as u64) << 20 | slot as u64)
    }

    /// The slot in the shard's table.
    #[inline(always)]
    pub const fn slot(self) -> u32 {
        (self.0 & 0xF_FFFF) as u32
    }

    /// The shard whose proxy thread serves the socket.
    #[inline(always)]
    pub const fn shard(self) -> u32 {
        (self.0 >> 20 & 0xFF) as u32
    }

    /// How many sockets had this slot before, and a little more.
    #[inline(always)]
    pub const fn generation(self) -> u32 {
        (self.0 >> 28) as u32
    }

    /// Whether the unused bits are zero, as in every handle that was given out.
    #[inline(always)]
    pub const fn is_well_formed(self) -> bool {
        self.0 >> 60 == 0 && self.generation() != 0
    }
}
