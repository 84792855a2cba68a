//! Makes the folder `dist`: stripped programs and test suites with the PTX inside, for GPU
//! machines that have no toolchain.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use gpunet_builder::Compiler;

use crate::artifacts::Executable;
use crate::context::PROFILE;
use crate::workspace::Workspace;
use crate::{artifacts, bench, install, languages, script, sdk, shell, soak};

/// The program that checks and measures mappings of GPU memory, and its package.
const USERMAP: (&str, &str) = ("gpunet-usermap", "usermap");

/// The package whose integration tests are the end-to-end suites.
const TESTS_PACKAGE: &str = "gpunet-e2e";

/// The package whose unit tests on a CUDA GPU are marked as ignored.
const CUDA_PACKAGE: &str = "gpunet-host";

/// The folders of test programs: suites, and programs of which the ignored tests are meant.
const SUITES: &str = "tests";
const CUDA_SUITES: &str = "cuda-tests";

/// Suites that say nothing of a GPU: what the emulated one reports alone, and what is only computed.
const WITHOUT_A_GPU: [&str; 3] = ["divergence", "planted_queues", "properties"];

/// The program that says what works on a machine.
const DIAGNOSE: (&str, &str) = ("gpunet-diagnose", "diagnose");

/// What a machine that receives the folder may be asked to take.
const SIZE_LIMIT: u64 = 96 << 20;

const RUN_TESTS: &str = include_str!("run-tests.sh");
const FAULT_TABLE: &str = include_str!("fault-table.awk");
const RUN_BENCH: &str = include_str!("run-bench.sh");
const RUN_SOAK: &str = include_str!("run-soak.sh");
const RUN_SIMULATION: &str = include_str!("run-simulation.sh");

/// The folder of the simulation, which is the host crate's unit tests, built in another way.
const SIMULATION: &str = "simulation";

/// Options of `cargo xtask dist`.
#[derive(Args)]
pub(crate) struct Options {
    /// Install no compiler for PTX; without one the programs have the emulated GPU only.
    #[arg(long)]
    allow_no_ptx: bool,
    /// The simulation alone: test program and script, for a machine with many cores and no GPU.
    #[arg(long)]
    simulation: bool,
    /// Adds what tries C, C++ and Python on a GPU machine: libraries, wheel, tests, and the script run-languages.
    #[arg(long, conflicts_with_all = ["simulation", "sdk"])]
    languages: bool,
    #[command(flatten)]
    sdk: sdk::SdkOptions,
}

/// `cargo xtask dist`.
pub(crate) fn make(workspace: &Workspace, options: &Options) -> Result<bool> {
    if options.simulation {
        return simulation(workspace);
    }
    if options.sdk.sdk {
        return sdk::make(workspace, &options.sdk);
    }
    if options.languages {
        return languages::make(workspace);
    }
    if options.allow_no_ptx {
        match Compiler::find() {
            Ok(compiler) => println!("compiler for PTX: {compiler}"),
            Err(why) => println!("without PTX: {why}"),
        }
    } else {
        let compiler = install::compiler()
            .context("the GPU needs PTX; --allow-no-ptx makes a folder without it")?;
        println!("compiler for PTX: {compiler}");
    }
    let dist = workspace.root.join("dist");
    if dist.exists() {
        fs::remove_dir_all(&dist).with_context(|| format!("cannot remove {}", dist.display()))?;
    }
    let mut size = 0;
    let programs = programs(workspace)?;
    for program in &programs {
        size += place(program, &dist.join("bin"))?;
    }
    if programs.iter().any(|made| made.name == bench::PROGRAM) {
        size += poll_client(workspace, &dist.join("bin"))?;
    }
    let suites = suites(workspace)?;
    for suite in &suites {
        size += place(suite, &dist.join(SUITES))?;
    }
    let cuda_suites = cuda_suites(workspace)?;
    for suite in &cuda_suites {
        size += place(suite, &dist.join(CUDA_SUITES))?;
    }
    if !suites.is_empty() || !cuda_suites.is_empty() {
        size += script::write(&dist.join("run-tests"), RUN_TESTS)?;
        size += script::write(&dist.join("fault-table.awk"), FAULT_TABLE)?;
    }
    for (program, name, text) in
        [(bench::PROGRAM, "run-bench", RUN_BENCH), (soak::PROGRAM, "run-soak", RUN_SOAK)]
    {
        if programs.iter().any(|made| made.name == program) {
            size += script::write(&dist.join(name), text)?;
        }
    }
    ensure!(
        size > 0,
        "nothing to distribute: no programs below apps/ and no package {TESTS_PACKAGE}"
    );
    let mebibytes = size as f64 / f64::from(1 << 20);
    println!("{}: {mebibytes:.1} MiB", dist.display());
    ensure!(size <= SIZE_LIMIT, "the folder is larger than {} MiB", SIZE_LIMIT >> 20);
    Ok(true)
}

