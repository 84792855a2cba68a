//! What is shown: lines in groups, a drawing, a summary; as text, or as JSON.

use std::fmt::{self, Write as _};

use anstyle::Style;
use gpunet_terminal::output::{BAD, GOOD, HEADING, WARNING, styled};
use serde::Serialize;

use crate::machine::one_line;

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and could work better or may fail later.
    Warning,
    /// It is not there or does not work.
    Missing,
    /// Nobody could look.
    Unseen,
}

impl Verdict {
    fn style(self) -> Style {
        match self {
            Self::Ok => GOOD,
            Self::Warning => WARNING,
            Self::Missing => BAD,
            Self::Unseen => Style::new().dimmed(),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Missing => "missing",
            Self::Unseen => "unseen",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) about: String,
    pub(crate) verdict: Verdict,
    /// What was seen.
    pub(crate) seen: String,
    /// What to do, where something can be done.
    pub(crate) remedy: Option<String>,
}

impl Line {
    /// Much of it was written by others: control characters are removed here, for all checks.
    fn new(verdict: Verdict, about: &str, seen: impl Into<String>) -> Self {
        Self { about: one_line(about), verdict, seen: one_line(&seen.into()), remedy: None }
    }

    pub(crate) fn ok(about: &str, seen: impl Into<String>) -> Self {
        Self::new(Verdict::Ok, about, seen)
    }

    pub(crate) fn warning(about: &str, seen: impl Into<String>) -> Self {
        Self::new(Verdict::Warning, about, seen)
    }

    pub(crate) fn missing(about: &str, seen: impl Into<String>) -> Self {
        Self::new(Verdict::Missing, about, seen)
    }

    pub(crate) fn unseen(about: &str, seen: impl Into<String>) -> Self {
        Self::new(Verdict::Unseen, about, seen)
    }

    /// The same, with what to do about it.
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(one_line(&remedy.into()));
        self
    }
}

/// Lines that belong together.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) title: &'static str,
    /// Lines to be shown as they are, above the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) drawing: Vec<String>,
    pub(crate) lines: Vec<Line>,
}

impl Group {
    pub(crate) fn new(title: &'static str, lines: Vec<Line>) -> Self {
        Self { title, drawing: Vec::new(), lines }
    }
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    pub(crate) groups: Vec<Group>,
    /// Whether kernels can connect here.
    pub(crate) runs: bool,
    pub(crate) summary: String,
    pub(crate) counts: Counts,
}

/// How many lines have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub(crate) ok: usize,
    pub(crate) warning: usize,
    pub(crate) missing: usize,
    pub(crate) unseen: usize,
}

impl Counts {
    pub(crate) fn of(groups: &[Group]) -> Self {
        let mut counts = Self::default();
        for line in groups.iter().flat_map(|group| &group.lines) {
            match line.verdict {
                Verdict::Ok => counts.ok += 1,
                Verdict::Warning => counts.warning += 1,
                Verdict::Missing => counts.missing += 1,
                Verdict::Unseen => counts.unseen += 1,
            }
        }
        counts
    }
}

impl Report {
    /// For people, with styles.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("gpunet diagnose {}\n", self.version);
        for group in &self.groups {
            // Writing to a string does not fail.
            let _ = writeln!(text, "\n{}", styled(HEADING, group.title));
            for line in &group.drawing {
                let _ = writeln!(text, "  {line}");
            }
            for Line { about, verdict, seen, remedy } in &group.lines {
                let verdict = styled(verdict.style(), format!("{verdict:<8}"));
                let _ = writeln!(text, "  {verdict} {about:<22} {seen}");
                if let Some(remedy) = remedy {
                    let _ = writeln!(text, "  {:<8} {:<22} > {remedy}", "", "");
                }
            }
        }
        let Counts { ok, warning, missing, unseen } = self.counts;
        let _ = writeln!(text, "\n{}", self.summary);
        let _ = writeln!(text, "{ok} ok, {warning} warning, {missing} missing, {unseen} unseen");
        text
    }

    /// For programs (docs/reference/json.md).
    pub(crate) fn json(&self) -> String {
        // Strings, numbers and lists: nothing that JSON does not have.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
