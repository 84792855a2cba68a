//! Runs the nested cargo that compiles a kernel crate for the GPU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::compiler::{Compiler, TOOLCHAIN_VARIABLE};
use crate::crates::{KernelCrate, Standing};
use crate::error::Error;

const TARGET: &str = "nvptx64-nvidia-cuda";

/// How hard packing tries: more takes long in a build script, which is not optimised.
const LEVEL: u8 = 6;

/// PTX that was built, or was found up to date.
#[derive(Debug, Clone)]
pub struct Ptx {
    /// Where it lies.
    pub path: PathBuf,
    /// The module itself.
    pub text: String,
    /// Everything it was made from: sources of the kernel crate and of its path dependencies,
    /// their manifests, and the `Cargo.lock`.
    pub sources: Vec<PathBuf>,
}

impl Ptx {
    /// The text as programs carry it, in zlib's format. It is said many times over in different
    /// registers, so little is left of it.
    pub(crate) fn packed(&self) -> Vec<u8> {
        miniz_oxide::deflate::compress_to_vec_zlib(self.text.as_bytes(), LEVEL)
    }
}

/// Compiles a kernel crate for `cpu`, with the versions that the package in `user_folder` uses.
///
/// All intermediate files go to `folder`/`cpu`, which cargo locks and keeps, so that calls at the
/// same time wait for each other and a second one finds everything done.
pub fn compile(
    compiler: &Compiler,
    kernel_crate: &KernelCrate,
    user_folder: &Path,
    cpu: &str,
    folder: &Path,
) -> Result<Ptx, Error> {
    let build_folder = folder.join(cpu);
    fs::create_dir_all(&build_folder)
        .map_err(|error| Error::io("create", &build_folder, &error))?;
    let build_folder =
        build_folder.canonicalize().map_err(|error| Error::io("find", &build_folder, &error))?;
    let standing = Standing::of(kernel_crate, user_folder, compiler, &build_folder)?;
    let stem = standing.package.replace('-', "_");
    let (assembly, path) =
        (build_folder.join(format!("{stem}.s")), build_folder.join(format!("{stem}.ptx")));
    let nested = NestedCargo {
        compiler,
        standing: &standing,
        cpu,
        build_folder: &build_folder,
        assembly: &assembly,
    };
    nested.build(kernel_crate)?;
    if !assembly.is_file() {
        // Cargo thinks it is up to date and does not know that somebody removed the PTX.
        nested.forget();
        nested.build(kernel_crate)?;
    }
    let text = fs::read_to_string(&assembly);
    let text = with_weak_functions(&text.map_err(|error| Error::io("read", &assembly, &error))?);
    crate::write::write_if_different(&path, text.as_bytes())?;
    let sources = nested.sources(kernel_crate);
    Ok(Ptx { path, text, sources })
}

/// The same module with weak functions in place of those that only the module sees. Of the latter the
/// assembler knows all callers, and gives each function registers above those of all it calls, so that
/// a kernel has the sum along its deepest chain of calls: 254 where functions that keep to the calling
/// convention come to 148. And what it keeps in registers across such calls cannot be checked from
/// outside. Functions of one name in two images become one when they are linked; the library's carry its
/// own crate's name, which a test of the host crate keeps so.
fn with_weak_functions(assembly: &str) -> String {
    let mut text = String::with_capacity(assembly.len() + assembly.len() / 64);
    for line in assembly.split_inclusive('\n') {
        if line.starts_with(".func") {
            text.push_str(".weak ");
        }
        text.push_str(line);
    }
    text
}

struct NestedCargo<'a> {
    compiler: &'a Compiler,
    standing: &'a Standing,
    cpu: &'a str,
    build_folder: &'a Path,
    assembly: &'a Path,
}