/// The folder `dist` with the simulation alone. It has no PTX.
fn simulation(workspace: &Workspace) -> Result<bool> {
    let dist = workspace.root.join("dist");
    let arguments = ["test", "--no-run", "--profile", PROFILE, "--package", CUDA_PACKAGE];
    let arguments = [&arguments[..], &["--features", "simulation", "--lib"]].concat();
    let made = built(workspace, &arguments, "lib")?;
    ensure!(made.len() == 1, "cargo has made {} test programs, not one", made.len());
    for program in &made {
        place(program, &dist.join(SIMULATION))?;
    }
    script::write(&dist.join("run-simulation"), RUN_SIMULATION)?;
    println!("{}: run-simulation", dist.display());
    Ok(true)
}

/// The programs below apps/, and those for benchmark, soak, diagnosis and mappings.
fn programs(workspace: &Workspace) -> Result<Vec<Executable>> {
    let apps = workspace.root.join("apps");
    let mut arguments: Vec<&str> = vec!["build", "--release"];
    let mut any = false;
    for member in &workspace.members {
        for program in &member.programs {
            let this = (member.name.as_str(), program.as_str());
            let of_ours = [
                (bench::PACKAGE, bench::PROGRAM),
                (soak::PACKAGE, soak::PROGRAM),
                DIAGNOSE,
                USERMAP,
            ]
            .contains(&this);
            if member.folder.starts_with(&apps) || of_ours {
                arguments.extend(["--package", &member.name, "--bin", program]);
                any = true;
            }
        }
    }
    if any { built(workspace, &arguments, "bin") } else { Ok(Vec::new()) }
}

fn suites(workspace: &Workspace) -> Result<Vec<Executable>> {
    if workspace.member(TESTS_PACKAGE).is_none() {
        println!("no package {TESTS_PACKAGE} yet: no test suites");
        return Ok(Vec::new());
    }
    let arguments = ["test", "--no-run", "--release", "--package", TESTS_PACKAGE, "--tests"];
    let mut suites = built(workspace, &arguments, "test")?;
    suites.retain(|suite| !WITHOUT_A_GPU.contains(&suite.name.as_str()));
    Ok(suites)
}

/// The unit tests of the package with the CUDA layer.
fn cuda_suites(workspace: &Workspace) -> Result<Vec<Executable>> {
    if workspace.member(CUDA_PACKAGE).is_none() {
        println!("no package {CUDA_PACKAGE} yet: no tests of the CUDA layer");
        return Ok(Vec::new());
    }
    let arguments = ["test", "--no-run", "--release", "--package", CUDA_PACKAGE, "--lib"];
    built(workspace, &arguments, "lib")
}

/// Says what cargo is about to do, and does it.
fn built(workspace: &Workspace, arguments: &[&str], kind: &str) -> Result<Vec<Executable>> {
    println!("cargo {}", arguments.join(" "));
    artifacts::built(workspace.cargo().args(arguments), kind)
}

