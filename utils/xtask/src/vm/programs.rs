//! The programs that a guest needs: found on this machine, installed where missing, and with the
//! shared libraries that they load.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::jobs::{Job, TestProgram, What};
use crate::artifacts::Executable;
use crate::context::PROFILE;
use crate::workspace::Workspace;
use crate::{artifacts, install, shell, suites};

/// What boots a guest, and what unpacks its kernel: a program or file, and its package.
const OF_HOST: &[(&str, &str)] = &[(super::guest::QEMU, "qemu-system-x86"), ("depmod", "kmod")];

/// The programs that go into every guest, with their packages.
const OF_GUEST: &[(&str, &str)] = &[
    ("rdma", "iproute2"),
    ("nc.traditional", "netcat-traditional"),
    ("ibv_devices", "ibverbs-utils"),
    ("ibv_devinfo", "ibverbs-utils"),
    ("rping", "rdmacm-utils"),
    ("rstream", "rdmacm-utils"),
    ("riostream", "rdmacm-utils"),
];

/// The shell and all small programs of the guest; needs no library.
const BUSYBOX: (&str, &str) = ("busybox", "busybox-static");

/// The file that names the library for soft-RoCE to libibverbs.
const PROVIDER_NAME: (&str, &str) = ("/etc/libibverbs.d/rxe.driver", "ibverbs-providers");

/// Where the libraries that drivers and preloading need lie on this machine.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
/// Below it: makes sockets of any program RDMA sockets.
const PRELOAD: (&str, &str) = ("/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so", "librdmacm1");
/// Loaded by the C library when a thread is ended, and so in no list.
const LOADED_LATE: &str = "/lib/x86_64-linux-gnu/libgcc_s.so.1";

/// The guest's test programs.
const TESTS: &str = "/tests";

/// Installs what is missing.
pub(crate) fn install() -> Result<()> {
    ensure!(cfg!(target_arch = "x86_64"), "the guest runs programs of x86-64 machines only");
    let all = OF_HOST.iter().chain(OF_GUEST).chain([&BUSYBOX, &PROVIDER_NAME, &PRELOAD]);
    install::programs(all.copied())?;
    let mut busybox = Command::new("ldd");
    let dynamic = busybox.arg(found(BUSYBOX.0)?).output().is_ok_and(|ldd| ldd.status.success());
    ensure!(!dynamic, "busybox needs libraries here: install busybox-static in its place");
    Ok(())
}

/// A file of this machine and its place in the guest.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) from: PathBuf,
    pub(crate) to: String,
}

impl Placed {
    fn new(from: impl Into<PathBuf>, to: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into() }
    }

    /// The same place in the guest as here.
    fn same(path: &str) -> Self {
        Self::new(path, path)
    }
}

/// Every file that a guest needs, without the programs of jobs.
pub(crate) fn base() -> Result<Vec<Placed>> {
    let mut files = vec![
        Placed::new(found(BUSYBOX.0)?, "/bin/busybox"),
        Placed::same(PROVIDER_NAME.0),
        Placed::same(PRELOAD.0),
        Placed::same(LOADED_LATE),
    ];
    for (program, _) in OF_GUEST {
        files.push(Placed::new(found(program)?, format!("/usr/bin/{program}")));
    }
    let drivers = fs::read_dir(Path::new(LIBRARIES).join("libibverbs"))?;
    let driver = drivers
        .filter_map(|entry| entry.ok()?.path().to_str().map(str::to_owned))
        .find(|path| path.contains("/librxe-"))
        .context("no driver of soft-RoCE: install ibverbs-providers")?;
    files.push(Placed::same(&driver));
    Ok(files)
}

/// A program of the workspace that a guest needs, and the folder there that it goes to.
#[derive(PartialEq, Eq)]
struct Wanted {
    package: &'static str,
    kind: &'static str,
    /// None: all of the kind.
    name: Option<&'static str>,
    folder: &'static str,
}

impl Wanted {
    fn is(&self, made: &Executable) -> bool {
        // Unit tests of a program have its kind and its name.
        made.is_test == (self.kind == "test")
            && made.package == self.package
            && made.kind == self.kind
            && self.name.is_none_or(|name| made.name == name)
    }

