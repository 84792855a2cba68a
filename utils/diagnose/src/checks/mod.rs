//! The checks: pure functions of a [`Machine`], a group each, and what follows from all of them.
//!
//! A check never guesses: what it may not see it says so (`unseen`).

mod cuda;
mod gpu;
mod limits;
mod mapping;
mod proof;
mod rdma;
mod registration;
mod toolchain;
mod topology;

use crate::machine::{Machine, Seen, one_line};
use crate::report::{Counts, Group, Line, Report};

pub(crate) use rdma::{all_addresses, first_address};

/// Looks at everything.
pub(crate) fn report(machine: &Machine) -> Report {
    let groups = vec![
        Group::new("GPU and driver", gpu::check(machine)),
        Group::new("CUDA attributes", cuda::check(machine)),
        Group::new("GPU memory for network devices", registration::check(machine)),
        Group::new("GPU memory for the CPU", mapping::check(machine)),
        Group::new("RDMA devices and links", rdma::check(machine)),
        topology::check(machine),
        Group::new("Kernel and limits", limits::check(machine)),
        Group::new("PTX toolchain", toolchain::check(machine)),
        Group::new("Proof: kernels that exchange bytes", proof::check(machine)),
    ];
    let (runs, summary) = proof::verdict(machine);
    let counts = Counts::of(&groups);
    Report { version: env!("CARGO_PKG_VERSION"), groups, runs, summary: one_line(&summary), counts }
}

/// How a container is given GPUs, and RDMA devices.
const GPUS: &str = "--gpus all";
const RDMA_DEVICES: &str = "--device /dev/infiniband";

/// A device node: whether this user can open it, and what to do if not.
fn node(machine: &Machine, path: &str, remedy: &str) -> Line {
    match machine.node(path) {
        Seen::Here(()) => Line::ok(path, "opens"),
        Seen::Absent => {
            let device = format!("--device {path}");
            let option = if path.starts_with("/dev/nvidia") { GPUS } else { device.as_str() };
            let remedy = in_container(machine, remedy, option);
            Line::missing(path, "is not there").remedy(remedy)
        }
        Seen::Hidden(why) => Line::missing(path, format!("does not open: {why}")).remedy(format!(
            "have its owner allow this user (as root: chmod a+rw {path}); in a container, \
                start it with --device {path}"
        )),
    }
}

/// A remedy for the machine itself, for people who may be in a container on it.
fn in_container(machine: &Machine, remedy: &str, option: &str) -> String {
    match limits::container(machine) {
        Some(_) => {
            format!("on the host: {remedy}; then start this container with {option}")
        }
        None => remedy.to_owned(),
    }
}
