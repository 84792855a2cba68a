//! What kernels cost a GPU: registers, stack, spills and machine code, of each kernel with everything
//! that it reaches in the device library, and of each function of the library by itself.
//!
//! ```text
//! PTX ── ptxas -c ──> objects ── nvlink ──> registers and stack of a kernel
//!                        └── elf ────────> code sizes, who calls whom
//!                        └── clobber ────> registers that are read behind a call that changes them
//! limits: what is recorded in device/footprint.json, and what has grown beyond it
//! ```
//!
//! Objects of kernels are made twice, as programs load them: with as many registers as the code wants,
//! and with at most 64, for blocks of up to 1,024 threads. The library has at most 64 in both.

mod clobber;
mod cost;
mod elf;
mod limits;
mod link;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use gpunet_builder::{FunctionUsage, Ptxas};

pub(crate) use clobber::Nvdisasm;
pub(crate) use cost::{CPU, Footprint};
pub(crate) use limits::{FILE, Limits};
pub(crate) use link::Nvlink;

use elf::Object;

/// Registers that a thread of the largest blocks may have.
const TIGHT: u32 = 64;
/// How the library is called in tables.
const LIBRARY: &str = "library";
/// What the names of its functions begin with.
const PREFIX: &str = "gpunet_";

/// PTX of a crate.
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) ptx: PathBuf,
}

/// How objects of kernels are made: with how many registers at most, and what rows of that are called.
const VARIANTS: [(Option<u32>, &str); 2] = [(None, ""), (Some(TIGHT), "@64")];

/// What was measured.
#[derive(Default)]
pub(crate) struct Measured {
    /// Rows `library::function`, `crate::kernel`, and the last with `@64`.
    pub(crate) rows: BTreeMap<String, Footprint>,
    /// What is read behind calls that change it: one line each.
    pub(crate) stale_reads: Vec<String>,
}

/// NVIDIA's programs that it takes.
pub(crate) struct Tools {
    pub(crate) ptxas: Ptxas,
    pub(crate) nvlink: Nvlink,
    /// Without it the machine code is not looked at.
    pub(crate) nvdisasm: Option<Nvdisasm>,
}

/// Measures kernels linked with the library.
pub(crate) fn measure(
    tools: &Tools,
    library: &Image,
    kernels: &[Image],
    cpu: &str,
    scratch: &Path,
) -> Result<Measured> {
    let mut measured = Measured::default();
    let library = Assembled::new(tools, library, cpu, Some(TIGHT), scratch, &mut measured)?;
    let exported = library.exported();
    ensure!(!exported.is_empty(), "the library has no function that kernels call");
    for (name, footprint) in exported {
        ensure!(footprint.registers > 0, "{name}: its registers could not be read");
        measured.rows.insert(format!("{LIBRARY}::{name}"), footprint);
    }
    for (registers, suffix) in VARIANTS {
        for image in kernels {
            let assembled = Assembled::new(tools, image, cpu, registers, scratch, &mut measured)?;
            let linked = tools.nvlink.link(&[&library.path, &assembled.path], cpu, scratch)?;
            for (kernel, used) in linked {
                let (code, spills) = reach(&kernel, &[&assembled, &library]);
                let footprint = Footprint { code, spills, ..used };
                ensure!(
                    footprint.registers > 0 && footprint.code > 0,
                    "{}::{kernel}: its registers or its code could not be read",
                    image.name
                );
                measured.rows.insert(format!("{}::{kernel}{suffix}", image.name), footprint);
            }
        }
    }
    Ok(measured)
}

/// An object and what ptxas said of it; the file goes with this.
struct Assembled {
    path: PathBuf,
    object: Object,
    usage: BTreeMap<String, FunctionUsage>,
}

