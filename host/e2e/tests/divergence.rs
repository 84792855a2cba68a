//! Threads of a group that disagree: the emulated GPU says so, where hardware would hang.

use gpunet_e2e::job::Who;
use gpunet_e2e::{Domain, Job, Script, deadline, is_cuda, net, peer};
use gpunet_host::{KernelError, Task, WaitError};

/// How a script ends in which the threads of a group disagree.
fn end_of(who: Who, how: u64) -> KernelError {
    let net = net();
    let mut script = Script::new();
    script.socket(1, Domain::V4).stream(0, peer::echo_server());
    script.diverge(if how == 5 { 1 } else { 0 }, how).send(0, 10);
    let kernel = Job::new(who, 32).script(&script).start(&net).detach();
    match kernel.launch().wait_timeout(deadline()) {
        Err(WaitError::Kernel(error)) => error,
        other => panic!("the launch must fail: {other:?}"),
    }
}

/// What both sides of a report call, and on which line of the kernel.
fn lines(error: &KernelError, first: &str, second: &str) -> ([String; 2], [u32; 2]) {
    let side = |side: &str| {
        let (_, side) = side.split_once(" is in ")?;
        let (call, line) = side.split_once(" at host/e2e/kernels/src/wrong.rs:")?;
        Some((call.to_owned(), line.parse().ok()?))
    };
    match (side(first), side(second)) {
        (Some(first), Some(second)) => ([first.0, second.0], [first.1, second.1]),
        _ => panic!("it names no lines of the kernel: {error}"),
    }
}

#[test]
fn differing_arguments_are_reported() {
    if is_cuda() {
        return gpunet_e2e::skip(
            "differing_arguments_are_reported",
            "hardware does not compare arguments",
        );
    }
    for (how, call) in [(0, "glisten"), (4, "gsend"), (5, "gconnect"), (6, "gsend")] {
        for who in [Who::Block, Who::Warp] {
            let error = end_of(who, how);
            match &error {
                KernelError::DivergentCall { kernel, block: 0, first, second, .. } => {
                    assert!(kernel.starts_with("script_"), "{kernel}");
                    // Threads 0 and 1 give 0 and 1, or ports and addresses that are as far apart.
                    let (arguments, line) = lines(&error, first, second);
                    assert!(arguments.iter().all(|it| it.starts_with(call)), "{error}");
                    assert_ne!(arguments[0], arguments[1], "{error}");
                    assert_eq!(line[0], line[1], "one call for all: {error}");
                    if call == "gconnect" {
                        assert!(arguments[0].contains(", 127.0.0.1:"), "{error}");
                    }
                }
                other => panic!("{call}: another error: {other}"),
            }
        }
    }
}

#[test]
fn differing_calls_are_reported() {
    if is_cuda() {
        return gpunet_e2e::skip("differing_calls_are_reported", "hardware does not compare calls");
    }
    let error = end_of(Who::Block, 1);
    match &error {
        KernelError::DivergentCall { first, second, .. } => {
            let (calls, line) = lines(&error, first, second);
            assert!(calls.iter().any(|call| call.starts_with("gclose(")), "{error}");
            assert!(calls.iter().any(|call| call.starts_with("gshutdown(")), "{error}");
            assert_ne!(line[0], line[1], "{error}");
        }
        other => panic!("another error: {other}"),
    }
}

#[test]
fn divergent_barriers_are_reported() {
    if is_cuda() {
        return gpunet_e2e::skip(
            "divergent_barriers_are_reported",
            "hardware hangs at divergent barriers",
        );
    }
    for how in [2, 3] {
        let error = end_of(Who::Block, how);
        assert!(
            matches!(
                error,
                KernelError::DivergentBarrier { .. } | KernelError::DivergentCall { .. }
            ),
            "{error}"
        );
    }
}
