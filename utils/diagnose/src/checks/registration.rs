//! Whether network devices can be given GPU memory: as a dma-buf, or by a peer-memory module.

use crate::machine::{CudaDevice, KernelModule, Machine, Seen};
use crate::report::Line;

use super::rdma;

/// Drivers of network devices that register dma-bufs.
pub(super) const KNOW_DMA_BUF: &[&str] =
    &["mlx5_core", "efa", "irdma", "ice", "bnxt_re", "bnxt_en", "mana", "ionic"];
/// The first kernel whose verbs take dma-bufs.
const OLDEST_KERNEL: (u32, u32) = (5, 12);

/// Functions of the kernel that show what it can do.
const P2PDMA: &str = "pci_p2pdma_distance_many";
const PEER_CLIENTS: &str = "ib_register_peer_memory_client";
/// One that every kernel with PCI has: where it is not shown, that others are not means nothing.
const WITNESS: &str = "pci_enable_device";

/// Settings of the kernel, as distributions keep them beside it.
const P2PDMA_SETTING: &str = "CONFIG_PCI_P2PDMA";
const MOVE_NOTIFY_SETTING: &str = "CONFIG_DMABUF_MOVE_NOTIFY";

pub(super) fn check(machine: &Machine) -> Vec<Line> {
    // By words, since addresses of the kernel are nobody's business; behind a name, after a tab, may
    // stand its module.
    let symbols = machine.pick("/proc/kallsyms", ' ', |word| {
        [P2PDMA, PEER_CLIENTS, WITNESS].iter().any(|function| is(word, function))
    });
    let settings = settings(machine);
    vec![
        kernel(machine),
        peer_to_peer(&symbols, &settings),
        move_notify(&settings),
        export(machine),
        devices(machine),
        peer_memory(machine, &symbols),
    ]
}

fn kernel(machine: &Machine) -> Line {
    const ABOUT: &str = "kernel for dma-buf";
    let release = match machine.text("/proc/sys/kernel/osrelease") {
        Seen::Here(release) => release,
        Seen::Absent => return Line::unseen(ABOUT, "/proc does not show the kernel's release"),
        Seen::Hidden(why) => return Line::unseen(ABOUT, why),
    };
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST_KERNEL => {
            Line::ok(ABOUT, format!("{release}: 5.12 or newer"))
        }
        (Some(_), Some(_)) => Line::missing(ABOUT, format!("{release} is older than 5.12"))
            .remedy("install a newer kernel, or load nvidia_peermem instead"),
        _ => Line::unseen(ABOUT, format!("'{release}' is no release that can be compared")),
    }
}

/// The settings of the running kernel that matter here, where they are kept.
fn settings(machine: &Machine) -> Seen<Vec<String>> {
    let release = machine.text("/proc/sys/kernel/osrelease").here();
    let Some(release) = release.filter(|release| !release.contains('/')) else {
        return Seen::Absent;
    };
    let wanted =
        |line: &str| [P2PDMA_SETTING, MOVE_NOTIFY_SETTING].iter().any(|name| line.contains(name));
    machine.pick(&format!("/boot/config-{release}"), '\n', wanted)
}

fn is_on(settings: &Seen<Vec<String>>, name: &str) -> bool {
    let Seen::Here(settings) = settings else { return false };
    settings.iter().any(|line| line.strip_prefix(name) == Some("=y"))
}

fn move_notify(settings: &Seen<Vec<String>>) -> Line {
    const ABOUT: &str = "moving dma-bufs";
    match settings {
        Seen::Here(_) if is_on(settings, MOVE_NOTIFY_SETTING) => {
            Line::ok(ABOUT, "CONFIG_DMABUF_MOVE_NOTIFY is on")
        }
        Seen::Here(_) => Line::ok(
            ABOUT,
            "CONFIG_DMABUF_MOVE_NOTIFY is off: buffers are pinned while a device uses them",
        ),
        Seen::Absent => Line::unseen(ABOUT, "the kernel's settings are not in /boot here"),
        Seen::Hidden(why) => Line::unseen(ABOUT, format!("the kernel's settings in /boot: {why}")),
    }
}

fn is(symbol: &str, function: &str) -> bool {
    symbol.split('\t').next() == Some(function)
}

/// Whether the kernel has a function; nothing where it does not show its functions.
fn has(symbols: &[String], function: &str) -> Option<bool> {
    let shows = |name| symbols.iter().any(|symbol| is(symbol, name));
    if shows(function) { Some(true) } else { shows(WITNESS).then_some(false) }
}

