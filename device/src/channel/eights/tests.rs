//! Words of eight bytes at all alignments, and what is left of a message behind them.

use super::{load_eight, load_eight_at_once, store_eight, store_eight_at_once};

/// Bytes around the word that must stay as they are.
const UNTOUCHED: u8 = 0xA5;

#[test]
fn what_is_left_of_a_message_is_loaded_and_stored_and_nothing_else() {
    for (offset, left) in (0..8).flat_map(|offset| (1..=12).map(move |left| (offset, left))) {
        let memory: [u64; 4] =
            core::array::from_fn(|at| 0x0706_0504_0302_0100 + at as u64 * 0x1111);
        let bytes: [u8; 32] = core::array::from_fn(|at| memory[at / 8].to_le_bytes()[at % 8]);
        let from = memory.as_ptr().cast::<u8>().wrapping_add(offset);
        // SAFETY: inside `memory`.
        let eights = unsafe { [load_eight(from, left), load_eight_at_once(from, left)] };
        let here = left.min(8) as usize;
        for eight in eights {
            assert_eq!(
                eight.to_le_bytes()[..here],
                bytes[offset..offset + here],
                "{offset}, {left}"
            );
            assert!(eight.to_le_bytes()[here..].iter().all(|&byte| byte == 0), "{offset}, {left}");
        }
        for store in [store_eight, store_eight_at_once] {
            let mut target = [u64::from_le_bytes([UNTOUCHED; 8]); 4];
            let to = target.as_mut_ptr().cast::<u8>().wrapping_add(offset);
            // SAFETY: inside `target`.
            unsafe { store(to, eights[0], left) };
            let found: [u8; 32] = core::array::from_fn(|at| target[at / 8].to_le_bytes()[at % 8]);
            assert_eq!(found[offset..offset + here], bytes[offset..offset + here]);
            let around = found[..offset].iter().chain(&found[offset + here..]);
            assert!(
                around.copied().all(|byte| byte == UNTOUCHED),
                "{offset}, {left}: wrote beyond"
            );
        }
    }
}
