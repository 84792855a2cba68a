//! Builds the PTX of the device library and of every kernel crate, and shows what each kernel uses of a
//! GPU.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use gpunet_builder::compiler::PREFERRED;
use gpunet_builder::{Compiler, KernelCrate, LIBRARY_FEATURE, Ptxas};

use crate::context::{Context, Scope};
use crate::footprint::{self, Image, Limits, Measured, Nvdisasm, Nvlink, Tools};
use crate::install;
use crate::report::Outcome;
use crate::rules;
use crate::workspace::Workspace;

/// The GPUs that all kernels must assemble for with every change: Hopper, for which limits are recorded.
const CHECKED_CPUS: [&str; 1] = [footprint::CPU];
/// The same for a release, with every compiler: Turing as well, whose PTX programs carry.
const RELEASE_CPUS: [&str; 2] = [gpunet_builder::DEFAULT_CPU, footprint::CPU];
/// The same for a release, with the preferred compiler: Ampere and Blackwell as well.
const MORE_CPUS: [&str; 2] = ["sm_80", "sm_100"];

/// The crate with the kernel that shows copied calls.
const E2E_KERNELS: &str = "gpunet-e2e-kernels";

/// Options of `cargo xtask ptx`.
#[derive(Args)]
pub(crate) struct Options {
    /// GPU to build for, such as sm_90; may be given several times.
    #[arg(long = "cpu", value_name = "SM", default_value = footprint::CPU)]
    cpus: Vec<String>,
    /// Record what was measured as the limits that `cargo xtask test` compares with.
    #[arg(long)]
    record: bool,
}

/// `cargo xtask ptx`.
pub(crate) fn show(workspace: &Workspace, options: &Options) -> Result<bool> {
    let compiler = Compiler::find()?;
    if options.record {
        let (major, minor) = PREFERRED;
        ensure!(
            compiler.version().starts_with(&format!("{major}.{minor}.")),
            "limits are recorded with rustc {major}.{minor}, and this is {compiler}"
        );
        let cpus: Vec<&str> = options.cpus.iter().map(String::as_str).collect();
        ensure!(cpus == [footprint::CPU], "limits are recorded for {} alone", footprint::CPU);
        ensure!(install::present_ptxas(workspace).is_some(), "nothing is recorded without ptxas");
    }
    println!("{compiler}");
    let Some(ptxas) = install::present_ptxas(workspace) else {
        println!(
            "no ptxas found, so nothing is assembled: set GPUNET_PTXAS or run `cargo xtask test` once"
        );
        for cpu in &options.cpus {
            let images = build(workspace, &compiler, cpu, "gpunet-ptx")?;
            images.iter().for_each(|image| println!("{}", image.ptx.display()));
        }
        return Ok(true);
    };
    println!("{ptxas}");
    let tools = tools(ptxas, install::present_nvdisasm(workspace))?;
    for cpu in &options.cpus {
        let images = build(workspace, &compiler, cpu, "gpunet-ptx")?;
        images.iter().for_each(|image| println!("{}", image.ptx.display()));
        let measured = measure(workspace, &tools, &images, cpu)?;
        println!("{cpu}\n{}", footprint::table(&measured.rows));
        measured.stale_reads.iter().for_each(|line| println!("{line}"));
        if tools.nvdisasm.is_none() {
            println!("machine code was not looked at: no nvdisasm; `cargo xtask test` fetches it");
        }
        if options.record {
            Limits::record(&workspace.root, compiler.version(), &measured.rows)?;
            println!("recorded in {}", footprint::FILE);
        }
    }
    Ok(true)
}

