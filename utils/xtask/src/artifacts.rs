//! The executables that cargo makes, taken out of its messages.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use serde_json::Value;

use crate::shell;

/// A file that cargo made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    /// `bin`, `test`, `example`.
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Runs a cargo command that builds, and returns the executables.
pub(crate) fn all(cargo: &mut Command) -> Result<Vec<Executable>> {
    let messages = shell::output_of(cargo.arg("--message-format=json-render-diagnostics"))?;
    Ok(executables(&messages))
}

/// The same of one kind.
pub(crate) fn built(cargo: &mut Command, kind: &str) -> Result<Vec<Executable>> {
    Ok(all(cargo)?.into_iter().filter(|made| made.kind == kind).collect())
}

fn executables(messages: &str) -> Vec<Executable> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter_map(|message| {
            Some(Executable {
                kind: message["target"]["kind"][0].as_str()?.to_owned(),
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
    fn executables_have_names_and_kinds() {
        let messages = r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"streams"},"executable":"/t/streams-1f"}
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"host"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"echo"},"executable":"/t/echo"}
not json
{"reason":"build-finished","success":true}"#;
        let made = executables(messages);
        let made: Vec<_> = made.iter().map(|made| (&*made.kind, &*made.name)).collect();
        assert_eq!(made, [("test", "streams"), ("bin", "echo")]);
    }
}
