//! Follows pages of docs/ word for word, in an empty folder beside this checkout; and makes a project of the
//! template there.

mod common;

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpunet_support::testing::{Step, hang_limit, steps};
use rustix::process::{Pid, Signal, kill_process_group};

/// For everything together, with nothing built before: two cores take two minutes if they are idle.
const LIMIT: Duration = Duration::from_secs(120);

/// The reader's folder, the output of commands beside it, and how long it all may take.
struct Reader {
    beside: PathBuf,
    folder: PathBuf,
    deadline: Instant,
}

impl Reader {
    /// An empty folder, beside which this project lies as `gpunet`. It is at the same place in
    /// every run, so that cargo need not compile everything again.
    fn new(name: &str) -> Self {
        let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
        let folder = beside.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        fs::create_dir_all(&folder).unwrap();
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let link = beside.join("gpunet");
        if fs::read_link(&link).ok().as_deref() != Some(checkout) {
            // Neither may be there. Cargo would take what it built of another checkout for ours.
            let _ = fs::remove_file(&link);
            let _ = fs::remove_dir_all(beside.join("target"));
            std::os::unix::fs::symlink(checkout, link).unwrap();
        }
        Self { beside, folder, deadline: Instant::now() + hang_limit(LIMIT) }
    }

    /// Runs commands in the folder: how they ended, what they printed, what they complained of.
    fn run(&self, commands: &str, offline: bool) -> (ExitStatus, String, String) {
        let printed = [self.folder.join("stdout"), self.folder.join("stderr")];
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", commands]).current_dir(&self.folder).process_group(0);
        shell.env("CARGO_TARGET_DIR", self.beside.join("target")).env("CARGO_TERM_COLOR", "never");
        if offline {
            shell.env("CARGO_NET_OFFLINE", "true");
        }
        // What the cargo that runs this test has set for it alone.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let of_this_test = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
            if of_this_test.iter().any(|prefix| name.starts_with(prefix)) {
                shell.env_remove(name.as_ref());
            }
        }
        shell.stdin(Stdio::null()).stdout(File::create(&printed[0]).unwrap());
        shell.stderr(File::create(&printed[1]).unwrap());
        let mut child = shell.spawn().unwrap();
        let status = self.wait(&mut child, commands);
        let [stdout, stderr] = printed.map(|path| fs::read_to_string(path).unwrap());
        (status, stdout, stderr)
    }

    /// Waits for the shell; after the deadline it ends with everything that it has started.
    fn wait(&self, child: &mut Child, commands: &str) -> ExitStatus {
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() > self.deadline {
                let group = Pid::from_raw(child.id().cast_signed()).unwrap();
                // It may just have ended.
                let _ = kill_process_group(group, Signal::KILL);
                let _ = child.wait();
                panic!("not done in time ({LIMIT:?} is usual): {commands}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn follow(&self, step: &Step) {
        match step {
            Step::Write(name, content) => {
                fs::write(self.folder.join(name), content)
                    .unwrap_or_else(|error| panic!("cannot write {name}: {error}"));
            }
            Step::Run(commands, output) => {
                let stdout = self.succeed(commands);
                if let Some(expected) = output {
                    assert_eq!(stdout, *expected, "{commands}printed something else");
                }
            }
        }
    }

    /// Runs commands that must succeed: what they printed.
    fn succeed(&self, commands: &str) -> String {
        // What is needed is there, as a rule: it was fetched to build this test.
        let mut ended = self.run(commands, true);
        if !ended.0.success() && ended.2.contains("offline") {
            ended = self.run(commands, false);
        }
        let (status, stdout, stderr) = ended;
        assert!(status.success(), "{commands}ended with {status}\n{stdout}{stderr}");
        stdout
    }

    /// Writes the template's files below a folder of it, with values in place of placeholders.
    fn generate(&self, template: &Path, below: &Path, values: &[(&str, &str)]) {
        fs::create_dir_all(self.folder.join(below)).unwrap();
        for entry in fs::read_dir(template.join(below)).unwrap() {
            let path = below.join(entry.unwrap().file_name());
            if template.join(&path).is_dir() {
                self.generate(template, &path, values);
            } else if path != Path::new("cargo-generate.toml") {
                let mut text = fs::read_to_string(template.join(&path)).unwrap();
                for (placeholder, value) in values {
                    text = text.replace(&format!("{{{{{placeholder}}}}}"), value);
                }
                assert!(!text.contains("{{"), "{path:?} has another placeholder: {text}");
                fs::write(self.folder.join(path), text).unwrap();
            }
        }
    }
}

/// All build into one folder, and cargo lets one of them at it at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Follows a page that has its reader write five files and run two commands, one of which prints.
fn follow(test: &str, page: &str, folder: &str) {
    if std::env::var_os("GPUNET_BIN_DIR").is_some() {
        return common::skip(test, "needs cargo and the source tree");
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let steps = steps(&fs::read_to_string(page).unwrap());
    let count = |which: fn(&Step) -> bool| steps.iter().filter(|step| which(step)).count();
    // A page that this test no longer understands would be followed in no time.
    assert_eq!(count(|step| matches!(step, Step::Write(..))), 5);
    assert_eq!(count(|step| matches!(step, Step::Run(..))), 2);
    assert_eq!(count(|step| matches!(step, Step::Run(_, Some(_)))), 1);
    let reader = Reader::new(folder);
    for step in &steps {
        reader.follow(step);
    }
}

#[test]
fn the_page_on_the_first_kernel_can_be_followed() {
    follow(
        "the_page_on_the_first_kernel_can_be_followed",
        "tutorial/your-first-kernel.md",
        "shout",
    );
}

#[test]
fn the_page_on_servers_can_be_followed() {
    follow("the_page_on_servers_can_be_followed", "tutorial/servers.md", "lines");
}

#[test]
fn the_page_on_streams_can_be_followed() {
    follow("the_page_on_streams_can_be_followed", "tutorial/streams.md", "pipeline");
}

#[test]
fn a_project_of_the_template_builds_and_serves() {
    if std::env::var_os("GPUNET_BIN_DIR").is_some() {
        return common::skip(
            "a_project_of_the_template_builds_and_serves",
            "needs cargo and the source tree",
        );
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("template");
    let reader = Reader::new("my-echo");
    // As cargo-generate does, with the default of its own question.
    let values = [("project-name", "my-echo"), ("crate_name", "my_echo"), ("gpunet", "../gpunet")];
    reader.generate(&template, Path::new(""), &values);
    let printed = reader.succeed("cargo test --test echo\n");
    assert!(printed.contains("clients_get_back_what_they_send ... ok"), "{printed}");
    // Its standard input has ended, and with it the server.
    let printed = reader.succeed("cargo run --quiet -- emulated 127.0.0.1:0\n");
    assert!(printed.starts_with("on the emulated GPU, listening at 127.0.0.1:"), "{printed}");
    assert!(printed.ends_with("\n0 requests\n"), "{printed}");
}
