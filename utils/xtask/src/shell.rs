//! Runs programs: captured whole, for a report that shows output only where something failed.

use std::env;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::processor;

/// The compiler that cargo uses.
pub(crate) fn rustc() -> PathBuf {
    env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()).into()
}

/// The cargo that runs this program, without what it set for this program alone.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let of_this_program = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
        if of_this_program.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name.as_ref());
        }
    }
    command.env("CARGO_TERM_COLOR", "never").stdin(Stdio::null());
    command
}

/// What a program printed, standard output and error in the order of printing, and how it ended.
pub(crate) struct Finished {
    pub(crate) success: bool,
    /// Whether it was [`bounded`] and has used up its time.
    pub(crate) timed_out: bool,
    pub(crate) printed: String,
}

/// What `timeout` reports of a program that it ended with its first signal.
const TIMED_OUT: i32 = 124;

/// Runs a program to its end. `log` keeps what it prints, to be read while it runs.
pub(crate) fn run_logged(command: &mut Command, log: &Path) -> Result<Finished> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    finish(command.stdout(file.try_clone()?).stderr(file), log)
}

/// The same with standard output in a file of its own; what was `printed` is the rest.
pub(crate) fn run_logged_apart(
    command: &mut Command,
    log: &Path,
    output: &Path,
) -> Result<Finished> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let create = |path: &Path| {
        File::create(path).with_context(|| format!("cannot write {}", path.display()))
    };
    finish(command.stdout(create(output)?).stderr(create(log)?), log)
}

fn finish(command: &mut Command, log: &Path) -> Result<Finished> {
    let child = command
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let begin = Instant::now();
    let status = processor::wait(child)?;
    let printed = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
    let bounded = command.get_program() == TIMEOUT;
    // `timeout` dies as the program does: of the last signal, which it sent to one that ignored the
    // first, or of one that came from elsewhere, and then before the time was over.
    let limit = command.get_args().nth(1).and_then(|limit| limit.to_str()?.parse().ok());
    let late = limit.is_some_and(|limit| begin.elapsed() >= Duration::from_secs(limit));
    let timed_out =
        bounded && (status.code() == Some(TIMED_OUT) || late && status.signal().is_some());
    Ok(Finished { success: status.success(), timed_out, printed })
}

/// Shows what is added to a file, line by line, until it is dropped.
pub(crate) struct Follower {
    ended: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Starts with an empty file.
    pub(crate) fn start(path: &Path) -> Self {
        let path = path.to_owned();
        let (ended, end) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut shown = 0;
            loop {
                let over =
                    end.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout);
                // A file that cannot be read now may be in a second.
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let new = text.get(shown..).unwrap_or_default();
                let whole = new.rfind('\n').map_or(0, |at| at + 1);
                for line in new[..whole].lines() {
                    print!("\n  {line}");
                    let _ = std::io::stdout().flush();
                }
                shown += whole;
                if over {
                    return;
                }
            }
        });
        Self { ended, thread: Some(thread) }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Either it receives this, or it has ended.
        let _ = self.ended.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The program of coreutils that ends others.
const TIMEOUT: &str = "timeout";

/// The same command, ended with all its children after `limit`.
pub(crate) fn bounded(command: &Command, limit: Duration) -> Command {
    let mut bounded = Command::new(TIMEOUT);
    bounded.args(["--kill-after=10", &limit.as_secs().to_string()]);
    bounded.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        bounded.current_dir(folder);
    }
    bounded
}

/// Runs a program for its standard output; its standard error is shown only if it fails.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let printed = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {}` failed\n{}", words.join(" "), printed.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program runs and reports success.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The file that a program's name stands for on PATH, or in the folders that are only on root's.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_distinguished_from_a_failure() {
        let log = env::temp_dir().join(format!("gpunet-shell-{}", std::process::id()));
        let run = |script: &str, limit: u64| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let finished =
                run_logged(&mut bounded(&command, Duration::from_secs(limit)), &log).unwrap();
            (finished.success, finished.timed_out, finished.printed)
        };
        assert_eq!(run("echo a; echo b >&2", 60), (true, false, "a\nb\n".to_owned()));
        assert_eq!(run("exit 3", 60), (false, false, String::new()));
        assert_eq!(run("echo a; sleep 60", 1), (false, true, "a\n".to_owned()));
        let stubborn =
            "trap '' TERM; echo a; i=0; while [ $i -lt 60 ]; do sleep 1; i=$((i+1)); done";
        assert_eq!(run(stubborn, 1), (false, true, "a\n".to_owned()));
        assert_eq!(run("kill -9 $$", 60), (false, false, String::new()));
        std::fs::remove_file(log).unwrap();
    }
}
