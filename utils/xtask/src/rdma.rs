//! The suites over an RDMA device of this machine: `cargo xtask release --rdma-device NAME`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::context::Context;
use crate::report::Outcome;
use crate::shell;
use crate::suites::{self, Run};

/// Where the system lists RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";

/// What runs with rings where the device reaches them best; and once more, in host memory.
const TESTS: &[(&str, &str)] = &[
    ("rsocket-shim", "verbs"),
    ("rsocket-shim", "streams"),
    ("gpunet-e2e", "suite"),
    ("gpunet-e2e", "leaks"),
    ("gpunet-e2e", "proxy_panic"),
    ("gpunet-e2e", "fault"),
    ("gpunet-e2e", "interrupt"),
    ("gpunet-e2e", "hostile"),
    ("gpunet-e2e", "hostile_words"),
];
const BOUNCE_TESTS: &[(&str, &str)] = &[("gpunet-e2e", "suite")];

/// Where the suites connect on a device.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    v4: Ipv4Addr,
    v6: Ipv6Addr,
}

/// Runs the suites over the device that was named; without one there is nothing to do.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let Some(device) = &context.rdma_device else {
        let skipped = vec!["no --rdma-device names one".to_owned()];
        return Ok(Outcome { skipped, ..Outcome::default() });
    };
    let at = addresses_on(device)?;
    let mut outcome = run(context, &at, TESTS, None)?;
    let bounce = run(context, &at, BOUNCE_TESTS, Some("bounce"))?;
    outcome.passed += bounce.passed;
    outcome.failed.extend(bounce.failed.into_iter().map(|name| format!("bounce: {name}")));
    outcome.skipped.extend(bounce.skipped.into_iter().map(|name| format!("bounce: {name}")));
    outcome.output += &bounce.output;
    outcome.remark = format!("{device} at {} and {}", at.v4, at.v6);
    Ok(outcome)
}

/// Runs these tests, with rings placed so.
fn run(
    context: &Context,
    at: &Addresses,
    tests: &[(&str, &str)],
    placement: Option<&str>,
) -> Result<Outcome> {
    let built = &context.built()?.executables;
    let programs = tests.iter().map(|(package, name)| suites::named(built, package, name));
    let mut environment = context.test_environment();
    environment.push(("GPUNET_TRANSPORT", "rdma".to_owned()));
    environment.push(("GPUNET_ADDRESS", at.v4.to_string()));
    environment.push(("GPUNET_ADDRESS6", at.v6.to_string()));
    environment.extend(placement.map(|placement| ("GPUNET_PLACEMENT", placement.to_owned())));
    let run = Run {
        name: &placement.map_or("rdma".to_owned(), |placement| format!("rdma-{placement}")),
        programs: programs.collect::<Result<_>>()?,
        arguments: &["--include-ignored"],
        environment,
        limit: context.limit(),
        // They compare what the whole machine has of RDMA, and take links down.
        at_once: 1,
    };
    run.run(context)
}

/// Where the suites can connect on a device: they need both families.
pub(crate) fn addresses_on(device: &str) -> Result<Addresses> {
    let mut addresses = names_of_ports(Path::new(DEVICES), device)?;
    addresses.extend(addresses_of_interfaces(Path::new(DEVICES), device));
    addresses_among(&addresses, device)
}

fn addresses_among(addresses: &[IpAddr], device: &str) -> Result<Addresses> {
    let v4 = addresses.iter().find_map(|address| match address {
        IpAddr::V4(v4) => Some(*v4),
        IpAddr::V6(_) => None,
    });
    let v6 = addresses.iter().find_map(|address| match address {
        IpAddr::V6(v6) => Some(*v6),
        IpAddr::V4(_) => None,
    });
    let lacks = |family, example| {
        format!(
            "{device} has no {family} address: give its interface one, \
             as `ip address add {example} dev ...` does"
        )
    };
    let v4 = v4.with_context(|| lacks("IPv4", "192.168.77.1/24"))?;
    let v6 = v6.with_context(|| lacks("IPv6", "fd77::1/64"))?;
    Ok(Addresses { v4, v6 })
}

