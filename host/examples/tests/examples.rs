//! Runs every example on the emulated GPU and compares what it prints.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// For a program that should be done in moments, on a machine that has other work too.
const LIMIT: Duration = Duration::from_secs(120);

/// The example's program: cargo builds it beside the tests, in a folder of its own.
fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join(name);
    assert!(
        program.is_file(),
        "{program:?} is not built: `cargo test -p gpunet-examples` builds it"
    );
    program
}

fn prints(name: &str, expected: &str) {
    let output = |stream: &str| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        folder.join(format!("{name}-{}.{stream}", std::process::id()))
    };
    let (stdout, stderr) = (output("stdout"), output("stderr"));
    let mut child = Command::new(program(name))
        .arg("emulated")
        .stdin(Stdio::null())
        .stdout(File::create(&stdout).unwrap())
        .stderr(File::create(&stderr).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{name} is not done within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let [stdout, stderr] = [stdout, stderr].map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        text
    });
    assert!(status.success(), "{name} ended with {status}: {stderr}");
    assert_eq!(stdout, expected, "{stderr}");
}

#[test]
fn echo_server() {
    prints("echo_server", "hello from client 0\nhello from client 1\nhello from client 2\n");
}

#[test]
fn stream_exchange() {
    // Squared, one more, squared.
    prints("stream_exchange", "[1, 4, 25, 100]\n");
}

#[test]
fn poller() {
    prints("poller", "8 clients, 64 bytes, one block\n");
}
