//! What was to become of a connection, what became of it, and what that says: bytes lost, calls
//! that hung, or nothing.

use std::time::Duration;

use gpunet_device::Errno;
use gpunet_e2e_kernels::soak::{EARLY_END, Outcome, TOO_MANY_BYTES, WRONG_BYTES};

use crate::end::{Break, Ended, Report};
use crate::plan::{Exchange, Fate, Upset, margin, nanoseconds};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Bytes that did not arrive, or not as they were sent.
    Lost {
        /// How many.
        bytes: u64,
        /// Where and how.
        what: String,
    },
    /// A call that did not return when it had to.
    Hung(String),
    /// Something that was not given back.
    Leak(String),
    /// Anything else.
    Failed(String),
}

/// One end of a connection that has ended, whoever was at it.
#[derive(Clone, Debug)]
pub(crate) struct EndReport {
    end: End,
    sent: u64,
    received: u64,
    longest_ns: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Well,
    Broken,
    Wrong,
    Early,
    TooMany,
    TimedOut,
    Canceled,
    Gone(String),
    Failed(String),
}

impl EndReport {
    /// A kernel's end; none for an outcome that was never written.
    pub(crate) fn of_kernel(outcome: &Outcome) -> Option<Self> {
        let end = match outcome.result {
            0 => End::Well,
            WRONG_BYTES => End::Wrong,
            EARLY_END => End::Early,
            TOO_MANY_BYTES => End::TooMany,
            other => match Errno(i32::try_from(-other).unwrap_or(0)) {
                Errno::ETIMEDOUT => End::TimedOut,
                Errno::ECANCELED => End::Canceled,
                errno @ (Errno::ECONNRESET
                | Errno::EPIPE
                | Errno::ECONNREFUSED
                | Errno::ECONNABORTED) => End::Gone(format!("{errno:?}")),
                errno => End::Failed(format!("{errno:?}")),
            },
        };
        let Outcome { sent, received, .. } = *outcome;
        let longest_ns = Some(outcome.longest_ns);
        (outcome.is_over != 0).then_some(Self { end, sent, received, longest_ns })
    }

    /// Bytes that came and were right.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// The program's end.
    pub(crate) fn of_program(report: &Report) -> Self {
        let end = match &report.ended {
            Ended::Well => End::Well,
            Ended::Broken => End::Broken,
            Ended::Wrong => End::Wrong,
            Ended::Early => End::Early,
            Ended::TooMany => End::TooMany,
            Ended::TimedOut => End::TimedOut,
            Ended::Gone(kind) => End::Gone(kind.to_string()),
        };
        Self { end, sent: report.sent, received: report.received, longest_ns: None }
    }
}

/// A connection, as far as either end has reported.
pub(crate) struct Case<'p> {
    pub(crate) exchange: &'p Exchange,
    pub(crate) upset: Option<Upset>,
    /// What it is called in reports.
    pub(crate) name: String,
    pub(crate) caller: Option<EndReport>,
    pub(crate) answerer: Option<EndReport>,
}

