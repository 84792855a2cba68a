//! Turns a kernel crate into PTX from the build script of the crate that launches it.
//!
//! ```no_run
//! // build.rs, with the kernels in the folder `kernels` beside it
//! gpunet_builder::Builder::new("kernels").build();
//! ```
//!
//! The kernel crate is an ordinary `no_std` library that depends on `gpunet-device`, whose calls it
//! declares; the device library that defines them is an image of its own ([`Builder::library`]), which
//! the host crate carries and the driver links kernels with. The host
//! program depends on it too, for the emulated GPU, and takes what was built from here:
//!
//! ```text
//! let module = include!(concat!(env!("OUT_DIR"), "/kernels.module.rs"));
//! ```
//!
//! ```text
//! build.rs ── Builder ─┬─ compiler   which Rust compiler can do it, or why none can
//!                      ├─ crates     where the kernel crate stands, whose Cargo.lock counts
//!                      ├─ ptx        a nested cargo, in <target>/gpunet-ptx/<cpu>
//!                      ├─ ptxas      does it assemble (only where a ptxas is found)
//!                      └─ OUT_DIR    <name>.ptx.z, packed, and <name>.module.rs
//! ```
//!
//! A line says that PTX is inside, for which GPUs, how large, and whether ptxas has checked it.
//! Without a compiler the build goes on: the module then carries, in place of the PTX, one line
//! that says what to install, and kernels run on the emulated GPU only. A kernel crate that does
//! not compile for the GPU is an error, where the program includes the module.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `GPUNET_PTX_TOOLCHAIN` | a sysroot folder, the name of a rustup toolchain, or `none` for a build without PTX |
//! | `GPUNET_PTX_CPU` | the GPU to compile for, such as `sm_90`; wins over [`Builder::target_cpu`] |
//! | `GPUNET_PTXAS` | the ptxas to check with |
//!
//! Why it is so: decision 1 of docs/explanation/decisions.md.

use std::env;
use std::path::{Path, PathBuf};

pub mod compiler;
pub mod crates;
mod error;
pub mod ptx;
pub mod ptxas;
mod write;

pub use compiler::{Compiler, NoCompiler};
pub use crates::KernelCrate;
pub use error::Error;
pub use ptx::Ptx;
pub use ptxas::{FunctionUsage, Ptxas};

use write::write_if_different;

/// The GPU that PTX is built for when nothing else is asked: the oldest that current CUDA
/// supports. The driver translates its PTX for every newer GPU.
pub const DEFAULT_CPU: &str = "sm_75";

/// The feature with which the device crate is the device library.
pub const LIBRARY_FEATURE: &str = "library";

/// The GPU asked for by `GPUNET_PTX_CPU`.
pub const CPU_VARIABLE: &str = "GPUNET_PTX_CPU";

/// Builds one kernel crate; made and used in a build script.
#[derive(Debug, Clone)]
pub struct Builder {
    kernel_crate: PathBuf,
    is_library: bool,
    cpu: String,
}

impl Builder {
    /// A builder for the kernel crate in this folder, relative to the calling package's own.
    pub fn new(kernel_crate: impl AsRef<Path>) -> Self {
        Self {
            kernel_crate: kernel_crate.as_ref().to_owned(),
            is_library: false,
            cpu: DEFAULT_CPU.to_owned(),
        }
    }

    /// A builder for the device library, whose crate is in this folder: what kernels are linked with.
    pub fn library(device_crate: impl AsRef<Path>) -> Self {
        Self { is_library: true, ..Self::new(device_crate) }
    }

    /// Compiles for this GPU and newer ones, such as `sm_90`. The default is [`DEFAULT_CPU`].
    pub fn target_cpu(mut self, cpu: &str) -> Self {
        cpu.clone_into(&mut self.cpu);
        self
    }

    /// Builds, writes into `OUT_DIR` and tells cargo what to watch.
    ///
    /// A kernel crate that does not compile for the GPU is an error of the program that includes its
    /// module, with the compiler's message; other failures end the build script.
    pub fn build(self) {
        self.try_build().unwrap_or_else(|error| end_build_script(&error));
    }