/// The IP addresses of a device's ports: RoCE names them so.
fn names_of_ports(devices: &Path, device: &str) -> Result<Vec<IpAddr>> {
    let ports = devices.join(device).join("ports");
    let Ok(ports) = fs::read_dir(&ports) else {
        let known = entries(devices);
        bail!("there is no RDMA device {device} here; there are: [{}]", known.join(", "));
    };
    let mut addresses = Vec::new();
    for port in ports {
        let names = fs::read_dir(port?.path().join("gids")).context("a port without names")?;
        for name in names.flatten() {
            // Places that hold no name cannot be read, or hold zeros.
            let text = fs::read_to_string(name.path()).unwrap_or_default();
            if let Some(address) = text.trim().parse().ok().and_then(address_in) {
                addresses.push(address);
            }
        }
    }
    addresses.sort();
    Ok(addresses)
}

/// Those of its network interfaces: InfiniBand's ports have other names.
fn addresses_of_interfaces(devices: &Path, device: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for interface in entries(&devices.join(device).join("device/net")) {
        let mut show = Command::new("ip");
        show.args(["-oneline", "address", "show", "dev", &interface]);
        if let Ok(shown) = shell::output_of(&mut show) {
            addresses.extend(shown.lines().filter_map(listed_address));
        }
    }
    addresses
}

/// `4: ib0    inet 10.0.0.1/24 brd ...` has an address to connect at.
fn listed_address(line: &str) -> Option<IpAddr> {
    let mut words = line.split_whitespace().skip_while(|word| !matches!(*word, "inet" | "inet6"));
    let address = words.nth(1)?.split('/').next()?.parse().ok()?;
    match address {
        IpAddr::V6(v6) => address_in(v6),
        v4 => Some(v4),
    }
}

/// The names in a folder; none where there is no folder.
fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The address that a port's name stands for, if it is one to connect at.
fn address_in(name: Ipv6Addr) -> Option<IpAddr> {
    match name.to_ipv4_mapped() {
        Some(v4) => Some(IpAddr::V4(v4)),
        None if name.is_unspecified() || name.is_unicast_link_local() => None,
        None => Some(IpAddr::V6(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ports_are_addresses() {
        let parse = |text: &str| text.parse().ok().and_then(address_in);
        let v4 = parse("0000:0000:0000:0000:0000:ffff:0a00:0001");
        assert_eq!(v4, Some("10.0.0.1".parse().unwrap()));
        assert_eq!(parse("fd00:0000:0000:0000:0000:0000:0000:0001"), "fd00::1".parse().ok());
        assert_eq!(parse("fe80:0000:0000:0000:0000:00ff:fe00:0001"), None);
        assert_eq!(parse("0000:0000:0000:0000:0000:0000:0000:0000"), None);
    }

    #[test]
    fn an_unknown_device_is_reported() {
        let refused = names_of_ports(Path::new("/nowhere"), "mlx5_0").unwrap_err().to_string();
        assert!(refused.contains("no RDMA device mlx5_0"), "{refused}");
    }

    #[test]
    fn addresses_of_interfaces_are_read() {
        let read = |line| listed_address(line).map(|address| address.to_string());
        let v4 = "4: ib0    inet 10.0.0.1/24 brd 10.0.0.255 scope global ib0\\ valid_lft forever";
        assert_eq!(read(v4).as_deref(), Some("10.0.0.1"));
        assert_eq!(read("4: ib0 inet6 fd00::1/64 scope global").as_deref(), Some("fd00::1"));
        assert_eq!(read("4: ib0 inet6 fe80::1/64 scope link"), None);
        assert_eq!(read("4: ib0"), None);
        assert!(addresses_of_interfaces(Path::new("/nowhere"), "mlx5_0").is_empty());
    }

    #[test]
    fn both_families_are_needed() {
        let [v4, v6] = ["10.0.0.1", "fd00::1"].map(|text| text.parse().unwrap());
        assert!(addresses_among(&[v4, v6], "mlx5_0").is_ok());
        for (addresses, family) in [([v4, v4], "IPv6"), ([v6, v6], "IPv4")] {
            let refused = addresses_among(&addresses, "mlx5_0").unwrap_err().to_string();
            assert!(refused.contains(&format!("mlx5_0 has no {family} address")), "{refused}");
        }
    }

    #[test]
    fn every_test_is_one_of_the_workspace() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (package, test) in TESTS.iter().chain(BOUNCE_TESTS) {
            let folder = match *package {
                "gpunet-e2e" => "host/e2e/tests",
                _ => "rsocket-shim/tests",
            };
            let place = root.join(folder).join(test);
            assert!(
                place.join("main.rs").exists() || place.with_extension("rs").exists(),
                "{test}"
            );
        }
    }
}
