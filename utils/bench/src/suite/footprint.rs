//! What a program pays before and besides its messages: the time to load its kernels, cold and cached,
//! and what each kernel needs of the GPU as the driver has linked it.
//!
//! Of two modules: that of the programs in apps/, and that of this benchmark.
//!
//! A load is measured in a process of its own, the cold one with an empty folder for the driver's cache,
//! and the cached one behind it with the same folder. Machine code and spills, of kernels and of each
//! function of the device library, are shown by `cargo xtask ptx`, which needs no GPU.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use gpunet_host::{Gpu, GpuChoice, GpuKind, Module};
use gpunet_terminal::output::say;
use serde_json::json;

use super::Common;
use super::figures::Pairs;
use super::report::Report;
use crate::kernels::MODULE;

/// The modules that are measured: the kernels of the programs in apps/, and those of this benchmark.
static MODULES: [Module; 2] = [gpunet_host::include_module!("gpunet_kernels"), MODULE];

/// The variable that names the folder of the driver's cache.
const CACHE: &str = "CUDA_CACHE_PATH";

/// Options of the suite.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Only load a module and print the milliseconds; the suite runs itself so
    #[arg(long, hide = true, value_name = "MODULE")]
    load: Option<String>,
}

/// Runs the suite; the kernels are not loaded yet.
pub(crate) fn run(choice: &GpuChoice, options: &Options) -> Result<()> {
    let gpu = Gpu::open(choice.clone())?;
    if let Some(name) = &options.load {
        let module = MODULES.iter().find(|module| module.name == name);
        let module = module.with_context(|| format!("no module {name}"))?;
        let begun = Instant::now();
        gpu.load(module).context("loading the kernels")?;
        println!("{}", begun.elapsed().as_secs_f64() * 1e3);
        return Ok(());
    }
    say(&format!("GPU: {}", gpu.info()));
    let columns = &["what", "cold ms", "cached ms", "registers", "stack B", "threads at most"];
    let mut report = Report::new("footprint", &gpu, &options.common, columns);
    if gpu.info().kind == GpuKind::Emulated {
        report.not_run("the emulated GPU loads nothing and has no registers");
        return report.finish();
    }
    for module in &MODULES {
        let outcome = loads(choice, &options.common, module, &mut report);
        report.outcome(&format!("loading {}", module.name), outcome);
    }
    for module in &MODULES {
        gpu.load(module).context("loading the kernels")?;
        kernels(&gpu, module, &mut report);
    }
    report.finish()
}

/// A row for each kernel of a module.
fn kernels(gpu: &Gpu, module: &Module, report: &mut Report) {
    for needs in gpu.kernel_needs(module.name) {
        let numbers = [needs.registers, needs.stack, needs.max_threads].map(|n| n.to_string());
        let what = format!("{}::{}", module.name, needs.kernel);
        let mut cells = vec![what, "-".to_owned(), "-".to_owned()];
        cells.extend(numbers);
        let json = json!({
            "module": module.name,
            "kernel": needs.kernel,
            "registers": needs.registers,
            "stack": needs.stack,
            "max_threads": needs.max_threads,
        });
        report.row(cells, json);
    }
}

/// Loads with an empty cache, and then with a filled one.
fn loads(choice: &GpuChoice, options: &Common, module: &Module, report: &mut Report) -> Result<()> {
    let mut pairs = Pairs::EMPTY;
    let progress = options.progress(&format!("loading {}", module.name));
    for pair in 0..options.pairs() {
        if pair > 0 && !report.has_time(&format!("load {pair} of {}", module.name)) {
            break;
        }
        let folder = Folder::new(pair)?;
        let cold = load(choice, module, &folder.0)?;
        pairs.push(cold, load(choice, module, &folder.0)?);
        progress.done(1);
    }
    drop(progress);
    let (cold, cached) = (pairs.baseline(), pairs.measured());
    let mut cells = vec![format!("load {}", module.name), cold.text(), cached.text()];
    cells.extend(["-", "-", "-"].map(str::to_owned));
    let load_ms = json!({"cold": cold.json(), "cached": cached.json()});
    report.row(cells, json!({"module": module.name, "load_ms": load_ms}));
    Ok(())
}

/// Milliseconds of a load in a process of its own, with the driver's cache in that folder.
fn load(choice: &GpuChoice, module: &Module, cache: &Path) -> Result<f64> {
    let program = std::env::current_exe().context("this program's own file")?;
    let output = Command::new(program)
        .args(["--gpu", &choice.to_string(), "footprint", "--load", module.name])
        .env(CACHE, cache)
        .stdin(Stdio::null())
        .output()
        .context("a process that loads the kernels")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "the process that loads the kernels failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    printed.trim().parse().with_context(|| format!("no time in {printed:?}"))
}

/// A folder that goes with this.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(number: usize) -> Result<Self> {
        let name = format!("gpunet-bench-cache-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // One left behind is only wasted space.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
