//! Log lines that others can cause as often as they like: some of them are written, the rest are counted.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock::lock;

/// Lines that are written at once ...
const AT_ONCE: u32 = 20;
/// ... and the time after which there may be another one.
const EACH: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Seldom(Mutex<State>);

#[derive(Debug)]
struct State {
    left: u32,
    since: Instant,
    left_out: u64,
}

impl Default for Seldom {
    fn default() -> Self {
        Self(Mutex::new(State { left: AT_ONCE, since: Instant::now(), left_out: 0 }))
    }
}

impl Seldom {
    /// Has a line written if there may be one now. `write` is told how many were left out before.
    pub(crate) fn log(&self, write: impl FnOnce(u64)) {
        if let Some(left_out) = self.may_log(Instant::now()) {
            write(left_out);
        }
    }

    fn may_log(&self, now: Instant) -> Option<u64> {
        let mut state = lock(&self.0);
        let elapsed = now.saturating_duration_since(state.since).as_secs() / EACH.as_secs();
        if elapsed > 0 {
            state.left = state.left.saturating_add(elapsed.min(AT_ONCE.into()) as u32).min(AT_ONCE);
            state.since = now;
        }
        if state.left == 0 {
            state.left_out += 1;
            return None;
        }
        state.left -= 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_line_a_second() {
        let seldom = Seldom::default();
        let begun = Instant::now();
        let lines = |at_ms: u64, count: u32| {
            let now = begun + Duration::from_millis(at_ms);
            (0..count).filter_map(|_| seldom.may_log(now)).collect::<Vec<_>>()
        };
        assert_eq!(lines(0, 10_000), [0; AT_ONCE as usize]);
        assert!(lines(999, 1000).is_empty());
        assert_eq!(lines(1001, 1000), [10_000 - u64::from(AT_ONCE) + 1000]);
        assert_eq!(lines(2002, 1), [999]);
        assert_eq!(lines(1_000_000, 100).len(), AT_ONCE as usize);
    }
}
