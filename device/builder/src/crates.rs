//! Where a kernel crate stands: its name, and the workspace whose `Cargo.lock` decides which
//! versions it is built with.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compiler::{Compiler, quoted_value};
use crate::error::Error;

/// A folder with the `Cargo.toml` of a kernel crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelCrate {
    folder: PathBuf,
    name: String,
    /// Cargo features that it is built with.
    features: Vec<String>,
}

impl KernelCrate {
    /// Reads the name of the crate in this folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(|error| {
            Error::new(format!("no kernel crate: cannot read {}: {error}", manifest.display()))
        })?;
        let name = package_name(&text).ok_or_else(|| {
            Error::new(format!("no kernel crate: {} has no [package] name", manifest.display()))
        })?;
        let folder = folder.canonicalize().map_err(|error| Error::io("find", folder, &error))?;
        Ok(Self { folder, name, features: Vec::new() })
    }

    /// The same crate with this cargo feature.
    #[must_use]
    pub fn with_feature(mut self, feature: &str) -> Self {
        self.features.push(feature.to_owned());
        self
    }

    /// Cargo features that it is built with.
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// The package's name, as its manifest spells it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name with underscores, as the files in `OUT_DIR` are called.
    pub fn file_stem(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its `Cargo.toml`.
    pub fn manifest(&self) -> PathBuf {
        self.folder.join("Cargo.toml")
    }
}

/// Finds `name` in the `[package]` table.
fn package_name(manifest: &str) -> Option<String> {
    let start = manifest.lines().position(|line| line.trim() == "[package]")?;
    let table: Vec<&str> = manifest
        .lines()
        .skip(start + 1)
        .take_while(|line| !line.trim_start().starts_with('['))
        .collect();
    quoted_value(&table.join("\n"), "name")
}

/// What a nested cargo is run on.
#[derive(Debug)]
pub(crate) struct Standing {
    /// The manifest to build.
    pub(crate) manifest: PathBuf,
    /// The package in that manifest.
    pub(crate) package: String,
    /// Whether that manifest's `Cargo.lock` belongs to the user and must stay as it is.
    pub(crate) lock_is_the_users: bool,
    /// The `Cargo.lock` that decides the versions, if there is one.
    pub(crate) lock: Option<PathBuf>,
    /// Cargo features that the manifest does not set itself.
    pub(crate) features: Vec<String>,
}

impl Standing {
    /// Decides how to build a kernel crate for the package in `user_folder`.
    ///
    /// In one workspace with that package, the crate is built in place. Anywhere else a build in
    /// place would resolve versions of its own (so that the kernels and the host program could end
    /// up with different versions of gpunet) and leave a stray `Cargo.lock` beside the kernels. So
    /// a wrapper package is made in `folder`, with a copy of the user's `Cargo.lock`.
    pub(crate) fn of(
        kernel_crate: &KernelCrate,
        user_folder: &Path,
        compiler: &Compiler,
        folder: &Path,
    ) -> Result<Self, Error> {
        let users_root = workspace_root(compiler, user_folder)?;
        let lock = Some(users_root.with_file_name("Cargo.lock")).filter(|lock| lock.is_file());
        if workspace_root(compiler, kernel_crate.folder())? == users_root {
            return Ok(Self {
                manifest: kernel_crate.manifest(),
                package: kernel_crate.name.clone(),
                lock_is_the_users: lock.is_some(),
                lock,
                features: kernel_crate.features.clone(),
            });
        }
        let wrapper = folder.join("standalone").join(kernel_crate.name());
        let package = format!("gpunet-ptx-{}", kernel_crate.name);
        let manifest = wrapper.join("Cargo.toml");
        let files = [
            (manifest.clone(), wrapper_manifest(&package, kernel_crate)),
            (
                wrapper.join("src/lib.rs"),
                "//! Exports the kernels of the crate it is named after.\n#![no_std]\nextern crate kernels;\n"
                    .to_owned(),
            ),
        ];
        fs::create_dir_all(wrapper.join("src"))
            .map_err(|error| Error::io("create", &wrapper, &error))?;
        for (path, content) in files {
            crate::write::write_if_different(&path, content.as_bytes())?;
        }
        if let Some(lock) = &lock {
            fs::copy(lock, wrapper.join("Cargo.lock"))
                .map_err(|error| Error::io("copy", lock, &error))?;
        }
        // The wrapper's dependency has them.
        let features = Vec::new();
        Ok(Self { manifest, package, lock_is_the_users: false, lock, features })
    }
}

/// The dependency is renamed, so that the library's own name need not be known.
fn wrapper_manifest(package: &str, kernel_crate: &KernelCrate) -> String {
    let name = kernel_crate.name();
    let path = kernel_crate.folder().display().to_string();
    let features = kernel_crate.features();
    format!(
        "[package]\nname = {package:?}\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [dependencies]\nkernels = {{ package = {name:?}, path = {path:?}, features = {features:?} }}\n\n[workspace]\n"
    )
}

/// The manifest at the root of a package's workspace; its own where it stands alone.
fn workspace_root(compiler: &Compiler, package_folder: &Path) -> Result<PathBuf, Error> {
    let output = compiler
        .cargo()
        .args(["locate-project", "--workspace", "--message-format", "plain"])
        .current_dir(package_folder)
        .output()
        .map_err(|error| Error::io("run cargo in", package_folder, &error))?;
    if !output.status.success() {
        return Err(Error::with_output(
            format!("cannot find the workspace of {}", package_folder.display()),
            String::from_utf8_lossy(&output.stderr),
        ));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let root = PathBuf::from(printed.trim());
    root.canonicalize().map_err(|error| Error::io("find", &root, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_name_comes_from_the_package_table() {
        let manifest =
            "[lib]\nname = \"other\"\n\n[package]\nversion = '1'\nname = \"my-kernels\" # ours\n";
        assert_eq!(package_name(manifest).as_deref(), Some("my-kernels"));
        assert_eq!(package_name("[workspace]\n"), None);
        assert_eq!(package_name("[package]\nedition = \"2024\"\n[lib]\nname = \"x\"\n"), None);
    }

    #[test]
    fn a_wrapper_sets_the_features_of_what_it_wraps() {
        let library = KernelCrate {
            folder: PathBuf::from("/registry/device"),
            name: "device".into(),
            features: vec!["library".into()],
        };
        let manifest = wrapper_manifest("ptx-device", &library);
        let expected = r#"kernels = { package = "device", path = "/registry/device", features = ["library"] }"#;
        assert!(manifest.contains(expected), "{manifest}");
    }

    #[test]
    fn a_folder_without_a_manifest_is_one_clear_line() {
        let error = KernelCrate::open(Path::new("/does/not/exist")).unwrap_err();
        assert!(error.line().contains("/does/not/exist/Cargo.toml"), "{error}");
        assert!(!error.to_string().contains('\n'));
    }
}
