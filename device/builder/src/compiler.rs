//! Finds a Rust compiler that can make PTX, or says in one line why there is none.
//!
//! rustc's own LLVM writes PTX, but nobody ships `core` compiled for the GPU, so the compiler must
//! come with its own source: the `rust-src` component of a rustup toolchain, or Debian's
//! `rust-web-src` beside `rustc-web`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fmt, fs};

/// Names the toolchain to use: a sysroot folder, a rustup toolchain, or `none`.
pub const TOOLCHAIN_VARIABLE: &str = "GPUNET_PTX_TOOLCHAIN";

/// What to run where no compiler is found.
pub const REMEDY: &str = "`rustup toolchain install nightly --component rust-src` \
     or, on Debian, `apt-get install rustc-web cargo-web rust-web-src`";

/// The oldest release that takes the flags and features used for kernels.
const OLDEST: (u32, u32) = (1, 95);

/// The release that is used where several can: registers, stack and code size are recorded for it.
pub const PREFERRED: (u32, u32) = (1, 96);

/// A compiler that can make PTX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    sysroot: PathBuf,
    version: String,
}

impl fmt::Display for Compiler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rustc {} in {}", self.version, self.sysroot.display())
    }
}

impl Compiler {
    /// The compiler that a build in this process's environment uses.
    pub fn find() -> Result<Self, NoCompiler> {
        Surroundings::of_this_process().find()
    }

    /// Every compiler that can make PTX, the one that a build uses first.
    pub fn all() -> Result<Vec<Self>, NoCompiler> {
        Surroundings::of_this_process().find_all()
    }

    /// Its version, such as `1.96.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The folder with its `bin` and `lib`.
    pub fn sysroot(&self) -> &Path {
        &self.sysroot
    }

    /// Checks that a folder holds a compiler, new enough and with its source.
    fn in_sysroot(sysroot: &Path) -> Result<Self, String> {
        let shown = sysroot.display();
        let rustc = sysroot.join("bin/rustc");
        for tool in [&rustc, &sysroot.join("bin/cargo")] {
            if !tool.is_file() {
                return Err(format!("{} does not exist", tool.display()));
            }
        }
        if !sysroot.join("lib/rustlib/src/rust/library/core").is_dir() {
            return Err(format!("{shown} has no rust-src"));
        }
        let mut command = Command::new(&rustc);
        command.arg("--version");
        clean_environment(&mut command);
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{} does not run: {error}", rustc.display()))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let version = printed.split_whitespace().nth(1).unwrap_or_default();
        match parse_version(version) {
            Some(number) if number >= OLDEST => {
                Ok(Self { sysroot: sysroot.to_owned(), version: version.to_owned() })
            }
            Some(_) => Err(format!("{shown} is {version}, older than {}.{}", OLDEST.0, OLDEST.1)),
            None => Err(format!("{} does not tell its version", rustc.display())),
        }
    }

    /// This compiler's cargo, in an environment where nothing of an outer cargo is left.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(self.sysroot.join("bin/cargo"));
        clean_environment(&mut command);
        command
            .stdin(Stdio::null())
            // By path: a rustup shim earlier on PATH would run another compiler.
            .env("RUSTC", self.sysroot.join("bin/rustc"))
            // Building `core` and the PTX ABI are unstable; this compiler's version is known.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTC_WRAPPER", "")
            .env("RUSTC_WORKSPACE_WRAPPER", "");
        command
    }
}

