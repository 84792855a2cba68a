//! Bytes that both ends can make and check: byte `p` of a stream depends on `p` and a seed. Kernels
//! fill and check buffers with all threads of a group, programs slices. And numbers that are drawn from a
//! seed ([`Draw`]).

mod draw;

pub use draw::Draw;

use gpunet_device::{Group, SharedBuf};

/// Eight bytes of the pattern, those at `8 * index` and behind it.
#[inline(always)]
pub const fn word(seed: u64, index: u64) -> u64 {
    let mixed = (index ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 29
}

/// The byte at `position`.
#[inline(always)]
pub const fn byte(seed: u64, position: u64) -> u8 {
    (word(seed, position / 8) >> (position % 8 * 8)) as u8
}

/// Eight bytes of the pattern from `position` on, wherever that is: short reads end anywhere.
#[inline(always)]
pub const fn word_at(seed: u64, position: u64) -> u64 {
    let low = word(seed, position / 8);
    match position % 8 * 8 {
        0 => low,
        shift => low >> shift | word(seed, position / 8 + 1) << (64 - shift),
    }
}

/// Fills a buffer with the pattern from `position` on; all threads of the group, without a
/// barrier behind it (calls that send begin with one).
#[inline(always)]
pub fn fill<G: Group>(group: G, buffer: SharedBuf, seed: u64, position: u64) {
    let mut at = group.rank();
    if buffer.as_ptr().addr().is_multiple_of(8) {
        let words = buffer.cast::<u64>();
        while at < words.len() {
            words.set(at, word_at(seed, position + 8 * at as u64));
            at += group.size();
        }
        at = buffer.len() / 8 * 8 + group.rank();
    }
    while at < buffer.len() {
        buffer.set(at, byte(seed, position + at as u64));
        at += group.size();
    }
}

/// Whether this thread's share of a buffer holds the pattern from `position` on.
#[inline(always)]
pub fn holds<G: Group>(group: G, buffer: SharedBuf, seed: u64, position: u64) -> bool {
    let mut same = true;
    let mut at = group.rank();
    if buffer.as_ptr().addr().is_multiple_of(8) {
        let words = buffer.cast::<u64>();
        while at < words.len() {
            same &= words.get(at) == Some(word_at(seed, position + 8 * at as u64));
            at += group.size();
        }
        at = buffer.len() / 8 * 8 + group.rank();
    }
    while at < buffer.len() {
        same &= buffer.get(at) == Some(byte(seed, position + at as u64));
        at += group.size();
    }
    same
}

/// Fills a slice with the pattern from `position` on.
#[inline]
pub fn fill_slice(buffer: &mut [u8], seed: u64, position: u64) {
    for (chunk, at) in buffer.chunks_mut(8).zip((position..).step_by(8)) {
        chunk.copy_from_slice(&word_at(seed, at).to_le_bytes()[..chunk.len()]);
    }
}

/// Whether a slice holds the pattern from `position` on.
#[inline]
pub fn slice_holds(buffer: &[u8], seed: u64, position: u64) -> bool {
    let (words, rest) = buffer.as_chunks::<8>();
    let behind = position + 8 * words.len() as u64;
    let mut same = true;
    for (word, at) in words.iter().zip((position..).step_by(8)) {
        same &= u64::from_le_bytes(*word) == word_at(seed, at);
    }
    same && rest.iter().zip(behind..).all(|(got, at)| *got == byte(seed, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_the_pattern_at_any_position_and_length() {
        for position in 0..20 {
            for length in 0..40 {
                let mut buffer = vec![0; length];
                fill_slice(&mut buffer, 7, position);
                let bytes = (position..).map(|at| byte(7, at));
                assert!(buffer.iter().copied().eq(bytes.take(length)));
                assert!(slice_holds(&buffer, 7, position));
                if let Some(last) = buffer.last_mut() {
                    *last ^= 1;
                    assert!(!slice_holds(&buffer, 7, position));
                }
            }
        }
    }
}
