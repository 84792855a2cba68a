//! Makes the archive for programs in C and C++: libgpunet, headers, the device library, examples, and what CMake
//! and pkg-config want to know.
//!
//! ```text
//! gpunet-sdk-VERSION-x86_64/
//!   lib/                libgpunet.so.1, libgpunet.so, libgpunet.a
//!   lib/gpunet/         gpunet_device.ptx, and with nvcc gpunet_device.fatbin and gpunet_device.o
//!   lib/cmake/gpunet/   gpunet-config.cmake
//!   lib/pkgconfig/      gpunet.pc
//!   include/gpunet/     device.h, gpunet.cuh, gpunet.h, gpunet.hpp ...
//!   examples/           kernels, a program that runs them, CMakeLists.txt
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use gpunet_builder::{Compiler, KernelCrate, LIBRARY_FEATURE};

use crate::nvcc::{ARCHITECTURES, LIBRARY_REGISTERS, code_of};
use crate::workspace::Workspace;
use crate::{install, shell};

/// The package that makes libgpunet.
const PACKAGE: &str = "gpunet-c";

/// What the archive may have.
const SIZE_LIMIT: u64 = 64 << 20;

/// Options of `cargo xtask dist --sdk`.
#[derive(Args)]
pub(crate) struct SdkOptions {
    /// The archive for programs in C and C++ in place of the folder: dist/gpunet-sdk-VERSION-x86_64.tar.gz.
    #[arg(long)]
    pub(crate) sdk: bool,
    /// With --sdk: a folder in which libgpunet.so and libgpunet.a are already; else they are built in release
    /// mode.
    #[arg(long, value_name = "FOLDER", requires = "sdk")]
    built: Option<PathBuf>,
    /// With --sdk: the folder to put the archive into.
    #[arg(long, value_name = "FOLDER", requires = "sdk")]
    to: Option<PathBuf>,
}

/// `cargo xtask dist --sdk`.
pub(crate) fn make(workspace: &Workspace, options: &SdkOptions) -> Result<bool> {
    let version = version(workspace)?;
    let name = format!("gpunet-sdk-{version}-{}", std::env::consts::ARCH);
    let to = options.to.clone().unwrap_or_else(|| workspace.root.join("dist"));
    fs::create_dir_all(&to).with_context(|| format!("cannot create {}", to.display()))?;
    let folder = to.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    unpacked(workspace, options.built.as_deref(), &folder)?;
    let archive = to.join(format!("{name}.tar.gz"));
    pack(&to, &name, &archive)?;
    fs::remove_dir_all(&folder)?;
    let size = fs::metadata(&archive)?.len();
    println!("{}: {:.1} MiB", archive.display(), size as f64 / f64::from(1 << 20));
    // What is built for tests has more in it.
    ensure!(
        options.built.is_some() || size <= SIZE_LIMIT,
        "the archive is larger than {} MiB",
        SIZE_LIMIT >> 20
    );
    Ok(true)
}

/// What the archive has, in a folder that is not there yet; of libraries in another one, or built now.
pub(crate) fn unpacked(workspace: &Workspace, built: Option<&Path>, folder: &Path) -> Result<()> {
    let version = version(workspace)?;
    let built = match built {
        Some(built) => built.to_owned(),
        None => build(workspace)?,
    };
    libraries(&built, &folder.join("lib"))?;
    let c = workspace.root.join("host/c");
    copy_all(&c.join("include"), &folder.join("include"))?;
    copy_all(&c.join("examples"), &folder.join("examples"))?;
    copy(&workspace.root.join("docs/tutorial/cpp.md"), &folder.join("cpp.md"))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&workspace.root.join(licence), &folder.join(licence))?;
    }
    let described = [
        ("gpunet-config.cmake", "lib/cmake/gpunet"),
        ("gpunet-config-version.cmake", "lib/cmake/gpunet"),
        ("gpunet.pc", "lib/pkgconfig"),
    ];
    for (file, place) in described {
        let text = fs::read_to_string(c.join("sdk").join(file))?.replace("@VERSION@", &version);
        let place = folder.join(place);
        fs::create_dir_all(&place)?;
        fs::write(place.join(file), text)?;
    }
    device_library(workspace, &folder.join("lib/gpunet"))
}

