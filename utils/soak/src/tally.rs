//! What has happened so far: counted by rounds, read by the watchdog, reported at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpunet_terminal::progress::Progress;
use gpunet_terminal::table::Table;
use serde_json::{Value, json};

use crate::check::Fault;
use crate::watch::{Holdings, memory_tolerance};

/// Faults that are kept in words; the others are counted.
const KEPT: usize = 40;

/// The tally, as all threads share it.
pub(crate) struct Tally {
    started: Instant,
    progress: Progress,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    counts: Counts,
    endings: BTreeMap<&'static str, u64>,
    pairings: BTreeMap<&'static str, u64>,
    faults: Vec<String>,
    step: Option<(String, Instant)>,
    after_warm_up: Option<Holdings>,
    last: Option<Holdings>,
}

/// Sums.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) lost_bytes: u64,
    pub(crate) hung: u64,
    pub(crate) leaks: u64,
    pub(crate) failed: u64,
    pub(crate) rounds: u64,
    pub(crate) connections: u64,
    pub(crate) bytes: u64,
    pub(crate) launches: u64,
    pub(crate) nets: u64,
    pub(crate) killed: u64,
}

impl Counts {
    /// Whether nothing happened that must not.
    pub(crate) fn is_good(&self) -> bool {
        [self.lost_bytes, self.hung, self.leaks, self.failed] == [0; 4]
    }
}

/// What a summary is about.
pub(crate) struct Heading {
    /// `cuda` or `emulated`.
    pub(crate) gpu: String,
    pub(crate) gpu_name: String,
    pub(crate) seed: u64,
    pub(crate) minutes: f64,
}

impl Tally {
    pub(crate) fn new(progress: Progress) -> Self {
        Self { started: Instant::now(), progress, state: Mutex::default() }
    }