/// The PTX of the library and of each kernel crate for each GPU, and what they cost: with the preferred compiler, and
/// for a release with each one that is found.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let workspace = &context.workspace;
    let tools = tools(Ptxas::at(&context.tools.ptxas), Some(context.tools.nvdisasm.clone()))?;
    let limits = Limits::read(&workspace.root)?;
    let mut outcome = Outcome::default();
    let mut compilers = Vec::new();
    let release = context.scope >= Scope::ShortRelease;
    // The test command has just done that one.
    let is_done =
        |first, cpu| first && context.scope == Scope::ShortRelease && CHECKED_CPUS.contains(&cpu);
    let wanted = if release { usize::MAX } else { 1 };
    for compiler in Compiler::all()?.into_iter().take(wanted) {
        let first = compilers.is_empty();
        let more = MORE_CPUS.into_iter().filter(|_| release && first);
        let cpus: &[&str] = if release { &RELEASE_CPUS } else { &CHECKED_CPUS };
        for cpu in cpus.iter().copied().chain(more).filter(|cpu| !is_done(first, *cpu)) {
            // Programs carry what the first one made; the folder is that of the build scripts, so that
            // what they built is used.
            let version = compiler.version();
            let folder =
                if first { "gpunet-ptx".to_owned() } else { format!("gpunet-ptx-{version}") };
            let images = match build(workspace, &compiler, cpu, &folder) {
                Ok(images) => images,
                Err(error) => {
                    outcome.failed.push(format!("PTX for {cpu} with rustc {version}"));
                    outcome.output.push_str(&format!("{error:#}\n"));
                    continue;
                }
            };
            for (at, image) in images.iter().enumerate() {
                let text = std::fs::read_to_string(&image.ptx)?;
                let mut wrong = rules::in_ptx(&text, at == 0)?;
                if image.name == E2E_KERNELS && !text.contains(rules::ONE_CALL) {
                    wrong
                        .push("one_call is not there: the rule about copied calls needs it".into());
                }
                outcome.passed += usize::from(wrong.is_empty());
                let name = |wrong: &String| format!("{} with rustc {version}: {wrong}", image.name);
                outcome.failed.extend(wrong.iter().map(name));
            }
            let measured = match measure(workspace, &tools, &images, cpu) {
                Ok(measured) => measured,
                Err(error) => {
                    outcome.failed.push(format!("assembling for {cpu} with rustc {version}"));
                    outcome.output.push_str(&format!("{error:#}\n"));
                    continue;
                }
            };
            outcome.passed += usize::from(measured.stale_reads.is_empty());
            let line = |line: String| format!("with rustc {version}: {line}");
            outcome.failed.extend(measured.stale_reads.into_iter().map(line));
            if cpu != footprint::CPU {
                continue;
            }
            let exceeded = limits.exceeded(&measured.rows, version);
            outcome.passed += usize::from(exceeded.is_empty());
            outcome.failed.extend(exceeded.into_iter().map(line));
            if first {
                outcome.table = footprint::table(&measured.rows);
            }
        }
        compilers.push(format!("rustc {}", compiler.version()));
    }
    if release && !compilers.iter().any(|compiler| compiler.contains("nightly")) {
        outcome
            .skipped
            .push("PTX with rustup's nightly: it is not installed, or without rust-src".to_owned());
    }
    outcome.remark =
        format!("{}; limits recorded with rustc {}", compilers.join(", "), limits.compiler);
    Ok(outcome)
}

fn tools(ptxas: Ptxas, nvdisasm: Option<PathBuf>) -> Result<Tools> {
    let nvlink = Nvlink::beside(&ptxas).with_context(|| {
        format!(
            "no nvlink beside {ptxas}: remove it and run `cargo xtask test`, which fetches both"
        )
    })?;
    Ok(Tools { ptxas, nvlink, nvdisasm: nvdisasm.map(Nvdisasm) })
}

/// The library first, then the kernel crates.
fn build(
    workspace: &Workspace,
    compiler: &Compiler,
    cpu: &str,
    folder: &str,
) -> Result<Vec<Image>> {
    let folder = workspace.target.join(folder);
    let library = KernelCrate::open(&workspace.root.join("device"))?.with_feature(LIBRARY_FEATURE);
    let mut images = vec![compile(workspace, compiler, &library, cpu, &folder)?];
    for member in workspace.kernel_crates() {
        let kernel_crate = KernelCrate::open(&member.folder)?;
        images.push(compile(workspace, compiler, &kernel_crate, cpu, &folder)?);
    }
    ensure!(
        images.len() > 1,
        "no kernel crate: mark one with `kernel = true` under [package.metadata.gpunet]"
    );
    Ok(images)
}

fn compile(
    workspace: &Workspace,
    compiler: &Compiler,
    kernel_crate: &KernelCrate,
    cpu: &str,
    folder: &Path,
) -> Result<Image> {
    let ptx = gpunet_builder::ptx::compile(compiler, kernel_crate, &workspace.root, cpu, folder)?;
    Ok(Image { name: kernel_crate.name().to_owned(), ptx: ptx.path })
}

fn measure(workspace: &Workspace, tools: &Tools, images: &[Image], cpu: &str) -> Result<Measured> {
    let (library, kernels) = images.split_first().context("no image was built")?;
    let scratch = footprint::scratch(&workspace.target)?;
    footprint::measure(tools, library, kernels, cpu, &scratch)
}
