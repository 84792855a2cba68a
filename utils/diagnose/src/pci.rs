//! The PCI bus as sysfs shows it: GPUs, network devices, the bridges above them, their links, their
//! memory windows, and Access Control Services (ACS).

use crate::machine::{Machine, Seen, extended_capabilities, one_line};

/// Where sysfs lists devices.
const DEVICES: &str = "/sys/bus/pci/devices";
/// NVIDIA.
const NVIDIA: &str = "0x10de";

/// A device, or a bridge on the way to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Its folder below /sys/devices.
    folder: String,
}

/// What ACS does to transfers between devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acs {
    /// They are sent up to the root complex.
    Redirects,
    /// They may go straight.
    Off,
    /// The device has none.
    None,
    /// This user may not see it.
    Unseen,
}

/// Whether a device asks the IOMMU for addresses itself, by Address Translation Services: what it
/// then sends may go straight to another device, ACS or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ats {
    On,
    Off,
    /// The device has none, or this user may not see it.
    Unknown,
}

/// How near two devices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nearness {
    SameSwitch,
    SameRootPort,
    SameSocket,
    AcrossSockets,
    /// The system does not say on which socket they are.
    Unknown,
}

impl Nearness {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::SameSwitch => "behind the same switch",
            Self::SameRootPort => "behind the same root port",
            Self::SameSocket => "on the same socket, behind different root ports",
            Self::AcrossSockets => "on different sockets",
            Self::Unknown => "behind different root ports; which sockets is not known",
        }
    }
}

/// All NVIDIA GPUs on the bus.
pub(crate) fn gpus(machine: &Machine) -> Seen<Vec<Device>> {
    let names = match machine.names(DEVICES) {
        Seen::Here(names) => names,
        Seen::Absent => return Seen::Absent,
        Seen::Hidden(why) => return Seen::Hidden(why),
    };
    let devices = names.iter().filter_map(|name| Device::named(machine, name));
    Seen::Here(devices.filter(|device| device.is_gpu(machine)).collect())
}

impl Device {
    /// The device at that place, such as `0000:01:00.0`.
    pub(crate) fn named(machine: &Machine, place: &str) -> Option<Self> {
        machine.link(&format!("{DEVICES}/{place}")).map(|folder| Self { folder })
    }

    /// The device whose folder this is; nothing where it is not one of the PCI bus.
    pub(crate) fn at(folder: String) -> Option<Self> {
        folder.contains("/pci").then_some(Self { folder })
    }

    /// Its place on the bus, such as `0000:01:00.0`.
    pub(crate) fn place(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or_default()
    }

    fn text(&self, machine: &Machine, file: &str) -> Option<String> {
        machine.text(&format!("{}/{file}", self.folder)).here()
    }

    fn is_gpu(&self, machine: &Machine) -> bool {
        let is = |file, begins: &str| {
            self.text(machine, file).is_some_and(|text| text.starts_with(begins))
        };
        // Display controllers; audio and USB functions of the same card are others.
        is("vendor", NVIDIA) && is("class", "0x03")
    }

    /// The kernel's driver for it.
    pub(crate) fn driver(&self, machine: &Machine) -> Option<String> {
        let driver = machine.link(&format!("{}/driver", self.folder))?;
        driver.rsplit('/').next().map(str::to_owned)
    }

    /// The socket, as NUMA node; nothing where the system does not say.
    pub(crate) fn socket(&self, machine: &Machine) -> Option<u32> {
        // -1: unknown.
        self.text(machine, "numa_node")?.parse().ok()
    }

    /// The bridges above it, the root port first.
    pub(crate) fn bridges(&self) -> Vec<Self> {
        let mut bridges = Vec::new();
        let mut folder = self.folder.as_str();
        // Counted: the path gets shorter.
        while let Some((above, _)) = folder.rsplit_once('/') {
            let name = above.rsplit('/').next().unwrap_or_default();
            if name.is_empty() || name.starts_with("pci") {
                break;
            }
            bridges.push(Self { folder: above.to_owned() });
            folder = above;
        }
        bridges.reverse();
        bridges
    }

