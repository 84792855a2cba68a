//! A round: kernels and peers as the plan has them, from the first connection to the last, then
//! checked. Everything that a round opens is closed when it is over.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use gpunet_device::{Errno, Handle, SocketAddr};
use gpunet_e2e_kernels::soak::{Call, QUIT, Terms};
use gpunet_host::{Net, WaitError};
use gpunet_sockets::{By, Listener, Stream};
use gpunet_support::testing::hang_limit;

use crate::check::{Case, EndReport, Fault};
use crate::child::Child;
use crate::end::{self, Ended, Report};
use crate::kernels::{Kernels, Results};
use crate::plan::{Fate, Pairing, Plan, Transport, Upset};
use crate::tally::Tally;

/// How long a round's kernels may run, and how long after they were stopped.
fn round_limit() -> Duration {
    hang_limit(Duration::from_secs(4))
}

fn stop_limit() -> Duration {
    hang_limit(Duration::from_secs(1))
}

/// How long the dropping of a net may take: it gives kernels and sockets 5 s each.
fn drop_limit() -> Duration {
    Duration::from_secs(10) + hang_limit(Duration::from_millis(200))
}

/// A round on its way.
pub(crate) struct Round<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) tally: &'a Tally,
    /// Where UNIX listeners are made.
    pub(crate) folder: &'a std::path::Path,
}

/// What the two ends came to, by index.
#[derive(Default)]
struct Ends {
    kernel_called: Vec<Option<EndReport>>,
    kernel_answered: Vec<Option<EndReport>>,
    program: Vec<Option<EndReport>>,
}

