//! RDMA: libraries, modules, nodes, devices, and the state of their ports.

use std::net::Ipv4Addr;

use super::{RDMA_DEVICES, in_container, node};
use crate::machine::{KernelModule, Machine, Seen, one_line};
use crate::pci;
use crate::report::Line;

/// Where sysfs lists devices.
const DEVICES: &str = "/sys/class/infiniband";

/// A device as sysfs shows it.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) name: String,
    /// Nothing where it is software.
    pub(super) pci: Option<pci::Device>,
    pub(super) driver: Option<String>,
    /// What it is made on, where it is software: the name of a network interface.
    parent: Option<String>,
    /// RDMA over TCP, whose variant of rsocket gpunet does not implement.
    iwarp: bool,
    folder: String,
}

/// All devices, in the order of their names.
pub(super) fn devices(machine: &Machine) -> Vec<Device> {
    let names = machine.names(DEVICES).here().unwrap_or_default();
    let device = |name: String| {
        let listed = format!("{DEVICES}/{name}");
        let folder = machine.link(&listed).unwrap_or(listed);
        let pci = machine.link(&format!("{folder}/device")).and_then(pci::Device::at);
        let driver = pci.as_ref().and_then(|device| device.driver(machine));
        let parent = machine.text(&format!("{folder}/parent")).here().map(|text| one_line(&text));
        let kind = machine.text(&format!("{folder}/node_type")).here().unwrap_or_default();
        Device { name: one_line(&name), pci, driver, parent, iwarp: kind.starts_with("4:"), folder }
    };
    names.into_iter().map(device).collect()
}

impl Device {
    /// Its ports, by number.
    fn ports(&self, machine: &Machine) -> Vec<String> {
        machine.names(&format!("{}/ports", self.folder)).here().unwrap_or_default()
    }

    fn active(&self, machine: &Machine, port: &str) -> bool {
        let state = machine.text(&format!("{}/ports/{port}/state", self.folder));
        state.here().is_some_and(|state| state.starts_with("4:"))
    }

    /// The IPv4 addresses of a port: RoCE lists them as GIDs, some of them for each of its versions.
    fn addresses(&self, machine: &Machine, port: &str) -> Vec<Address> {
        let port = format!("{}/ports/{port}", self.folder);
        let names = machine.names(&format!("{port}/gids")).here().unwrap_or_default();
        let address = |gid: &String| {
            let ip = machine.ipv4_of_gid(&format!("{port}/gids/{gid}"))?;
            let of_gid = |what| machine.text(&format!("{port}/gid_attrs/{what}/{gid}")).here();
            let (kind, interface) = (of_gid("types"), of_gid("ndevs"));
            Some(Address { ip, kind, interface })
        };
        let mut addresses: Vec<_> = names.iter().filter_map(address).collect();
        // The version that the connection manager takes first, `RoCE v2`, is the greater word.
        addresses.sort_by(|a, b| (a.ip, &b.kind).cmp(&(b.ip, &a.kind)));
        addresses.dedup_by_key(|address| address.ip);
        addresses
    }
}

/// An IPv4 address of a port.
struct Address {
    ip: Ipv4Addr,
    /// Such as `RoCE v2`, where the kernel shows it.
    kind: Option<String>,
    /// The network interface that has it.
    interface: Option<String>,
}

impl Address {
    /// In words, with the interface's MTU, which bounds that of RDMA.
    fn words(&self, machine: &Machine) -> String {
        let mut words = self.ip.to_string();
        if let Some(kind) = &self.kind {
            words += &format!(", {kind}");
        }
        if let Some(interface) = self.interface.as_deref().filter(|name| !name.contains('/'))
            && let Some(mtu) = machine.text(&format!("/sys/class/net/{interface}/mtu")).here()
        {
            words += &format!(", {interface} with MTU {mtu}");
        }
        words
    }
}

/// The address at which kernels can connect by RDMA.
pub(crate) fn first_address(machine: &Machine) -> Option<Ipv4Addr> {
    let usable = devices(machine).into_iter().filter(|device| !device.iwarp);
    let mut addresses = usable.flat_map(|device| {
        let ports = device.ports(machine).into_iter().filter(|port| device.active(machine, port));
        ports.flat_map(|port| device.addresses(machine, &port)).collect::<Vec<_>>()
    });
    addresses.next().map(|address| address.ip)
}

/// The addresses of all ports, whatever their state.
pub(crate) fn all_addresses(machine: &Machine) -> Vec<Ipv4Addr> {
    let of_device = |device: Device| {
        let ports = device.ports(machine).into_iter();
        ports.flat_map(|port| device.addresses(machine, &port)).collect::<Vec<_>>()
    };
    devices(machine).into_iter().flat_map(of_device).map(|address| address.ip).collect()
}

pub(super) fn check(machine: &Machine) -> Vec<Line> {
    let mut lines = vec![libraries(machine)];
    let devices = devices(machine);
    lines.push(if devices.is_empty() {
        no_device(machine)
    } else {
        let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
        Line::ok("devices", names.join(", "))
    });
    lines.extend(modules(machine, !devices.is_empty()));
    lines.extend(nodes(machine, !devices.is_empty()));
    for device in &devices {
        lines.extend(ports(machine, device));
    }
    if let (false, Err(why)) = (devices.is_empty(), &machine.answers.rdma.devices) {
        lines.push(Line::missing("opening devices", fault(why)));
    }
    lines
}

