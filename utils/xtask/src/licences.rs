//! Checks that every dependency may be used under a permissive licence.

use anyhow::Result;
use spdx::{Expression, ParseMode};

use crate::context::Context;
use crate::report::Outcome;
use crate::workspace::Dependency;

/// Which licences these are: the list that cargo-deny has, too.
const LIST: &str = include_str!("../../../deny.toml");

/// What stands in quotes in the list `allow` of the table `licenses`.
fn allowed(list: &str) -> impl Iterator<Item = &str> {
    let table = list.split_once("\n[licenses]\n").map_or("", |(_, table)| table);
    let array = table.split_once("\nallow = [").map_or("", |(_, array)| array);
    let array = array.split_once(']').map_or("", |(array, _)| array);
    array.split('"').skip(1).step_by(2)
}

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
    allowed(LIST).any(|licence| licence == requirement)
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
    fn the_list_is_read_as_it_is_written() {
        let list = "a = [\"x\"]\n[licenses]\n# Which.\nallow = [\n    \"MIT\",\n    \"A WITH b\",\n]\nc = [\"y\"]\n";
        assert_eq!(allowed(list).collect::<Vec<_>>(), ["MIT", "A WITH b"]);
        assert!(allowed(LIST).count() > 5);
        assert_eq!(allowed("").count(), 0);
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
