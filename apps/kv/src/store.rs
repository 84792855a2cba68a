//! The memory of a store as the program makes it: the kernel's argument, and the words in it.

use gpunet_device::{Shared, SharedBuf, kernel_arg};

/// Words of [`Store::words`]: counts, and what blocks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Word {
    /// Keys in the table.
    Keys = 0,
    /// Buckets looked at for expired keys, in all.
    Swept = 1,
    /// Keys that expired.
    Expired = 2,
    /// Look-ups that found their key.
    Hits = 3,
    /// Look-ups that did not.
    Misses = 4,
    /// The error that ended a block; 0 if all left as asked.
    Ended = 5,
}

/// Words of a store.
pub const WORDS: usize = 16;

kernel_arg! {
    /// Where the table lies. Its heap is another than the server's: a full table leaves clients the memory
    /// for their requests, and many clients leave the table its own.
    pub struct Store {
        /// The heap of keys and values, aligned to 64 bytes. Zeroed.
        pub entries: SharedBuf,
        /// The first entry of each bucket; as many as there are locks, a power of two. Zeroed.
        pub heads: Shared<u64>,
        /// A lock for each bucket. Zeroed.
        pub locks: Shared<u32>,
        /// [`WORDS`] words. Zeroed.
        pub words: Shared<u64>,
        /// What the hash of keys is mixed with, drawn by the program.
        pub first_secret: u64,
        /// The same.
        pub second_secret: u64,
        /// Port, for INFO.
        pub port: u32,
        /// Unused.
        pub reserved: u32,
    }
}