impl Assembled {
    fn new(
        tools: &Tools,
        image: &Image,
        cpu: &str,
        registers: Option<u32>,
        scratch: &Path,
        measured: &mut Measured,
    ) -> Result<Self> {
        let most = registers.map_or_else(String::new, |most| format!(".{most}"));
        let file = format!("{}.{cpu}{most}.{}.o", image.name, std::process::id());
        let path = scratch.join(file);
        let usage = tools
            .ptxas
            .assemble(&image.ptx, cpu, registers, &path)
            .with_context(|| format!("{} for {cpu}", image.name))?;
        let object = Object::read(&path)?;
        if let Some(nvdisasm) = &tools.nvdisasm {
            let lines = nvdisasm.check(&path)?;
            let of = |line| format!("{}{most} for {cpu}: {line}", image.name);
            measured.stale_reads.extend(lines.into_iter().map(of));
        }
        let usage: BTreeMap<_, _> =
            usage.into_iter().map(|usage| (usage.name.clone(), usage)).collect();
        let described = |name: &&String| !usage.contains_key(*name) && !name.starts_with("__cuda");
        if let Some(name) = object.functions.keys().find(described) {
            bail!("ptxas said nothing of {name}'s stack and spills");
        }
        Ok(Self { path, object, usage })
    }

    /// The functions that kernels call, without the prefix of their names.
    fn exported(&self) -> Vec<(String, Footprint)> {
        let names = self.object.functions.keys().filter(|name| name.starts_with(PREFIX));
        names
            .map(|name| {
                let reached = reached(name, &[self]);
                let (code, spills) = reach(name, &[self]);
                let registers = reached.iter().filter_map(|name| self.object.functions.get(name));
                let footprint = Footprint {
                    registers: registers.map(|function| function.registers).max().unwrap_or(0),
                    stack: self.deepest(name, &mut BTreeSet::new()),
                    spills,
                    code,
                };
                (name[PREFIX.len()..].to_owned(), footprint)
            })
            .collect()
    }

    /// Bytes of stack along the deepest chain of calls.
    fn deepest(&self, name: &str, above: &mut BTreeSet<String>) -> u32 {
        let Some(function) = self.object.functions.get(name) else { return 0 };
        // Nothing calls itself; if it did, once around is what can be said.
        if !above.insert(name.to_owned()) {
            return 0;
        }
        let below = function.calls.iter().map(|callee| self.deepest(callee, above)).max();
        above.remove(name);
        self.usage.get(name).map_or(0, |usage| usage.stack) + below.unwrap_or(0)
    }
}

impl Drop for Assembled {
    fn drop(&mut self) {
        // One left behind is only a wasted file.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// All functions that one reaches, itself among them.
fn reached(name: &str, objects: &[&Assembled]) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![name.to_owned()];
    while let Some(name) = next.pop() {
        let found = objects.iter().find_map(|object| object.object.functions.get(&name));
        if let Some(function) = found
            && reached.insert(name)
        {
            next.extend(function.calls.iter().cloned());
        }
    }
    reached
}

/// Machine code and spilled bytes of all that a function reaches.
fn reach(name: &str, objects: &[&Assembled]) -> (u32, u32) {
    let (mut code, mut spills) = (0, 0);
    for name in reached(name, objects) {
        for assembled in objects {
            code += assembled.object.functions.get(&name).map_or(0, |function| function.code);
            spills += assembled.usage.get(&name).map_or(0, |usage| usage.spill_stores);
        }
    }
    (code, spills)
}

/// The table of rows, without those of `@64`, which stand beside the others.
pub(crate) fn table(rows: &BTreeMap<String, Footprint>) -> String {
    let title = format!("{CPU}: registers / stack / spills / KB of machine code");
    let plain = rows.keys().filter(|name| !name.ends_with(VARIANTS[1].1));
    let width = plain.clone().map(String::len).chain([title.len()]).max().unwrap_or(0);
    let mut text =
        format!("  {title:<width$}  {:>28}  {:>28}\n", "as many as wanted", "64 at most");
    for name in plain {
        let cell = |name: &str| rows.get(name).map_or("-".to_owned(), ToString::to_string);
        let tight = cell(&format!("{name}{}", VARIANTS[1].1));
        text.push_str(&format!("  {name:<width$}  {:>28}  {tight:>28}\n", cell(name)));
    }
    text
}

/// A folder for objects.
pub(crate) fn scratch(target: &Path) -> Result<PathBuf> {
    let folder = target.join("footprint");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    ensure!(folder.is_dir(), "{} is no folder", folder.display());
    Ok(folder)
}
