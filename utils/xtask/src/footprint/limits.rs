//! What kernels and the library may cost: recorded in a file, compared with what they do.
//!
//! Why it is so: decision 5 of docs/explanation/decisions.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::cost::{CPU, Footprint};

/// Registers of a thread in a block of 1,024.
const CAP: u32 = 64;

/// Where limits are recorded.
pub(crate) const FILE: &str = "device/footprint.json";

/// The most that each kernel and each function of the library may cost.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// The Rust compiler that the figures were measured with.
    pub(crate) compiler: String,
    /// The GPU.
    pub(crate) cpu: String,
    /// By name.
    pub(crate) limits: BTreeMap<String, Footprint>,
}

impl Limits {
    /// Those of the workspace.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let path = root.join(FILE);
        let text = fs::read_to_string(&path).with_context(|| {
            format!("cannot read {FILE}: make it with `cargo xtask ptx --record`")
        })?;
        serde_json::from_str(&text).with_context(|| format!("{FILE} is damaged"))
    }

    /// Records what was measured.
    pub(crate) fn record(
        root: &Path,
        compiler: &str,
        rows: &BTreeMap<String, Footprint>,
    ) -> Result<()> {
        let limits =
            Self { compiler: compiler.to_owned(), cpu: CPU.to_owned(), limits: rows.clone() };
        let mut text = serde_json::to_string_pretty(&limits)?;
        text.push('\n');
        fs::write(root.join(FILE), text).with_context(|| format!("cannot write {FILE}"))
    }

    /// What is beyond its limit, or has none, one line each. Another compiler than that of the figures has an
    /// eighth more, but no function more than the 64 registers of large blocks on that account: a nightly moves
    /// every day, and nobody could keep to its last byte.
    pub(crate) fn exceeded(
        &self,
        rows: &BTreeMap<String, Footprint>,
        compiler: &str,
    ) -> Vec<String> {
        let other = compiler != self.compiler;
        let more = |limit: u32, least: u32| if other { limit + limit / 8 + least } else { limit };
        let mut lines = Vec::new();
        for (name, now) in rows {
            let Some(limit) = self.limits.get(name) else {
                lines.push(format!(
                    "{name} has no limit in {FILE}: look at `cargo xtask ptx`, then record it with --record"
                ));
                continue;
            };
            let registers = match limit.registers {
                // Of few registers an eighth is next to nothing.
                few @ ..=CAP => more(few, few / 8).min(CAP),
                many => more(many, 0),
            };
            for (what, now, recorded, limit) in [
                ("registers", now.registers, limit.registers, registers),
                ("bytes of stack", now.stack, limit.stack, more(limit.stack, 64)),
                ("bytes of spills", now.spills, limit.spills, more(limit.spills, 64)),
                ("bytes of machine code", now.code, limit.code, more(limit.code, 1024)),
            ] {
                if now > limit {
                    lines.push(format!("{name}: {now} {what}, {recorded} are recorded in {FILE}"));
                }
            }
        }
        let gone = self.limits.keys().filter(|name| !rows.contains_key(*name));
        lines.extend(gone.map(|name| format!("{name} is gone, but has a limit in {FILE}")));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_appears_or_goes_is_reported() {
        let small = Footprint { registers: 40, stack: 8, spills: 0, code: 1000 };
        let limits = Limits {
            compiler: "1.96.0".into(),
            cpu: CPU.into(),
            limits: [("a".to_owned(), small), ("b".to_owned(), small)].into(),
        };
        let same = [("a".to_owned(), small), ("b".to_owned(), small)].into();
        assert!(limits.exceeded(&same, "1.96.0").is_empty());
        for grown in [
            Footprint { registers: 41, ..small },
            Footprint { stack: 16, ..small },
            Footprint { spills: 4, ..small },
            Footprint { code: 1001, ..small },
        ] {
            let rows = [("a".to_owned(), grown), ("b".to_owned(), small)].into();
            assert_eq!(limits.exceeded(&rows, "1.96.0").len(), 1, "{grown}");
        }
        let rows = [("a".to_owned(), small), ("c".to_owned(), small)].into();
        assert_eq!(limits.exceeded(&rows, "1.96.0").len(), 2);
    }

    #[test]
    fn another_compiler_has_an_eighth_more_and_no_more_than_64_registers() {
        let limit = Footprint { registers: 60, stack: 800, spills: 800, code: 80_000 };
        let limits = Limits {
            compiler: "1.96.0".into(),
            cpu: CPU.into(),
            limits: [("a".to_owned(), limit)].into(),
        };
        let exceeded = |now: Footprint, compiler: &str| {
            limits.exceeded(&[("a".to_owned(), now)].into(), compiler).len()
        };
        let grown = Footprint { registers: 64, stack: 964, spills: 964, code: 91_024 };
        assert_eq!((exceeded(grown, "1.101.0-nightly"), exceeded(grown, "1.96.0")), (0, 4));
        let beyond = Footprint { registers: 65, stack: 965, spills: 965, code: 91_025 };
        assert_eq!(exceeded(beyond, "1.101.0-nightly"), 4);
    }
}