/// Copies an executable, stripped; returns its size.
fn place(executable: &Executable, folder: &Path) -> Result<u64> {
    place_file(&executable.name, &executable.path, folder)
}

fn place_file(name: &str, path: &Path, folder: &Path) -> Result<u64> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let to = folder.join(name);
    fs::copy(path, &to).with_context(|| format!("cannot copy {}", path.display()))?;
    let mut strip = Command::new("strip");
    strip.arg(&to);
    shell::output_of(&mut strip).context("cannot strip; install binutils")?;
    let size = fs::metadata(&to)?.len();
    println!("  {name:<24} {:>8} KiB", size >> 10);
    Ok(size)
}

/// The benchmark's C client, stripped; returns its size, 0 where there is no C compiler.
fn poll_client(workspace: &Workspace, folder: &Path) -> Result<u64> {
    let made = folder.join(format!("{}.unstripped", bench::POLL_CLIENT));
    if !bench::poll_client(&workspace.root, &made)? {
        return Ok(0);
    }
    let size = place_file(bench::POLL_CLIENT, &made, folder)?;
    fs::remove_file(&made).with_context(|| format!("cannot remove {}", made.display()))?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::one_at_a_time;

    /// A folder as `dist` makes it, with suites that are scripts.
    fn run_tests_with(name: &str, suites: &[(&str, &str)]) -> (String, Option<i32>) {
        run_tests_on("cuda", name, suites)
    }

    /// The same on some GPU. A suite's name may begin with its folder.
    fn run_tests_on(gpu: &str, name: &str, suites: &[(&str, &str)]) -> (String, Option<i32>) {
        let _guard = one_at_a_time();
        let folder =
            std::env::temp_dir().join(format!("gpunet-dist-{name}-{}", std::process::id()));
        for kind in [SUITES, CUDA_SUITES] {
            fs::create_dir_all(folder.join(kind)).unwrap();
        }
        fs::write(folder.join("run-tests"), RUN_TESTS).unwrap();
        fs::write(folder.join("fault-table.awk"), FAULT_TABLE).unwrap();
        for (suite, text) in suites {
            let (kind, suite) = suite.split_once('/').unwrap_or((SUITES, suite));
            script::write(&folder.join(kind).join(suite), &format!("#!/bin/sh\n{text}\n")).unwrap();
        }
        let mut command = Command::new("sh");
        command.arg(folder.join("run-tests")).env("GPUNET_TEST_LIMIT", "1").env("GPUNET_GPU", gpu);
        // What these suites write is not to be found in the table of a real run.
        let output = command.env_remove("GPUNET_FAULT_TABLE").output().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    }

    #[test]
    fn the_c_client_is_placed_beside_the_programs() {
        let folder = std::env::temp_dir().join(format!("gpunet-dist-c-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let size = poll_client(&Workspace::load().unwrap(), &folder).unwrap();
        let files: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
        fs::remove_dir_all(&folder).unwrap();
        // 0: there is no C compiler here.
        assert_eq!(files, if size > 0 { vec![bench::POLL_CLIENT] } else { vec![] });
    }

    #[test]
    fn run_simulation_passes_the_seeds_to_the_program() {
        let _guard = one_at_a_time();
        let folder = std::env::temp_dir().join(format!("gpunet-dist-sim-{}", std::process::id()));
        fs::create_dir_all(folder.join(SIMULATION)).unwrap();
        script::write(&folder.join("run-simulation"), RUN_SIMULATION).unwrap();
        let program = "#!/bin/sh\necho $GPUNET_SIMULATION_FIRST_SEED+$GPUNET_SIMULATION_SEEDS $*\n";
        script::write(&folder.join(SIMULATION).join("gpunet_host"), program).unwrap();
        let printed = |arguments: &[&str]| {
            let mut command = Command::new("sh");
            command.arg(folder.join("run-simulation")).args(arguments);
            let output = command.env_remove("GPUNET_SIMULATION_BUGS").output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let (all, some) = (printed(&[]), printed(&["500", "7"]));
        fs::remove_dir_all(&folder).unwrap();
        assert!(all.starts_with("0+100000 "), "{all}");
        assert!(some.starts_with("7+500 ") && some.contains("simulation::tests::seeds_"), "{some}");
    }

    #[test]
    fn run_tests_sums_all_suites() {
        let (printed, status) = run_tests_with(
            "good",
            &[
                (
                    "a",
                    "echo 'test x ... ignored, no RDMA'; echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured'",
                ),
                (
                    "b",
                    "echo 'y: no GPU' >>$GPUNET_SKIP_LOG; echo \"test result: ok. 2 passed; 0 failed; 0 ignored; $GPUNET_GPU\"",
                ),
            ],
        );
        assert_eq!(printed.lines().last(), Some("4 passed, 0 failed, 2 skipped"), "{printed}");
        assert!(printed.contains("skipped  a: x: no RDMA"), "{printed}");
        assert!(printed.contains("skipped  b: y: no GPU"), "{printed}");
        assert_eq!(status, Some(0));
    }

    #[test]
    fn run_tests_runs_the_tests_of_the_cuda_layer() {
        // As the test harness does: lists, or runs what is ignored if asked to.
        let layer = "case $* in
            *--list*) printf 'cuda::a: test\ncuda::b: test\n\n2 tests, 0 benchmarks\n' ;;
            *--ignored*) echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured' ;;
            *) echo 'test result: ok. 50 passed; 0 failed; 2 ignored; 0 measured' ;;
        esac";
        let suites = [
            ("a", "echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured'"),
            ("cuda-tests/layer", layer),
        ];
        let (printed, status) = run_tests_on("cuda:0", "layer", &suites);
        assert_eq!(printed.lines().last(), Some("5 passed, 0 failed, 0 skipped"), "{printed}");
        assert_eq!(status, Some(0));
        let (printed, status) = run_tests_on("emulated", "no-layer", &suites);
        assert_eq!(printed.lines().last(), Some("3 passed, 0 failed, 2 skipped"), "{printed}");
        assert!(printed.contains("skipped  layer: cuda::b: needs a CUDA GPU"), "{printed}");
        assert_eq!(status, Some(0));
    }

    #[test]
    fn run_tests_prints_the_table_of_faults() {
        let row = |call: &str, time: u32| {
            format!(
                "printf 'reset\\t{call}\\tECONNRESET\\t0\\t{time}\\tt\\n' >>$GPUNET_FAULT_TABLE"
            )
        };
        let suite = format!(
            "{}; {}; {}; echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured'",
            row("grecv", 1200),
            row("gsend", 3400),
            row("grecv", 900),
        );
        let (printed, _) = run_tests_with("faults", &[("a", &suite)]);
        let wanted = "| reset | grecv, gsend | ECONNRESET | at once | 3.4 ms | t |";
        assert!(printed.contains(wanted), "{printed}");
    }

    #[test]
    fn run_tests_reports_failures_crashes_and_hangs() {
        let (printed, status) = run_tests_with(
            "bad",
            &[
                (
                    "a",
                    "echo 'test z ... FAILED'; echo 'test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured'; exit 101",
                ),
                ("b", "exit 139"),
                ("c", "sleep 20"),
            ],
        );
        assert_eq!(printed.lines().last(), Some("3 passed, 3 failed, 0 skipped"), "{printed}");
        assert!(printed.contains("failed   a: z"), "{printed}");
        assert!(printed.contains("failed   b: ended without a result, status 139"), "{printed}");
        assert!(printed.contains("failed   c: did not end within 1 s"), "{printed}");
        assert_eq!(status, Some(1));
    }
}
