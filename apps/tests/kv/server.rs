//! Servers that run while a test does: kv, and a redis-server to compare with.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpunet_support::testing::Documented;
use rustix::process::Signal;
use serde_json::{Map, Value};

use crate::common::{Folder, Guarded, SOON, gpu, hang_limit, program};
use crate::resp::{Client, integer, show};

/// A `kv` that runs.
pub(crate) struct Kv {
    child: Guarded,
    /// `127.0.0.1:1234`.
    pub(crate) address: String,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

/// What kv printed at its end, as JSON.
pub(crate) struct Statistics(Map<String, Value>);

impl Statistics {
    pub(crate) fn get(&self, name: &str) -> u64 {
        let value = self.0.get(name).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("no {name} in {:?}", self.0))
    }
}

/// The program with its GPU, its address, and further options.
pub(crate) fn kv(options: &[&str]) -> Command {
    let mut command = Command::new(program("kv"));
    command.args(["--gpu", &gpu(), "--listen", "127.0.0.1:0", "--json"]).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Kv {
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut child = Guarded::spawn(&mut kv(options));
        let mut stdout = child.0.stdout.take().unwrap();
        let mut stderr = BufReader::new(child.0.stderr.take().unwrap());
        let (to, address) = mpsc::channel();
        let stderr = std::thread::spawn(move || {
            let (mut said, mut line) = (String::new(), String::new());
            while stderr.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                if let Some(behind) = line.strip_prefix("kv: serving at ") {
                    let _ = to.send(behind.split(' ').next().unwrap_or("").to_owned());
                }
                said += &std::mem::take(&mut line);
            }
            said
        });
        let stdout = std::thread::spawn(move || {
            let mut printed = String::new();
            let _ = stdout.read_to_string(&mut printed);
            printed
        });
        let address = address.recv_timeout(hang_limit(SOON)).expect("kv serves");
        Self { child, address, stdout, stderr }
    }

    pub(crate) fn client(&self) -> Client {
        Client::tcp(&self.address)
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit_once(':').unwrap().1
    }

    /// Files and sockets that it has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.0.id())).unwrap().count()
    }

    /// Asks it to end.
    pub(crate) fn interrupt(&self) {
        self.child.signal(Signal::INT);
    }

    /// Ends it as a user would: in time, with status 0, having said nothing but where it serves.
    pub(crate) fn end(self) -> Statistics {
        self.interrupt();
        self.ended()
    }

    /// Waits for the end that it was asked for.
    pub(crate) fn ended(mut self) -> Statistics {
        let status = self.child.wait(SOON).expect("kv ends");
        let (printed, said) = (self.stdout.join().unwrap(), self.stderr.join().unwrap());
        assert!(status.success(), "kv ended with {status}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        let values = serde_json::from_str(&printed);
        let statistics = Statistics(values.unwrap_or_else(|e| panic!("{e}: {printed:?}")));
        Documented::of(&["kv"]).check(&Value::Object(statistics.0.clone()));
        assert_eq!(statistics.get("accepted"), statistics.get("closed"), "{printed}");
        assert!(statistics.get("closed") >= statistics.get("closed_failed"), "{printed}");
        assert!(statistics.get("closed") >= statistics.get("closed_idle"), "{printed}");
        statistics
    }
}

/// A line of INFO.
pub(crate) fn info(client: &mut Client, name: &str) -> u64 {
    let answer = client.ask(&["INFO"]);
    let text = String::from_utf8_lossy(&answer).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}: {text}"))
}

/// The number that a command answers with.
pub(crate) fn number_of(client: &mut Client, words: &[&str]) -> i64 {
    let answer = client.ask(words);
    integer(&answer).unwrap_or_else(|| panic!("{words:?}: {}", show(&answer)))
}

/// Waits until a server has processed `others` requests of other clients. What came with one of them has
/// come, too.
pub(crate) fn await_requests(client: &mut Client, others: u64) {
    let mut asked = 0;
    eventually("requests are processed", || {
        asked += 1;
        info(client, "total_commands_processed") >= others + asked
    });
}

/// Tries until it is so, for a while.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + hang_limit(SOON);
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A redis-server that runs.
pub(crate) struct Redis {
    _child: Guarded,
    folder: Folder,
}

impl Redis {
    /// Starts one; none if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let folder = Folder::new("test");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--databases", "1"]);
        command.args(["--appendonly", "no", "--dir"]).arg(folder.root());
        command.arg("--unixsocket").arg(folder.path("socket"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = Guarded(command.spawn().ok()?);
        let this = Self { _child: child, folder };
        eventually("redis-server listens", || this.folder.path("socket").exists());
        Some(this)
    }

    pub(crate) fn client(&self) -> Client {
        Client::unix(&self.folder.path("socket"))
    }
}