impl Case<'_> {
    /// What must not be about it.
    pub(crate) fn check(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (who, side) in [("client", &self.caller), ("server", &self.answerer)] {
            let Some(side) = side else { continue };
            self.check_time(who, side, &mut faults);
            self.check_bytes(who, side, &mut faults);
        }
        if self.is_orderly() {
            self.check_totals(&mut faults);
        } else if self.upset.is_none() && self.is_quiet() {
            // Nothing broke before the kernel gave up, so both have been there.
            for (who, side) in [("client", &self.caller), ("server", &self.answerer)] {
                if side.is_none() {
                    let what = format!("{}: the {who} never had it", self.name);
                    faults.push(Fault::Lost { bytes: 1, what });
                }
            }
        }
        faults
    }

    fn is_orderly(&self) -> bool {
        self.upset.is_none() && matches!(self.exchange.fate, Fate::Orderly | Fate::Left)
    }

    fn check_time(&self, who: &str, side: &EndReport, faults: &mut Vec<Fault>) {
        let timeout = Duration::from_nanos(self.exchange.terms.timeout_ns);
        if let Some(longest) = side.longest_ns
            && longest > nanoseconds(timeout + margin())
        {
            let longest = Duration::from_nanos(longest);
            faults.push(Fault::Hung(format!(
                "{}: a call of the {who} took {longest:?}, its time-out is {timeout:?}",
                self.name
            )));
        } else if side.end == End::TimedOut && !self.may_time_out(side) {
            faults.push(Fault::Hung(format!(
                "{}: the {who} timed out, after {} bytes sent and {} received",
                self.name, side.sent, side.received
            )));
        }
    }

    /// Whether the program's end stops sending or reading.
    fn is_quiet(&self) -> bool {
        matches!(self.exchange.fate, Fate::Broken(Break::Silence | Break::NotReading, _))
    }

    /// A kernel with such a peer gives up; nobody else times out.
    fn may_time_out(&self, side: &EndReport) -> bool {
        self.is_quiet() && side.longest_ns.is_some()
    }

    fn check_bytes(&self, who: &str, side: &EndReport, faults: &mut Vec<Fault>) {
        let wrong = |what: &str| Fault::Lost {
            bytes: 1,
            what: format!("{}: {what} at the {who}, after {} bytes", self.name, side.received),
        };
        match &side.end {
            End::Wrong => faults.push(wrong("a wrong byte")),
            End::TooMany => faults.push(wrong("bytes behind the last one")),
            End::Failed(errno) => faults.push(Fault::Failed(format!(
                "{}: a call of the {who} failed with {errno}",
                self.name
            ))),
            End::Canceled if self.upset.is_none() => faults.push(Fault::Failed(format!(
                "{}: the {who} was stopped, and nobody did that",
                self.name
            ))),
            _ => {}
        }
        // A peer that falls silent must be given up, and by a time-out. (One that stops reading may
        // find that the system has taken all there was.)
        if let (Fate::Broken(Break::Silence, _), None, Some(_)) =
            (self.exchange.fate, self.upset, side.longest_ns)
            && !matches!(side.end, End::TimedOut | End::Wrong)
        {
            faults.push(Fault::Failed(format!(
                "{}: the {who}'s peer fell silent, and it ended with {:?}",
                self.name, side.end
            )));
        }
    }

    /// Both ends have all bytes and say so.
    fn check_totals(&self, faults: &mut Vec<Fault>) {
        let (up, down) = self.exchange.totals();
        let sides = [("client", &self.caller, up, down), ("server", &self.answerer, down, up)];
        for (who, side, sends, receives) in sides {
            let Some(side) = side else {
                let what = format!("{}: the {who} never had it", self.name);
                faults.push(Fault::Lost { bytes: receives.max(1), what });
                continue;
            };
            let missing = receives.saturating_sub(side.received);
            let good = side.end == End::Well && missing == 0 && side.sent == sends;
            let reported = matches!(side.end, End::Wrong | End::TooMany | End::Failed(_));
            if !good && !reported {
                let what = format!(
                    "{}: the {who} ended with {:?}, {} of {receives} bytes received, {} of \
                     {sends} sent",
                    self.name, side.end, side.received, side.sent
                );
                // One at least: of a connection that did not end well its end is lost.
                faults.push(Fault::Lost { bytes: missing.max(1), what });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gpunet_e2e_kernels::soak::{CALLER_ENDS, Terms};

    use super::*;
    use crate::plan::timeout;

    fn exchange(fate: Fate) -> Exchange {
        let terms = Terms {
            index: 0,
            seed: 9,
            turns: 4,
            most_up: 100,
            most_down: 50,
            most_tail: 0,
            ending: CALLER_ENDS,
            timeout_ns: nanoseconds(timeout()),
        };
        Exchange { terms, fate, ring: 4096, omits: None }
    }

    fn good(exchange: &Exchange) -> (Outcome, Report) {
        let (up, down) = exchange.totals();
        let kernel = Outcome {
            is_over: 1,
            result: 0,
            sent: down,
            received: up,
            longest_ns: 1000,
            strays: 0,
        };
        (kernel, Report { ended: Ended::Well, sent: up, received: down })
    }

    fn check(
        fate: Fate,
        upset: Option<Upset>,
        change: impl Fn(&mut Outcome, &mut Report),
    ) -> Vec<Fault> {
        let exchange = exchange(fate);
        let (mut kernel, mut report) = good(&exchange);
        change(&mut kernel, &mut report);
        let (caller, answerer) =
            (Some(EndReport::of_program(&report)), EndReport::of_kernel(&kernel));
        Case { exchange: &exchange, upset, name: "a case".to_owned(), caller, answerer }.check()
    }

    #[test]
    fn what_ended_well_has_no_fault() {
        assert_eq!(check(Fate::Orderly, None, |_, _| {}), []);
    }

    #[test]
    fn missing_and_wrong_bytes_are_lost() {
        let found = check(Fate::Orderly, None, |kernel, _| {
            kernel.received -= 7;
            kernel.result = EARLY_END;
        });
        assert!(matches!(found[..], [Fault::Lost { bytes: 7, .. }]), "{found:?}");
        let found = check(Fate::Orderly, None, |kernel, _| kernel.result = WRONG_BYTES);
        assert!(matches!(found[..], [Fault::Lost { bytes: 1, .. }]), "{found:?}");
        let found = check(Fate::Orderly, None, |_, report| report.ended = Ended::TooMany);
        assert!(matches!(found[..], [Fault::Lost { bytes: 1, .. }]), "{found:?}");
        // Also where the connection was to break.
        let reset = Fate::Broken(Break::Reset, 3);
        let found = check(reset, None, |kernel, _| kernel.result = WRONG_BYTES);
        assert!(matches!(found[..], [Fault::Lost { bytes: 1, .. }]), "{found:?}");
        // An end that nobody has reported.
        let found = check(Fate::Orderly, None, |kernel, _| kernel.is_over = 0);
        assert!(matches!(found[..], [Fault::Lost { .. }]), "{found:?}");
    }

    #[test]
    fn calls_that_take_too_long_or_never_return_hang() {
        let late = nanoseconds(timeout() + margin()) + 1;
        let found = check(Fate::Orderly, None, |kernel, _| kernel.longest_ns = late);
        assert!(matches!(found[..], [Fault::Hung(_)]), "{found:?}");
        let reset = Fate::Broken(Break::Reset, 3);
        let timed_out = Errno::ETIMEDOUT.negative();
        let found = check(reset, None, |kernel, _| kernel.result = timed_out);
        assert!(matches!(found[..], [Fault::Hung(_)]), "{found:?}");
        let abort = Some(Upset::Abort(Duration::ZERO));
        let found = check(Fate::Orderly, abort, |_, report| report.ended = Ended::TimedOut);
        assert!(matches!(found[..], [Fault::Hung(_)]), "{found:?}");
    }

    #[test]
    fn a_silent_peer_is_given_up_by_a_time_out_and_nothing_else() {
        let silence = Fate::Broken(Break::Silence, 3);
        let timed_out = Errno::ETIMEDOUT.negative();
        assert_eq!(check(silence, None, |kernel, _| kernel.result = timed_out), []);
        let found = check(silence, None, |kernel, _| kernel.result = EARLY_END);
        assert!(matches!(found[..], [Fault::Failed(_)]), "{found:?}");
        let found = check(silence, None, |kernel, _| kernel.is_over = 0);
        assert!(matches!(found[..], [Fault::Lost { bytes: 1, .. }]), "{found:?}");
    }

    #[test]
    fn an_abort_excuses_what_it_causes_and_no_more() {
        let abort = Some(Upset::Abort(Duration::ZERO));
        let canceled = Errno::ECANCELED.negative();
        let stop = |kernel: &mut Outcome, report: &mut Report| {
            (kernel.result, kernel.received) = (canceled, 0);
            report.ended = Ended::Gone(std::io::ErrorKind::ConnectionReset);
        };
        assert_eq!(check(Fate::Orderly, abort, stop), []);
        assert!(!check(Fate::Orderly, None, stop).is_empty());
        let found = check(Fate::Orderly, abort, |kernel, _| kernel.result = -5);
        assert!(matches!(found[..], [Fault::Failed(_)]), "{found:?}");
    }
}
