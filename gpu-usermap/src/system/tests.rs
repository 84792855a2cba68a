//! Pages across forks, on the real system.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;

use super::{Errno, Linux, Pages, ProcessId, System};

/// Notes that a test cannot run here, for who counts tests.
fn skip(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os("GPUNET_SKIP_LOG") {
        let log = OpenOptions::new().create(true).append(true).open(path);
        log.and_then(|mut log| writeln!(log, "{test}: {reason}")).unwrap();
    }
}

/// What processes of a test end with.
const FINE: i32 = 0;
const COVERS: i32 = 1;
const UNMAPS: i32 = 2;
const OTHER_PID: i32 = 3;
const LOST: i32 = 4;
const NOT_ALLOWED: i32 = 5;
const BROKEN: i32 = 6;

/// Runs `work` in a child that ends with what it returns. It must not allocate: another thread may
/// have held the allocator's lock at the fork.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child makes calls only that take no lock, and leaves.
    match unsafe { libc::fork() } {
        // SAFETY: ends the child without running anything of the parent's.
        0 => unsafe { libc::_exit(work()) },
        child if child < 0 => BROKEN,
        child => {
            let mut status = 0;
            // SAFETY: the child was just made, and nobody else waits for it.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            if waited == child && libc::WIFEXITED(status) {
                libc::WEXITSTATUS(status)
            } else {
                BROKEN
            }
        }
    }
}

/// As `in_child`, in a process namespace of its own, where the child is number 1.
fn as_first_process(work: impl FnOnce() -> i32) -> i32 {
    // With the rights of a user namespace where there are no others.
    let allowed = [libc::CLONE_NEWPID, libc::CLONE_NEWUSER | libc::CLONE_NEWPID]
        .into_iter()
        // SAFETY: changes namespaces of this process, which is a child of the test.
        .any(|namespaces| unsafe { libc::unshare(namespaces) } == 0);
    if !allowed {
        return NOT_ALLOWED;
    }
    in_child(|| if std::process::id() == 1 { work() } else { OTHER_PID })
}

#[test]
fn a_process_is_current_in_itself_alone() {
    let parent = ProcessId::current();
    let outcome = in_child(|| {
        // Before the child has a count of its own, too.
        let inherited = parent.is_current();
        let child = ProcessId::current();
        let in_its_child = || i32::from(parent.is_current() || child.is_current());
        match inherited || parent.is_current() || !child.is_current() {
            true => BROKEN,
            false => in_child(in_its_child),
        }
    });
    assert_eq!(outcome, FINE);
    assert!(parent.is_current());
}

#[test]
fn a_child_with_its_parents_number_leaves_pages_alone() {
    let system: Arc<dyn System> = Arc::new(Linux);
    let length = system.page_size();
    // SAFETY: a new descriptor, which the test keeps open.
    let file = unsafe { libc::memfd_create(c"pages".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: sets the size of that file.
    assert!(file >= 0 && unsafe { libc::ftruncate(file, length as libc::off_t) } == 0);

    let parent = || {
        let Ok(pages) = Pages::map(Arc::clone(&system), file, length, 0) else { return BROKEN };
        let start = pages.start().as_ptr().cast();
        // SAFETY: asks whether pages are mapped there.
        let is_mapped = || unsafe { libc::msync(start, length, libc::MS_ASYNC) } == 0;
        let mut inherited = Some(pages);
        let in_the_child = as_first_process(|| {
            if inherited.as_ref().map(Pages::cover) != Some(Err(Errno(libc::EPERM))) {
                return COVERS;
            }
            drop(inherited.take());
            if is_mapped() { FINE } else { UNMAPS }
        });
        let Some(pages) = inherited else { return BROKEN };
        match in_the_child {
            FINE if pages.cover().is_err() => LOST,
            FINE => {
                drop(pages);
                if is_mapped() { LOST } else { FINE }
            }
            other => other,
        }
    };
    let outcome = in_child(|| as_first_process(parent));
    // SAFETY: the test's own, closed once.
    unsafe { libc::close(file) };
    if outcome == NOT_ALLOWED {
        skip(
            "system::tests::a_child_with_its_parents_number_leaves_pages_alone",
            "this process may not make process namespaces",
        );
        return;
    }
    assert_eq!(outcome, FINE, "1: covers, 2: unmaps, 3: no number 1, 4: lost, 6: broken");
}
