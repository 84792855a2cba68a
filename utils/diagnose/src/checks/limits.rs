//! The kernel's settings and this process's limits: locked memory, open files, mappings, cores,
//! IOMMU, container.

use super::rdma;
use crate::machine::{Machine, Seen, one_line};
use crate::pci;
use crate::report::Line;

/// Rings of a default net and those for RDMA beside them.
const LOCKED_MEMORY: u64 = 64 << 20;
/// Each socket of a kernel is a descriptor of this process.
const OPEN_FILES: u64 = 4096;
/// What Linux grants by default; each emulated GPU thread has a stack and a guard page.
const MAPPINGS: u64 = 65_530;
/// The capability that makes the limit of locked memory void.
const CAP_IPC_LOCK: u32 = 14;

pub(super) fn check(machine: &Machine) -> Vec<Line> {
    let mut lines = vec![where_it_runs(machine), modules(machine)];
    lines.extend([locked_memory(machine), open_files(machine)]);
    lines.extend([mappings(machine), cores(machine)]);
    lines.extend(governor(machine));
    lines.push(hugepages(machine));
    lines.push(iommu(machine));
    lines
}

/// The kind of container that this runs in, as far as it shows.
pub(super) fn container(machine: &Machine) -> Option<String> {
    if machine.has("/.dockerenv") {
        return Some("Docker".to_owned());
    }
    if machine.has("/run/.containerenv") {
        return Some("Podman".to_owned());
    }
    let groups = machine.pick("/proc/self/cgroup", '\n', |line| {
        ["docker", "kubepods", "containerd", "lxc", "libpod"].iter().any(|name| line.contains(name))
    });
    let found = groups.here().is_some_and(|lines| !lines.is_empty());
    found.then(|| "by its control group".to_owned())
}

fn where_it_runs(machine: &Machine) -> Line {
    let user = match status(machine, "Uid:").as_deref().map(first_number) {
        Some(Some(0)) => "as root",
        Some(Some(_)) => "not as root",
        _ => "as a user that /proc does not show",
    };
    match container(machine) {
        Some(kind) => Line::ok(
            "container",
            format!("yes ({kind}), {user}: devices are those that it was given"),
        ),
        None if machine.has_proc() => Line::ok("container", format!("no sign of one, {user}")),
        None => Line::unseen("container", "/proc does not show it"),
    }
}

fn modules(machine: &Machine) -> Line {
    if machine.has("/proc/modules") {
        Line::ok("kernel modules", "the kernel can load them")
    } else if !machine.has_proc() {
        Line::unseen("kernel modules", "/proc does not show it")
    } else {
        Line::warning("kernel modules", "this kernel loads none: no driver can be added to it")
            .remedy(
                "where a remedy says modprobe: boot a kernel with CONFIG_MODULES=y, or go to \
                another machine",
            )
    }
}

/// A line of this process's status, without its name.
fn status(machine: &Machine, name: &str) -> Option<String> {
    // The name of the process and other numbers are nobody's business.
    let wanted = ["Uid:", "CapEff:", "Cpus_allowed_list:"];
    let lines = machine.pick("/proc/self/status", '\n', |line| {
        wanted.iter().any(|wanted| line.starts_with(wanted))
    });
    let lines = lines.here()?;
    lines.iter().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned())
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// A soft limit of this process: a number, or nothing where it is unlimited.
fn limit(machine: &Machine, name: &str) -> Seen<Option<u64>> {
    let limits = match machine.text("/proc/self/limits") {
        Seen::Here(limits) => limits,
        Seen::Absent => return Seen::Absent,
        Seen::Hidden(why) => return Seen::Hidden(why),
    };
    let Some(rest) = limits.lines().find_map(|line| line.strip_prefix(name)) else {
        return Seen::Absent;
    };
    match rest.split_whitespace().next() {
        Some("unlimited") => Seen::Here(None),
        Some(number) => number.parse().map_or(Seen::Absent, |number| Seen::Here(Some(number))),
        None => Seen::Absent,
    }
}

fn locked_memory(machine: &Machine) -> Line {
    const ABOUT: &str = "locked memory";
    let privileged = status(machine, "CapEff:")
        .and_then(|mask| u64::from_str_radix(&mask, 16).ok())
        .is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 == 1);
    match limit(machine, "Max locked memory") {
        Seen::Here(_) if privileged => Line::ok(ABOUT, "no limit for this user (CAP_IPC_LOCK)"),
        Seen::Here(None) => Line::ok(ABOUT, "unlimited"),
        Seen::Here(Some(bytes)) if bytes >= LOCKED_MEMORY => {
            Line::ok(ABOUT, format!("{} MiB", bytes >> 20))
        }
        Seen::Here(Some(bytes)) if rdma::devices(machine).is_empty() => {
            Line::ok(ABOUT, format!("{} KiB: little, but RDMA alone needs it", bytes >> 10))
        }
        Seen::Here(Some(bytes)) => {
            Line::warning(ABOUT, format!("{} KiB: RDMA devices will refuse rings", bytes >> 10))
                .remedy(
                    "ulimit -l unlimited, or a line '* - memlock unlimited' in \
                /etc/security/limits.conf; in a container, --ulimit memlock=-1",
                )
        }
        Seen::Absent => Line::unseen(ABOUT, "/proc does not show it"),
        Seen::Hidden(why) => Line::unseen(ABOUT, why),
    }
}

