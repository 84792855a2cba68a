//! The workspace as cargo describes it: its members, which of them are kernel crates, and all
//! dependencies.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell;

/// Where everything is.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) members: Vec<Member>,
}

/// A package of this project.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    /// Whether its manifest has `kernel = true` under `[package.metadata.gpunet]`.
    pub(crate) is_kernel_crate: bool,
    /// Whether it may be published: no `publish = false`.
    pub(crate) is_public: bool,
    pub(crate) version: String,
    pub(crate) rust_version: Option<String>,
    /// What a registry shows of a package, of which its manifest says nothing.
    pub(crate) unsaid: Vec<&'static str>,
    /// The folders of this project's packages that it imports: in its library, programs, tests or build script.
    pub(crate) imports: Vec<PathBuf>,
    /// The names of its programs.
    pub(crate) programs: Vec<String>,
}

/// A package of somebody else.
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: Option<String>,
}

impl Workspace {
    /// Asks cargo about the workspace that this program belongs to.
    pub(crate) fn load() -> Result<Self> {
        let mut command = shell::cargo();
        command.args(["metadata", "--format-version=1", "--no-deps"]);
        Self::from_metadata(&metadata(&mut command)?)
    }

    fn from_metadata(metadata: &Value) -> Result<Self> {
        let path = |key: &str| {
            let text = metadata[key].as_str();
            text.map(PathBuf::from).with_context(|| format!("cargo metadata has no {key}"))
        };
        let members = packages(metadata).iter().map(Member::from_package).collect();
        Ok(Self { root: path("workspace_root")?, target: path("target_directory")?, members })
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    pub(crate) fn kernel_crates(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.is_kernel_crate)
    }

    /// The folder for logs and scratch files of these commands.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.target.join("xtask")
    }

    /// Cargo, at the root of the workspace.
    pub(crate) fn cargo(&self) -> std::process::Command {
        let mut command = shell::cargo();
        command.current_dir(&self.root);
        command
    }

    /// Every package that is not a member, for every platform.
    pub(crate) fn dependencies(&self) -> Result<Vec<Dependency>> {
        let mut command = self.cargo();
        command.args(["metadata", "--format-version=1", "--all-features"]);
        let metadata = metadata(&mut command)?;
        let from_elsewhere =
            packages(&metadata).iter().filter(|package| !package["source"].is_null());
        Ok(from_elsewhere.map(Dependency::from_package).collect())
    }
}

impl Member {
    fn from_package(package: &Value) -> Self {
        let manifest = Path::new(text(&package["manifest_path"]));
        let programs = list(&package["targets"])
            .iter()
            .filter(|target| {
                target["kind"]
                    .as_array()
                    .is_some_and(|kinds| kinds.iter().any(|kind| kind == "bin"))
            })
            .map(|target| text(&target["name"]).to_owned())
            .collect();
        Self {
            name: text(&package["name"]).to_owned(),
            folder: manifest.parent().unwrap_or(manifest).to_owned(),
            is_kernel_crate: package["metadata"]["gpunet"]["kernel"] == true,
            // Null is everywhere, and an empty list nowhere.
            is_public: package["publish"].is_null(),
            version: text(&package["version"]).to_owned(),
            rust_version: package["rust_version"].as_str().map(str::to_owned),
            unsaid: SHOWN.iter().copied().filter(|key| is_empty(&package[key])).collect(),
            imports: list(&package["dependencies"])
                .iter()
                .filter_map(|dependency| dependency["path"].as_str().map(PathBuf::from))
                .collect(),
            programs,
        }
    }
}

/// What a registry shows, as cargo names it.
const SHOWN: [&str; 5] = ["description", "license", "readme", "keywords", "categories"];

fn is_empty(value: &Value) -> bool {
    value.as_str().is_none_or(str::is_empty) && value.as_array().is_none_or(Vec::is_empty)
}

impl Dependency {
    fn from_package(package: &Value) -> Self {
        Self {
            name: text(&package["name"]).to_owned(),
            version: text(&package["version"]).to_owned(),
            licence: package["license"].as_str().map(str::to_owned),
        }
    }
}

fn metadata(command: &mut std::process::Command) -> Result<Value> {
    serde_json::from_str(&shell::output_of(command)?)
        .context("cannot read what cargo metadata printed")
}

fn packages(metadata: &Value) -> &[Value] {
    list(&metadata["packages"])
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_crates_and_programs_are_distinguished_from_others() {
        let metadata = serde_json::json!({
            "workspace_root": "/w", "target_directory": "/w/target",
            "packages": [
                {"name": "k", "manifest_path": "/w/k/Cargo.toml", "metadata": {"gpunet": {"kernel": true}},
                 "publish": null, "version": "1.2.3", "rust_version": "1.95", "description": "K", "keywords": [],
                 "targets": [{"kind": ["lib"], "name": "k"}]},
                {"name": "a", "manifest_path": "/w/a/Cargo.toml", "metadata": null, "publish": [],
                 "targets": [{"kind": ["bin"], "name": "echo"}, {"kind": ["test"], "name": "t"}],
                 "dependencies": [{"name": "k", "kind": "dev", "path": "/w/k"}, {"name": "libc"}]},
            ]
        });
        let workspace = Workspace::from_metadata(&metadata).unwrap();
        let kernels: Vec<_> = workspace.kernel_crates().map(|member| &member.name).collect();
        assert_eq!(kernels, ["k"]);
        let member = workspace.member("k").unwrap();
        assert!(member.is_public && !workspace.member("a").unwrap().is_public);
        assert_eq!(member.unsaid, ["license", "readme", "keywords", "categories"]);
        assert_eq!(member.rust_version.as_deref(), Some("1.95"));
        assert_eq!(workspace.member("a").unwrap().programs, ["echo"]);
        assert_eq!(workspace.member("a").unwrap().folder, Path::new("/w/a"));
        assert_eq!(workspace.member("a").unwrap().imports, [Path::new("/w/k")]);
        assert!(workspace.member("b").is_none());
    }
}