    fn try_build(self) -> Result<(), Error> {
        let package_folder = required_folder("CARGO_MANIFEST_DIR")?;
        let out = required_folder("OUT_DIR")?;
        let watched = [
            CPU_VARIABLE,
            compiler::TOOLCHAIN_VARIABLE,
            ptxas::PTXAS_VARIABLE,
            "CUDA_HOME",
            "CUDA_PATH",
        ];
        for variable in watched {
            println!("cargo::rerun-if-env-changed={variable}");
        }
        let cpu = env::var(CPU_VARIABLE).unwrap_or(self.cpu);
        check_cpu_name(&cpu)?;
        let mut kernel_crate = KernelCrate::open(&package_folder.join(&self.kernel_crate))?;
        if self.is_library {
            kernel_crate = kernel_crate.with_feature(LIBRARY_FEATURE);
        }
        watch(&kernel_crate.manifest());

        let surroundings = compiler::Surroundings::of_this_process();
        let compiler = match surroundings.find() {
            Ok(compiler) => compiler,
            Err(NoCompiler::Unusable(why)) => return Err(Error::new(why)),
            Err(missing) => {
                // Installing a compiler must be enough to get PTX from the next build.
                surroundings.signs_of_change().iter().for_each(|path| watch(path));
                let why = missing.why_no_ptx(kernel_crate.name());
                if !missing.was_asked_for() {
                    println!("cargo::warning={why}");
                }
                return write_module(&out, &kernel_crate, Err(&why));
            }
        };

        let folder = target_folder(&out, env::var("TARGET").ok().as_deref()).join("gpunet-ptx");
        let ptx = match ptx::compile(&compiler, &kernel_crate, &package_folder, &cpu, &folder) {
            Ok(ptx) => ptx,
            Err(error) if !error.output().is_empty() => {
                // Nobody knows all sources now: with a file that is not there, cargo asks each time.
                watch(&out.join("does-not-compile"));
                return write_expression(&out, &kernel_crate, &complaint(&error));
            }
            Err(error) => return Err(error),
        };
        ptx.sources.iter().for_each(|path| watch(path));
        let checked = match Ptxas::find() {
            None => "not checked, since no ptxas was found: the driver will".to_owned(),
            Some(ptxas) => match ptxas.check(&ptx.path, &cpu, &out) {
                Ok(()) => format!("checked by {ptxas}"),
                Err(ptxas::AssembleError::TooOld(why)) => why,
                Err(ptxas::AssembleError::Rejected(error)) => return Err(error),
            },
        };
        let in_out = out.join(format!("{}.ptx.z", kernel_crate.file_stem()));
        let packed = ptx.packed();
        write_if_different(&in_out, &packed)?;
        let about = about(&kernel_crate, &cpu, (ptx.text.len(), packed.len()), &checked);
        // The device library is the host crate's affair. Cargo has no other way to show a line.
        println!("{}{about}", if self.is_library { "" } else { "cargo::warning=" });
        write_module(&out, &kernel_crate, Ok(&in_out))
    }
}

/// Where the source of a kernel crate is that the calling package depends on, from a registry or not.
///
/// That crate must have a `links` key, its name with underscores, and a build script that says
/// `cargo::metadata=source=` with its folder; then cargo hands it to the build scripts of packages
/// that depend on it directly. Ends the build script where that is not so.
pub fn source_of(package: &str) -> PathBuf {
    let variable = source_variable(package);
    match env::var_os(&variable) {
        Some(folder) => PathBuf::from(folder),
        None => end_build_script(&Error::new(format!(
            "{variable} is not set: make `{package}` a direct dependency, with a `links` key and a build \
             script that says where its source is"
        ))),
    }
}

/// How cargo names what the build script of a package with `links` tells.
fn source_variable(package: &str) -> String {
    format!("DEP_{}_SOURCE", package.replace('-', "_").to_uppercase())
}

/// Cargo shows the line and fails the build.
fn end_build_script(error: &Error) -> ! {
    println!("cargo::error={}", error.line());
    eprintln!("{}", error.output().trim_end());
    std::process::exit(1);
}

/// What a program gets: for which GPUs, how large, and who has checked it.
fn about(
    kernel_crate: &KernelCrate,
    cpu: &str,
    (bytes, packed): (usize, usize),
    checked: &str,
) -> String {
    // Such as sm_90a: its PTX is for this GPU alone.
    let newer = if cpu.ends_with(['a', 'f']) { "" } else { " and newer GPUs" };
    format!(
        "PTX of `{}` is inside, for {cpu}{newer}: {} KiB, packed {} KiB; {checked}",
        kernel_crate.name(),
        bytes.div_ceil(1024),
        packed.div_ceil(1024),
    )
}

