//! Runs every example on the emulated GPU and compares what it prints.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use gpunet_support::testing::run;

/// For a program that should be done in moments, on a machine that has other work too.
const LIMIT: Duration = Duration::from_secs(12);

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
    let finished = run(Command::new(program(name)).arg("emulated"), LIMIT);
    let (status, stderr) = (finished.status, finished.stderr);
    assert!(status.success(), "{name} ended with {status}: {stderr}");
    assert_eq!(finished.stdout, expected, "{stderr}");
}

#[test]
fn the_echo_server_serves_three_clients() {
    prints("echo_server", "hello from client 0\nhello from client 1\nhello from client 2\n");
}

#[test]
fn the_exchange_on_a_stream_prints_its_numbers() {
    // Squared, one more, squared.
    prints("stream_exchange", "[1, 4, 25, 100]\n");
}

#[test]
fn one_block_polls_eight_clients() {
    prints("poller", "8 clients, 64 bytes, one block\n");
}
