//! Shuffles and votes of a warp on the emulated GPU, for kernels that are not in Rust.
//!
//! All lanes that the warp has make the call together: a mask that leaves some of them out is refused,
//! since the emulator's barriers span the whole warp.

#![allow(unsafe_code, reason = "the words of lanes are a raw pointer")]

use super::super::shape::{Scope, WARP};
use super::{Site, agree_at, barrier_at, position, with};

/// Which lane's value a shuffle gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// That of the lane with this number, modulo the width: `__shfl_sync`.
    Index,
    /// That of the lane so many below: `__shfl_up_sync`.
    Up,
    /// That of the lane so many above: `__shfl_down_sync`.
    Down,
    /// That of the lane whose number differs in these bits: `__shfl_xor_sync`.
    Xor,
}

impl Shuffle {
    /// As CUDA's instruction has it: the lane that `lane` of segments of `width` lanes reads from, itself
    /// where that would lie outside of its segment.
    fn source(self, lane: u32, by: u32, width: u32) -> u32 {
        let (first, by) = (lane & !(width - 1), by % WARP);
        match self {
            Self::Index => first | by & (width - 1),
            Self::Up if by <= lane - first => lane - by,
            Self::Down if lane - first + by < width => lane + by,
            Self::Xor if (lane ^ by) < first + width => lane ^ by,
            _ => lane,
        }
    }
}

/// The lanes that the calling thread's warp has, as bits.
pub fn present() -> u32 {
    let position = position();
    match position.threads - position.thread / WARP * WARP {
        lanes if lanes >= WARP => u32::MAX,
        lanes => (1 << lanes) - 1,
    }
}

/// Gives each lane another one's value.
///
/// # Panics
/// With a mask that leaves out lanes, or a width that is no power of two up to 32: the kernel's fault.
pub fn shuffle(mask: u32, value: u64, how: Shuffle, by: u32, width: u32, site: Site) -> u64 {
    assert!(
        width.is_power_of_two() && width <= WARP,
        "a shuffle at {site} of {width} lanes: they must be a power of two, at most 32"
    );
    let words = exchange(mask, value, "a shuffle", &[how as u64, width.into()], site);
    let lane = position().thread % WARP;
    let from = how.source(lane, by, width);
    // Of a lane that the warp does not have: undefined on hardware, the lane's own here.
    let from = if present() >> from & 1 == 1 { from } else { lane };
    // SAFETY: one word for each of the 32 lanes, which nobody writes before the next exchange's barrier.
    unsafe { words.add(from as usize).read() }
}

/// The lanes that said yes, as bits.
///
/// # Panics
/// With a mask that leaves out lanes: the kernel's fault.
pub fn ballot(mask: u32, yes: bool, site: Site) -> u32 {
    let words = exchange(mask, yes.into(), "a vote", &[], site);
    let present = present();
    (0..WARP).filter(|lane| present >> lane & 1 == 1).fold(0, |all, lane| {
        // SAFETY: as in `shuffle`.
        all | (unsafe { words.add(lane as usize).read() } as u32) << lane
    })
}

/// Has each lane leave a value where all of them find it.
fn exchange(
    mask: u32,
    value: u64,
    call: &'static str,
    arguments: &[u64],
    site: Site,
) -> *const u64 {
    let present = present();
    assert!(
        mask & present == present,
        "{call} at {site} with the mask {mask:#x}: the warp has the lanes {present:#x}, and on the \
         emulated GPU all of them take part"
    );
    // Behind it nobody reads the last values.
    agree_at(Scope::Warp, call, arguments, site);
    let words = with(|thread| thread.lane_words());
    // SAFETY: one word for each lane of the warp, and each writes its own.
    unsafe { words.add((position().thread % WARP) as usize).write(value) };
    barrier_at(Scope::Warp, site);
    words
}

#[cfg(test)]
mod tests {
    use super::Shuffle;

    #[test]
    fn lanes_read_from_where_cuda_has_it() {
        let source = |how: Shuffle, lane, by, width| how.source(lane, by, width);
        assert_eq!(source(Shuffle::Index, 9, 3, 32), 3);
        assert_eq!(source(Shuffle::Index, 9, 11, 8), 8 + 3);
        assert_eq!(source(Shuffle::Up, 9, 1, 32), 8);
        assert_eq!(source(Shuffle::Up, 9, 2, 8), 9);
        assert_eq!(source(Shuffle::Down, 31, 1, 32), 31);
        assert_eq!(source(Shuffle::Down, 6, 1, 8), 7);
        assert_eq!(source(Shuffle::Down, 7, 1, 8), 7);
        assert_eq!(source(Shuffle::Down, 7, u32::MAX, 8), 7);
        assert_eq!(source(Shuffle::Index, 7, u32::MAX, 32), 31);
        assert_eq!(source(Shuffle::Xor, 5, 1, 32), 4);
        assert_eq!(source(Shuffle::Xor, 5, 16, 32), 21);
        // Lower segments may be read, higher ones not.
        assert_eq!(source(Shuffle::Xor, 9, 8, 8), 1);
        assert_eq!(source(Shuffle::Xor, 1, 8, 8), 1);
    }
}