fn peer_to_peer(symbols: &Seen<Vec<String>>, settings: &Seen<Vec<String>>) -> Line {
    const ABOUT: &str = "peer-to-peer in kernel";
    let on = match (settings, symbols) {
        (Seen::Here(_), _) => Some(is_on(settings, P2PDMA_SETTING)),
        (_, Seen::Here(found)) => has(found, P2PDMA),
        _ => None,
    };
    match (on, symbols) {
        (Some(true), _) => Line::ok(ABOUT, "CONFIG_PCI_P2PDMA is on"),
        (Some(false), _) => Line::missing(ABOUT, "CONFIG_PCI_P2PDMA is off").remedy(
            "for RDMA into GPU memory take a kernel with CONFIG_PCI_P2PDMA=y (Debian's 6.1 has it off)",
        ),
        (None, Seen::Here(_)) => {
            Line::unseen(ABOUT, "the kernel shows too few of its symbols to know")
        }
        (None, Seen::Absent) => Line::unseen(ABOUT, "the kernel shows no symbols"),
        (None, Seen::Hidden(why)) => Line::unseen(ABOUT, format!("the kernel's symbols: {why}")),
    }
}

fn export(machine: &Machine) -> Line {
    const ABOUT: &str = "dma-buf export";
    match machine.answers.cuda.devices.first().and_then(|device| device.export.as_ref()) {
        Some(Ok(())) => Line::ok(ABOUT, "GPU memory was exported"),
        Some(Err(why)) => Line::missing(ABOUT, why.clone()).remedy(
            "install the open kernel modules and a driver with CUDA 11.7 or newer, or \
                load nvidia_peermem",
        ),
        None => Line::unseen(ABOUT, "no CUDA device to ask"),
    }
}

fn devices(machine: &Machine) -> Line {
    const ABOUT: &str = "dma-buf registration";
    let devices = rdma::devices(machine);
    if devices.is_empty() {
        return Line::unseen(ABOUT, "no RDMA device to ask");
    }
    let known = |driver: &str| KNOW_DMA_BUF.contains(&driver);
    let (can, cannot): (Vec<_>, Vec<_>) =
        devices.iter().partition(|device| device.driver.as_deref().is_some_and(known));
    let names = |devices: &[&rdma::Device]| {
        devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    if can.is_empty() {
        return Line::missing(
            ABOUT,
            format!("the driver of {} does not know it: rings lie in host memory", names(&cannot)),
        );
    }
    Line::ok(ABOUT, format!("the driver of {} knows it", names(&can)))
}

fn peer_memory(machine: &Machine, symbols: &Seen<Vec<String>>) -> Line {
    const ABOUT: &str = "peer-memory module";
    let modules = ["nvidia_peermem", "nv_peer_mem"].map(|name| machine.module(name));
    let loaded =
        modules.map(|module| matches!(module, KernelModule::Loaded | KernelModule::BuiltIn));
    match loaded {
        [true, true] => Line::warning(
            ABOUT,
            "nv_peer_mem and nvidia_peermem are both loaded: \
            registrations may go to either, and fail",
        )
        .remedy(
            "modprobe -r nv_peer_mem, and keep it out: apt-get remove \
                nvidia-peer-memory-dkms",
        ),
        [true, false] => Line::ok(ABOUT, "nvidia_peermem"),
        [false, true] => Line::warning(ABOUT, "nv_peer_mem, which is no longer maintained")
            .remedy("modprobe -r nv_peer_mem; modprobe nvidia_peermem"),
        [false, false] if modules[0] == KernelModule::Unseen => {
            Line::unseen(ABOUT, "/sys/module does not show modules")
        }
        [false, false] => {
            let of_device = |device: &CudaDevice| device.export == Some(Ok(()));
            let exports = machine.answers.cuda.devices.iter().any(of_device);
            let seen = if exports {
                "none is loaded, and none is needed where dma-buf works"
            } else {
                "none is loaded"
            };
            let line = Line::missing(ABOUT, seen);
            match symbols {
                Seen::Here(found) if has(found, PEER_CLIENTS) == Some(false) => line.remedy(
                    "this kernel's RDMA takes no peer-memory modules: use \
                    dma-buf, or install NVIDIA's DOCA-OFED and modprobe nvidia_peermem",
                ),
                _ => line.remedy(
                    "modprobe nvidia_peermem (with NVIDIA's driver and an RDMA \
                    device)",
                ),
            }
        }
    }
}
