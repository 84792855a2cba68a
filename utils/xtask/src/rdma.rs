//! The suites over an RDMA device of this machine: `cargo xtask test --rdma-device NAME`.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::checks::Context;
use crate::report::Outcome;
use crate::{libtest, shell};

/// Where the system lists RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";

/// Runs the suites over the device that was named; without one there is nothing to do.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let Some(device) = &context.options.rdma_device else {
        return Ok(Outcome { remark: "no --rdma-device".to_owned(), ..Outcome::default() });
    };
    let addresses = addresses_of(Path::new(DEVICES), device)?;
    let v4 = addresses.iter().find(|address| address.is_ipv4());
    let v6 = addresses.iter().find(|address| address.is_ipv6());
    let Some(v4) = v4 else {
        bail!("{device} has no IPv4 address: give its interface one, as `ip address add` does");
    };
    let scratch = context.workspace.scratch();
    fs::create_dir_all(&scratch)?;
    let skip_log = scratch.join("rdma-skipped.log");
    fs::write(&skip_log, "")?;
    let which = ["--package", "rsocket-shim", "--package", "gpunet-e2e", "--no-fail-fast"];
    let suites = ["--test", "verbs", "--test", "streams", "--test", "suite"];
    let mut command = context.strict_tests(&which);
    command.args(suites).args(["--", "--include-ignored"]);
    command.env("GPUNET_TRANSPORT", "rdma").env("GPUNET_ADDRESS", v4.to_string());
    if let Some(v6) = v6 {
        command.env("GPUNET_ADDRESS6", v6.to_string());
    }
    command.env("GPUNET_SKIP_LOG", &skip_log);
    let mut command = shell::bounded(&command, context.limit());
    let finished = shell::run_logged(&mut command, &scratch.join("rdma.log"))?;
    let skipped = fs::read_to_string(&skip_log)?;
    let mut outcome = libtest::count(&finished.printed, finished.success, &skipped);
    outcome.output = finished.printed;
    outcome.remark = format!("{device} at {v4}");
    Ok(outcome)
}

/// The IP addresses of a device: RoCE names its ports by them.
fn addresses_of(devices: &Path, device: &str) -> Result<Vec<IpAddr>> {
    let ports = devices.join(device).join("ports");
    let Ok(ports) = fs::read_dir(&ports) else {
        let known: Vec<_> = fs::read_dir(devices)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
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

/// The address that a port's name stands for, if it is one to meet at.
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
    fn an_unknown_device_is_told() {
        let refused = addresses_of(Path::new("/nowhere"), "mlx5_0").unwrap_err().to_string();
        assert!(refused.contains("no RDMA device mlx5_0"), "{refused}");
    }
}
