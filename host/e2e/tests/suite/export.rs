//! GPU memory for devices of the network, as far as this machine goes.

use std::os::fd::AsRawFd as _;

use gpunet_e2e::{gpu, is_cuda, net_builder, skip};
use gpunet_host::{NetError, TransportChoice};
use rsocket_shim::load::Libraries;
use rustix::fs::{SeekFrom, seek};

#[test]
fn a_ring_in_gpu_memory_is_exported_as_a_dma_buf() {
    const BYTES: u64 = 2 << 20;
    let memory = gpu().device_memory(BYTES as usize).expect("GPU memory");
    let buffer = memory.export().expect("the driver exports it");
    let exported = seek(&buffer, SeekFrom::End(0)).expect("its size");
    assert!(exported >= BYTES, "{exported} bytes were exported");
    let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", buffer.as_raw_fd()));
    let exporter = facts.expect("what the system says of it");
    let exporter = exporter.lines().find_map(|line| line.strip_prefix("exp_name:"));
    assert_eq!(exporter.is_some(), is_cuda(), "{exporter:?}");
    let answer = match Libraries::load() {
        Ok(_) => "this machine has devices: see the suites by RDMA".to_owned(),
        Err(missing) => missing.to_string(),
    };
    println!(
        "{exported} bytes exported by{}; registering: {answer}",
        exporter.unwrap_or(" a file")
    );
}

#[test]
fn a_net_that_needs_rdma_says_what_is_missing() {
    if Libraries::load().is_ok() {
        return skip("a_net_that_needs_rdma_says_what_is_missing", "this machine has RDMA");
    }
    let refused = net_builder().transport(TransportChoice::Rdma).build();
    let Err(NetError::Rdma(missing)) = refused else { panic!("{refused:?}") };
    let line = missing.to_string();
    assert!(line.starts_with("no RDMA: ") && !line.contains('\n'), "{line}");
    let net = net_builder().transport(TransportChoice::Auto).build().expect("a net");
    assert_eq!(net.without_rdma(), Some(line.as_str()));
}
