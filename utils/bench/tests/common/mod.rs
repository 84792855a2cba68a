//! What the tests of the program share: processes that end in time, and tests that cannot run.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a process may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a command to its end, for so long at most.
pub(crate) fn run(mut command: Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("it starts");
    let (pid, begin) = (child.id(), Instant::now());
    let ended = std::thread::spawn(move || child.wait_with_output());
    while !ended.is_finished() {
        if begin.elapsed() > LIMIT {
            // The thread then sees its end.
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            panic!("process {pid} was not done after {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    ended.join().expect("it waits").expect("its output")
}

/// Says that a test could not run, where such tests are counted.
pub(crate) fn skip(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os("GPUNET_SKIP_LOG") {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let written = log.and_then(|mut log| writeln!(log, "{test}: {reason}"));
        written.expect("the log of skipped tests can be written");
    }
}