fn open_files(machine: &Machine) -> Line {
    const ABOUT: &str = "open files";
    match limit(machine, "Max open files") {
        Seen::Here(None) => Line::ok(ABOUT, "unlimited"),
        Seen::Here(Some(files)) if files >= OPEN_FILES => Line::ok(ABOUT, format!("{files}")),
        Seen::Here(Some(files)) => {
            Line::warning(ABOUT, format!("{files}: each socket of a kernel takes one")).remedy(
                "ulimit -n 65536 (in a container, --ulimit nofile=65536) where kernels \
                open many sockets",
            )
        }
        Seen::Absent => Line::unseen(ABOUT, "/proc does not show it"),
        Seen::Hidden(why) => Line::unseen(ABOUT, why),
    }
}

fn mappings(machine: &Machine) -> Line {
    const ABOUT: &str = "memory mappings";
    match machine.text("/proc/sys/vm/max_map_count").here().as_deref().and_then(first_number) {
        Some(count) if count >= MAPPINGS => Line::ok(ABOUT, format!("{count}")),
        Some(count) => {
            Line::warning(ABOUT, format!("{count}: large launches on the emulated GPU need more"))
                .remedy("sysctl vm.max_map_count=65530")
        }
        None => Line::unseen(ABOUT, "/proc does not show it"),
    }
}

fn cores(machine: &Machine) -> Line {
    const ABOUT: &str = "cores";
    let Some(list) = status(machine, "Cpus_allowed_list:") else {
        return Line::unseen(ABOUT, "/proc does not show it");
    };
    let count: u64 = list
        .split(',')
        .filter_map(|range| match range.split_once('-') {
            Some((first, last)) => {
                let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
                last.checked_sub(first)?.checked_add(1)
            }
            None => range.parse::<u64>().ok().map(|_| 1),
        })
        .fold(0, u64::saturating_add);
    match count {
        0 => Line::unseen(ABOUT, format!("'{}' is no list of cores", one_line(&list))),
        1 => {
            Line::warning(ABOUT, "1: a proxy thread wants a core of its own while there is traffic")
                .remedy("give the program two cores or more (taskset, cpuset)")
        }
        count => Line::ok(ABOUT, format!("{count} for this program")),
    }
}

fn governor(machine: &Machine) -> Option<Line> {
    let governor = machine.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").here()?;
    Some(match governor.as_str() {
        "powersave" => Line::warning("CPU governor", "powersave: round trips take longer")
            .remedy("cpupower frequency-set -g performance"),
        other => Line::ok("CPU governor", one_line(other)),
    })
}

fn hugepages(machine: &Machine) -> Line {
    const ABOUT: &str = "huge pages";
    let picked = machine.pick("/proc/meminfo", '\n', |line| line.starts_with("HugePages_Total:"));
    match picked.here().and_then(|lines| first_number(lines.first()?.split_once(':')?.1)) {
        Some(count) => Line::ok(ABOUT, format!("{count} reserved; gpunet uses ordinary pages")),
        None => Line::ok(ABOUT, "not known; gpunet uses ordinary pages"),
    }
}

/// The mode of the IOMMU for the devices that matter.
fn iommu(machine: &Machine) -> Line {
    const ABOUT: &str = "IOMMU";
    let groups = match machine.names("/sys/kernel/iommu_groups") {
        Seen::Here(names) => names,
        Seen::Absent => return Line::unseen(ABOUT, "/sys does not show it"),
        Seen::Hidden(why) => return Line::unseen(ABOUT, why),
    };
    if !groups.iter().any(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
        return Line::ok(ABOUT, "off: devices reach one another's memory untranslated");
    }
    let mut devices = pci::gpus(machine).here().unwrap_or_default();
    devices.extend(rdma::devices(machine).into_iter().filter_map(|device| device.pci));
    if devices.is_empty() {
        return Line::ok(ABOUT, "on; no GPU and no RDMA device to translate for");
    }
    let mode = |device: &pci::Device| {
        let group = device.iommu_group(machine)?;
        machine.text(&format!("/sys/kernel/iommu_groups/{group}/type")).here()
    };
    let places = |wanted: fn(Option<&str>) -> bool| -> String {
        let found = devices.iter().filter(|device| wanted(mode(device).as_deref()));
        found.map(pci::Device::place).collect::<Vec<_>>().join(", ")
    };
    let translated = places(|mode| mode.is_some_and(|mode| mode.starts_with("DMA")));
    let unknown = places(|mode| mode.is_none());
    if !translated.is_empty() {
        let seen =
            format!("translates for {translated}: transfers between devices are slower, or fail");
        Line::warning(ABOUT, seen).remedy("boot with iommu=pt on the kernel's command line")
    } else if !unknown.is_empty() {
        Line::unseen(ABOUT, format!("on; whether it translates for {unknown} is not known"))
    } else {
        Line::ok(ABOUT, "on, passing the addresses of GPUs and RDMA devices through")
    }
}