/// `1.97.0-nightly` is (1, 97).
fn parse_version(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Takes away what an outer cargo or rustup set for its own build.
///
/// Settings of the person or machine that a nested cargo needs just as much (where cargo lives,
/// how to reach registries) stay.
fn clean_environment(command: &mut Command) {
    let set_by_cargo = [
        "TARGET",
        "HOST",
        "OUT_DIR",
        "OPT_LEVEL",
        "PROFILE",
        "DEBUG",
        "NUM_JOBS",
        "MAKEFLAGS",
        "MFLAGS",
        "RUSTFLAGS",
        "RUSTDOCFLAGS",
        "RUSTUP_TOOLCHAIN",
        "RUST_RECURSION_COUNT",
    ];
    let kept = [
        "CARGO_HOME",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTRY_",
        "CARGO_REGISTRIES_",
        "CARGO_SOURCE_",
    ];
    for (variable, value) in env::vars_os() {
        let Some(name) = variable.to_str() else {
            continue;
        };
        let of_cargo = name == "CARGO"
            || name.starts_with("CARGO_") && !kept.iter().any(|prefix| name.starts_with(prefix));
        if of_cargo
            || set_by_cargo.contains(&name)
            || name.starts_with("RUSTC")
            || name.starts_with("RUSTDOC")
            || name.starts_with("DEP_")
        {
            command.env_remove(&variable);
        } else if name == "LD_LIBRARY_PATH" || name == "DYLD_FALLBACK_LIBRARY_PATH" {
            command.env(&variable, without_toolchains(&value));
        }
    }
}

/// A library path without the folders of Rust toolchains, which rustup and cargo add to it.
fn without_toolchains(library_path: &OsString) -> OsString {
    let of_a_toolchain = |folder: &PathBuf| {
        let parts = folder.components();
        let named = |name: &str| parts.clone().any(|part| part.as_os_str() == name);
        named("rustlib") || (named("toolchains") && folder.ends_with("lib"))
    };
    env::join_paths(env::split_paths(library_path).filter(|folder| !of_a_toolchain(folder)))
        .unwrap_or_default()
}

/// Why there is no compiler for PTX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCompiler {
    /// A build without PTX was asked for: by `GPUNET_PTX_TOOLCHAIN=none`, or by docs.rs.
    AskedFor(&'static str),
    /// `GPUNET_PTX_TOOLCHAIN` names something that cannot be used: its one line.
    Unusable(String),
    /// Nothing was found; each entry says why one toolchain does not do.
    NotFound(Vec<String>),
}

impl NoCompiler {
    /// Whether somebody wanted it so; then there is nothing to warn about.
    pub fn was_asked_for(&self) -> bool {
        matches!(self, Self::AskedFor(_))
    }

    /// The line that stands in for the PTX of a kernel crate.
    pub fn why_no_ptx(&self, kernel_crate: &str) -> String {
        format!("no PTX for `{kernel_crate}`, so its kernels run on the emulated GPU only: {self}")
    }
}

impl fmt::Display for NoCompiler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AskedFor(by) => write!(formatter, "built without PTX because of {by}"),
            Self::Unusable(why) => formatter.write_str(why),
            Self::NotFound(looked_at) => {
                formatter.write_str("no Rust compiler with its own source was found")?;
                if !looked_at.is_empty() {
                    write!(formatter, " ({})", looked_at.join("; "))?;
                }
                write!(formatter, "; install one with {REMEDY}")
            }
        }
    }
}

impl std::error::Error for NoCompiler {}

/// Where to look: taken from the process, or made up by a test.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The value of [`TOOLCHAIN_VARIABLE`].
    pub asked_for: Option<String>,
    /// rustup's folder, with `toolchains` and `settings.toml` inside.
    pub rustup: Option<PathBuf>,
    /// The toolchain that rustup runs this build with.
    pub active: Option<String>,
    /// Sysroots of compilers that the operating system installed.
    pub system: Vec<PathBuf>,
    /// Whether docs.rs builds: it has no network, and nobody launches a kernel there.
    pub docs_rs: bool,
}