    /// Sums and lists are whole whenever the lock is free.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Changes the sums.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.state().counts);
    }

    /// One more connection between such ends, which ended so.
    pub(crate) fn connection(&self, pairing: &'static str, ending: &'static str) {
        let mut state = self.state();
        state.counts.connections += 1;
        *state.endings.entry(ending).or_default() += 1;
        *state.pairings.entry(pairing).or_default() += 1;
    }

    /// Notes what must not be.
    pub(crate) fn fault(&self, fault: Fault) {
        let mut state = self.state();
        let what = match fault {
            Fault::Lost { bytes, what } => {
                state.counts.lost_bytes += bytes;
                format!("lost: {what}")
            }
            Fault::Hung(what) => {
                state.counts.hung += 1;
                format!("hung: {what}")
            }
            Fault::Leak(what) => {
                state.counts.leaks += 1;
                format!("leaked: {what}")
            }
            Fault::Failed(what) => {
                state.counts.failed += 1;
                format!("failed: {what}")
            }
        };
        self.progress.say(&what);
        if state.faults.len() < KEPT {
            state.faults.push(what);
        }
    }

    /// What is being done from now on, for the watchdog to name.
    pub(crate) fn step(&self, what: String) {
        self.state().step = Some((what, Instant::now()));
    }

    /// What has been done for too long, if anything.
    pub(crate) fn stuck(&self, limit: Duration) -> Option<String> {
        let state = self.state();
        let (what, since) = state.step.as_ref()?;
        (since.elapsed() > limit).then(|| format!("{what} has taken {:?}", since.elapsed()))
    }

    /// What the process held when the warm-up was over; none before.
    pub(crate) fn after_warm_up(&self) -> Option<Holdings> {
        self.state().after_warm_up
    }

    pub(crate) fn warmed_up(&self, holdings: Holdings) {
        self.state().after_warm_up = Some(holdings);
    }

    /// What the process holds while it rests.
    pub(crate) fn rested(&self, holdings: Holdings) {
        self.state().last = Some(holdings);
    }

    /// Shows how far it is.
    pub(crate) fn show_progress(&self, time: Duration) {
        self.progress.at(self.elapsed().min(time));
        self.progress.begin(self.line());
    }

    /// Nothing more is to be shown.
    pub(crate) fn end_progress(&self) {
        self.progress.clear();
    }

    /// One line.
    fn line(&self) -> String {
        let state = self.state();
        let counts = &state.counts;
        let mut line = format!(
            "{} rounds, {} connections, {:.1} MiB;",
            counts.rounds,
            counts.connections,
            counts.bytes as f64 / f64::from(1 << 20),
        );
        let Counts { lost_bytes, hung, leaks, failed, .. } = counts;
        let _ = write!(line, " lost {lost_bytes}, hung {hung}, leaks {leaks}");
        if *failed > 0 {
            let _ = write!(line, ", failed {failed}");
        }
        line
    }

    /// The summary as a table.
    pub(crate) fn table(&self, heading: &Heading) -> String {
        let state = self.state();
        let counts = &state.counts;
        let mut rows: Vec<(String, String)> = vec![
            ("GPU".into(), heading.gpu_name.clone()),
            ("seed".into(), heading.seed.to_string()),
            ("time".into(), format!("{:.1} s", self.elapsed().as_secs_f64())),
            ("rounds".into(), counts.rounds.to_string()),
            ("nets".into(), counts.nets.to_string()),
            ("launches".into(), counts.launches.to_string()),
            ("connections".into(), counts.connections.to_string()),
        ];
        let indented = |(what, count): (&&str, &u64)| (format!("  {what}"), count.to_string());
        rows.extend(state.pairings.iter().map(indented));
        rows.push(("endings".into(), String::new()));
        rows.extend(state.endings.iter().map(indented));
        rows.push(("peers killed".into(), counts.killed.to_string()));
        rows.push(("bytes, checked".into(), counts.bytes.to_string()));
        let held = |holdings: Option<Holdings>| {
            holdings.map_or_else(|| "not seen".to_owned(), |holdings| holdings.to_string())
        };
        rows.push(("held after warm-up".into(), held(state.after_warm_up)));
        rows.push(("held at the end".into(), held(state.last)));
        rows.push(("lost bytes".into(), counts.lost_bytes.to_string()));
        rows.push(("hung calls".into(), counts.hung.to_string()));
        rows.push(("leaks".into(), counts.leaks.to_string()));
        if counts.failed > 0 {
            rows.push(("other failures".into(), counts.failed.to_string()));
        }
        let mut table = Table::of_facts();
        for (what, value) in rows {
            table.row([what, value]);
        }
        let mut text = table.to_string();
        for fault in &state.faults {
            let _ = writeln!(text, "{fault}");
        }
        text
    }

    /// The summary for programs (docs/reference/json.md).
    pub(crate) fn json(&self, heading: &Heading) -> Value {
        let state = self.state();
        let counts = &state.counts;
        json!({
            "gpu": heading.gpu,
            "gpu_name": heading.gpu_name,
            "seed": heading.seed,
            "minutes": heading.minutes,
            "seconds": self.elapsed().as_secs_f64(),
            "good": counts.is_good(),
            "lost_bytes": counts.lost_bytes,
            "hung_calls": counts.hung,
            "leaks": counts.leaks,
            "other_failures": counts.failed,
            "rounds": counts.rounds,
            "nets": counts.nets,
            "launches": counts.launches,
            "connections": counts.connections,
            "bytes": counts.bytes,
            "peers_killed": counts.killed,
            "pairings": state.pairings,
            "endings": state.endings,
            "held_after_warm_up": state.after_warm_up,
            "held_at_the_end": state.last,
            "memory_tolerance": state.after_warm_up.as_ref().map(memory_tolerance),
            "faults": state.faults,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_takes_too_long_is_named() {
        let tally = Tally::new(Progress::of_time(Duration::ZERO, true));
        assert_eq!(tally.stuck(Duration::ZERO), None);
        tally.step("a launch".to_owned());
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(tally.stuck(Duration::from_secs(60)), None);
        let stuck = tally.stuck(Duration::from_millis(1)).expect("it took longer");
        assert!(stuck.starts_with("a launch"), "{stuck}");
    }

    #[test]
    fn every_kind_of_fault_is_counted_and_reported() {
        let tally = Tally::new(Progress::of_time(Duration::ZERO, true));
        assert!(tally.counts().is_good());
        tally.fault(Fault::Lost { bytes: 3, what: "three".to_owned() });
        tally.fault(Fault::Hung("a call".to_owned()));
        tally.fault(Fault::Leak("a ring".to_owned()));
        tally.fault(Fault::Failed("a launch".to_owned()));
        let counts = tally.counts();
        assert_eq!([counts.lost_bytes, counts.hung, counts.leaks, counts.failed], [3, 1, 1, 1]);
        assert!(!counts.is_good());
        let heading = Heading {
            gpu: "emulated".to_owned(),
            gpu_name: "a GPU".to_owned(),
            seed: 1,
            minutes: 1.0,
        };
        let table = tally.table(&heading);
        for line in ["lost: three", "hung: a call", "leaked: a ring", "failed: a launch"] {
            assert!(table.contains(line), "{table}");
        }
        assert_eq!(tally.json(&heading)["leaks"], 1);
    }
}
