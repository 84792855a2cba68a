//! Small messages beside the ring: what both sides put into a socket's express words.
//!
//! Through the ring, a message costs its reader two reads one after the other, the counter and
//! then the bytes, and its writer a fence between them. A message of at most [`EXPRESS_BYTES`]
//! also goes into express words: each carries four bytes and a tag, so it tells by itself whether
//! it belongs to the message, and counter and bytes are read at once and written in any order.
//!
//! The ring stays the truth. Express words are a copy that comes earlier; who cannot use them
//! reads the ring. A counter names the message that the express words hold by its number, and 0
//! stands for none. A writer puts a message there only once the other side has taken everything
//! before it, so a reader sees words of this message or of the one before, whose number differs.

use super::card::Progress;

/// Express words of a direction.
#[cfg(not(feature = "loom"))]
pub const EXPRESS_WORDS: usize = 16;
/// As many as a model can try all orders of.
#[cfg(feature = "loom")]
pub const EXPRESS_WORDS: usize = 2;
/// The largest message that fits.
pub const EXPRESS_BYTES: usize = 4 * EXPRESS_WORDS;

/// Numbers of messages go round from 1 to this.
const LAST_NUMBER: u64 = 15;
/// Where in a counter's word the number stands.
const NUMBER_SHIFT: u32 = 60;

/// The number after that one.
#[inline(always)]
pub const fn next_number(number: u64) -> u64 {
    if number >= LAST_NUMBER { 1 } else { number + 1 }
}

/// The number in a counter's word.
#[inline(always)]
pub const fn number_of(word: u64) -> u64 {
    word >> NUMBER_SHIFT
}

/// A counter's word without its number.
#[inline(always)]
pub const fn without_number(word: u64) -> u64 {
    word & (u64::MAX >> (u64::BITS - NUMBER_SHIFT))
}

/// A counter's word with a number.
#[inline(always)]
pub const fn with_number(word: u64, number: u64) -> u64 {
    without_number(word) | number << NUMBER_SHIFT
}

/// The tag of every word of a message: where it begins, its length (1 to [`EXPRESS_BYTES`]), its
/// number.
#[inline(always)]
pub const fn tag(position: u64, length: u64, number: u64) -> u32 {
    (position << 10 | number << 6 | length.wrapping_sub(1) & 63) as u32
}

/// The tag of the message that ends where a counter says, if `tag`, which one of its words has, can
/// be that.
#[inline(always)]
pub fn tag_before(counter: Progress, tag: u32) -> Option<u32> {
    let length = length_of(tag);
    let begin = counter.count().wrapping_sub(length);
    (self::tag(begin, length, counter.express()) == tag).then_some(tag)
}

/// The length of the message in a tag.
#[inline(always)]
pub const fn length_of(tag: u32) -> u64 {
    (tag & 63) as u64 + 1
}

/// The number of the message in a tag.
#[inline(always)]
pub const fn number_in(tag: u32) -> u64 {
    (tag >> 6 & 15) as u64
}

/// An express word.
#[inline(always)]
pub const fn word(bytes: [u8; 4], tag: u32) -> u64 {
    u32::from_le_bytes(bytes) as u64 | (tag as u64) << 32
}

/// The tag in an express word.
#[inline(always)]
pub const fn tag_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Whether an express word belongs to the message with that tag.
#[inline(always)]
pub fn belongs(word: u64, tag: u32) -> bool {
    #[cfg(feature = "loom")]
    if super::model::lacks(super::model::Weakness::Tags) {
        return true;
    }
    tag_of(word) == tag
}

/// The bytes in an express word.
#[inline(always)]
pub const fn bytes_of(word: u64) -> [u8; 4] {
    (word as u32).to_le_bytes()
}
