//! What both test programs stand on: one test at a time, the libraries, this machine's addresses with
//! RDMA, and what the system holds for it.

use std::env;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rsocket_shim::load::Libraries;
use rsocket_shim::verbs::Device;

/// One test at a time: descriptors and the system's resources are counted, and soft-RoCE starves
/// on few cores.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed does not fail the others.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The libraries. These tests are asked for by name, so a machine without RDMA fails them.
pub(crate) fn libraries() -> &'static Libraries {
    match Libraries::load() {
        Ok(libraries) => libraries,
        Err(error) => panic!("this test cannot run here: {error}"),
    }
}

/// An address of this machine that has RDMA, port 0: the one that a variable names, or any.
fn address(variable: &str, wanted: fn(&IpAddr) -> bool) -> SocketAddr {
    if let Ok(named) = env::var(variable) {
        let ip = named.parse().ok().filter(wanted);
        return SocketAddr::new(ip.expect("an address of the variable's family"), 0);
    }
    let found = local_addresses().into_iter().filter(wanted).map(|ip| SocketAddr::new(ip, 0));
    let mut with_rdma = found.filter(|address| Device::at(libraries(), *address).is_ok());
    with_rdma.next().expect("an address of this family on an RDMA device")
}

pub(crate) fn v4() -> SocketAddr {
    address("GPUNET_ADDRESS", IpAddr::is_ipv4)
}

/// Link-local addresses would need a scope.
pub(crate) fn v6() -> SocketAddr {
    address("GPUNET_ADDRESS6", |ip| matches!(ip, IpAddr::V6(v6) if !v6.is_unicast_link_local()))
}

fn local_addresses() -> Vec<IpAddr> {
    let listed = Command::new("ip").args(["-oneline", "address"]).output().expect("the program ip");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let words: Vec<_> = listed.split_whitespace().collect();
    let after_family = words.windows(2).filter(|pair| matches!(pair[0], "inet" | "inet6"));
    let parsed = after_family.filter_map(|pair| pair[1].split('/').next()?.parse::<IpAddr>().ok());
    parsed.filter(|ip| !ip.is_loopback()).collect()
}

/// Open descriptors of this process.
pub(crate) fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What the system holds for RDMA: domains, queues, ids, regions.
pub(crate) fn resources() -> String {
    let shown = Command::new("rdma").args(["resource", "show"]).output().expect("the program rdma");
    String::from_utf8_lossy(&shown.stdout).into_owned()
}
