//! Writes the raw bindings of libibverbs and librdmacm anew from Debian 12's headers.
//!
//! The result is checked in, so that the crate builds on machines without the headers. The same
//! headers and the same bindgen give the same files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;
use crate::{install, shell};

/// The tool that reads C headers; another version may write other text.
const BINDGEN: &str = "0.72.1";
/// The release of rdma-core whose headers are read, the one in Debian 12.
const RDMA_CORE: &str = "44.";
/// A file that a package brings, and the package.
const PACKAGES: [(&str, &str); 3] = [
    ("/usr/include/infiniband/verbs.h", "libibverbs-dev"),
    ("/usr/include/rdma/rsocket.h", "librdmacm-dev"),
    ("/usr/lib/llvm-14/lib/libclang.so.1", "libclang-14-dev"),
];
/// Where this libclang lies: others that are installed may read the headers otherwise.
const LIBCLANG: &str = "/usr/lib/llvm-14/lib";
/// What the headers say of sockets and threads is taken from the crate `libc`.
const FROM_LIBC: &str = "sockaddr|sockaddr_in|sockaddr_in6|sockaddr_storage|sa_family_t|socklen_t|\
    in_addr|in6_addr|in_addr_t|in_port_t|pollfd|nfds_t|fd_set|timeval|timespec|msghdr|iovec|off_t|\
    pthread_mutex_t|pthread_cond_t|ssize_t|size_t|__time_t|__syscall_slong_t|__socklen_t|__pthread_.*|\
    __atomic_wide_counter.*|in6_addr__.*";

/// One generated file.
struct File {
    name: &'static str,
    purpose: &'static str,
    /// What bindgen is given beyond what all files share.
    options: &'static [&'static str],
    imports: &'static [&'static str],
}

const FILES: [File; 3] = [
    File {
        name: "types.rs",
        purpose: "Structures, unions, enumerations and constants of libibverbs and librdmacm.",
        options: &[
            "--generate=types,vars",
            "--allowlist-type=(rdma|ibv)_.*",
            "--allowlist-var=(RDMA|IBV|RAI|SOL_RDMA).*",
            // Its 64 bits come out as a negative number of 32.
            "--blocklist-item=RDMA_IB_IP_PS_MASK",
            // Unions with structures of `libc`, whose traits bindgen does not know.
            "--default-non-copy-union-style=manually_drop",
        ],
        imports: &[
            "use libc::{pthread_cond_t, pthread_mutex_t, sockaddr, sockaddr_in, sockaddr_in6};",
            "use libc::{sockaddr_storage, socklen_t, timespec};",
        ],
    },
    File {
        name: "ibverbs.rs",
        purpose: "The functions of libibverbs.",
        options: &[
            "--generate=functions",
            "--allowlist-function=ibv_.*",
            "--dynamic-loading=Ibverbs",
        ],
        imports: &["use super::types::*;"],
    },
    File {
        name: "rdmacm.rs",
        purpose: "The functions of librdmacm: the connection manager, and stock rsocket.",
        options: &[
            "--generate=functions",
            "--allowlist-function=rdma_.*",
            "--allowlist-function=r(socket|bind|listen|accept|connect|shutdown|close|recv|recvfrom|\
             recvmsg|send|sendto|sendmsg|read|readv|write|writev|poll|select|getpeername|\
             getsockname|setsockopt|getsockopt|fcntl)",
            "--allowlist-function=rio(map|unmap|write)",
            "--dynamic-loading=Rdmacm",
        ],
        imports: &[
            "use libc::{fd_set, iovec, msghdr, nfds_t, off_t, pollfd, sockaddr, socklen_t, timeval};",
            "use super::types::*;",
        ],
    },
];

/// Writes the files, installing what is missing first.
pub(crate) fn make(workspace: &Workspace) -> Result<bool> {
    let missing: Vec<_> = PACKAGES
        .iter()
        .filter(|(file, _)| !Path::new(file).exists())
        .map(|(_, name)| *name)
        .collect();
    if !missing.is_empty() {
        install::packages(&missing)?;
    }
    ensure_release()?;
    let bindgen = bindgen(workspace)?;
    let folder = workspace
        .member("rsocket-shim")
        .context("no crate rsocket-shim")?
        .folder
        .join("src/sys/generated");
    let scratch = workspace.scratch();
    fs::create_dir_all(&scratch)?;
    let header = scratch.join("rdma.h");
    fs::write(
        &header,
        "#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n#include <rdma/rsocket.h>\n",
    )?;
    for file in &FILES {
        let text = shell::output_of(&mut file.command(&bindgen, &header))?;
        let text = adapted(&text);
        let path = folder.join(file.name);
        fs::write(&path, format!("{}{text}", file.opening()))
            .with_context(|| format!("cannot write {}", path.display()))?;
        let mut format = Command::new("rustfmt");
        format.args(["--edition", "2024", "--config-path"]).arg(&workspace.root).arg(&path);
        shell::output_of(&mut format)?;
        println!("{}", path.display());
    }
    Ok(true)
}

/// What bindgen has no option for. Its text is not formatted yet.
fn adapted(text: &str) -> String {
    // The bound of the libloading before ours.
    text.replace("P : AsRef < :: std :: ffi :: OsStr >", "P: ::libloading::AsFilename")
        // The layouts are those of this machine: a mutex has another size elsewhere.
        .replace("const _ : () =", "#[cfg(target_arch = \"x86_64\")] const _ : () =")
}

impl File {
    fn opening(&self) -> String {
        format!(
            "//! {}\n//!\n//! Written by `cargo xtask bindings` from the headers of rdma-core {RDMA_CORE}x: \
             not to be changed by hand.\n\n{}\n\n",
            self.purpose,
            self.imports.join("\n")
        )
    }

    fn command(&self, bindgen: &Path, header: &Path) -> Command {
        let mut command = Command::new(bindgen);
        command
            .env("LIBCLANG_PATH", LIBCLANG)
            .args(["--formatter=none", "--no-doc-comments", "--no-prepend-enum-name"])
            .args([
                "--disable-header-comment",
                "--use-core",
                "--wrap-unsafe-ops",
                "--sort-semantically",
            ])
            .args(["--rust-target=1.85", "--rust-edition=2024", "--merge-extern-blocks"])
            .arg(format!("--blocklist-type={FROM_LIBC}"))
            .args(self.options);
        if self.options.contains(&"--generate=functions") {
            command.arg("--no-recursive-allowlist");
        }
        command.arg(header);
        command
    }
}

/// Other headers give other bindings, which is for a person to decide.
fn ensure_release() -> Result<()> {
    let mut ask = Command::new("dpkg-query");
    ask.args(["--show", "--showformat=${Version}", "librdmacm-dev"]);
    let version = shell::output_of(&mut ask)?;
    ensure!(
        version.starts_with(RDMA_CORE),
        "librdmacm-dev is {version}, the bindings are those of {RDMA_CORE}x: run this on Debian 12"
    );
    Ok(())
}

/// The tool, built into the target folder where it is not there yet.
fn bindgen(workspace: &Workspace) -> Result<PathBuf> {
    let root = install::tools_folder(workspace);
    let program = root.join("bin/bindgen");
    let mut ask = Command::new(&program);
    if shell::output_of(ask.arg("--version")).is_ok_and(|line| line.contains(BINDGEN)) {
        return Ok(program);
    }
    println!("building bindgen {BINDGEN}");
    let mut build = shell::cargo();
    build.args(["install", "bindgen-cli", "--locked", "--force", "--version", BINDGEN, "--root"]);
    shell::output_of(build.arg(&root))?;
    Ok(program)
}