    /// The host bridge above all, such as `pci0000:00`.
    pub(crate) fn host_bridge(&self) -> &str {
        let is_bridge = |part: &&str| part.starts_with("pci") && part.contains(':');
        self.folder.split('/').find(is_bridge).unwrap_or_default()
    }

    /// Lanes and speed now, and lanes at best.
    pub(crate) fn link(&self, machine: &Machine) -> Option<Link> {
        let number = |file| self.text(machine, file)?.parse::<u32>().ok();
        let width = number("current_link_width").filter(|width| (1..=32).contains(width))?;
        let widest = number("max_link_width").filter(|width| (1..=32).contains(width));
        let speed = self.text(machine, "current_link_speed").unwrap_or_default();
        let fastest = self.text(machine, "max_link_speed").unwrap_or_default();
        Some(Link {
            width,
            widest: widest.unwrap_or(width),
            speed: gts(&speed),
            fastest: gts(&fastest),
        })
    }

    /// Bytes of its largest memory window: on NVIDIA's GPUs that is BAR1.
    pub(crate) fn largest_window(&self, machine: &Machine) -> Option<u64> {
        let text = self.text(machine, "resource")?;
        // Six windows; behind them the ROM and what bridges pass on.
        let sizes = text.lines().take(6).filter_map(|line| {
            let mut numbers = line
                .split_whitespace()
                .map(|number| u64::from_str_radix(number.trim_start_matches("0x"), 16).ok());
            let (first, last, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
            const MEMORY: u64 = 0x200;
            (flags & MEMORY != 0 && last > first).then(|| (last - first).saturating_add(1))
        });
        sizes.max()
    }

    /// Its group in the IOMMU; nothing where there is none.
    pub(crate) fn iommu_group(&self, machine: &Machine) -> Option<String> {
        let group = machine.link(&format!("{}/iommu_group", self.folder))?;
        group.rsplit('/').next().map(str::to_owned)
    }

    /// What ACS does in this bridge.
    pub(crate) fn acs(&self, machine: &Machine) -> Acs {
        match machine.configuration(&format!("{}/config", self.folder)) {
            Seen::Here(bytes) => acs_of(&bytes),
            Seen::Absent | Seen::Hidden(_) => Acs::Unseen,
        }
    }

    /// Whether it uses ATS.
    pub(crate) fn ats(&self, machine: &Machine) -> Ats {
        let bytes = machine.configuration(&format!("{}/config", self.folder)).here();
        bytes.map_or(Ats::Unknown, |bytes| ats_of(&bytes))
    }
}

/// A PCIe link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) width: u32,
    pub(crate) widest: u32,
    pub(crate) speed: String,
    pub(crate) fastest: String,
}

/// `16.0 GT/s PCIe` without the last word.
fn gts(text: &str) -> String {
    one_line(text.trim_end_matches("PCIe"))
}

/// How near two devices are, by the bridges that they share.
pub(crate) fn nearness(machine: &Machine, a: &Device, b: &Device) -> Nearness {
    let (above_a, above_b) = (a.bridges(), b.bridges());
    let shared = above_a.iter().zip(&above_b).take_while(|(a, b)| a == b).count();
    // A root port and the upper port of a switch below it.
    match shared {
        2.. => Nearness::SameSwitch,
        1 => Nearness::SameRootPort,
        _ => match (a.socket(machine), b.socket(machine)) {
            (Some(a), Some(b)) if a == b => Nearness::SameSocket,
            (Some(_), Some(_)) => Nearness::AcrossSockets,
            _ if a.host_bridge() == b.host_bridge() => Nearness::SameSocket,
            _ => Nearness::Unknown,
        },
    }
}

/// The bridges that transfers between two devices pass: those that they do not share.
pub(crate) fn between(a: &Device, b: &Device) -> Vec<Device> {
    let (above_a, above_b) = (a.bridges(), b.bridges());
    let shared = above_a.iter().zip(&above_b).take_while(|(a, b)| a == b).count();
    above_a.into_iter().skip(shared).chain(above_b.into_iter().skip(shared)).collect()
}

