//! The whole suite, small, on the emulated GPU.

use std::process::Command;

use clap::Parser;
use gpunet_host::GpuChoice;
use gpunet_host::gpu::EmulatedOptions;
use gpunet_support::testing::Guarded;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn options(line: &str) -> Options {
    Line::parse_from(["scale"].into_iter().chain(line.split_whitespace())).options
}

/// The clients' process, where the suite asks for it: no test otherwise.
#[test]
fn clients_process() {
    if std::env::var_os(clients::AS_CLIENTS).is_some() {
        run_client().unwrap();
    }
}

/// The variable that makes the test run the suite itself.
const ALONE: &str = "GPUNET_BENCH_ALONE";
/// How long all parts take together, at most.
const SMALL: Duration = Duration::from_secs(18);

/// In a process of its own: the suite counts files and memory, and other tests have some, too.
#[test]
fn every_part_of_scale_runs_small() {
    if std::env::var_os(ALONE).is_some() {
        return run_small();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "suite::scale::tests::every_part_of_scale_runs_small", "--nocapture"]);
    let status = Guarded::spawn(command.env(ALONE, "1")).wait(SMALL);
    assert!(status.expect("it ends").success());
}

fn run_small() {
    let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).unwrap();
    gpu.load(&crate::kernels::MODULE).unwrap();
    let options = options("--quick --connections 50 --short 200 --messages 40 --wakes 3");
    let report = measure_all(&gpu, &options).unwrap();
    // Two rows of each comparison, two of each CPU server, three of each setting, five of short connections,
    // four of memory.
    assert_eq!(report.row_count(), 2 * 8 + 2 * 2 + 3 * 3 + 5 + 4);
    report.finish().unwrap();
}

#[test]
fn what_is_wanted_is_compared_with_medians() {
    let mut pairs = Pairs::EMPTY;
    pairs.push(10.0, 13.0);
    let met = [Wanted::Ratio(1.3), Wanted::Ratio(1.2), Wanted::AtMost(13.0), Wanted::Same];
    let met = met.map(|wanted| wanted.is_met(&pairs));
    assert_eq!(met, [Some(true), Some(false), Some(true), Some(false)]);
    assert_eq!(Wanted::Nothing.is_met(&pairs), None);
}

#[test]
fn the_clients_process_says_what_went_wrong() {
    let mut clients = Clients::start(false).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let group = clients.open(free, 1, 0).unwrap();
    let error = clients.opened(1).unwrap_err();
    assert!(error.to_string().contains("connect"), "{error}");
    assert!(clients.send(group, 1, 1).unwrap_err().to_string().contains("no group"));
}
