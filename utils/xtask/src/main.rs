//! The project's own commands, run as `cargo xtask <command>`.
//!
//! ```text
//! test      install (what is missing) ─> checks: formatting, lints, licences, tests, models, PTX, RDMA;
//!           suites: test programs, compiled once and run by several of them
//! release   the checks that `test` leaves out: packages, book, other compilers, longer tests
//! ptx       the PTX of every kernel crate, and what each kernel uses of a GPU
//! dist      a folder of stripped programs and test suites for GPU machines without a toolchain, or the archive
//!           for programs in C and C++
//! bench     the benchmark program
//! soak      the soak program: everything at once, for as long as wanted
//! book      the pages of docs/ as HTML
//! bindings  the raw bindings of the RDMA libraries, from Debian's headers
//! vm        jobs with real RDMA, in a QEMU guest
//! wheel     the Python package: wheel and source distribution
//! ```

mod aarch64;
mod artifacts;
mod bench;
mod bindings;
mod book;
mod checks;
mod context;
mod cuda_cpp;
mod decisions;
mod deny;
mod dist;
mod faults;
mod footprint;
mod fuzz;
mod glossary;
mod install;
mod languages;
mod libtest;
mod licences;
mod links;
mod local;
mod nvcc;
mod oldest;
mod packages;
mod processor;
mod ptx;
mod rdma;
mod report;
mod rules;
mod script;
mod sdk;
mod shell;
mod soak;
mod suites;
mod tree;
mod vm;
mod wheel;
mod workspace;

use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};

use crate::context::{Context, Scope};
use crate::report::Step;
use crate::workspace::Workspace;

