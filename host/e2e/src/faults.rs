//! Faults: how long a call still waits when something has gone wrong, and the table of it.
//!
//! A script sets a flag before a call that is to wait and another one after it ([`Script::waits`],
//! [`Script::returned`]); the host has the fault happen and watches the second. Each row is checked
//! against its bounds, and added to the file that `GPUNET_FAULT_TABLE` names: fault, call, result,
//! when it is due and when it came in microseconds, test, how many times slower than usual the machine was
//! when the test began; with tabs between them.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::POLLIN;
use gpunet_device::{Domain, Errno};
use gpunet_host::{Launch, Task};

use crate::job::{Finished, Job, Started};
use crate::limits::{about, deadline, slowness};
use crate::memory::Flags;
use crate::nets::RING;
use crate::peer;
use crate::script::Script;
use crate::transport::any_port;

/// Flags from here on say that a call has returned.
const RETURNED: usize = Flags::COUNT / 2;

impl Script {
    /// The next op is the script's call that waits for a fault.
    pub fn waits(&mut self, number: usize) -> &mut Self {
        self.set_flag(number)
    }

    /// The last op was that call, and has returned.
    pub fn returned(&mut self, number: usize) -> &mut Self {
        self.set_flag(RETURNED + number)
    }
}

/// A fault, and one call that it ended.
#[derive(Clone, Debug)]
pub struct Row {
    /// What went wrong.
    pub fault: &'static str,
    /// The call.
    pub call: &'static str,
    /// What it came to.
    pub result: String,
    /// When it should return, from the fault on.
    pub due: Duration,
    /// When it did.
    pub elapsed: Duration,
}

impl Row {
    /// A call that fails.
    #[must_use]
    pub fn new(
        fault: &'static str,
        call: &'static str,
        errno: Errno,
        due: Duration,
        elapsed: Duration,
    ) -> Self {
        Self { fault, call, result: format!("{errno:?}"), due, elapsed }
    }

    /// An op of a script, from its own begin on.
    #[must_use]
    pub fn of_op(
        fault: &'static str,
        call: &'static str,
        due: Duration,
        finished: &Finished,
        (script, place): (usize, usize),
    ) -> Self {
        let result = crate::job::in_words(finished.result(script, place));
        Self { fault, call, result, due, elapsed: finished.elapsed(script, place) }
    }

    /// Whether the fault ended the call, and neither something before it nor a time-out that is longer. Half
    /// the time is early enough: a proxy thread is missed from its last heartbeat on, which comes before the
    /// fault.
    #[must_use]
    pub fn is_in_time(&self) -> bool {
        about(self.due).end > self.elapsed && self.elapsed >= self.due / 2
    }

    fn record(&self, test: &str) {
        let Self { fault, call, result, due, elapsed } = self;
        println!("{fault}, {call}: {result} after {elapsed:?}, due after {due:?}");
        let Some(path) = std::env::var_os("GPUNET_FAULT_TABLE") else { return };
        let (due, elapsed) = (due.as_micros(), elapsed.as_micros());
        let slowness = slowness();
        let line = format!("{fault}\t{call}\t{result}\t{due}\t{elapsed}\t{test}\t{slowness}\n");
        let table = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // In one piece: several programs may write to it.
        let written = table.and_then(|mut table| table.write_all(line.as_bytes()));
        written.expect("the table of faults can be written");
    }
}

/// Measures, checks that each call returned in time, and records it.
///
/// # Panics
/// When one did not.
pub fn measure(test: &str, attempt: impl FnOnce() -> Vec<Row>) {
    attempt().iter().for_each(|row| note(test, row));
}

/// Checks that a call returned in time, and records it.
///
/// # Panics
/// When it did not.
pub fn note(test: &str, row: &Row) {
    assert!(row.is_in_time(), "too early or too late: {row:?}");
    row.record(test);
}

/// Waits until the first `count` waits of the scripts have begun, has the fault happen, and waits
/// for their end: how long each took.
///
/// # Panics
/// When the scripts do not come to their waits, or one of them goes wrong.
pub fn times(
    started: &Started<'_>,
    flags: &Arc<Flags>,
    count: usize,
    fault: impl FnOnce(),
) -> Vec<Duration> {
    begin(started, flags, count);
    let watch = watch(started.launch(), flags, count);
    fault();
    watch()
}

