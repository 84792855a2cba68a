//! The clients' process, as the suite drives it: requests with a deadline each.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::super::Latency;
use super::client;

/// What a request may take beside what it asks for.
const SPARE: Duration = Duration::from_secs(30);
/// What one connection may take, of very many.
const CONNECTION: Duration = Duration::from_millis(10);

/// Connections of the clients' process that were opened together.
#[derive(Clone, Copy)]
pub(super) struct Group(u64);

/// A batch of round trips.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub(super) bytes: usize,
    pub(super) rounds: usize,
    /// Round trips under way at once.
    pub(super) flight: usize,
    /// None begins after that.
    pub(super) limit: Duration,
}

/// The process; it ends with this.
pub(super) struct Clients {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<String>,
    groups: u64,
}

impl Clients {
    /// Starts it; with `busy` it polls without sleeping.
    pub(super) fn start(busy: bool) -> Result<Self> {
        let mut command = this_program()?;
        if busy {
            command.env(client::BUSY, "1");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the clients' process")?;
        let requests = child.stdin.take();
        let output = child.stdout.take().context("the clients' output")?;
        let (to, answers) = mpsc::channel();
        // It ends with the process, whose output it reads.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, requests, answers, groups: 0 })
    }

    /// Begins to open connections to a port of this machine, which [`Self::opened`] waits for.
    pub(super) fn open(&mut self, port: u16, count: usize, receive_buffer: usize) -> Result<Group> {
        self.groups += 1;
        self.request(&format!("open {} {port} {count} {receive_buffer}", self.groups))?;
        Ok(Group(self.groups))
    }

    /// Waits until so many connections are open.
    pub(super) fn opened(&mut self, count: usize) -> Result<()> {
        self.answer::<0>(CONNECTION * count as u32).map(|_| ())
    }

    /// Sends on each of so many connections.
    pub(super) fn send(&mut self, group: Group, count: usize, bytes: usize) -> Result<()> {
        self.request(&format!("send {} {bytes}", group.0))?;
        self.answer::<0>(CONNECTION * count as u32).map(|_| ())
    }

    /// Round trips, every byte checked.
    pub(super) fn echo(&mut self, group: Group, batch: Batch) -> Result<Latency> {
        let Batch { bytes, rounds, flight, limit } = batch;
        let ms = limit.as_millis();
        self.request(&format!("echo {} {bytes} {rounds} {flight} {ms}", group.0))?;
        self.answer(limit).map(latency)
    }

    /// Round trips on the first connection, each after a pause.
    pub(super) fn wake(
        &mut self,
        group: Group,
        bytes: usize,
        rounds: usize,
        quiet: Duration,
    ) -> Result<Latency> {
        let ms = quiet.as_millis();
        self.request(&format!("wake {} {bytes} {rounds} {ms}", group.0))?;
        self.answer((quiet + CONNECTION) * rounds as u32).map(latency)
    }

    /// Connections with one round trip each; an error unless all of them went well.
    pub(super) fn short(
        &mut self,
        port: u16,
        count: usize,
        threads: usize,
        bytes: usize,
    ) -> Result<()> {
        self.request(&format!("short {port} {count} {threads} {bytes}"))?;
        let [done] = self.answer(CONNECTION * count as u32)?;
        ensure!(done == count as u64, "{done} of {count} connections were served");
        Ok(())
    }

    /// Closes connections.
    pub(super) fn close(&mut self, group: Group) -> Result<()> {
        self.request(&format!("close {}", group.0))?;
        self.answer::<0>(Duration::ZERO).map(|_| ())
    }

    fn request(&mut self, line: &str) -> Result<()> {
        let to = self.requests.as_mut().context("the clients' process has ended")?;
        writeln!(to, "{line}").context("the clients' process")?;
        Ok(())
    }

    /// The numbers of the next answer, within that time and what is to spare.
    fn answer<const N: usize>(&mut self, time: Duration) -> Result<[u64; N]> {
        let line = loop {
            match self.answers.recv_timeout(time + SPARE) {
                // A test program has lines of its own.
                Ok(line) if line.starts_with("ok") || line.starts_with("error") => break line,
                Ok(_) => {}
                Err(_) => {
                    // What comes later would be taken for the answer to the next request.
                    self.end();
                    bail!("the clients' process has ended, or gave no answer in time");
                }
            }
        };
        let Some(numbers) = line.strip_prefix("ok") else {
            bail!("clients: {}", line.trim_start_matches("error "));
        };
        let numbers: Result<Vec<u64>, _> = numbers.split_whitespace().map(str::parse).collect();
        let numbers = numbers.ok().and_then(|numbers| numbers.try_into().ok());
        numbers.with_context(|| format!("the clients' process answered {line:?}"))
    }

    fn end(&mut self) {
        // Its standard input ends, and so does it; or it is in the middle of something.
        self.requests = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.end();
    }
}

fn latency([p50, p99, _]: [u64; 3]) -> Latency {
    Latency { p50: p50 as f64 / 1000.0, p99: p99 as f64 / 1000.0 }
}

/// This program as the clients' process.
#[cfg(not(test))]
fn this_program() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program's own file")?);
    command.arg("scale-client");
    Ok(command)
}

/// The variable that makes a test of this program the clients' process.
#[cfg(test)]
pub(super) const AS_CLIENTS: &str = "GPUNET_BENCH_CLIENTS";

#[cfg(test)]
fn this_program() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program's own file")?);
    command.args(["--exact", "suite::scale::tests::clients_process", "--nocapture"]);
    command.env(AS_CLIENTS, "1");
    Ok(command)
}
