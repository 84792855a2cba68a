//! Where GPUs and RDMA devices sit on the PCI bus: a drawing, and for each pair how near they are
//! and what stands between them.

use std::collections::BTreeMap;

use super::rdma;
use crate::machine::{Machine, Seen, one_line};
use crate::pci::{self, Acs, Ats, Nearness};
use crate::report::{Group, Line};

/// A window of this size or less holds a part of the GPU's memory only.
const SMALL_WINDOW: u64 = 256 << 20;

/// A device to draw.
struct Leaf {
    device: pci::Device,
    label: String,
}

pub(super) fn check(machine: &Machine) -> Group {
    let (gpus, mut lines) = match pci::gpus(machine) {
        Seen::Here(gpus) => (gpus, Vec::new()),
        Seen::Absent => (Vec::new(), vec![Line::unseen("topology", "there is no PCI bus in /sys")]),
        Seen::Hidden(why) => (Vec::new(), vec![Line::unseen("topology", why)]),
    };
    let adapters: Vec<_> = rdma::devices(machine)
        .into_iter()
        .filter_map(|device| Some((device.name, device.pci?)))
        .collect();
    let mut leaves = Vec::new();
    for gpu in &gpus {
        let name = machine
            .answers
            .cuda
            .devices
            .iter()
            .find(|device| device.pci.as_deref() == Some(gpu.place()));
        let name = name.map_or("GPU".to_owned(), |device| format!("GPU {}", device.name));
        leaves.push(Leaf { device: gpu.clone(), label: label(machine, gpu, &name) });
        lines.extend(link(machine, gpu, "GPU"));
        lines.push(window(machine, gpu));
    }
    for (name, device) in &adapters {
        leaves.push(Leaf { device: device.clone(), label: label(machine, device, name) });
        lines.extend(link(machine, device, name));
    }
    for gpu in &gpus {
        lines.extend(adapters.iter().flat_map(|(name, device)| pair(machine, gpu, name, device)));
    }
    if leaves.is_empty() && lines.is_empty() {
        lines.push(Line::unseen(
            "topology",
            "no GPU and no RDMA device on the PCI bus: nothing to draw",
        ));
    } else if adapters.is_empty() && !gpus.is_empty() {
        lines.push(Line::unseen("GPU and RDMA device", "no RDMA device on the PCI bus"));
    }
    Group { title: "PCIe between GPUs and RDMA devices", drawing: draw(machine, &leaves), lines }
}

fn label(machine: &Machine, device: &pci::Device, name: &str) -> String {
    let link = device.link(machine).map(|link| format!(", x{} {}", link.width, link.speed));
    let ats = match device.ats(machine) {
        Ats::On => ", ATS on",
        Ats::Off => ", ATS off",
        Ats::Unknown => "",
    };
    format!("{} {name}{}{ats}", device.place(), link.unwrap_or_default())
}

/// A branch of the drawing, by the places below it.
#[derive(Default)]
struct Branch {
    label: String,
    below: BTreeMap<String, Branch>,
}

fn draw(machine: &Machine, leaves: &[Leaf]) -> Vec<String> {
    let mut root = Branch::default();
    for leaf in leaves {
        let socket = match leaf.device.socket(machine) {
            Some(socket) => format!("socket {socket}"),
            None => "socket not known".to_owned(),
        };
        let host_bridge = leaf.device.host_bridge();
        let mut at = root.below.entry(socket.clone()).or_default();
        at.label = socket;
        at = at.below.entry(host_bridge.to_owned()).or_default();
        at.label = host_bridge.to_owned();
        for (depth, bridge) in leaf.device.bridges().iter().enumerate() {
            let kind = if depth == 0 { "root port" } else { "switch port" };
            let acs = match bridge.acs(machine) {
                Acs::Redirects => ", ACS on",
                Acs::Off => ", ACS off",
                Acs::None => "",
                Acs::Unseen => ", ACS not seen",
            };
            at = at.below.entry(bridge.place().to_owned()).or_default();
            at.label = format!("{} {kind}{acs}", bridge.place());
        }
        at = at.below.entry(leaf.device.place().to_owned()).or_default();
        at.label = leaf.label.clone();
    }
    let mut drawing = Vec::new();
    for branch in root.below.values() {
        drawing.push(one_line(&branch.label));
        twigs(branch, "", &mut drawing);
    }
    drawing
}

