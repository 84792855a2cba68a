//! Ctrl-C while a kernel waits: a program that ends in order, and one that does not care.
//!
//! The test starts itself again as the program to be interrupted.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpunet_e2e::faults::{self, CALLS, Row, Waiting};
use gpunet_e2e::{Errno, flags, net_builder};
use gpunet_host::Task;
use gpunet_support::testing::share_limits;
use rustix::process::{Pid, Signal, kill_process};

/// Set for the program to be interrupted: what it does then.
const ROLE: &str = "GPUNET_INTERRUPT_ROLE";
/// What it says when its kernel waits, and when all is over.
const WAITS: &str = "the kernel waits";
const OVER: &str = "all is over";

/// The program: a kernel waits in every call there is.
fn program(orderly: bool) {
    let interrupted = Arc::new(AtomicBool::new(false));
    if orderly {
        let flag = Arc::clone(&interrupted);
        ctrlc::set_handler(move || flag.store(true, Ordering::Release))
            .expect("signals can be handled");
    }
    let net = net_builder().timeout(Duration::ZERO).linger(Duration::from_millis(1));
    let (net, flags) = (net.build().expect("a net"), flags());
    let waiting = Waiting::new(Errno::ECANCELED);
    let started = waiting.job(&flags).start(&net);
    faults::begin(&started, &flags, CALLS.len());
    // Past the capture of the test harness, line by line.
    rustix::io::write(std::io::stdout(), format!("{WAITS}\n").as_bytes()).expect("it is read");
    while !interrupted.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
    started.launch().abort();
    started.finish();
    drop(net);
    rustix::io::write(std::io::stdout(), format!("{OVER}\n").as_bytes()).expect("it is read");
    std::process::exit(0);
}

/// Starts the program and waits until its kernel waits.
fn start(role: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let this = std::env::current_exe().expect("this program");
    let mut child = share_limits(&mut Command::new(this))
        .args(["--exact", "an_interrupt_while_a_kernel_waits", "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
    until(&mut lines, WAITS);
    (child, lines)
}

fn until(lines: &mut impl std::io::BufRead, wanted: &str) {
    let found = lines.lines().any(|line| line.is_ok_and(|line| line.trim() == wanted));
    assert!(found, "the program ended before it said {wanted:?}");
}

#[test]
fn an_interrupt_while_a_kernel_waits() {
    if let Ok(role) = std::env::var(ROLE) {
        return program(role == "orderly");
    }
    let name = "interrupt: an_interrupt_while_a_kernel_waits";
    for role in ["orderly", "careless"] {
        faults::measure(name, || {
            let (mut child, mut lines) = start(role);
            let pid = Pid::from_child(&child);
            let begin = Instant::now();
            kill_process(pid, Signal::INT).expect("it runs");
            let mut rows = Vec::new();
            if role == "orderly" {
                until(&mut lines, OVER);
                rows.push(Row {
                    fault: "Ctrl-C, the program aborts its kernel",
                    call: "every call; Launch::wait, drop(net)",
                    result: format!("{:?}, all in order", Errno::ECANCELED),
                    due: Duration::ZERO,
                    elapsed: begin.elapsed(),
                });
            }
            let ended = child.wait().expect("it is our child");
            let ends = if role == "orderly" {
                assert_eq!(ended.code(), Some(0), "{ended:?}");
                "exit code 0"
            } else {
                use std::os::unix::process::ExitStatusExt as _;
                assert_eq!(ended.signal(), Some(Signal::INT.as_raw()), "{ended:?}");
                "killed by SIGINT"
            };
            let elapsed = begin.elapsed();
            faults::note(name, &process_row(role, ends, elapsed));
            rows
        });
    }
}

/// How long the process takes to end is the driver's business, on CUDA.
fn process_row(role: &str, ends: &str, elapsed: Duration) -> Row {
    let fault = if role == "orderly" {
        "Ctrl-C, the program aborts its kernel"
    } else {
        "Ctrl-C, nobody handles it"
    };
    Row { fault, call: "the process", result: ends.to_owned(), due: Duration::ZERO, elapsed }
}
