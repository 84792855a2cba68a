//! The guest's kernel and its modules, out of Debian's package, which is unpacked and not
//! installed: nothing outside the target folder changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{install, shell};

/// The package that names the newest kernel.
const NEWEST: &str = "linux-image-amd64";

/// What the guest loads, each after what it depends on.
///
/// rdma_rxe takes its checksum from crc32_generic without naming it: without it no device
/// attaches, and nothing says why.
const MODULES: &[&str] = &["crc32_generic", "rdma_rxe", "rdma_ucm", "ib_uverbs", "dummy"];

/// In the folder of a kernel: the names of its modules, in the order of loading.
const ORDER: &str = "order";

/// A kernel that can be booted.
pub(crate) struct Kernel {
    pub(crate) image: PathBuf,
    /// In the order of loading.
    pub(crate) modules: Vec<PathBuf>,
}

impl Kernel {
    /// The newest kernel of this system's packages; fetched if it is not among `tools` yet.
    pub(crate) fn get(tools: &Path) -> Result<Self> {
        let release = Release::newest()?;
        let folder = tools.join(format!("{}_{}", release.package, release.version));
        if let Some(kernel) = Self::in_folder(&folder) {
            return Ok(kernel);
        }
        let partial = tools.join("kernel.partial");
        // A package that is newer than the lists is no longer where they say.
        let fetched = release.fetch(&partial).or_else(|_| {
            install::update_lists()?;
            Release::newest()?.fetch(&partial)
        });
        fetched.context("cannot fetch the guest's kernel")?;
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::rename(&partial, &folder)?;
        Self::in_folder(&folder).context("the kernel's package lacks what the guest needs")
    }

    fn in_folder(folder: &Path) -> Option<Self> {
        let order = fs::read_to_string(folder.join(ORDER)).ok()?;
        let modules: Vec<_> = order.lines().map(|name| folder.join(name)).collect();
        let has = |name: &&str| modules.iter().any(|path| module_name(path) == **name);
        let image = folder.join("vmlinuz");
        (MODULES.iter().all(has) && image.is_file()).then_some(Self { image, modules })
    }
}

/// A kernel's package.
#[derive(Debug, PartialEq, Eq)]
struct Release {
    package: String,
    version: String,
}

impl Release {
    fn newest() -> Result<Self> {
        let mut show = Command::new("apt-cache");
        show.args(["show", "--no-all-versions", NEWEST]);
        let shown = shell::output_of(&mut show)
            .with_context(|| format!("this system has no package {NEWEST}, Debian's kernel"))?;
        Self::named_in(&shown).with_context(|| format!("no kernel is named by package {NEWEST}"))
    }

    /// `Depends: linux-image-6.1.0-54-amd64 (= 6.1.190-1)` in what apt-cache shows.
    fn named_in(shown: &str) -> Option<Self> {
        let mut wanted = shown.lines().filter_map(|line| line.strip_prefix("Depends: "));
        let kernel = wanted.next()?.split(", ").find(|word| word.starts_with("linux-image-"))?;
        let (package, version) = kernel.split_once(" (= ")?;
        let version = version.trim_end_matches(')');
        let plain = |text: &str| !text.contains(['/', ' ']);
        (plain(package) && plain(version))
            .then(|| Self { package: package.to_owned(), version: version.to_owned() })
    }

    /// Leaves in `folder` the kernel, the modules that the guest needs, and their order.
    fn fetch(&self, folder: &Path) -> Result<()> {
        println!("fetching {} {}", self.package, self.version);
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        let unpacked = folder.join("unpacked");
        fs::create_dir_all(&unpacked)?;
        let mut download = Command::new("apt-get");
        download.args(["--quiet", "download", &format!("{}={}", self.package, self.version)]);
        shell::output_of(download.current_dir(folder))?;
        let package = only_file(folder, "deb")?;
        let mut unpack = Command::new("dpkg-deb");
        shell::output_of(unpack.arg("-x").arg(&package).arg(&unpacked))?;
        let release = self.package.trim_start_matches("linux-image-");
        fs::rename(
            unpacked.join("boot").join(format!("vmlinuz-{release}")),
            folder.join("vmlinuz"),
        )?;
        let depmod = shell::on_path("depmod").context("no depmod: install kmod")?;
        shell::output_of(Command::new(depmod).arg("-b").arg(&unpacked).arg(release))?;
        let modules = unpacked.join("lib/modules").join(release);
        let dependencies = fs::read_to_string(modules.join("modules.dep"))?;
        let builtin = fs::read_to_string(modules.join("modules.builtin"))?;
        let mut order = String::new();
        for path in loading_order(&dependencies, &builtin, MODULES)? {
            let name = place_module(&modules.join(path), folder)?;
            order.push_str(&name);
            order.push('\n');
        }
        fs::write(folder.join(ORDER), order)?;
        fs::remove_file(package)?;
        Ok(fs::remove_dir_all(unpacked)?)
    }
}