impl Round<'_> {
    /// Carries it out. The net is none afterwards if the plan drops it.
    ///
    /// # Errors
    /// What the soak cannot go on after; what is wrong with gpunet goes into the tally.
    pub(crate) fn run(&self, net: &mut Option<Net>) -> Result<()> {
        let ends = match self.plan.pairing {
            Pairing::ProgramCalls => self.program_calls(net),
            Pairing::KernelsCall => self.kernels_call(net),
            Pairing::Kernels => self.kernels_alone(net),
        };
        let ends = ends.with_context(|| self.plan.describe())?;
        self.check(&ends);
        Ok(())
    }

    fn step(&self, what: &str) {
        self.tally.step(format!("{}: {what}", self.plan.describe()));
    }

    fn hung(&self, what: &str) {
        self.tally.fault(Fault::Hung(format!("{}: {what}", self.plan.describe())));
    }

    fn failed(&self, what: &str) {
        self.tally.fault(Fault::Failed(format!("{}: {what}", self.plan.describe())));
    }

    /// An address to listen at.
    fn address(&self, name: &str) -> Result<SocketAddr> {
        Ok(match self.plan.transport {
            Transport::V4 => loopback(Ipv4Addr::LOCALHOST),
            Transport::V6 => loopback(Ipv6Addr::LOCALHOST),
            Transport::Unix => {
                let path = self.folder.join(name);
                let address = SocketAddr::path(&path).context("a path for a socket")?;
                remove(&address);
                address
            }
        })
    }

    fn listen(&self, net: &Net) -> Result<(Handle, SocketAddr)> {
        net.listen(self.address("kernel")?).context("listening")
    }

    fn program_calls(&self, net: &mut Option<Net>) -> Result<Ends> {
        let plan = self.plan;
        self.step("starting");
        let on = net.as_ref().context("a net")?;
        let (listener, at) = self.listen(on)?;
        let connections = plan.exchanges.len();
        let kernels = Kernels::answer(on, &plan.answering, listener, connections, plan.stall)?;
        self.tally.count(|counts| counts.launches += 1);
        let reports = Mutex::new(vec![None; connections]);
        let next = AtomicUsize::new(0);
        self.step("connections");
        std::thread::scope(|scope| -> Result<()> {
            let mut workers = Vec::new();
            for _ in 0..plan.at_once.min(connections) {
                workers.push(scope.spawn(|| -> Result<()> {
                    while let Some(exchange) =
                        plan.exchanges.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let report = self.call_as_program(exchange, &at)?;
                        set(&reports, exchange.terms.index, report);
                    }
                    Ok(())
                }));
            }
            match plan.upset {
                None => {
                    join(workers)?;
                    self.step("asking kernels to quit");
                    self.quit(&at, plan.answering.groups)?;
                }
                Some(upset) => {
                    self.upset(upset, &[&kernels], net);
                    self.end(&kernels, net)?;
                    // Who has connected and was not accepted is notified.
                    take_back(net, listener)?;
                    join(workers)?;
                }
            }
            Ok(())
        })?;
        self.end(&kernels, net)?;
        if plan.upset.is_none() {
            take_back(net, listener)?;
        }
        remove(&at);
        let results = kernels.results()?;
        self.check_jobs(&results);
        let reports = reports.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(Ends {
            kernel_answered: reports_of(&results.answered),
            program: reports
                .iter()
                .map(|report| report.as_ref().map(EndReport::of_program))
                .collect(),
            ..Ends::default()
        })
    }

    /// Calls a kernel; none where a process of its own did and was killed.
    fn call_as_program(
        &self,
        exchange: &crate::plan::Exchange,
        at: &SocketAddr,
    ) -> Result<Option<Report>> {
        if let Fate::Killed(after) = exchange.fate {
            let child = Child::caller(at, &exchange.terms)?;
            std::thread::sleep(after);
            child.kill()?;
            self.tally.count(|counts| counts.killed += 1);
            return Ok(None);
        }
        Ok(Some(match end::connect(at) {
            Ok(stream) => end::call(stream, &exchange.terms, exchange.manner()),
            Err(error) => Report::unmade(&error),
        }))
    }

    /// Asks so many groups to quit: the listener's queue is in order, so all
    /// connections before these are taken first.
    fn quit(&self, at: &SocketAddr, groups: u64) -> Result<()> {
        let terms = Terms {
            index: u64::MAX,
            seed: 0,
            turns: 0,
            most_up: 0,
            most_down: 0,
            most_tail: 0,
            ending: QUIT,
            timeout_ns: 1,
        };
        for _ in 0..groups {
            let stream = end::connect(at).context("asking a group to quit")?;
            end::call(stream, &terms, end::Manner::default());
        }
        Ok(())
    }

    fn kernels_call(&self, net: &mut Option<Net>) -> Result<Ends> {
        let plan = self.plan;
        self.step("starting");
        let acceptor = Listener::bind(&self.address("program")?, By::Tcp).context("listening")?;
        let at = acceptor.address().context("a listener's address")?;
        let connections = plan.exchanges.len();
        let mut children = Vec::new();
        let mut calls = Vec::new();
        for exchange in &plan.exchanges {
            let mut to = at;
            if let Fate::Killed(after) = exchange.fate {
                let name = format!("child-{}", exchange.terms.index);
                let (child, child_at) = Child::answerer(&self.address(&name)?)?;
                to = child_at;
                children.push((after, child));
            }
            calls.push(Call {
                to,
                terms: exchange.terms,
                ring: exchange.ring,
                leaves: u64::from(exchange.fate == Fate::Left),
            });
        }
        children.sort_by_key(|(after, _)| *after);
        let reports = Mutex::new(vec![None; connections]);
        let over = AtomicBool::new(false);
        self.step("connections");
        let kernels = std::thread::scope(|scope| -> Result<Kernels> {
            let (over, reports, acceptor) = (&over, &reports, &acceptor);
            let server = scope.spawn(move || -> Result<()> {
                loop {
                    // Asked before the queue is looked at: what was in it then is still served.
                    let last = over.load(Ordering::Acquire);
                    match acceptor.accept(&end::limits()).context("accepting")? {
                        Some(stream) => {
                            scope.spawn(move || self.answer_as_program(stream, reports));
                        }
                        None if last => return Ok(()),
                        None => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            });
            let started = || -> Result<Kernels> {
                let on = net.as_ref().context("a net")?;
                let kernels = Kernels::call(on, &plan.calling, &calls, connections)?;
                self.tally.count(|counts| counts.launches += 1);
                let begin = Instant::now();
                for (after, child) in children {
                    std::thread::sleep(after.saturating_sub(begin.elapsed()));
                    child.kill()?;
                    self.tally.count(|counts| counts.killed += 1);
                }
                if let Some(upset) = plan.upset {
                    self.upset(upset, &[&kernels], net);
                }
                self.step("waiting for the kernels");
                self.end(&kernels, net)?;
                Ok(kernels)
            };
            let kernels = started();
            // Whatever became of them, the server must end.
            over.store(true, Ordering::Release);
            self.step("waiting for peers");
            join(vec![server])?;
            kernels
        })?;
        for exchange in &plan.exchanges {
            remove(&self.address(&format!("child-{}", exchange.terms.index))?);
        }
        let results = kernels.results()?;
        self.check_jobs(&results);
        let reports = reports.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(Ends {
            kernel_called: reports_of(&results.called),
            program: reports
                .iter()
                .map(|report| report.as_ref().map(EndReport::of_program))
                .collect(),
            ..Ends::default()
        })
    }

    /// Answers a kernel's call.
    fn answer_as_program(&self, stream: Stream, reports: &Mutex<Vec<Option<Report>>>) {
        match end::handshake(&stream) {
            Ok(terms) => match self.plan.exchanges.get(terms.index as usize) {
                Some(exchange) if exchange.terms.to_words() == terms.to_words() => {
                    let report = end::answer(stream, &terms, exchange.manner());
                    set(reports, terms.index, Some(report));
                }
                _ => self.failed("a kernel sent terms that nobody gave it"),
            },
            Err(Ended::TimedOut) => self.hung("a kernel connected and sent nothing"),
            Err(Ended::Wrong) => self.failed("a kernel sent what are no terms"),
            // It was stopped before it had sent them; in any other round the caller's own
            // outcome says what happened.
            Err(_) => {}
        }
    }

    fn kernels_alone(&self, net: &mut Option<Net>) -> Result<Ends> {
        let plan = self.plan;
        self.step("starting");
        let on = net.as_ref().context("a net")?;
        let (listener, at) = self.listen(on)?;
        let connections = plan.exchanges.len();
        let answering = Kernels::answer(on, &plan.answering, listener, connections, plan.stall)?;
        let call = |exchange: &crate::plan::Exchange| Call {
            to: at,
            terms: exchange.terms,
            ring: exchange.ring,
            leaves: 0,
        };
        let calls: Vec<_> = plan.exchanges.iter().map(call).collect();
        let calling = Kernels::call(on, &plan.calling, &calls, connections)?;
        self.tally.count(|counts| counts.launches += 2);
        if let Some(upset) = plan.upset {
            self.upset(upset, &[&calling, &answering], net);
        }
        self.step("waiting for the calling kernels");
        self.end(&calling, net)?;
        if plan.upset.is_none() {
            self.step("asking kernels to quit");
            self.quit(&at, plan.answering.groups)?;
        }
        self.step("waiting for the answering kernels");
        self.end(&answering, net)?;
        take_back(net, listener)?;
        remove(&at);
        let (called, answered) = (calling.results()?, answering.results()?);
        self.check_jobs(&called);
        self.check_jobs(&answered);
        Ok(Ends {
            kernel_called: reports_of(&called.called),
            kernel_answered: reports_of(&answered.answered),
            ..Ends::default()
        })
    }

    /// Does what the plan has in store for the round.
    fn upset(&self, upset: Upset, kernels: &[&Kernels], net: &mut Option<Net>) {
        match upset {
            Upset::Abort(after) => {
                std::thread::sleep(after);
                self.step("aborting");
                for kernels in kernels {
                    kernels.abort();
                }
            }
            Upset::DropNet(after) => {
                std::thread::sleep(after);
                self.step("dropping the net");
                let begin = Instant::now();
                drop(net.take());
                let took = begin.elapsed();
                if took > drop_limit() {
                    self.hung(&format!("dropping the net took {took:?}"));
                }
            }
        }
    }

    /// Waits for the end of a launch; one that does not end in time hung.
    fn end(&self, kernels: &Kernels, net: &Option<Net>) -> Result<()> {
        let time = if self.plan.upset.is_some() { stop_limit() } else { round_limit() };
        match kernels.wait_timeout(time) {
            Ok(()) => return Ok(()),
            Err(WaitError::StillRunning { .. }) => {}
            Err(error) => bail!("a kernel failed: {error}"),
        }
        self.hung(&format!("a launch has not ended within {time:?}"));
        // For whoever looks into it: what the proxy knows of each socket.
        for socket in net.iter().flat_map(|net| net.dump().unwrap_or_default()) {
            eprintln!("{socket:?}");
        }
        kernels.abort();
        match kernels.wait_timeout(stop_limit()) {
            Err(WaitError::StillRunning { .. }) => {
                bail!("a launch has not ended {:?} after it was stopped", stop_limit())
            }
            Err(error) => bail!("a kernel failed: {error}"),
            Ok(()) => Ok(()),
        }
    }

    /// Groups end as they must, and no connection broke that should not have.
    fn check_jobs(&self, results: &Results) {
        let plan = self.plan;
        let strays: u64 = results.done.iter().map(|done| done.strays).sum();
        // Who is killed early has sent nothing yet, and an early reset destroys what was sent.
        let may_break = |fate| matches!(fate, Fate::Killed(_) | Fate::Broken(..));
        let allowed =
            plan.exchanges.iter().filter(|exchange| may_break(exchange.fate)).count() as u64;
        if plan.upset.is_none() && strays > allowed {
            self.failed(&format!("{strays} connections broke before their terms had come"));
        }
        for done in &results.done {
            let canceled = done.result == Errno::ECANCELED.negative() && plan.upset.is_some();
            if done.is_over == 0 {
                self.failed("a group ended without a report");
            } else if done.result != 0 && !canceled {
                self.failed(&format!("a group ended with {}", done.result));
            }
        }
    }

    fn check(&self, ends: &Ends) {
        let plan = self.plan;
        let report = |list: &[Option<EndReport>], index: usize| list.get(index).cloned().flatten();
        for (index, exchange) in plan.exchanges.iter().enumerate() {
            let (caller, answerer) = match plan.pairing {
                Pairing::ProgramCalls => {
                    (report(&ends.program, index), report(&ends.kernel_answered, index))
                }
                Pairing::KernelsCall => {
                    (report(&ends.kernel_called, index), report(&ends.program, index))
                }
                Pairing::Kernels => {
                    (report(&ends.kernel_called, index), report(&ends.kernel_answered, index))
                }
            };
            let received =
                |report: &Option<EndReport>| report.as_ref().map_or(0, EndReport::received);
            let bytes = received(&caller) + received(&answerer);
            self.tally.count(|counts| counts.bytes += bytes);
            let name = format!("{}, connection {index}, {:?}", plan.describe(), exchange.fate);
            let case = Case { exchange, upset: plan.upset, name, caller, answerer };
            for fault in case.check() {
                self.tally.fault(fault);
            }
            let pairing = match plan.pairing {
                Pairing::ProgramCalls => "CPU to GPU",
                Pairing::KernelsCall => "GPU to CPU",
                Pairing::Kernels => "GPU to GPU",
            };
            self.tally.connection(pairing, exchange.ending(plan.upset));
        }
        self.tally.count(|counts| counts.rounds += 1);
    }
}

/// A port there that the system chooses.
pub(crate) fn loopback(ip: impl Into<IpAddr>) -> SocketAddr {
    std::net::SocketAddr::new(ip.into(), 0).into()
}

/// Removes the path that a listener leaves behind: a kernel's, or that of a process which was killed.
fn remove(at: &SocketAddr) {
    if let Some(path) = at.to_path() {
        // Not there, or in a folder that is removed in the end.
        let _ = std::fs::remove_file(path);
    }
}

fn reports_of(outcomes: &[gpunet_e2e_kernels::soak::Outcome]) -> Vec<Option<EndReport>> {
    outcomes.iter().map(EndReport::of_kernel).collect()
}

fn set(reports: &Mutex<Vec<Option<Report>>>, index: u64, report: Option<Report>) {
    let mut reports = reports.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(slot) = reports.get_mut(index as usize) {
        *slot = report;
    }
}

fn join(workers: Vec<std::thread::ScopedJoinHandle<'_, Result<()>>>) -> Result<()> {
    for worker in workers {
        worker.join().map_err(|_| anyhow::anyhow!("a peer's thread panicked"))??;
    }
    Ok(())
}

/// Takes a listener back from the net, if that is still there, and closes it.
fn take_back(net: &Option<Net>, listener: Handle) -> Result<()> {
    if let Some(net) = net {
        net.take_back(listener).context("taking the listener back")?;
    }
    Ok(())
}