/// The project's own commands: tests, PTX, distribution, benchmarks, soak, RDMA in a guest.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Installs what is missing, then runs the checks and tests that every change must pass.
    ///
    /// On Debian and Ubuntu missing packages are installed with apt-get (as root, or with sudo
    /// where that asks for no password); elsewhere they are listed and the command fails. ptxas and
    /// redis-py come from PyPI and are kept in the target folder's `tools`. Nothing is ever asked.
    ///
    /// A line about each step has its time and the processor time of all that it ran. `--quick`
    /// runs what takes at most a few minutes once the workspace has been compiled. Logs are in
    /// `xtask` of the target folder.
    ///
    /// The last line is `N passed, N failed, N skipped`; the reasons stand above it. The exit
    /// code is 0 if nothing failed.
    Test(context::TestOptions),
    /// Runs what `test` leaves out: packages, the book, other compilers and architectures, longer tests.
    ///
    /// Tools are installed and the output is the same as for `test`; some tools are built from the registry of
    /// crates. `--short` leaves out what takes longest, `--step` chooses.
    Release(context::ReleaseOptions),
    /// Builds the PTX of every kernel crate and shows what each kernel uses of a GPU.
    ///
    /// A kernel crate is a workspace member with `kernel = true` under `[package.metadata.gpunet]`.
    Ptx(ptx::Options),
    /// Builds the folder `dist` for GPU machines that have no toolchain.
    ///
    /// It holds the programs of apps/, the end-to-end test suites, the programs for benchmark,
    /// soak and diagnosis, all stripped and with the PTX inside, the benchmark's C client
    /// `poll_client` (where there is a C compiler), and the scripts `run-tests`,
    /// `run-bench` and `run-soak`. With `--sdk` it makes the archive for programs in C and C++ instead; with
    /// `--languages` it adds what tries C++ and Python there, and the script `run-languages`.
    Dist(dist::Options),
    /// Runs the benchmark program in release mode.
    ///
    /// Suites: `sizes`, `ways`, `waiters`, `streams`, `scale`, `sgemm`, `footprint`, `local`; without one, a
    /// short comparison. On a machine without a GPU: `cargo xtask bench sizes --quick`. `-- --help` and
    /// `sizes --help` show options.
    Bench(bench::Options),
    /// Runs the soak program in release mode: mixed connections, endings and kills for a while.
    ///
    /// Without a fault the summary says lost bytes 0, hung calls 0, leaks 0, and the exit code is
    /// 0. Takes `--minutes N`, `--gpu auto|cuda|emulated`, `--seed S`, `--json`.
    #[command(disable_help_flag = true)]
    Soak(soak::Options),
    /// Makes the book of the pages of docs/, as HTML in `book` of the target folder.
    ///
    /// mdBook comes from PyPI and is kept in the target folder's `tools`.
    Book,
    /// Writes the raw bindings of libibverbs and librdmacm anew from Debian 12's headers.
    ///
    /// Needed only when the bindings change: they are checked in. Installs the headers, libclang
    /// and bindgen where they are missing.
    Bindings,
    /// Runs jobs with real RDMA in a QEMU guest whose kernel has soft-RoCE.
    ///
    /// Missing packages are installed as for `test`; the guest's kernel is Debian's, unpacked
    /// into the target folder's `tools` and not installed. Nothing in the guest reaches outside
    /// it. KVM is used where it works, QEMU's emulation elsewhere.
    ///
    /// What the guest prints stays in `xtask/vm.log` of the target folder. The last line is
    /// `N passed, N failed, N skipped`; the reasons stand above it. The exit code is 0 if the
    /// guest ran to its end and nothing failed.
    Vm(vm::Options),
    /// Builds the Python package's wheel and source distribution into `wheels` of the target folder.
    ///
    /// The wheel is for every Python from 3.10 on (abi3), with the manylinux tag that maturin finds it fit
    /// for. maturin comes from PyPI and is kept in the target folder's `tools`.
    Wheel(wheel::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command; `false` means that it has reported failures itself.
fn run(command: Command) -> Result<bool> {
    let workspace = Workspace::load()?;
    match command {
        Command::Test(options) => {
            let steps = if options.quick { checks::QUICK } else { checks::TEST };
            let context = Context {
                tools: install::everything(&workspace)?,
                workspace,
                scope: if options.quick { Scope::Quick } else { Scope::Test },
                no_vm: options.no_vm,
                rdma_device: None,
                compiled: OnceLock::new(),
            };
            Ok(report::run_all(&context, &steps.iter().collect::<Vec<_>>()))
        }
        Command::Release(options) => {
            // Misspelt ones are refused now, and not after all else.
            options.rdma_device.as_deref().map(rdma::addresses_on).transpose()?;
            let is_wanted = |step: &&Step| step.is_wanted(options.short, &options.step);
            let (steps, left): (Vec<_>, Vec<_>) = checks::RELEASE.iter().partition(is_wanted);
            ensure!(!steps.is_empty(), "no step's name contains {}", options.step.join(" or "));
            let context = Context {
                tools: install::everything(&workspace)?,
                workspace,
                scope: if options.short { Scope::ShortRelease } else { Scope::Release },
                no_vm: options.no_vm,
                rdma_device: options.rdma_device,
                compiled: OnceLock::new(),
            };
            if !left.is_empty() {
                let left: Vec<_> = left.into_iter().map(Step::name).collect();
                println!("left out: {}", left.join(", "));
            }
            Ok(report::run_all(&context, &steps))
        }
        Command::Ptx(options) => ptx::show(&workspace, &options),
        Command::Dist(options) => dist::make(&workspace, &options),
        Command::Bench(options) => bench::run(&workspace, &options),
        Command::Soak(options) => soak::run(&workspace, &options),
        Command::Book => book::make(&workspace),
        Command::Bindings => bindings::make(&workspace),
        Command::Vm(options) => vm::run(&workspace, &options),
        Command::Wheel(options) => wheel::run(&workspace, &options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn unknown_options_are_refused() {
        assert!(Arguments::try_parse_from(["cargo xtask", "test", "--longer"]).is_err());
        assert!(Arguments::try_parse_from(["cargo xtask"]).is_err());
    }

    #[test]
    fn steps_of_a_release_are_chosen_by_a_part_of_their_name() {
        let line = ["cargo xtask", "release", "--short", "--step", "book", "--step", "models"];
        let Command::Release(options) = Arguments::try_parse_from(line).unwrap().command else {
            panic!("another command")
        };
        let wanted = |short: bool, names: &[String]| -> Vec<_> {
            let is_wanted = |step: &&Step| step.is_wanted(short, names);
            checks::RELEASE.iter().filter(is_wanted).map(Step::name).collect()
        };
        assert_eq!(wanted(options.short, &options.step), ["book"]);
        assert_eq!(wanted(false, &options.step), ["book", "models, more states"]);
        assert_eq!(wanted(false, &[]).len(), checks::RELEASE.len());
        assert!(wanted(true, &[]).len() < checks::RELEASE.len());
    }

    #[test]
    fn a_guest_has_at_least_a_second() {
        let parse = |seconds| {
            Arguments::try_parse_from(["cargo xtask", "vm", "--job", "rping", "--timeout", seconds])
        };
        assert!(matches!(parse("60").unwrap().command, Command::Vm(_)));
        assert!(parse("0").is_err());
    }

    #[test]
    fn options_of_the_benchmark_pass_through() {
        let parsed = Arguments::try_parse_from(["cargo xtask", "bench", "--json", "rtt"]).unwrap();
        let Command::Bench(options) = parsed.command else { panic!("another command") };
        assert_eq!(options.arguments, ["--json", "rtt"]);
    }

    #[test]
    fn options_of_the_soak_pass_through() {
        for arguments in [["--minutes", "2"], ["--help", "--json"]] {
            let line = ["cargo xtask", "soak"].into_iter().chain(arguments);
            let parsed = Arguments::try_parse_from(line).unwrap();
            let Command::Soak(options) = parsed.command else { panic!("another command") };
            assert_eq!(options.arguments, arguments);
        }
    }
}
