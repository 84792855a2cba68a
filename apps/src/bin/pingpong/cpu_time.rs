//! CPU time of the calling thread, and of the proxy's threads.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What the calling thread has used.
pub(crate) fn of_thread() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// What the proxy's threads have used; none where the system does not say.
pub(crate) fn of_proxy() -> Option<Duration> {
    let mut ns = 0;
    for task in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").starts_with("gpunet-proxy") {
            // Time on a core, time in the queue for one, times that it got one.
            ns += read("schedstat").split_whitespace().next()?.parse::<u64>().ok()?;
        }
    }
    Some(Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_uses_time() {
        let begin = of_thread();
        while of_thread() - begin < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert!(of_proxy().is_some_and(|time| time < Duration::from_secs(3600)));
    }
}
