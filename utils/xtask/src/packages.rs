//! Packages every public crate as a registry gets it, and builds a project from the packages alone.
//!
//! ```text
//! public members ── cargo package ──> .crate files ── unpacked ──> a project of apps/template, tested
//! ```
//!
//! The packages stand beside each other as in a registry's folder, and cargo takes them in place
//! of the registry's. So this shows what a build script can find of other packages, and what a package lacks;
//! not that the registry takes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::context::Context;
use crate::report::Outcome;
use crate::workspace::{Member, Workspace};
use crate::{libtest, rules, shell};

/// For a project that is compiled from nothing.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The project's name, as it is written and in Rust.
const PROJECT: (&str, &str) = ("packaged-echo", "packaged_echo");
/// Where the project's manifest would have the checkout.
const GPUNET: &str = "../gpunet";
/// The device library's PTX, as the builder makes it of a package that stands alone.
const LIBRARY: &str = "gpunet-ptx/sm_75/gpunet_ptx_gpunet_device.ptx";

/// The step of `cargo xtask release`.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let workspace = &context.workspace;
    let public: Vec<_> = workspace.members.iter().filter(|member| member.is_public).collect();
    ensure!(!public.is_empty(), "no member of the workspace is public");
    let mut outcome =
        Outcome { remark: format!("{} packages", public.len()), ..Outcome::default() };
    let unsaid = public.iter().filter(|member| !member.unsaid.is_empty());
    outcome.failed.extend(
        unsaid.map(|member| format!("{} has no {}", member.name, member.unsaid.join(", no "))),
    );
    let finished = package(context, &public)?;
    if !finished.success {
        outcome.failed.push("cargo package failed".to_owned());
        outcome.output = finished.printed;
        return Ok(outcome);
    }
    let folder = workspace.scratch().join("packages");
    let unpacked = folder.join("registry");
    unpack(workspace, &public, &unpacked)?;
    let project = folder.join(PROJECT.0);
    let target = project.join("target");
    generate(&workspace.root.join("apps/template"), &project, GPUNET)?;
    depend_on_packages(workspace, &public, &project.join("Cargo.toml"))?;
    patch(&public, &unpacked, &project)?;
    let library = target.join(LIBRARY);
    // What an earlier run has left would be taken for what this one made.
    let _ = fs::remove_file(&library);
    let mut command = context.cargo(&["test"]);
    command.current_dir(&project).env("CARGO_TARGET_DIR", &target);
    let log = workspace.scratch().join("packages.log");
    let finished = offline_first(&command, &log)?;
    let tests = libtest::count(&finished.printed, finished.success, "");
    outcome.passed += tests.passed;
    outcome.failed.extend(tests.failed);
    if tests.passed == 0 {
        outcome.failed.push("no test of the project has run".to_owned());
    } else {
        outcome.failed.extend(wrong_in_library(&library)?);
    }
    outcome.output = finished.printed;
    Ok(outcome)
}

/// Whether the library that was built from a package is the one that is built here.
fn wrong_in_library(library: &Path) -> Result<Vec<String>> {
    let Ok(ptx) = fs::read_to_string(library) else {
        return Ok(vec![format!("no PTX of the device library: {}", library.display())]);
    };
    let mut wrong = rules::in_ptx(&ptx, true)?;
    if !ptx.contains(".visible .func") {
        wrong.push("the device library exports nothing".to_owned());
    }
    Ok(wrong)
}

/// Makes the `.crate` files, all at once, so that each may depend on the others.
fn package(context: &Context, public: &[&Member]) -> Result<shell::Finished> {
    // Building each by itself is what the project does for all.
    let mut command = context.cargo(&["package", "--no-verify", "--allow-dirty"]);
    for member in public {
        command.args(["--package", &member.name]);
    }
    offline_first(&command, &context.workspace.scratch().join("package.log"))
}

/// Runs cargo without the network, which is not needed as a rule, and else with it.
fn offline_first(command: &Command, log: &Path) -> Result<shell::Finished> {
    let again = |offline: &str| {
        let mut again = shell::bounded(command, LIMIT);
        shell::run_logged(again.env("CARGO_NET_OFFLINE", offline), log)
    };
    let finished = again("true")?;
    if finished.success || !finished.printed.contains("offline") {
        return Ok(finished);
    }
    again("false")
}

