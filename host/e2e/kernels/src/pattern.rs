//! Bytes that both ends can make and check: byte `p` of a stream depends on `p` and a seed.

/// The byte at `position`.
#[inline(always)]
pub const fn byte(seed: u64, position: u64) -> u8 {
    let mixed = (position ^ seed << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 56) as u8
}
