//! Processes beside the test's own: the same program, with its part in the environment.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `GPUNET_TEST_PART` | set: the test is to play this part |
//! | `XDG_RUNTIME_DIR` | where listeners of p2p streams are found, a folder of the test's own |

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use gpunet_support::testing::{Folder, Guarded, run};

const PART: &str = "GPUNET_TEST_PART";
/// What a child that stands ready prints.
const READY: &str = "the child is ready";

/// How long such a process may run: as long as `cargo xtask release` gives all tests of a step. What it runs
/// has shorter deadlines of its own.
const LIMIT: Duration = Duration::from_secs(2 * 3600);

/// The part that this process is to play in its test, if any.
#[must_use]
pub fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// Reports to the process that started this one.
pub fn is_ready() {
    println!("\n{READY}");
}

/// This program once more, for one test of it.
fn program(test: &str, part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(PART, part);
    command
}

/// Plays a part in a process of its own, whose listeners nobody else finds, and waits for its end.
///
/// # Panics
/// When it fails.
pub fn alone(test: &str, part: &str, short: &str) {
    alone_with(test, part, short, &[]);
}

/// The same, with variables of its environment set.
///
/// # Panics
/// When it fails.
pub fn alone_with(test: &str, part: &str, short: &str, variables: &[(&str, String)]) {
    let folder = Folder::new(short);
    let mut command = program(test, part);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.env("XDG_RUNTIME_DIR", folder.path(""));
    let output = run(&mut command, LIMIT);
    // Through the test's own output, so that nobody takes it for a program's.
    print!("{}", output.stdout);
    eprint!("{}", output.stderr);
    assert!(output.status.success(), "{test} as {part}: {}", output.status);
}

/// The folder in which listeners of p2p streams are found, in a process that is [`alone`].
///
/// # Panics
/// When it is not.
#[must_use]
pub fn registry() -> PathBuf {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").expect("a folder of its own");
    PathBuf::from(folder).join("gpunet")
}

/// How many listeners can be found there, or could once.
///
/// # Panics
/// When the folder cannot be read.
#[must_use]
pub fn registered() -> usize {
    std::fs::read_dir(registry()).expect("the registry").count()
}

/// A process that is killed with this, if not before.
pub struct Child {
    child: Guarded,
    printed: BufReader<ChildStdout>,
}

impl Child {
    /// Starts one that plays a part in the test.
    ///
    /// # Panics
    /// When the system does not let us.
    #[must_use]
    pub fn start(test: &str, part: &str) -> Self {
        let mut child = Guarded::spawn(program(test, part).stdout(Stdio::piped()));
        let printed = BufReader::new(child.0.stdout.take().expect("its output"));
        Self { child, printed }
    }

    /// Waits until it stands ready.
    ///
    /// # Panics
    /// When it ends before.
    pub fn ready(&mut self) {
        let mut line = String::new();
        while line.trim_end() != READY {
            line.clear();
            let read = self.printed.read_line(&mut line).expect("its output");
            assert_ne!(read, 0, "the child ended early");
        }
    }

    /// Kills it (SIGKILL); it is gone when this returns.
    ///
    /// # Panics
    /// When it has ended by itself.
    pub fn kill(mut self) {
        let early = self.child.0.try_wait().expect("it is ours");
        assert!(early.is_none(), "the child ended by itself: {early:?}");
        drop(self);
    }

    /// Kills it after so long, whether or not it has ended.
    pub fn kill_after(self, time: Duration) {
        std::thread::sleep(time);
        drop(self);
    }
}
