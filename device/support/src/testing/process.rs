//! Programs that are run to their end, within a limit.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{hang_limit, share_limits};

/// A child that is killed, if it still runs, when the test is done with it.
#[derive(Debug)]
pub struct Guarded(pub Child);

impl Guarded {
    /// Starts it, with the limits of this process.
    ///
    /// # Panics
    /// When the system does not let us.
    #[must_use]
    pub fn spawn(command: &mut Command) -> Self {
        Self(share_limits(command).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().cast_signed()).expect("a child has a number");
        kill_process(pid, signal).expect("the child is there");
    }

    /// How it ended, if it did so in time: within the [`hang_limit`] of the time that is usual.
    ///
    /// # Panics
    /// When the system does not say.
    pub fn wait(&mut self, usual: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + hang_limit(usual);
        loop {
            if let Some(status) = self.0.try_wait().expect("it is our child") {
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
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed on standard output.
    pub stdout: String,
    /// What it printed on standard error.
    pub stderr: String,
}

/// Runs a command to its end, with nothing on its standard input.
///
/// # Panics
/// When it does not end within the [`hang_limit`] of the time that is usual.
pub fn run(command: &mut Command, usual: Duration) -> Finished {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Guarded::spawn(command);
    let stdout = collect(child.0.stdout.take().expect("a pipe"));
    let stderr = collect(child.0.stderr.take().expect("a pipe"));
    let text = |thread: JoinHandle<String>| thread.join().expect("reading does not panic");
    let Some(status) = child.wait(usual) else {
        drop(child);
        panic!("{command:?} did not end in time ({usual:?} is usual): {}", text(stderr));
    };
    Finished { status, stdout: text(stdout), stderr: text(stderr) }
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before it broke is worth having.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_outputs_and_the_status_are_kept() {
        let finished = run(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(20));
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(finished.status.code(), Some(3));
    }

    #[test]
    #[should_panic(expected = "did not end")]
    fn a_program_that_does_not_end_is_killed() {
        run(&mut shell("exec sleep 60"), Duration::from_millis(1));
    }
}
