//! Running the built programs: every wait has a deadline, and no child outlives its test.
#![allow(dead_code, unused_imports, reason = "each suite uses a part of it")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

pub(crate) use gpunet_support::testing::{Finished, Folder, Guarded, hang_limit, run, skip};
use rustix::process::Signal;

/// The limit of a program that ends in moments.
pub(crate) const SOON: Duration = Duration::from_secs(6);

/// A built program, or the one of that name in the folder GPUNET_BIN_DIR.
pub(crate) fn program(name: &str) -> PathBuf {
    let built = match name {
        "echo" => env!("CARGO_BIN_EXE_echo"),
        "first" => env!("CARGO_BIN_EXE_first"),
        "kv" => env!("CARGO_BIN_EXE_kv"),
        "pingpong" => env!("CARGO_BIN_EXE_pingpong"),
        "rstream" => env!("CARGO_BIN_EXE_rstream"),
        _ => panic!("no program {name}"),
    };
    std::env::var_os("GPUNET_BIN_DIR")
        .map_or_else(|| built.into(), |folder| Path::new(&folder).join(name))
}

/// The GPU to test on: GPUNET_GPU, or whichever there is.
pub(crate) fn gpu() -> String {
    std::env::var("GPUNET_GPU").unwrap_or_else(|_| "auto".to_owned())
}

/// The program `echo` with arguments.
pub(crate) fn echo(arguments: &[&str]) -> Command {
    let mut command = Command::new(program("echo"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// An `echo server` that runs.
pub(crate) struct Server {
    pub(crate) child: Guarded,
    /// As it printed it: `127.0.0.1:1234`, `[::1]:1234` or `unix:/path`.
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(on: &str, listen: &str) -> Self {
        Self::start_with(on, listen, &[])
    }

    pub(crate) fn start_with(on: &str, listen: &str, more: &[&str]) -> Self {
        let mut command = echo(&["server", "--on", on, "--listen", listen]);
        command.args(more);
        if on == "gpu" {
            command.args(["--gpu", &gpu()]);
        }
        let mut child = Guarded::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let stdout = child.0.stdout.take().unwrap();
        let (to, line) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(stdout).read_line(&mut line);
            let _ = to.send(line);
        });
        let line = line.recv_timeout(hang_limit(SOON)).expect("no line from the server");
        let address = line.trim().strip_prefix("listening on ");
        let address = address.unwrap_or_else(|| panic!("odd line: {line:?}")).to_owned();
        Self { child, address }
    }

    /// The port it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.address.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// Ends it as a user would: soon, and with status 0. It would linger for 30 s, or kill its kernel after 5.
    pub(crate) fn end(mut self, signal: Signal) {
        self.child.signal(signal);
        let status = self.child.wait(SOON / 4).expect("the server did not end");
        assert!(status.success(), "the server ended with {status}");
    }
}

/// The address of a UNIX socket in a folder.
pub(crate) fn unix(folder: &Folder) -> String {
    folder.address("socket").to_string()
}
