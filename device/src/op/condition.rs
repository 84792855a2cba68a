//! Conditions that operations wait for: what a word of 32 or 64 bits has to be.

#![allow(unsafe_code, reason = "reads a word whose address the caller has")]

use core::sync::atomic::Ordering;

use crate::planted::{Bug, planted};
use crate::sync::{AtomicRef, System};

/// When a word is what an operation waits for, as the CUDA driver has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Condition {
    /// The word has reached the value; cyclic: the difference is not negative, so that counters may wrap.
    GreaterOrEqual = 0,
    /// The word is the value.
    Equal = 1,
    /// The word and the value have a bit in common.
    And = 2,
    /// Some bit is set in neither the word nor the value.
    Nor = 3,
}

impl Condition {
    /// The condition with that number.
    pub(super) const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::GreaterOrEqual,
            1 => Self::Equal,
            2 => Self::And,
            _ => Self::Nor,
        }
    }

    /// Whether a word of 32 bits holds.
    #[inline(always)]
    pub const fn holds_32(self, word: u32, value: u32) -> bool {
        match self {
            Self::GreaterOrEqual => word.wrapping_sub(value) as i32 >= 0,
            Self::Equal => word == value,
            Self::And => word & value != 0,
            Self::Nor => !(word | value) != 0,
        }
    }

    /// Whether a word of 64 bits holds.
    #[inline(always)]
    pub const fn holds_64(self, word: u64, value: u64) -> bool {
        match self {
            Self::GreaterOrEqual => word.wrapping_sub(value) as i64 >= 0,
            Self::Equal => word == value,
            Self::And => word & value != 0,
            Self::Nor => !(word | value) != 0,
        }
    }
}

/// A word's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// 32 bits.
    Bits32 = 0,
    /// 64 bits.
    Bits64 = 1,
}

/// How a word is waited for: condition (bits 0 to 7) and width (8 to 15), as the library takes it.
pub(crate) const fn how(condition: u8, width: u8) -> u32 {
    condition as u32 | (width as u32) << 8
}

/// Whether the word at `address` is what is waited for; what its writer did before is visible then.
///
/// # Safety
/// `address` is a word of the width in `how`, aligned.
#[inline(always)]
pub(crate) unsafe fn word_holds(address: *mut u8, how: u32, value: u64) -> bool {
    let condition = Condition::from_number(how as u8);
    if planted(Bug::ComparedWithoutWrap) && how == Condition::GreaterOrEqual as u32 {
        // SAFETY: the caller's promise.
        let word = unsafe { AtomicRef::<u32, System>::from_ptr(address.cast()) };
        return word.load(Ordering::Acquire) >= value as u32;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if how >> 8 == Width::Bits32 as u32 {
            let word = AtomicRef::<u32, System>::from_ptr(address.cast());
            condition.holds_32(word.load(Ordering::Acquire), value as u32)
        } else {
            let word = AtomicRef::<u64, System>::from_ptr(address.cast());
            condition.holds_64(word.load(Ordering::Acquire), value)
        }
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap() {
        let reached = Condition::GreaterOrEqual;
        assert!(reached.holds_32(5, 5) && reached.holds_32(6, 5) && !reached.holds_32(4, 5));
        assert!(reached.holds_32(2, u32::MAX) && !reached.holds_32(u32::MAX, 2));
        assert!(reached.holds_64(2, u64::MAX) && !reached.holds_64(u64::MAX, 2));
    }

    #[test]
    fn bits() {
        assert!(Condition::And.holds_32(6, 2) && !Condition::And.holds_32(6, 1));
        assert!(Condition::Nor.holds_32(6, 1) && !Condition::Nor.holds_32(!1, 1));
        assert!(Condition::Nor.holds_64(0, 0) && !Condition::Nor.holds_64(u64::MAX, 0));
        assert!(Condition::Equal.holds_64(7, 7) && !Condition::Equal.holds_64(7, 6));
        for condition in
            [Condition::GreaterOrEqual, Condition::Equal, Condition::And, Condition::Nor]
        {
            assert_eq!(Condition::from_number(condition as u8), condition);
        }
    }
}
