//! What kernels and the library may cost: recorded in a file, compared with what they do.
//!
//! Why it is so: decision 5 of docs/explanation/decisions.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::{CPU, Footprint};

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

    /// What is beyond its limit, or has none, one line each.
    pub(crate) fn exceeded(&self, rows: &BTreeMap<String, Footprint>) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, now) in rows {
            let Some(limit) = self.limits.get(name) else {
                lines.push(format!(
                    "{name} has no limit in {FILE}: look at `cargo xtask ptx`, then record it with --record"
                ));
                continue;
            };
            for (what, now, limit) in [
                ("registers", now.registers, limit.registers),
                ("bytes of stack", now.stack, limit.stack),
                ("bytes of spills", now.spills, limit.spills),
                ("bytes of machine code", now.code, limit.code),
            ] {
                if now > limit {
                    lines.push(format!("{name}: {now} {what}, {limit} are recorded in {FILE}"));
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
        assert!(limits.exceeded(&same).is_empty());
        for grown in [
            Footprint { registers: 41, ..small },
            Footprint { stack: 16, ..small },
            Footprint { spills: 4, ..small },
            Footprint { code: 1001, ..small },
        ] {
            let rows = [("a".to_owned(), grown), ("b".to_owned(), small)].into();
            assert_eq!(limits.exceeded(&rows).len(), 1, "{grown}");
        }
        let rows = [("a".to_owned(), small), ("c".to_owned(), small)].into();
        assert_eq!(limits.exceeded(&rows).len(), 2);
    }
}
