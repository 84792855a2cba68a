//! Builds the PTX of every kernel crate and shows what each kernel uses of a GPU.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use clap::Args;
use gpunet_builder::{Compiler, KernelCrate, KernelUsage, Ptxas};

use crate::checks::Context;
use crate::install;
use crate::report::Outcome;
use crate::rules;
use crate::workspace::{Member, Workspace};

/// The GPUs that all kernels must assemble for: Turing, whose PTX programs carry, and Hopper; in a
/// long run also Ampere and Blackwell.
const CHECKED_CPUS: [&str; 2] = ["sm_75", "sm_90"];
const MORE_CPUS: [&str; 2] = ["sm_80", "sm_100"];

/// Options of `cargo xtask ptx`.
#[derive(Args)]
pub(crate) struct Options {
    /// GPU to build for, such as sm_90; may be given several times.
    #[arg(long = "cpu", value_name = "SM", default_value = gpunet_builder::DEFAULT_CPU)]
    cpus: Vec<String>,
}

/// `cargo xtask ptx`.
pub(crate) fn show(workspace: &Workspace, options: &Options) -> Result<bool> {
    let compiler = Compiler::find()?;
    let ptxas = install::present_ptxas(workspace);
    println!("{compiler}");
    match &ptxas {
        Some(ptxas) => println!("{ptxas}"),
        None => println!(
            "no ptxas found, so nothing is assembled: set GPUNET_PTXAS or run `cargo xtask test` once"
        ),
    }
    let mut table = Table::default();
    let mut found = false;
    for member in workspace.kernel_crates() {
        for cpu in &options.cpus {
            found = true;
            let built = build(workspace, &compiler, ptxas.as_ref(), member, cpu)?;
            println!("{}", built.path.display());
            table.add(cpu, &member.name, &built.kernels);
        }
    }
    anyhow::ensure!(
        found,
        "no kernel crate: mark one with `kernel = true` under [package.metadata.gpunet]"
    );
    if ptxas.is_some() {
        print!("{}", table.text());
    }
    Ok(true)
}

/// The step of `cargo xtask test`: one check for each kernel crate and GPU.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let ptxas = Ptxas::at(&context.tools.ptxas);
    let mut outcome = Outcome::default();
    let mut table = Table::default();
    let more = MORE_CPUS.into_iter().filter(|_| context.options.long);
    for cpu in CHECKED_CPUS.into_iter().chain(more) {
        for member in context.workspace.kernel_crates() {
            match build(&context.workspace, &context.tools.compiler, Some(&ptxas), member, cpu) {
                Ok(built) => {
                    let text = std::fs::read_to_string(&built.path)?;
                    let wrong = rules::in_ptx(&text)?;
                    outcome.passed += usize::from(wrong.is_empty());
                    outcome
                        .failed
                        .extend(wrong.iter().map(|wrong| format!("{}: {wrong}", member.name)));
                    table.add(cpu, &member.name, &built.kernels);
                }
                Err(error) => {
                    outcome.failed.push(format!("{} for {cpu}", member.name));
                    let _ = writeln!(outcome.output, "{error:#}");
                }
            }
        }
    }
    if outcome.passed + outcome.failed.len() == 0 {
        outcome.skipped.push("the workspace has no kernel crate".into());
    }
    outcome.table = table.text();
    Ok(outcome)
}

struct Built {
    path: std::path::PathBuf,
    kernels: Vec<KernelUsage>,
}

fn build(
    workspace: &Workspace,
    compiler: &Compiler,
    ptxas: Option<&Ptxas>,
    member: &Member,
    cpu: &str,
) -> Result<Built> {
    let kernel_crate = KernelCrate::open(&member.folder)?;
    // The same folder as that of the build scripts, so that what they built is used.
    let folder = workspace.target.join("gpunet-ptx");
    let ptx = gpunet_builder::ptx::compile(compiler, &kernel_crate, &workspace.root, cpu, &folder)?;
    let kernels = match ptxas {
        Some(ptxas) => ptxas
            .assemble(&ptx.path, cpu, &folder)
            .with_context(|| format!("{} for {cpu}", member.name))?,
        None => Vec::new(),
    };
    Ok(Built { path: ptx.path, kernels })
}

/// One row for each kernel, one column for each GPU.
#[derive(Default)]
struct Table {
    cpus: Vec<String>,
    rows: Vec<(String, Vec<(String, String)>)>,
}

impl Table {
    fn add(&mut self, cpu: &str, kernel_crate: &str, kernels: &[KernelUsage]) {
        if !self.cpus.iter().any(|known| known == cpu) {
            self.cpus.push(cpu.to_owned());
        }
        for kernel in kernels {
            let name = format!("{kernel_crate}::{}", kernel.name);
            let spilled = kernel.spill_stores + kernel.spill_loads;
            let cell =
                format!("{} / {} / {spilled} / {}", kernel.registers, kernel.stack, kernel.shared);
            let cell = (cpu.to_owned(), cell);
            match self.rows.iter_mut().find(|(known, _)| *known == name) {
                Some((_, cells)) => cells.push(cell),
                None => self.rows.push((name, vec![cell])),
            }
        }
    }

    fn text(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let title = "registers / stack / spilled / shared bytes";
        let names = self.rows.iter().map(|(name, _)| name.len());
        let width = names.chain([title.len()]).max().unwrap_or(0);
        let mut text = format!("  {title:<width$}");
        for cpu in &self.cpus {
            let _ = write!(text, "  {cpu:>20}");
        }
        for (name, cells) in &self.rows {
            let _ = write!(text, "\n  {name:<width$}");
            for cpu in &self.cpus {
                let cell = cells.iter().find(|(of, _)| of == cpu).map_or("-", |(_, cell)| cell);
                let _ = write!(text, "  {cell:>20}");
            }
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_kernel_and_a_column_for_each_gpu() {
        let usage = |name: &str, registers| KernelUsage {
            name: name.into(),
            registers,
            stack: 16,
            spill_stores: 4,
            spill_loads: 8,
            shared: 0,
        };
        let mut table = Table::default();
        table.add("sm_75", "k", &[usage("echo", 40), usage("add", 8)]);
        table.add("sm_90", "k", &[usage("echo", 38)]);
        let text = table.text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].contains("sm_75") && lines[0].ends_with("sm_90"));
        assert!(lines[1].contains("k::echo") && lines[1].contains("40 / 16 / 12 / 0"));
        assert!(lines[2].ends_with('-'));
        assert_eq!(Table::default().text(), "");
    }
}
