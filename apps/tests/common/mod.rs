//! Running the built programs: every wait has a deadline, and no child outlives its test.
#![allow(dead_code, reason = "each suite uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// For a program that should be done in moments, on a machine that has other work too.
pub(crate) const SOON: Duration = Duration::from_secs(60);

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

/// Notes that a test could not run; the test then returns.
pub(crate) fn skip(test: &str, reason: &str) {
    println!("skipped {test}: {reason}");
    if let Some(path) = std::env::var_os("GPUNET_SKIP_LOG") {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
        writeln!(log.unwrap(), "{test}: {reason}").unwrap();
    }
}

/// A child that is killed, if it still runs, when the test is done with it.
pub(crate) struct Guarded(pub(crate) Child);

impl Guarded {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// How it ended, if it did so in time.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status);
            }
            if Instant::now() > deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program printed, and how it ended.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Finished {
    let mut child = Guarded::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let stdout = collect(child.0.stdout.take().unwrap());
    let stderr = collect(child.0.stderr.take().unwrap());
    let Some(status) = child.wait(limit) else {
        drop(child);
        panic!("{command:?} did not end within {limit:?}: {}", stderr.join().unwrap());
    };
    Finished { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
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
        let line = line.recv_timeout(SOON).expect("no line from the server");
        let address = line.trim().strip_prefix("listening on ");
        let address = address.unwrap_or_else(|| panic!("odd line: {line:?}")).to_owned();
        Self { child, address }
    }

    /// The port it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.address.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// Ends it as a user would: within three seconds and with status 0.
    pub(crate) fn end(mut self, signal: Signal) {
        self.child.signal(signal);
        let status = self.child.wait(Duration::from_secs(3)).expect("the server did not end");
        assert!(status.success(), "the server ended with {status}");
    }
}

/// A new folder that is removed with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gpunet-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// A UNIX address in it.
    pub(crate) fn socket(&self) -> String {
        format!("unix:{}", self.0.join("socket").display())
    }

    pub(crate) fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.0).unwrap().next().is_none()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