    fn by(job: &Job) -> impl Iterator<Item = Self> {
        let apps = Self { package: "gpunet-apps", kind: "bin", name: None, folder: "/apps" };
        let own = match &job.what {
            What::Script(_) => None,
            What::Program { package, kind, program, .. } => {
                Some(Self { package, kind, name: Some(program), folder: "/usr/bin" })
            }
            What::Tests(TestProgram { package, test, .. }) => {
                Some(Self { package, kind: "test", name: Some(test), folder: TESTS })
            }
        };
        own.into_iter().chain(job.apps.then_some(apps))
    }
}

/// Builds the programs and test programs of these jobs, as `cargo xtask test` does: with the features
/// of the whole workspace, so that nothing is compiled twice.
pub(crate) fn build(
    workspace: &Workspace,
    jobs: &[&Job],
    mut cargo: Command,
) -> Result<Vec<Executable>> {
    cargo.args(["build", "--workspace", "--profile", PROFILE]);
    suites::lint(&mut cargo)?;
    let mut any = false;
    for Wanted { package, kind, name, .. } in wanted_by(jobs) {
        let programs = workspace.member(package).map(|member| member.programs.as_slice());
        let all: Vec<&str> = match name {
            Some(name) => vec![name],
            None => programs.unwrap_or_default().iter().map(String::as_str).collect(),
        };
        for name in all {
            cargo.args([&format!("--{kind}"), name]);
            any = true;
        }
    }
    // Without a name, cargo would build everything.
    if any { artifacts::all(&mut cargo) } else { Ok(Vec::new()) }
}

/// Which of these executables the jobs need, and where.
pub(crate) fn placed(jobs: &[&Job], built: &[Executable]) -> Result<Vec<Placed>> {
    let mut files = Vec::new();
    for wanted in wanted_by(jobs) {
        let mut made = built.iter().filter(|made| wanted.is(made)).peekable();
        let Wanted { package, kind, name, folder } = wanted;
        ensure!(made.peek().is_some(), "cargo made no {kind} {} of {package}", name.unwrap_or(""));
        files.extend(
            made.map(|made| Placed::new(made.path.clone(), format!("{folder}/{}", made.name))),
        );
    }
    Ok(files)
}

fn wanted_by(jobs: &[&Job]) -> Vec<Wanted> {
    let mut all = Vec::new();
    for wanted in jobs.iter().flat_map(|job| Wanted::by(job)) {
        if !all.contains(&wanted) {
            all.push(wanted);
        }
    }
    all
}

/// Where the guest has a test program; two packages have none of the same name.
pub(crate) fn path_of_test(tests: &TestProgram) -> String {
    format!("{TESTS}/{}", tests.test)
}

/// The shared libraries that a file needs, at the places where its loader looks.
pub(crate) fn libraries_of(file: &Path) -> Result<Vec<Placed>> {
    // The guest runs on this machine's architecture and libraries, so its loader is asked.
    let output = Command::new("ldd").arg(file).output().context("cannot run ldd")?;
    if !output.status.success() {
        // Statically linked, or no program at all.
        return Ok(Vec::new());
    }
    let paths = listed_libraries(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("{} cannot run here", file.display()))?;
    Ok(paths.iter().map(|path| Placed::same(path)).collect())
}

fn listed_libraries(printed: &str) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for line in printed.lines().map(str::trim) {
        ensure!(!line.ends_with("not found"), "a library is missing: {line}");
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        let path = path.split(" (").next().unwrap_or_default();
        if path.starts_with('/') {
            paths.push(path.to_owned());
        }
    }
    Ok(paths)
}

fn found(program: &str) -> Result<PathBuf> {
    shell::on_path(program).with_context(|| format!("no {program} on this machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_the_loader() {
        let printed = "\tlinux-vdso.so.1 (0x00007f195d36e000)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f195d151000)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f195d370000)\n";
        assert_eq!(
            listed_libraries(printed).unwrap(),
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]
        );
        assert!(listed_libraries("\tlibibverbs.so.1 => not found\n").is_err());
    }
}
