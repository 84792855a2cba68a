//! The whole suite, small, on the emulated GPU.

use clap::Parser;
use gpunet_host::GpuChoice;
use gpunet_host::gpu::EmulatedOptions;

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

#[test]
fn every_part_runs_small() {
    let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).unwrap();
    gpu.load(&crate::MODULE).unwrap();
    let options = options("--quick --connections 50 --short 200 --rounds 40 --wakes 3");
    let report = measure_all(&gpu, &options).unwrap();
    // Two rows of each comparison, three of each setting, five of short connections, four of memory.
    assert_eq!(report.row_count(), 2 * 8 + 3 * 2 + 5 + 4);
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
