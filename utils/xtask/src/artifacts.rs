//! The executables that cargo makes, taken out of its messages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use serde_json::Value;

use crate::shell;

/// A file that cargo made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    /// `lib`, `bin`, `test`, `example`.
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Whether it runs tests: those of a test, or the unit tests of something else.
    pub(crate) is_test: bool,
    /// The package it belongs to, and that package's folder.
    pub(crate) package: String,
    pub(crate) folder: PathBuf,
    /// The file that its source begins with, in that folder.
    pub(crate) source: PathBuf,
}

/// Runs a cargo command that builds, and returns the executables.
pub(crate) fn all(cargo: &mut Command) -> Result<Vec<Executable>> {
    Ok(executables(&shell::output_of(cargo.arg(MESSAGES))?))
}

/// The same of one kind.
pub(crate) fn built(cargo: &mut Command, kind: &str) -> Result<Vec<Executable>> {
    Ok(all(cargo)?.into_iter().filter(|made| made.kind == kind).collect())
}

/// Makes cargo print messages on standard output; diagnostics stay readable.
pub(crate) const MESSAGES: &str = "--message-format=json-render-diagnostics";

/// The executables in cargo's messages.
pub(crate) fn executables(messages: &str) -> Vec<Executable> {
    messages.lines().filter_map(executable).collect()
}

fn executable(line: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let source = Path::new(message["target"]["src_path"].as_str()?);
    Some(Executable {
        kind: message["target"]["kind"][0].as_str()?.to_owned(),
        name: message["target"]["name"].as_str()?.to_owned(),
        path: message["executable"].as_str()?.into(),
        is_test: message["profile"]["test"] == true,
        package: package_name(message["package_id"].as_str()?)?.to_owned(),
        folder: folder.to_owned(),
        source: source.strip_prefix(folder).unwrap_or(source).to_owned(),
    })
}

/// `path+file:///w/apps#gpunet-apps@0.1.0` or, where the folder has the name, `.../xtask#0.1.0`.
fn package_name(id: &str) -> Option<&str> {
    let (path, version) = id.rsplit_once('#')?;
    match version.split_once('@') {
        Some((name, _)) => Some(name),
        None => path.rsplit('/').next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_have_names_kinds_and_packages() {
        let messages = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/e2e#gpunet-e2e@0.1.0","manifest_path":"/w/e2e/Cargo.toml","target":{"kind":["test"],"name":"streams","src_path":"/w/e2e/tests/streams.rs"},"profile":{"test":true},"executable":"/t/streams-1f"}
{"reason":"compiler-artifact","package_id":"path+file:///w/host#0.1.0","manifest_path":"/w/host/Cargo.toml","target":{"kind":["lib"],"name":"host","src_path":"/w/host/src/lib.rs"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","package_id":"path+file:///w/echo#0.1.0","manifest_path":"/w/echo/Cargo.toml","target":{"kind":["bin"],"name":"echo","src_path":"/w/echo/src/main.rs"},"profile":{"test":false},"executable":"/t/echo"}
not json
{"reason":"build-finished","success":true}"#;
        let made = executables(messages);
        let found: Vec<_> =
            made.iter().map(|made| (&*made.kind, &*made.name, &*made.package)).collect();
        assert_eq!(found, [("test", "streams", "gpunet-e2e"), ("bin", "echo", "echo")]);
        assert!(made[0].is_test && !made[1].is_test);
        assert_eq!(made[0].source, Path::new("tests/streams.rs"));
        assert_eq!(made[0].folder, Path::new("/w/e2e"));
    }
}