fn version(workspace: &Workspace) -> Result<String> {
    let manifest = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|line| line.strip_suffix('"'));
    Ok(version.context("the workspace's manifest has no version")?.to_owned())
}

/// Builds libgpunet; the folder that it is in.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut command = workspace.cargo();
    command.args(["build", "--release", "--package", PACKAGE]);
    shell::output_of(&mut command)?;
    Ok(workspace.target.join("release"))
}

/// The libraries without what debuggers read, and with the names that linkers and programs look for.
fn libraries(built: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for (file, name) in [("libgpunet.so", "libgpunet.so.1"), ("libgpunet.a", "libgpunet.a")] {
        let (from, place) = (built.join(file), to.join(name));
        ensure!(from.is_file(), "{} has no {file}: build {PACKAGE} first", built.display());
        let mut strip = Command::new("strip");
        strip.arg("--strip-debug").arg(&from).arg("-o").arg(&place);
        shell::output_of(&mut strip).context("strip comes with the C compiler (binutils)")?;
    }
    std::os::unix::fs::symlink("libgpunet.so.1", to.join("libgpunet.so"))?;
    Ok(())
}

/// The device library: its PTX, and what nvcc makes of it.
fn device_library(workspace: &Workspace, to: &Path) -> Result<()> {
    let compiler = match Compiler::find() {
        Ok(compiler) => compiler,
        Err(why) => {
            println!("without the device library for CUDA: {why}");
            return Ok(());
        }
    };
    fs::create_dir_all(to)?;
    let ptx = to.join("gpunet_device.ptx");
    copy(&library_ptx(workspace, &compiler)?, &ptx)?;
    let Some(nvcc) = install::present_nvcc(workspace) else {
        println!("without gpunet_device.o and .fatbin: no nvcc; `cargo xtask release` fetches it");
        return Ok(());
    };
    for (output, name) in [(None, "gpunet_device.o"), (Some("-fatbin"), "gpunet_device.fatbin")] {
        let mut command = Command::new(&nvcc);
        command.args(code_of(&ARCHITECTURES)).arg(LIBRARY_REGISTERS).args(output);
        command.arg("-dc").arg(&ptx).arg("-o").arg(to.join(name));
        shell::output_of(&mut command)?;
    }
    Ok(())
}

/// The PTX of the device library, as programs carry it.
pub(crate) fn library_ptx(workspace: &Workspace, compiler: &Compiler) -> Result<PathBuf> {
    let library = KernelCrate::open(&workspace.root.join("device"))?.with_feature(LIBRARY_FEATURE);
    let folder = workspace.target.join("gpunet-ptx");
    let cpu = gpunet_builder::DEFAULT_CPU;
    Ok(gpunet_builder::ptx::compile(compiler, &library, &workspace.root, cpu, &folder)?.path)
}

/// The folder as an archive that is the same for the same content.
fn pack(parent: &Path, name: &str, archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]);
    tar.args(["--mode=u+rwX,go+rX,go-w", "-C"]).arg(parent).arg("-czf").arg(archive).arg(name);
    shell::output_of(&mut tar).map(drop)
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    let what = || format!("cannot copy {} to {}", from.display(), to.display());
    fs::copy(from, to).with_context(what).map(drop)
}

/// A folder with all that is in it.
pub(crate) fn copy_all(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let name = path.file_name().context("a name")?;
        // What Python compiles for itself.
        if name == "__pycache__" {
            continue;
        }
        let place = to.join(name);
        if path.is_dir() { copy_all(&path, &place)? } else { copy(&path, &place)? }
    }
    Ok(())
}
