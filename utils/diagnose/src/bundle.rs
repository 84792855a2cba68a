//! A text file for a bug report, without names, addresses and serial numbers.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use gpunet_terminal::output::plain;

use crate::checks;
use crate::machine::{Machine, without_homes};
use crate::report::Report;

/// What of the environment may be shown.
const ALLOWED: &[&str] = &["CUDA_VISIBLE_DEVICES", "RUST_LOG"];
/// And all that begins so.
const OURS: &str = "GPUNET_";

/// Writes it.
pub(crate) fn write(machine: &Machine, report: &Report, file: &Path) -> Result<()> {
    let text = text(
        machine,
        report,
        std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }),
    )?;
    fs::write(file, text).with_context(|| format!("cannot write the bundle {}", file.display()))
}

fn text(
    machine: &Machine,
    report: &Report,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<String> {
    let mut variables: Vec<_> = environment
        .filter(|(name, _)| ALLOWED.contains(&name.as_str()) || name.starts_with(OURS))
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    variables.sort();
    let answers = serde_json::to_string_pretty(&machine.answers)?;
    let whole = format!(
        "A bundle of gpunet's diagnose, for a bug report. Inside: the report; answers of the CUDA \
         driver and the RDMA libraries, and what transfers came to; variables of the environment \
         ({}, {OURS}*); the files below /sys, /proc and /dev that were read, of the larger ones a \
         few lines. Left out: addresses, serial numbers, names of hosts and users. Read it before \
         you send it.\n\n\
         ==== report\n{}\n==== answers\n{answers}\n\n==== environment\n{}\n==== files\n{}",
        ALLOWED.join(", "),
        plain(&report.text()),
        variables.concat(),
        machine.journal().texts(),
    );
    let addresses = checks::all_addresses(machine).into_iter().map(|address| address.to_string());
    Ok(addresses
        .fold(without_homes(&whole), |text, address| text.replace(&address, "(an address)")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Answers;

    #[test]
    fn secrets_stay_out() {
        let machine = Machine::real(Answers::default());
        let report = checks::report(&machine);
        let environment = [("SECRET_TOKEN", "s3cr3t"), ("GPUNET_PTXAS", "/opt/ptxas")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let text = text(&machine, &report, environment.into_iter()).unwrap();
        assert!(!text.contains("s3cr3t") && text.contains("GPUNET_PTXAS=/opt/ptxas"));
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        assert!(host.len() < 4 || !text.contains(host), "the host's name is in the bundle");
    }
}
