//! How long things may take, on a machine as fast as this one.
//!
//! ```text
//!   soon      upper limit for calls that need no time-out
//!   timeout   calls that wait end with ETIMEDOUT unless the test says otherwise
//!   deadline  the test fails
//! ```
//!
//! Each is far longer than the one before, so a test tells what ended a call without a measurement of speed.

use std::ops::Range;
use std::time::{Duration, Instant};

use gpunet_support::testing::hang_limit;
pub use gpunet_support::testing::slowness;

/// Upper limit for calls that need no time-out, also on a busy machine. Far less than [`timeout`].
#[must_use]
pub fn soon() -> Duration {
    timeout() / 4
}

/// How long a call may wait unless a test says otherwise; shorter than the deadline, so that a
/// script that times out says where.
#[must_use]
pub fn timeout() -> Duration {
    hang_limit(Duration::from_secs(6))
}

/// How long a test's kernel may run before the test fails.
#[must_use]
pub fn deadline() -> Duration {
    hang_limit(Duration::from_secs(12))
}

/// What a call takes that does not wait for a time-out.
#[must_use]
pub fn at_once() -> Range<Duration> {
    about(Duration::ZERO)
}

/// What a call takes that such a time-out ends, and none that is longer.
#[must_use]
pub fn about(time: Duration) -> Range<Duration> {
    time..time + soon()
}

/// A pause or a short time-out, long enough on slow machines. As a limit for what happens beside it, it has no
/// reserve: that is a [`hang_limit`].
#[must_use]
pub fn scaled_time(time: Duration) -> Duration {
    time * slowness()
}

/// How often something is repeated, in less where this machine is slower.
#[must_use]
pub fn scaled(count: u64) -> u64 {
    const LEAST: u32 = 4;
    (count / u64::from(slowness().min(LEAST))).max(1)
}

/// Waits until `true` is seen, which must happen sooner or later.
#[must_use]
pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if begin.elapsed() > deadline() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