fn only_file(folder: &Path, extension: &str) -> Result<PathBuf> {
    let files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut wanted = files.filter(|path| path.extension().is_some_and(|ext| ext == extension));
    wanted.next().with_context(|| format!("no .{extension} file was downloaded"))
}

/// Puts a module into a folder, unpacked; returns its file's name.
fn place_module(from: &Path, folder: &Path) -> Result<String> {
    let name = format!("{}.ko", module_name(from));
    let unpacker = match from.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => "cat",
    };
    let mut command = Command::new(unpacker);
    if unpacker != "cat" {
        command.arg("-dc");
    }
    let output = command.arg(from).output().with_context(|| format!("cannot run {unpacker}"))?;
    ensure!(output.status.success(), "cannot unpack the module {}", from.display());
    fs::write(folder.join(&name), output.stdout)?;
    Ok(name)
}

/// `kernel/drivers/net/dummy.ko.xz` is `dummy`; in names, `-` and `_` are the same.
fn module_name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    file.split('.').next().unwrap_or_default().replace('-', "_")
}

/// The files of these modules and of all that they depend on, each after what it depends on.
///
/// `dependencies` is modules.dep, `builtin` modules.builtin, which names what is in the kernel.
fn loading_order<'a>(
    dependencies: &'a str,
    builtin: &str,
    wanted: &[&str],
) -> Result<Vec<&'a str>> {
    let mut known: BTreeMap<String, (&str, Vec<&str>)> = BTreeMap::new();
    for line in dependencies.lines() {
        if let Some((path, needed)) = line.split_once(':') {
            let needed = needed.split_whitespace().collect();
            known.insert(module_name(Path::new(path)), (path, needed));
        }
    }
    let mut order = Vec::new();
    for name in wanted {
        let Some((path, needed)) = known.get(*name) else {
            let in_kernel = builtin.lines().any(|path| module_name(Path::new(path)) == *name);
            if in_kernel {
                continue;
            }
            bail!("the kernel has no module {name}");
        };
        // modules.dep holds the whole closure, what is needed first at the end.
        for path in needed.iter().rev().chain([path]) {
            if !order.contains(path) {
                order.push(*path);
            }
        }
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "\
kernel/core/ib_core.ko:
kernel/net/udp_tunnel.ko.xz:
kernel/net/ip6_udp_tunnel.ko: kernel/net/udp_tunnel.ko.xz
kernel/core/ib-uverbs.ko: kernel/core/ib_core.ko
kernel/sw/rdma_rxe.ko: kernel/core/ib-uverbs.ko kernel/net/ip6_udp_tunnel.ko kernel/net/udp_tunnel.ko.xz kernel/core/ib_core.ko
kernel/net/dummy.ko:
";

    #[test]
    fn modules_come_after_what_they_need_and_once() {
        let order = loading_order(
            DEPENDENCIES,
            "kernel/crypto/crc32_generic.ko\n",
            &["crc32_generic", "rdma_rxe", "ib_uverbs", "dummy"],
        )
        .unwrap();
        assert_eq!(
            order,
            [
                "kernel/core/ib_core.ko",
                "kernel/net/udp_tunnel.ko.xz",
                "kernel/net/ip6_udp_tunnel.ko",
                "kernel/core/ib-uverbs.ko",
                "kernel/sw/rdma_rxe.ko",
                "kernel/net/dummy.ko",
            ]
        );
    }

    #[test]
    fn a_kernel_without_a_module_is_refused() {
        let error = loading_order(DEPENDENCIES, "", &["siw"]).unwrap_err();
        assert_eq!(error.to_string(), "the kernel has no module siw");
    }

    #[test]
    fn the_kernel_is_read_from_its_meta_package() {
        let shown =
            "Package: linux-image-amd64\nDepends: a, linux-image-6.1.0-54-amd64 (= 6.1.190-1)\n";
        let release = Release::named_in(shown).unwrap();
        assert_eq!(release.package, "linux-image-6.1.0-54-amd64");
        assert_eq!(release.version, "6.1.190-1");
        assert_eq!(Release::named_in("Depends: linux-image-../x (= 1)\n"), None);
        assert_eq!(Release::named_in("Package: x\n"), None);
    }
}