fn acs_of(bytes: &[u8]) -> Acs {
    const ACS: u16 = 0x0d;
    /// Request redirect, completion redirect, upstream forwarding.
    const REDIRECTS: u16 = 1 << 2 | 1 << 3 | 1 << 4;
    if bytes.len() <= 0x100 {
        return Acs::Unseen;
    }
    let capability = extended_capabilities(bytes).into_iter().find(|(number, _)| *number == ACS);
    let Some((_, at)) = capability else { return Acs::None };
    match bytes.get(at + 6..at + 8) {
        Some(&[low, high]) if u16::from_le_bytes([low, high]) & REDIRECTS != 0 => Acs::Redirects,
        Some(_) => Acs::Off,
        None => Acs::Unseen,
    }
}

fn ats_of(bytes: &[u8]) -> Ats {
    const ATS: u16 = 0x0f;
    const ENABLED: u8 = 1 << 7;
    let capability = extended_capabilities(bytes).into_iter().find(|(number, _)| *number == ATS);
    match capability.and_then(|(_, at)| bytes.get(at + 7)) {
        Some(high) if high & ENABLED != 0 => Ats::On,
        Some(_) => Ats::Off,
        None => Ats::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::blank_serial_number;

    /// A configuration space with a serial number at 0x100 and ACS at 0x110.
    fn configuration(control: u16) -> Vec<u8> {
        let mut bytes = vec![0; 0x118];
        bytes[0x100..0x104].copy_from_slice(&(0x0003_u32 | 1 << 16 | 0x110 << 20).to_le_bytes());
        bytes[0x104..0x10c].fill(7);
        bytes[0x110..0x114].copy_from_slice(&(0x000d_u32 | 1 << 16).to_le_bytes());
        bytes[0x116..0x118].copy_from_slice(&control.to_le_bytes());
        bytes
    }

    #[test]
    fn acs_is_read() {
        assert_eq!(acs_of(&configuration(0x1d)), Acs::Redirects);
        assert_eq!(acs_of(&configuration(0x01)), Acs::Off);
        assert_eq!(acs_of(&configuration(0)[..0x10c]), Acs::None);
        assert_eq!(acs_of(&configuration(0)[..64]), Acs::Unseen);
        assert_eq!(acs_of(&configuration(0)[..0x116]), Acs::Unseen);
        assert_eq!(acs_of(&[0xff; 4096]), Acs::None);
    }

    #[test]
    fn ats_is_read() {
        let mut bytes = configuration(0);
        assert_eq!(ats_of(&bytes), Ats::Unknown);
        bytes[0x110] = 0x0f;
        assert_eq!(ats_of(&bytes), Ats::Off);
        bytes[0x117] = 0x80;
        assert_eq!(ats_of(&bytes), Ats::On);
        assert_eq!(ats_of(&bytes[..64]), Ats::Unknown);
    }

    #[test]
    fn a_cyclic_list_of_capabilities_ends() {
        let mut bytes = vec![0; 0x200];
        bytes[0x100..0x104].copy_from_slice(&(5_u32 | 0x100 << 20).to_le_bytes());
        assert_eq!(acs_of(&bytes), Acs::None);
    }

    #[test]
    fn serial_numbers_are_blanked() {
        let mut bytes = configuration(0x1d);
        blank_serial_number(&mut bytes);
        assert_eq!(bytes[0x104..0x10c], [0; 8]);
        assert_eq!(acs_of(&bytes), Acs::Redirects);
    }

    #[test]
    fn bridges_are_in_the_path() {
        let folder = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0";
        let gpu = Device { folder: folder.to_owned() };
        let places: Vec<_> = gpu.bridges().iter().map(|bridge| bridge.place().to_owned()).collect();
        assert_eq!(places, ["0000:00:01.0", "0000:01:00.0", "0000:02:00.0"]);
        assert_eq!(gpu.host_bridge(), "pci0000:00");
    }
}