/// The folder of a package, as registries have it.
fn folder_of(member: &Member) -> String {
    format!("{}-{}", member.name, member.version)
}

/// Unpacks every package into a folder of its own.
fn unpack(workspace: &Workspace, public: &[&Member], folder: &Path) -> Result<()> {
    remove(folder)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for member in public {
        let file = workspace.target.join(format!("package/{}.crate", folder_of(member)));
        let mut tar = Command::new("tar");
        // Files in a package are of 2006: cargo would not see that they have changed.
        tar.args(["--extract", "--gzip", "--touch", "--file"]).arg(file);
        tar.arg("--directory").arg(folder);
        shell::output_of(&mut tar)?;
    }
    Ok(())
}

/// Has the project depend on versions, in place of folders of the checkout.
fn depend_on_packages(workspace: &Workspace, public: &[&Member], manifest: &Path) -> Result<()> {
    let mut text = fs::read_to_string(manifest)?;
    for member in public {
        let place = member.folder.strip_prefix(&workspace.root)?.display();
        let path = format!("{{ path = \"{GPUNET}/{place}\" }}");
        text = text.replace(&path, &format!("{:?}", member.version));
    }
    ensure!(!text.contains(GPUNET), "the template depends on a crate that is not public:\n{text}");
    Ok(fs::write(manifest, text)?)
}

/// Has cargo, and the cargo that the builder runs, take the packages in place of the registry's.
fn patch(public: &[&Member], unpacked: &Path, project: &Path) -> Result<()> {
    let mut config = "[patch.crates-io]\n".to_owned();
    for member in public {
        let path = unpacked.join(folder_of(member)).display().to_string();
        config += &format!("{} = {{ path = {path:?} }}\n", member.name);
    }
    let folder = project.join(".cargo");
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join("config.toml"), config)?)
}

/// Writes the template's files with the project's name and the folder of gpunet in place of their
/// placeholders, as cargo-generate does. What was built there before stays.
fn generate(template: &Path, project: &Path, gpunet: &str) -> Result<()> {
    for entry in fs::read_dir(project).into_iter().flatten().flatten() {
        if entry.file_name() != "target" {
            remove(&entry.path())?;
        }
    }
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        fs::create_dir_all(project.join(&folder))?;
        for entry in fs::read_dir(template.join(&folder))? {
            let path = folder.join(entry?.file_name());
            if template.join(&path).is_dir() {
                folders.push(path);
            } else if path != Path::new("cargo-generate.toml") {
                let text = filled_in(&fs::read_to_string(template.join(&path))?, gpunet);
                if text.contains("{{") {
                    bail!("{} has a placeholder that nothing is known of", path.display());
                }
                fs::write(project.join(&path), text)?;
            }
        }
    }
    Ok(())
}

fn filled_in(text: &str, gpunet: &str) -> String {
    text.replace("{{project-name}}", PROJECT.0)
        .replace("{{crate_name}}", PROJECT.1)
        .replace("{{gpunet}}", gpunet)
}

/// Removes a file or a folder, if it is there.
fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else if path.exists() {
        fs::remove_file(path)
    } else {
        Ok(())
    };
    removed.with_context(|| format!("cannot remove {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_was_not_built_is_noticed() {
        let wrong = wrong_in_library(Path::new("/does/not/exist.ptx")).unwrap();
        assert!(wrong[0].contains("no PTX of the device library"), "{wrong:?}");
    }

    #[test]
    fn the_template_knows_no_other_placeholders() {
        let folder = std::env::temp_dir().join(format!("gpunet-template-{}", std::process::id()));
        let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/template");
        generate(&template, &folder, "/g").unwrap();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("name = \"packaged-echo\""), "{manifest}");
        assert!(manifest.contains("path = \"/g/host\""), "{manifest}");
        assert!(folder.join("kernels/src/lib.rs").is_file());
        assert!(!folder.join("cargo-generate.toml").exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