fn twigs(branch: &Branch, indent: &str, drawing: &mut Vec<String>) {
    let last = branch.below.len().saturating_sub(1);
    for (index, below) in branch.below.values().enumerate() {
        let (twig, next) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        drawing.push(format!("{indent}{twig}{}", one_line(&below.label)));
        twigs(below, &format!("{indent}{next}"), drawing);
    }
}

fn link(machine: &Machine, device: &pci::Device, name: &str) -> Option<Line> {
    let link = device.link(machine)?;
    let about = format!("link of {name}");
    let place = device.place();
    // Idle devices save power by going slower; lanes stay.
    let speed = if link.speed == link.fastest || link.fastest.is_empty() {
        link.speed.clone()
    } else {
        format!("{} now, {} under load", link.speed, link.fastest)
    };
    Some(if link.width < link.widest {
        Line::warning(&about, format!("{place}: x{} of x{}, {speed}", link.width, link.widest))
            .remedy("put the card into a slot with all lanes, and seat it anew")
    } else {
        Line::ok(&about, format!("{place}: x{}, {speed}", link.width))
    })
}

fn window(machine: &Machine, gpu: &pci::Device) -> Line {
    const ABOUT: &str = "BAR1 of GPU";
    let place = gpu.place();
    match gpu.largest_window(machine) {
        Some(bytes @ ..=SMALL_WINDOW) => Line::warning(
            ABOUT,
            format!(
                "{place}: {} MiB: network devices reach that much GPU memory at once, \
                rings beyond it are refused",
                bytes >> 20
            ),
        )
        .remedy(
            "switch on Above 4G Decoding and Resizable BAR in the firmware; or keep rings \
            small (NetBuilder::ring_memory)",
        ),
        Some(bytes) if bytes >= 1 << 30 => Line::ok(ABOUT, format!("{place}: {} GiB", bytes >> 30)),
        Some(bytes) => Line::ok(ABOUT, format!("{place}: {} MiB", bytes >> 20)),
        None => Line::unseen(ABOUT, format!("{place}: sysfs does not show its windows")),
    }
}

fn pair(machine: &Machine, gpu: &pci::Device, name: &str, device: &pci::Device) -> Vec<Line> {
    let about = format!("GPU and {name}");
    let nearness = pci::nearness(machine, gpu, device);
    let seen = format!("{} and {}: {}", gpu.place(), device.place(), nearness.words());
    let mut lines = vec![match nearness {
        Nearness::SameSwitch | Nearness::SameRootPort => Line::ok(&about, seen),
        Nearness::SameSocket => Line::ok(&about, format!("{seen}: bytes cross the root complex")),
        Nearness::AcrossSockets => Line::warning(
            &about,
            format!("{seen}: bytes cross the link between sockets, which is slow or refused"),
        )
        .remedy(
            "use the RDMA device on the GPU's socket, or move one card; rings in host \
                memory work anyway",
        ),
        Nearness::Unknown => Line::unseen(&about, seen),
    }];
    let between = pci::between(gpu, device);
    let with = |acs: Acs| -> Vec<&str> {
        between.iter().filter(|bridge| bridge.acs(machine) == acs).map(pci::Device::place).collect()
    };
    let (redirects, unseen) = (with(Acs::Redirects), with(Acs::Unseen));
    if !redirects.is_empty() {
        let commands: Vec<_> = redirects
            .iter()
            .map(|place| format!("setpci -s {place} ECAP_ACS+0x6.w=0000"))
            .collect();
        lines.push(
            Line::warning(
                &format!("ACS, {name}"),
                format!(
                    "on in {}: transfers between the \
                two go up to the root complex",
                    redirects.join(", ")
                ),
            )
            .remedy(format!(
                "switch ACS off in the firmware, or as root until the next \
                    boot: {} (not where devices are passed to virtual machines)",
                commands.join("; ")
            )),
        );
    } else if !unseen.is_empty() {
        lines.push(
            Line::unseen(
                &format!("ACS, {name}"),
                format!("{} show theirs to root only", unseen.join(", ")),
            )
            .remedy("run diagnose as root, which changes nothing either"),
        );
    } else if !between.is_empty() {
        lines.push(Line::ok(&format!("ACS, {name}"), "off on the way"));
    }
    lines
}
