//! The hardware's queues, which the driver hands to streams in turn: 8, or as many as
//! CUDA_DEVICE_MAX_CONNECTIONS said when the driver started, up to 32. A kernel does not begin before
//! the one ahead of it in its queue has ended, and persistent kernels do not end. So as many kernels
//! run as there are queues.
//!
//! The variable is set here where that is sound: the driver has not been started, the program has not
//! set it, and the process has no other thread, which might read the environment meanwhile. Elsewhere
//! the program's environment has to say it, and the error of one kernel too many does.
//!
//! Why it is so: decision 17 of docs/explanation/decisions.md.

use std::sync::OnceLock;

use cudarc::driver::sys::CUresult;

use super::super::ledger::MAX_KERNELS;
use super::driver::{Failed, call};

const VARIABLE: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
/// As many as there are if nothing sets it.
const USUAL: usize = 8;

static COUNT: OnceLock<usize> = OnceLock::new();

/// How many queues there are. Asked first before the driver is started, if this process has not
/// started it: later changes of the environment mean nothing to it.
pub(super) fn count() -> usize {
    *COUNT.get_or_init(|| {
        let set = std::env::var(VARIABLE).ok();
        if set.is_none() && !is_driver_started() && is_only_thread() {
            // SAFETY: no other thread is there to read or write the environment, and none can come
            // up meanwhile, since only this one could start it.
            unsafe { std::env::set_var(VARIABLE, MAX_KERNELS.to_string()) };
            return MAX_KERNELS;
        }
        parse(set.as_deref())
    })
}

/// What the driver makes of the variable.
fn parse(set: Option<&str>) -> usize {
    let number = set.and_then(|number| number.parse().ok());
    number.map_or(USUAL, |number: usize| number.clamp(1, MAX_KERNELS))
}

/// Whether someone in this process has started the driver.
fn is_driver_started() -> bool {
    let mut devices = 0;
    // SAFETY: writes one number.
    let asked = unsafe { call!(cuDeviceGetCount(&mut devices)) };
    !matches!(asked, Err(Failed { code: CUresult::CUDA_ERROR_NOT_INITIALIZED, .. }))
}

/// Whether this thread is the process's only one. Where the system does not say, it is not.
fn is_only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_read_as_the_driver_reads_it() {
        let cases = [(None, 8), (Some("32"), 32), (Some("1"), 1), (Some("0"), 1), (Some("99"), 32)];
        for (set, queues) in cases {
            assert_eq!(parse(set), queues, "{set:?}");
        }
        assert_eq!(parse(Some("many")), USUAL);
    }

    #[test]
    fn a_thread_beside_this_one_is_seen() {
        // The harness has a thread of its own, which waits for this one.
        assert!(!is_only_thread());
    }
}
