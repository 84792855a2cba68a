//! Checks that every dependency may be used under a permissive licence.

use anyhow::Result;
use spdx::{Expression, ParseMode};

use crate::checks::Context;
use crate::report::Outcome;
use crate::workspace::Dependency;

/// Licences that ask for no more than a notice. Each dependency must be usable under these alone.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Additions to a licence that only ever permit more.
const ALLOWED_EXCEPTIONS: &[&str] = &["LLVM-exception"];

/// Looks at all dependencies, of every platform.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let dependencies = context.workspace.dependencies()?;
    let problems: Vec<String> = dependencies.iter().filter_map(problem).collect();
    let failure = format!("not usable under a permissive licence: {}", problems.join("; "));
    let mut outcome = Outcome::of_one_check(problems.is_empty(), &failure, String::new());
    outcome.remark = format!("{} dependencies", dependencies.len());
    Ok(outcome)
}

/// Why a dependency cannot be used, or nothing.
fn problem(dependency: &Dependency) -> Option<String> {
    let Dependency { name, version, .. } = dependency;
    let Some(licence) = &dependency.licence else {
        return Some(format!("{name} {version} names no licence"));
    };
    match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(expression)
            if expression.evaluate(|requirement| is_allowed(&requirement.to_string())) =>
        {
            None
        }
        Ok(_) => Some(format!("{name} {version} is under {licence}")),
        Err(error) => {
            Some(format!("{name} {version}: {licence:?} is not a licence ({})", error.reason))
        }
    }
}

/// Whether one licence of an expression, with its exception, is on the list.
fn is_allowed(requirement: &str) -> bool {
    match requirement.split_once(" WITH ") {
        Some((licence, exception)) => {
            ALLOWED.contains(&licence) && ALLOWED_EXCEPTIONS.contains(&exception)
        }
        None => ALLOWED.contains(&requirement),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(licence: Option<&str>) -> Option<String> {
        problem(&Dependency {
            name: "x".into(),
            version: "1.0.0".into(),
            licence: licence.map(str::to_owned),
        })
    }

    #[test]
    fn permissive_choices_pass() {
        for licence in [
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
            "LGPL-2.1-or-later OR MIT",
        ] {
            assert_eq!(problem_of(Some(licence)), None, "{licence}");
        }
    }

    #[test]
    fn others_fail_by_name() {
        for licence in [
            "GPL-3.0-only",
            "MIT AND GPL-2.0-only",
            "Apache-2.0 WITH Classpath-exception-2.0",
            "nonsense",
        ] {
            let line = problem_of(Some(licence)).expect(licence);
            assert!(line.starts_with("x 1.0.0"), "{line}");
        }
        assert_eq!(problem_of(None).as_deref(), Some("x 1.0.0 names no licence"));
    }
}
