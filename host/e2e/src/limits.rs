//! How long things may take, on a machine as fast as this one.

use std::time::{Duration, Instant};

use crate::lateness::Lateness;
use crate::transport::scaled_time;

/// How long a test's kernel may run before the test fails, also on a busy machine; as all times,
/// longer where [`scaled_time`] says so.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// How long a call may wait unless a test says otherwise; shorter than the deadline, so that a
/// script that times out says where.
pub const TIMEOUT: Duration = Duration::from_secs(45);

/// How long a proxy thread may go without a heartbeat unless a test says otherwise: as long as in any net.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until `true` is seen, at most so long on a real machine that has nothing else to do.
#[must_use]
pub fn eventually(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let (begin, lateness) = (Instant::now(), Lateness::from_now());
    loop {
        if holds() {
            return true;
        }
        if begin.elapsed() > scaled_time(limit) + lateness.lost() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