impl NestedCargo<'_> {
    fn build(&self, kernel_crate: &KernelCrate) -> Result<(), Error> {
        // Usually everything is there already, and then the build needs no network.
        let mut output = self.run(true)?;
        if !output.status.success() && stderr(&output).contains("--offline") {
            output = self.run(false)?;
        }
        if output.status.success() {
            return Ok(());
        }
        Err(Error::with_output(
            format!(
                "`{}` does not compile for {} with {}; set {TOOLCHAIN_VARIABLE}=none to build without PTX",
                kernel_crate.name(),
                self.cpu,
                self.compiler
            ),
            stderr(&output),
        ))
    }

    fn run(&self, offline: bool) -> Result<Output, Error> {
        let mut command = self.compiler.cargo();
        command
            .args(["rustc", "--release", "--lib", "--crate-type", "cdylib"])
            .args(["--target", TARGET, "-Zbuild-std=core", "--manifest-path"])
            .arg(&self.standing.manifest)
            .arg("--target-dir")
            .arg(self.build_folder)
            .env("CARGO_BUILD_BUILD_DIR", self.build_folder)
            .current_dir(self.standing.manifest.parent().unwrap_or(Path::new(".")));
        for feature in &self.standing.features {
            command.args(["--features", feature]);
        }
        if self.standing.lock_is_the_users {
            command.arg("--locked");
        }
        if offline {
            command.arg("--offline");
        }
        // Through variables, so that the user's manifests need no profile for the GPU. Only one
        // fat LTO unit makes the assembly of the last crate the whole module.
        for (setting, value) in [
            ("LTO", "fat"),
            ("PANIC", "abort"),
            ("CODEGEN_UNITS", "1"),
            ("OPT_LEVEL", "3"),
            ("DEBUG", "false"),
            ("DEBUG_ASSERTIONS", "false"),
            ("OVERFLOW_CHECKS", "false"),
            ("INCREMENTAL", "false"),
            ("STRIP", "none"),
        ] {
            command.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
        }
        let flags = [
            &format!("-Ctarget-cpu={}", self.cpu),
            // There is nothing to link, and the linker for this target is in no package.
            "-Clinker=true",
            // A failed bounds check becomes a trap, without core's formatting code.
            "-Zunstable-options",
            "-Cpanic=immediate-abort",
            // This pass copies a call into both arms of a branch, and lanes of one warp then enter
            // one cooperative call from two places.
            "-Zmir-enable-passes=-JumpThreading",
        ];
        command.env("RUSTFLAGS", flags.join(" "));
        let mut emit = std::ffi::OsString::from("--emit=asm=");
        emit.push(self.assembly);
        command.arg("--").arg(emit);
        command
            .output()
            .map_err(|error| Error::io("run", &self.compiler.sysroot().join("bin/cargo"), &error))
    }

    /// Makes the next run compile the last crate again.
    fn forget(&self) {
        let fingerprints = self.build_folder.join(TARGET).join("release/.fingerprint");
        let of_this_package = format!("{}-", self.standing.package);
        for entry in fs::read_dir(fingerprints).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&of_this_package) {
                // What cannot be removed leaves the PTX missing, which is reported.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// What cargo lists beside its result, and what decides about dependencies.
    fn sources(&self, kernel_crate: &KernelCrate) -> Vec<PathBuf> {
        let stem = self.standing.package.replace('-', "_");
        let listed = self.build_folder.join(TARGET).join(format!("release/{stem}.d"));
        let mut sources: Vec<PathBuf> = match fs::read_to_string(listed) {
            Ok(rule) => prerequisites(&rule),
            // A library with a name of its own: watch its whole folder instead.
            Err(_) => vec![kernel_crate.folder().join("src")],
        };
        let manifests: Vec<_> = sources.iter().filter_map(|source| manifest_of(source)).collect();
        sources.extend(manifests);
        sources.push(kernel_crate.manifest());
        sources.extend(self.standing.lock.clone());
        sources.retain(|source| !source.starts_with(self.build_folder));
        sources.sort();
        sources.dedup();
        sources
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The files right of the colon in a makefile rule; spaces in names are escaped.
fn prerequisites(rule: &str) -> Vec<PathBuf> {
    let line = rule.lines().next().unwrap_or_default();
    let Some((_, files)) = line.split_once(": ") else {
        return Vec::new();
    };
    let mut names = vec![String::new()];
    let mut characters = files.chars();
    while let Some(character) = characters.next() {
        match (character, names.last_mut()) {
            ('\\', Some(name)) => name.extend(characters.next()),
            (' ', _) => names.push(String::new()),
            (_, Some(name)) => name.push(character),
            (_, None) => {}
        }
    }
    names.into_iter().filter(|name| !name.is_empty()).map(PathBuf::from).collect()
}

/// The manifest of the package that a source file belongs to.
fn manifest_of(source: &Path) -> Option<PathBuf> {
    source
        .ancestors()
        .skip(1)
        .map(|folder| folder.join("Cargo.toml"))
        .find(|manifest| manifest.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_module_become_weak_and_others_stay() {
        let assembly = ".visible .func  (.param .b64 r) gpunet_time(\n)\n{\n}\n\
            .func _Xhelper(\n)\n{\n\tcall.uni _Xother;\n}\n\
            .extern .func (.param .b64 r) gpunet_begin\n()\n;\n";
        let expected = assembly.replace("\n.func _X", "\n.weak .func _X");
        assert_eq!(with_weak_functions(assembly), expected);
    }

    #[test]
    fn prerequisites_may_hold_spaces() {
        let rule = "/t/k.ptx: /a/src/lib.rs /b\\ c/src/x.rs\n";
        assert_eq!(
            prerequisites(rule),
            [PathBuf::from("/a/src/lib.rs"), PathBuf::from("/b c/src/x.rs")]
        );
        assert!(prerequisites("").is_empty());
    }
}