impl Surroundings {
    /// What this process's environment says.
    pub fn of_this_process() -> Self {
        let home = env::var_os("HOME").or_else(|| env::var_os("USERPROFILE"));
        let rustup = env::var_os("RUSTUP_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(home?).join(".rustup")));
        // Debian installs into /usr, Ubuntu's versioned packages into /usr/lib/rust-<version>.
        let mut versioned: Vec<_> = folders_in(Path::new("/usr/lib"))
            .into_iter()
            .filter(|folder| name_of(folder).starts_with("rust-"))
            .collect();
        versioned.reverse();
        let mut system = vec![PathBuf::from("/usr")];
        system.append(&mut versioned);
        Self {
            asked_for: env::var(TOOLCHAIN_VARIABLE).ok().filter(|value| !value.is_empty()),
            rustup: rustup.filter(|folder| folder.is_dir()),
            active: env::var("RUSTUP_TOOLCHAIN").ok(),
            system,
            docs_rs: env::var_os("DOCS_RS").is_some(),
        }
    }

    /// The compiler to make PTX with: the one asked for; else one of the [`PREFERRED`] release; else
    /// rustup's, the active toolchain first; else the system's.
    pub fn find(&self) -> Result<Compiler, NoCompiler> {
        let mut all = self.find_all()?;
        Ok(all.swap_remove(0))
    }

    /// Every compiler that can make PTX, that of [`Self::find`] first; at least one.
    pub fn find_all(&self) -> Result<Vec<Compiler>, NoCompiler> {
        match &self.asked_for {
            Some(asked) if asked == "none" => {
                return Err(NoCompiler::AskedFor("GPUNET_PTX_TOOLCHAIN=none"));
            }
            Some(asked) => {
                let named = Compiler::in_sysroot(&self.sysroot_named(asked));
                return named.map(|compiler| vec![compiler]).map_err(|why| {
                    NoCompiler::Unusable(format!(
                        "{TOOLCHAIN_VARIABLE}={asked} cannot make PTX: {why}; unset it, or install a compiler with {REMEDY}"
                    ))
                });
            }
            None if self.docs_rs => return Err(NoCompiler::AskedFor("DOCS_RS")),
            None => {}
        }
        let (mut found, mut looked_at) = (Vec::new(), Vec::new());
        let rustup = self.rustup_toolchains();
        let system = self.system.iter().filter(|root| root.join("bin/rustc").is_file());
        for sysroot in rustup.iter().chain(system) {
            match Compiler::in_sysroot(sysroot) {
                Ok(compiler) => found.push(compiler),
                Err(why) => looked_at.push(why),
            }
        }
        // A stable sort: among others the order stays.
        found.sort_by_key(|compiler| parse_version(&compiler.version) != Some(PREFERRED));
        if found.is_empty() { Err(NoCompiler::NotFound(looked_at)) } else { Ok(found) }
    }

    /// Files and small folders that change when a compiler or its source is installed.
    pub fn signs_of_change(&self) -> Vec<PathBuf> {
        let mut signs = Vec::new();
        if let Some(rustup) = &self.rustup {
            signs.push(rustup.join("settings.toml"));
            signs.push(rustup.join("update-hashes"));
            for toolchain in folders_in(&rustup.join("toolchains")) {
                signs.push(toolchain.join("lib/rustlib/components"));
            }
        }
        signs.push(PathBuf::from("/var/lib/dpkg/status"));
        // A path that does not exist would make cargo run the build script every time.
        signs.retain(|sign| sign.exists());
        signs
    }

    /// A folder is taken as it is; anything else names a rustup toolchain, in full or in short.
    fn sysroot_named(&self, asked: &str) -> PathBuf {
        let folder = PathBuf::from(asked);
        if folder.is_dir() || asked.contains(std::path::MAIN_SEPARATOR) {
            return folder;
        }
        let toolchains = self.rustup_toolchains();
        let exact = toolchains.iter().find(|toolchain| name_of(toolchain) == asked);
        let in_short = || {
            toolchains.iter().find(|toolchain| name_of(toolchain).starts_with(&format!("{asked}-")))
        };
        exact.or_else(in_short).cloned().unwrap_or_else(|| {
            let toolchains = self.rustup.clone().unwrap_or_default().join("toolchains");
            toolchains.join(asked)
        })
    }

    /// The active toolchain, then rustup's default, then nightly, then the others, newest first.
    fn rustup_toolchains(&self) -> Vec<PathBuf> {
        let Some(rustup) = &self.rustup else {
            return Vec::new();
        };
        let default = fs::read_to_string(rustup.join("settings.toml"))
            .ok()
            .and_then(|settings| quoted_value(&settings, "default_toolchain"));
        let rank = |toolchain: &Path| {
            let name = name_of(toolchain);
            match () {
                () if Some(&name) == self.active.as_ref() => 0,
                () if Some(&name) == default.as_ref() => 1,
                () if name.starts_with("nightly") => 2,
                () => 3,
            }
        };
        let mut toolchains = folders_in(&rustup.join("toolchains"));
        // Names carry the version or the date, so that the greatest is the newest.
        toolchains.reverse();
        toolchains.sort_by_key(|toolchain| rank(toolchain));
        toolchains
    }
}

/// The string that a line `key = "value"` assigns.
pub(crate) fn quoted_value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        let value = value.trim();
        let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''))?;
        let value = &value[1..];
        (name.trim() == key).then(|| value[..value.find(quote)?].to_owned().into())?
    })
}

/// The folders in a folder, links to folders included, sorted by name.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
