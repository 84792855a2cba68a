//! What each GPU's attributes mean for network devices that write into its memory.

use crate::machine::{CudaDevice, Machine};
use crate::report::Line;

/// The ordering from which on kernels of the owner see writes at once.
const ORDERED_FOR_OWNER: i32 = 100;
/// The host can flush writes.
const FLUSH_BY_HOST: i32 = 1;

pub(super) fn check(machine: &Machine) -> Vec<Line> {
    let devices = &machine.answers.cuda.devices;
    if devices.is_empty() {
        return vec![Line::unseen("attributes", "no CUDA device to ask")];
    }
    let mut lines = Vec::new();
    for (ordinal, device) in devices.iter().enumerate() {
        let about = |what: &str| format!("cuda:{ordinal} {what}");
        lines.push(yes_or_no(device, &about("GPUDirect RDMA"), "gpu_direct_rdma", |line| {
            line.remedy(
                "use a data-centre or workstation GPU for RDMA into GPU memory; \
                elsewhere rings lie in host memory",
            )
        }));
        lines.push(yes_or_no(device, &about("dma-buf"), "dma_buf", |line| {
            if device.compute_capability < (7, 5) {
                return line;
            }
            line.remedy("install the open kernel modules and a driver with CUDA 11.7 or newer")
        }));
        lines.push(remote_writes(device, &about("remote writes")));
        lines.push(yes_or_no(device, &about("64-bit mem ops"), "stream_mem_ops_64", |line| line));
        lines.push(match device.attributes.get("can_flush_remote_writes") {
            Some(1) => Line::ok(&about("stream flush"), "supported; gpunet needs none"),
            Some(_) => Line::ok(&about("stream flush"), "not supported; gpunet needs none"),
            None => Line::unseen(&about("stream flush"), "the driver does not say"),
        });
        lines.push(match device.attributes.get("host_native_atomics") {
            Some(1) => Line::ok(&about("host atomics"), "native"),
            Some(_) => {
                Line::ok(&about("host atomics"), "not native: usual over PCIe, gpunet needs none")
            }
            None => Line::unseen(&about("host atomics"), "the driver does not say"),
        });
    }
    lines
}

fn yes_or_no(
    device: &CudaDevice,
    about: &str,
    attribute: &str,
    remedy: impl FnOnce(Line) -> Line,
) -> Line {
    match device.attributes.get(attribute) {
        Some(1..) => Line::ok(about, "supported"),
        Some(_) => remedy(Line::missing(about, "not supported")),
        None => Line::unseen(about, "the driver does not know the question: it is older than that"),
    }
}

fn remote_writes(device: &CudaDevice, about: &str) -> Line {
    let attribute = |name| device.attributes.get(name).copied();
    let by_host = attribute("flush_writes_options").is_some_and(|bits| bits & FLUSH_BY_HOST != 0);
    match attribute("writes_ordering") {
        Some(ORDERED_FOR_OWNER..) => Line::ok(about, "ordered: kernels see them at once"),
        Some(_) if by_host => Line::ok(about, "seen after a flush by the host, which gpunet makes"),
        Some(_) => Line::warning(
            about,
            "neither ordered nor flushed by the host: rings of RDMA streams lie in host memory",
        ),
        None => {
            Line::unseen(about, "the driver does not say: rings of RDMA streams lie in host memory")
                .remedy("update the NVIDIA driver")
        }
    }
}
