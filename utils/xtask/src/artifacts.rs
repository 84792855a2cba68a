//! The executables that cargo makes, taken out of its messages.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use serde_json::Value;

use crate::shell;

/// A file that cargo made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Runs a cargo command that builds, and returns the executables of one kind.
pub(crate) fn built(cargo: &mut Command, kind: &str) -> Result<Vec<Executable>> {
    let messages = shell::output_of(cargo.arg("--message-format=json-render-diagnostics"))?;
    Ok(executables(&messages, kind))
}

fn executables(messages: &str, kind: &str) -> Vec<Executable> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| {
            message["reason"] == "compiler-artifact" && message["target"]["kind"][0] == kind
        })
        .filter_map(|message| {
            Some(Executable {
                name: message["target"]["name"].as_str()?.to_owned(),
                path: message["executable"].as_str()?.into(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_taken_by_kind() {
        let messages = r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"streams"},"executable":"/t/streams-1f"}
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"host"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"echo"},"executable":"/t/echo"}
not json
{"reason":"build-finished","success":true}"#;
        let names = |kind| {
            executables(messages, kind).into_iter().map(|found| found.name).collect::<Vec<_>>()
        };
        assert_eq!(names("test"), ["streams"]);
        assert_eq!(names("bin"), ["echo"]);
    }
}
