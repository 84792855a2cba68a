//! GPUs on the bus, the kernel's driver, its device nodes, and whether CUDA opens them.

use super::{GPUS, in_container, node};
use crate::machine::{KernelModule, Machine, Seen};
use crate::pci;
use crate::report::Line;

/// Installs a driver.
const INSTALL: &str = "install NVIDIA's driver (Ubuntu: ubuntu-drivers install; Debian, with NVIDIA's \
    repository: apt-get install nvidia-open)";

/// Where the kernel's driver lists its GPUs.
const LISTED: &str = "/proc/driver/nvidia/gpus";

pub(super) fn check(machine: &Machine) -> Vec<Line> {
    let mut lines = vec![on_the_bus(machine)];
    lines.extend(driver(machine));
    lines.push(opened(machine));
    for (ordinal, device) in machine.answers.cuda.devices.iter().enumerate() {
        let (major, minor) = device.compute_capability;
        let seen = format!("{}, compute capability {major}.{minor}", device.name);
        let about = format!("cuda:{ordinal}");
        lines.push(if (major, minor) >= (7, 5) {
            Line::ok(&about, seen)
        } else {
            Line::missing(&about, format!("{seen}: kernels need 7.5 (Turing) or newer"))
                .remedy("use another GPU, or the emulated one (--gpu emulated)")
        });
    }
    lines
}

fn on_the_bus(machine: &Machine) -> Line {
    const ABOUT: &str = "GPUs on the PCI bus";
    match pci::gpus(machine) {
        Seen::Here(gpus) if gpus.is_empty() => {
            Line::missing(ABOUT, "no NVIDIA GPU: kernels run on the emulated GPU")
        }
        Seen::Here(gpus) => {
            let held = |driver: &str| {
                gpus.iter().find(|gpu| gpu.driver(machine).as_deref() == Some(driver))
            };
            if let Some(gpu) = held("nouveau") {
                return Line::warning(ABOUT, format!("{} is held by nouveau", gpu.place())).remedy(
                    "keep nouveau out (a line 'blacklist nouveau' in /etc/modprobe.d) and \
                        install NVIDIA's driver",
                );
            }
            if let Some(gpu) = held("vfio-pci") {
                let seen = format!("{} is held by vfio-pci, for virtual machines", gpu.place());
                return Line::warning(ABOUT, seen)
                    .remedy("give it back to NVIDIA's driver, or run in that virtual machine");
            }
            let places: Vec<_> = gpus.iter().map(pci::Device::place).collect();
            Line::ok(ABOUT, places.join(", "))
        }
        Seen::Absent => Line::unseen(ABOUT, "there is no PCI bus in /sys"),
        Seen::Hidden(why) => Line::unseen(ABOUT, why),
    }
}

fn driver(machine: &Machine) -> Vec<Line> {
    const ABOUT: &str = "kernel driver";
    // Who compiled the module, and on which host, is nobody's business.
    let nameless = |word: &str| !word.is_empty() && !word.contains('@');
    let version = match machine.pick("/proc/driver/nvidia/version", ' ', nameless) {
        Seen::Here(words) => words,
        Seen::Absent if !machine.has_proc() => {
            return vec![Line::unseen(ABOUT, "/proc does not show it")];
        }
        Seen::Absent => {
            return vec![
                Line::missing(ABOUT, "NVIDIA's kernel module is not loaded")
                    .remedy(in_container(machine, INSTALL, GPUS)),
            ];
        }
        Seen::Hidden(why) => return vec![Line::unseen(ABOUT, why)],
    };
    let number = version
        .iter()
        .find(|word| word.contains('.') && word.starts_with(|first: char| first.is_ascii_digit()))
        .map_or("of unknown version", String::as_str);
    let mut lines = vec![if version.join(" ").contains("Open Kernel Module") {
        Line::ok(ABOUT, format!("{number}, open modules"))
    } else {
        Line::warning(ABOUT, format!("{number}, proprietary modules: they export no dma-buf"))
            .remedy(
                "where the GPU is Turing or newer, install the open modules (Debian, Ubuntu, \
                with NVIDIA's repository: apt-get install nvidia-open)",
            )
    }];
    lines.push(match machine.module("nvidia_uvm") {
        KernelModule::Loaded | KernelModule::BuiltIn => Line::ok("nvidia_uvm", "loaded"),
        KernelModule::Absent => Line::missing("nvidia_uvm", "not loaded: CUDA does not start")
            .remedy("modprobe nvidia_uvm"),
        KernelModule::Unseen => Line::unseen("nvidia_uvm", "/sys/module does not show modules"),
    });
    if let Seen::Here(lines_of) = machine.pick("/proc/driver/nvidia/params", '\n', |line| {
        line.starts_with("EnableStreamMemOPs") || line.starts_with("RegistryDwords:")
    }) {
        let of = |name: &str| lines_of.iter().any(|line| line.contains(name));
        let peer = if of("PeerMappingOverride=1") { "on" } else { "off" };
        let memory = if of("EnableStreamMemOPs: 1") { "on" } else { "off" };
        lines.push(Line::ok(
            "driver parameters",
            format!(
                "EnableStreamMemOPs {memory}, PeerMappingOverride {peer}: gpunet needs neither"
            ),
        ));
    }
    let mut nodes = vec!["/dev/nvidiactl".to_owned(), "/dev/nvidia-uvm".to_owned()];
    nodes.extend(minors(machine).into_iter().map(|minor| format!("/dev/nvidia{minor}")));
    lines.extend(nodes.iter().map(|path| node(machine, path, "nvidia-modprobe -u -c=0")));
    lines
}

/// The GPUs that the kernel's driver has, by the numbers of their device nodes.
fn minors(machine: &Machine) -> Vec<u32> {
    let gpus = machine.names(LISTED).here().unwrap_or_default();
    let minor = |gpu: &String| {
        let path = format!("{LISTED}/{gpu}/information");
        let lines = machine.pick(&path, '\n', |line| line.starts_with("Device Minor:")).here()?;
        lines.first()?.split_once(':')?.1.trim().parse().ok()
    };
    gpus.iter().filter_map(minor).collect()
}

fn opened(machine: &Machine) -> Line {
    const ABOUT: &str = "CUDA";
    match &machine.answers.cuda.driver {
        Ok(version) => {
            let count = machine.answers.cuda.devices.len();
            let all = minors(machine).len();
            if count < all {
                let seen = format!("the driver opens, API {version}, {count} of {all} devices");
                return Line::warning(ABOUT, seen).remedy(
                    "unset CUDA_VISIBLE_DEVICES where all shall be used, and look for GPUs \
                        split by MIG",
                );
            }
            let devices =
                if count == 1 { "1 device".to_owned() } else { format!("{count} devices") };
            Line::ok(ABOUT, format!("the driver opens, API {version}, {devices}"))
        }
        Err(why) => {
            let line = Line::missing(ABOUT, why.clone());
            // gpunet's own words end with what to do.
            if machine.has("/proc/driver/nvidia/version") {
                line.remedy(
                    "the kernel's driver is there: see that its library libcuda.so.1 \
                    has the same version, and that the lines above are ok",
                )
            } else {
                line
            }
        }
    }
}