fn libraries(machine: &Machine) -> Line {
    match &machine.answers.rdma.libraries {
        Ok(()) => Line::ok("libraries", "libibverbs and librdmacm load"),
        Err(why) => Line::missing("libraries", fault(why)).remedy(
            "Debian, Ubuntu: apt-get install librdmacm1 ibverbs-providers; Fedora, RHEL: dnf \
                install librdmacm libibverbs",
        ),
    }
}

/// gpunet's words for what is missing, without what to do: the lines here say more of that.
pub(super) fn fault(words: &str) -> String {
    let words = words.strip_prefix("no RDMA: ").unwrap_or(words);
    words.rfind("): ").map_or(words, |at| &words[..=at]).to_owned()
}

fn no_device(machine: &Machine) -> Line {
    const ABOUT: &str = "devices";
    match machine.names(DEVICES) {
        Seen::Hidden(why) => Line::unseen(ABOUT, why),
        Seen::Absent if !machine.has_sys() => Line::unseen(ABOUT, "/sys does not show it"),
        Seen::Here(_) | Seen::Absent => Line::missing(ABOUT, "no RDMA device: streams go by TCP")
            .remedy(in_container(
                machine,
                "load the adapter's driver (modprobe mlx5_ib), or try RDMA in software: modprobe \
                rdma_rxe; rdma link add rxe0 type rxe netdev eth0",
                RDMA_DEVICES,
            )),
    }
}

fn modules(machine: &Machine, wanted: bool) -> Vec<Line> {
    let module =
        |name| match machine.module(name) {
            KernelModule::Loaded => Line::ok(name, "loaded"),
            KernelModule::BuiltIn => Line::ok(name, "part of the kernel"),
            KernelModule::Unseen => Line::unseen(name, "/sys/module does not show modules"),
            // What is part of the kernel and has no parameters does not show.
            KernelModule::Absent if machine.has("/dev/infiniband/rdma_cm") => {
                Line::ok(name, "not listed, but /dev/infiniband/rdma_cm is there")
            }
            KernelModule::Absent if wanted => Line::missing(name, "not loaded")
                .remedy(in_container(machine, &format!("modprobe {name}"), RDMA_DEVICES)),
            KernelModule::Absent => Line::missing(name, "not loaded")
                .remedy(format!("modprobe {name} (with an RDMA device)")),
        };
    ["ib_core", "ib_uverbs", "rdma_ucm"].map(module).into()
}

/// The nodes that programs open; without a device nobody misses them.
fn nodes(machine: &Machine, wanted: bool) -> Vec<Line> {
    let folder = "/dev/infiniband";
    let names = machine.names(folder).here().unwrap_or_default();
    let uverbs: Vec<_> = names.iter().filter(|name| name.starts_with("uverbs")).collect();
    let mut lines = Vec::new();
    if wanted || !names.is_empty() {
        lines.push(node(machine, "/dev/infiniband/rdma_cm", "modprobe rdma_ucm"));
    }
    if wanted && uverbs.is_empty() {
        let line = Line::missing(folder, "has no uverbs node");
        lines.push(line.remedy(in_container(machine, "modprobe ib_uverbs", RDMA_DEVICES)));
    }
    lines.extend(
        uverbs.iter().map(|name| node(machine, &format!("{folder}/{name}"), "modprobe ib_uverbs")),
    );
    lines
}

fn ports(machine: &Machine, device: &Device) -> Vec<Line> {
    let kind = match (&device.driver, &device.parent) {
        (Some(driver), _) => format!("driver {driver}"),
        (None, Some(parent)) => format!("in software on {parent} (soft-RoCE or the like)"),
        (None, None) => "of an unknown driver".to_owned(),
    };
    if device.iwarp {
        return vec![
            Line::missing(
                &device.name,
                format!("{kind}; iWARP, whose variant of rsocket gpunet does not implement"),
            )
            .remedy("use RoCE or InfiniBand, where the adapter knows them; TCP works over it"),
        ];
    }
    device.ports(machine).iter().map(|port| port_line(machine, device, port, &kind)).collect()
}

fn port_line(machine: &Machine, device: &Device, port: &str, kind: &str) -> Line {
    let file = |name: &str| {
        let text = machine.text(&format!("{}/ports/{port}/{name}", device.folder)).here();
        one_line(&text.unwrap_or_else(|| "unknown".to_owned()))
    };
    let about = format!("{} port {port}", device.name);
    // `4: ACTIVE`
    let state = file("state");
    let state = state.split_once(": ").map_or(state.as_str(), |(_, state)| state).to_owned();
    let layer = file("link_layer");
    let seen = format!("{state}, {layer}, {}, {kind}", file("rate"));
    if !device.active(machine, port) {
        return Line::missing(&about, seen).remedy(match layer.as_str() {
            "Ethernet" => "plug in its cable and set its interface up: ip link set DEVICE up",
            _ => {
                "plug in its cable; on InfiniBand a subnet manager must run: systemctl start opensm"
            }
        });
    }
    let addresses = device.addresses(machine, port);
    match addresses.first() {
        Some(first) => {
            let more = match addresses.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            let line = format!("{seen}, {}{more}", first.words(machine));
            match device.parent {
                Some(_) => {
                    Line::warning(&about, format!("{line}: right for tests, slower than TCP"))
                }
                None => Line::ok(&about, line),
            }
        }
        None if layer == "InfiniBand" => {
            Line::unseen(&about, format!("{seen}; its IP address is not in sysfs")).remedy(
                "see that IP over InfiniBand has an address: ip address show; ip address \
                add ADDRESS/24 dev ib0",
            )
        }
        None => Line::missing(&about, format!("{seen}, no IPv4 address"))
            .remedy("ip address add ADDRESS/24 dev DEVICE"),
    }
}
