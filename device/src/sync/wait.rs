//! Waiting for a lock: like all waits of the device, with a deadline.

use crate::simt;

/// Turns of a wait for a lock that only poll; later ones also sleep, and leave the memory to the holder.
const EAGER_TURNS: u32 = 16;
/// The first sleep; each one is twice as long as the one before ...
const BACK_OFF_NS: u32 = 64;
/// ... up to this often.
const DOUBLINGS: u32 = 5;

/// Tries until `acquire` gives something or the time is over; at least once. One thread calls it.
#[inline(always)]
pub(super) fn until<T>(timeout_ns: u64, mut acquire: impl FnMut() -> Option<T>) -> Option<T> {
    // Mostly at once, without a look at the clock.
    if let Some(held) = acquire() {
        return Some(held);
    }
    if timeout_ns == 0 {
        return None;
    }
    let deadline = simt::now_ns().saturating_add(timeout_ns);
    let mut turns = 0;
    loop {
        simt::pause();
        if let Some(sleeps) = u32::checked_sub(turns, EAGER_TURNS) {
            simt::back_off(BACK_OFF_NS << sleeps.min(DOUBLINGS));
        }
        turns = turns.saturating_add(1);
        if let Some(held) = acquire() {
            simt::progress();
            return Some(held);
        }
        if simt::now_ns() >= deadline {
            return None;
        }
    }
}