/// Writes the expression that the host program includes.
fn write_module(
    out: &Path,
    kernel_crate: &KernelCrate,
    ptx: Result<&Path, &str>,
) -> Result<(), Error> {
    let ptx = match ptx {
        Ok(path) => format!("Ok(include_bytes!({:?}))", path.display().to_string()),
        Err(why) => format!("Err({why:?})"),
    };
    // As `kernels!` names it: by the crate, not the package.
    let name = kernel_crate.file_stem();
    let module = format!("::gpunet_host::Module {{ name: {name:?}, ptx: {ptx} }}\n");
    write_expression(out, kernel_crate, &module)
}

fn write_expression(out: &Path, kernel_crate: &KernelCrate, text: &str) -> Result<(), Error> {
    let path = out.join(format!("{}.module.rs", kernel_crate.file_stem()));
    write_if_different(&path, text.as_bytes())
}

/// In place of the module, for kernels that do not compile for the GPU: the program's own compilation
/// says it. A build script that failed would say it beside the compilation of the same crate for the
/// CPU, which has most errors as well and then keeps cargo from coming to the program.
fn complaint(error: &Error) -> String {
    format!("compile_error!({:?})\n", error.to_string())
}

/// Refuses what rustc would only warn about, before half a minute of compiling.
fn check_cpu_name(cpu: &str) -> Result<(), Error> {
    let number = cpu.strip_prefix("sm_").unwrap_or_default();
    let number = number.strip_suffix(['a', 'f']).unwrap_or(number);
    if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(());
    }
    Err(Error::new(format!("`{cpu}` is not a GPU to compile for: name one as `sm_75` or `sm_90`")))
}

/// The folder that cargo builds into, from the `OUT_DIR` it gave to a build script.
fn target_folder(out: &Path, target: Option<&str>) -> PathBuf {
    let Some(profile_folder) = out
        .ancestors()
        .find(|folder| folder.file_name().is_some_and(|name| name == "build"))
        .and_then(Path::parent)
    else {
        return out.to_owned();
    };
    // <target>/<profile>, or <target>/<triple>/<profile> when cargo was given a --target.
    match profile_folder.parent() {
        Some(folder)
            if folder.file_name().is_some_and(|name| Some(name) == target.map(AsRef::as_ref)) =>
        {
            folder.parent().unwrap_or(folder).to_owned()
        }
        Some(folder) => folder.to_owned(),
        None => out.to_owned(),
    }
}

fn required_folder(variable: &str) -> Result<PathBuf, Error> {
    env::var_os(variable).map(PathBuf::from).ok_or_else(|| {
        Error::new(format!(
            "{variable} is not set: gpunet_builder::Builder works in a build script only"
        ))
    })
}

fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_folder_is_found_with_and_without_a_target() {
        let plain = Path::new("/w/target/release/build/app-1f/out");
        assert_eq!(target_folder(plain, Some("x86_64-unknown-linux-gnu")), Path::new("/w/target"));
        let triple = Path::new("/w/target/x86_64-unknown-linux-gnu/debug/build/app-1f/out");
        assert_eq!(target_folder(triple, Some("x86_64-unknown-linux-gnu")), Path::new("/w/target"));
        let nested = Path::new("/w/target/debug/build/app/1f/out");
        assert_eq!(target_folder(nested, None), Path::new("/w/target"));
        assert_eq!(target_folder(Path::new("/odd/out"), None), Path::new("/odd/out"));
    }

    #[test]
    fn a_complaint_is_an_expression_that_holds_what_the_compiler_said() {
        let error = Error::with_output("no `k`", "error: \"x\"\n  --> a\\b.rs");
        let expected = "compile_error!(\"no `k`\\nerror: \\\"x\\\"\\n  --> a\\\\b.rs\")\n";
        assert_eq!(complaint(&error), expected);
    }

    #[test]
    fn the_variable_of_a_source_is_named_as_cargo_does() {
        assert_eq!(source_variable("gpunet-device"), "DEP_GPUNET_DEVICE_SOURCE");
    }

    #[test]
    fn cpu_names_are_checked() {
        for good in ["sm_75", "sm_90", "sm_90a", "sm_100f"] {
            assert!(check_cpu_name(good).is_ok(), "{good}");
        }
        for bad in ["", "sm_", "90", "sm_a", "native", "sm_90 -x"] {
            assert!(check_cpu_name(bad).is_err(), "{bad}");
        }
    }
}
