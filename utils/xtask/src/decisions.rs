//! Whether code and pages cite decisions that there are, and each decision is cited by some code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::tree::files;

/// The page with the records.
const PAGE: &str = "docs/explanation/decisions.md";
/// What a citation begins with, in any case.
const CITED: &str = "decision ";

/// What is wrong with citations, and how many records there are.
pub(crate) fn check(root: &Path) -> Result<(Vec<String>, usize)> {
    let page =
        fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let records = records(&page);
    ensure!(records.len() > 10, "{PAGE}: only {} records were understood", records.len());
    let mut texts = Vec::new();
    for extension in ["rs", "md"] {
        for path in files(root, extension)? {
            // What follows are examples.
            if path.ends_with("xtask/src/decisions.rs") || path.ends_with("CHANGELOG.md") {
                continue;
            }
            let text = fs::read_to_string(root.join(&path))?;
            texts.push((path.display().to_string(), text));
        }
    }
    Ok((problems(&records, &texts), records.len()))
}

/// The numbers of the records.
fn records(page: &str) -> BTreeSet<u32> {
    page.lines()
        .filter_map(|line| line.strip_prefix("## ")?.split_once(". ")?.0.parse().ok())
        .collect()
}

/// Citations of records that are not there, and records that no code cites.
fn problems(records: &BTreeSet<u32>, texts: &[(String, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut uncited = records.clone();
    for (name, text) in texts {
        for (line, number) in citations(text) {
            if !records.contains(&number) {
                wrong.push(format!("{name}:{line}: {PAGE} has no decision {number}"));
            } else if name.ends_with(".rs") {
                uncited.remove(&number);
            }
        }
    }
    wrong.extend(uncited.iter().map(|number| {
        format!("{PAGE}: no code cites decision {number}: cite it where it is carried out")
    }));
    wrong
}

/// Where a text cites decisions: line and number.
fn citations(text: &str) -> impl Iterator<Item = (usize, u32)> {
    text.lines().enumerate().flat_map(|(at, line)| {
        let lower = line.to_lowercase();
        let cited = lower.match_indices(CITED).filter_map(|(found, _)| {
            let rest = &lower[found + CITED.len()..];
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            Some((at + 1, rest[..digits].parse().ok()?))
        });
        cited.collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_uncited_records_are_found() {
        let records = records("# D\n\n## 1. One\n\n## 2. Two\n\n## Not one\n");
        let texts = [("a.rs", "// See decision 1.\n// Decision 7: no.\n"), ("b.md", "decision 2")];
        let texts = texts.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let expected = [
            format!("a.rs:2: {PAGE} has no decision 7"),
            format!("{PAGE}: no code cites decision 2: cite it where it is carried out"),
        ];
        assert_eq!(problems(&records, &texts), expected);
    }

    #[test]
    fn every_citation_has_its_record() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (wrong, _) = check(&root).unwrap();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