/// Waits until the first `count` waits of the scripts have begun.
///
/// # Panics
/// When they do not.
pub fn begin(started: &Started<'_>, flags: &Flags, count: usize) {
    for number in 0..count {
        started.until(flags, number);
    }
    // The flag was set before the call; now it waits.
    std::thread::sleep(Duration::from_millis(30));
}

/// Watches, from now on, how long it takes until the first `count` waits end; to be called when the
/// fault has happened.
///
/// # Panics
/// When one does not end.
pub fn watch(launch: &Launch, flags: &Arc<Flags>, count: usize) -> impl FnOnce() -> Vec<Duration> {
    let (launch, flags) = (launch.clone(), Arc::clone(flags));
    let begin = Instant::now();
    let watcher = std::thread::spawn(move || {
        let mut times = vec![None; count];
        loop {
            // Before the flags: what it set is there when it has ended.
            let over = launch.is_finished() || begin.elapsed() > deadline();
            for (number, time) in times.iter_mut().enumerate() {
                if time.is_none() && flags.get(RETURNED + number) != 0 {
                    *time = Some(begin.elapsed());
                }
            }
            if over || times.iter().all(Option::is_some) {
                return times;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    move || {
        let times = watcher.join().expect("the watcher only looks");
        // One that did not end is reported by the job, with what it came to.
        times.into_iter().map(|time| time.unwrap_or(Duration::MAX)).collect()
    }
}

/// Every call that can wait, each in a script of its own that waits for ever.
pub struct Waiting {
    /// The scripts; number n is [`waits`](Script::waits) and [`returned`](Script::returned) n.
    pub scripts: Vec<Script>,
    _nowhere: peer::Held,
    _unread: peer::Listener,
}

/// The calls of [`Waiting`].
pub const CALLS: [&str; 7] =
    ["grecv", "Stream::peek", "gaccept", "gconnect", "gpoll", "Poller::wait", "gsend"];

impl Waiting {
    /// Scripts whose waits must end so.
    #[must_use]
    pub fn new(errno: Errno) -> Self {
        let server = peer::echo_server();
        let (nowhere_held, nowhere) = peer::black_hole();
        let (unread, narrow) = peer::narrow_listener();
        let mut scripts = vec![Script::new(); CALLS.len()];
        scripts[0].stream(0, server).waits(0).recv(0, 10);
        scripts[1].stream(0, server).waits(1).peek(0, 1, 1);
        scripts[2].listener(0, any_port()).waits(2).accept(0, 1);
        scripts[3].socket(0, Domain::V4).waits(3).connect(0, nowhere);
        scripts[4].stream(0, server).poll_set(0, 0, POLLIN).waits(4).poll(1, -1, 0);
        scripts[5].stream(0, server).poller().poller_add(0, POLLIN, 1).waits(5);
        scripts[5].poller_wait(1, Duration::ZERO);
        // The peer does not read.
        scripts[6].socket(0, Domain::V4).set(0, SocketOption::SystemSendBuffer, 4096);
        scripts[6].connect(0, narrow).waits(6).send_all(0, 64 << 20, u64::from(RING));
        for (number, script) in scripts.iter_mut().enumerate() {
            script.errno(errno).returned(number);
        }
        Self { scripts, _nowhere: nowhere_held, _unread: unread }
    }

    /// The job with all of them.
    #[must_use]
    pub fn job(&self, flags: &Arc<Flags>) -> Job {
        let mut job = Job::blocks(32).flags(flags);
        for script in &self.scripts {
            job = job.script(script);
        }
        job
    }

    /// The rows of the table.
    #[must_use]
    pub fn rows(fault: &'static str, errno: Errno, due: Duration, times: &[Duration]) -> Vec<Row> {
        let row =
            |(call, time): (&&'static str, &Duration)| Row::new(fault, call, errno, due, *time);
        CALLS.iter().zip(times).map(row).collect()
    }
}
