//! What the transfers came to, which transport `auto` takes and why, and the verdict on all.

use crate::machine::answers::{Adapter, Transfer};
use crate::machine::{Machine, Proof};
use crate::proof::{AUTO_NEAR, LOCAL, RDMA, TCP4, TCP6};
use crate::report::Line;

use super::rdma;

pub(super) fn check(machine: &Machine) -> Vec<Line> {
    let proofs = &machine.answers.proofs;
    let mut lines = vec![match &proofs.gpu {
        Some(Ok((name, reason))) => Line::ok("GPU for kernels", format!("{name} ({reason})")),
        Some(Err(why)) => Line::missing("GPU for kernels", why.clone()),
        None => Line::unseen("GPU for kernels", "no transfer was tried"),
    }];
    let words = proofs.ways.iter().find_map(|proof| proof.words.as_ref());
    lines.extend(words.map(|words| Line::ok("words kernels poll", words.clone())));
    for proof in &proofs.ways {
        lines.push(way(proof));
        lines.extend(proof.adapters.iter().map(placements));
    }
    if !proofs.ways.is_empty() && !proofs.ways.iter().any(|proof| proof.way == RDMA) {
        lines.push(Line::missing(RDMA, format!("not tried: {}", without_rdma(machine))));
    }
    lines.extend(proofs.auto.as_ref().map(|proof| auto(machine, proof)));
    lines.extend(proofs.near.as_ref().map(near));
    lines
}

fn way(proof: &Proof) -> Line {
    match &proof.outcome {
        Ok(Transfer { bytes, micros, .. }) => {
            let seen = format!(
                "{} KiB there and back, all right, in {:.1} ms",
                bytes >> 10,
                *micros as f64 / 1e3
            );
            Line::ok(&proof.way, seen)
        }
        Err(why) => Line::missing(&proof.way, why.clone()).remedy(match proof.way.as_str() {
            _ if why.contains("os error 24") || why.contains("EMFILE") => {
                "allow more open files: ulimit -n 4096 (in a container, --ulimit nofile=4096)"
            }
            TCP4 => "see that the loopback interface is up: ip link set lo up",
            TCP6 => "where IPv6 is wanted: sysctl net.ipv6.conf.lo.disable_ipv6=0",
            RDMA => "see the lines on RDMA above",
            LOCAL => {
                "correct that if kernels of this machine shall exchange bytes without the host: see docs/how-to/local.md"
            }
            _ => "see that the folder for temporary files can be written (TMPDIR)",
        }),
    }
}

fn placements(adapter: &Adapter) -> Line {
    let about = format!("rings for {}", adapter.device);
    let refused: Vec<_> = adapter
        .refused
        .iter()
        .map(|(placement, why)| format!("{placement} refused ({why})"))
        .collect();
    let refused =
        if refused.is_empty() { String::new() } else { format!("; {}", refused.join("; ")) };
    match adapter.placements.first() {
        Some(best) => Line::ok(&about, format!("{best}{refused}")),
        None => Line::missing(&about, format!("nowhere{refused}")),
    }
}

/// Why no transfer by RDMA was tried.
fn without_rdma(machine: &Machine) -> String {
    let answers = &machine.answers;
    let said = answers.proofs.auto.as_ref().and_then(|auto| auto.without_rdma.clone());
    match said {
        Some(why) => rdma::fault(&why),
        None if rdma::devices(machine).is_empty() => "no RDMA device".to_owned(),
        None => "no RDMA device has an active port with an IPv4 address".to_owned(),
    }
}

fn auto(machine: &Machine, proof: &Proof) -> Line {
    match &proof.outcome {
        Ok(Transfer { rdma: true, .. }) => {
            let device =
                proof.adapters.first().map_or("an RDMA device", |adapter| adapter.device.as_str());
            Line::ok("auto", format!("takes RDMA, since the way leads over {device}"))
        }
        Ok(Transfer { rdma: false, .. }) => {
            let why = match &proof.without_rdma {
                Some(_) => "RDMA cannot be used here (the line above)".to_owned(),
                None => without_rdma(machine),
            };
            Line::ok("auto", format!("takes TCP, since {why}"))
        }
        Err(why) => Line::missing("auto", why.clone())
            .remedy("choose a transport that works above (NetBuilder::transport, --transport)"),
    }
}

/// What `auto` takes between kernels: what it takes otherwise, where they cannot connect directly.
fn near(proof: &Proof) -> Line {
    match &proof.outcome {
        Ok(Transfer { local: true, .. }) => {
            Line::ok(AUTO_NEAR, "takes local, straight into the other's GPU memory")
        }
        Ok(Transfer { rdma, .. }) => {
            let taken = if *rdma { "RDMA" } else { "TCP" };
            Line::warning(AUTO_NEAR, format!("takes {taken}, since local cannot be used here"))
                .remedy("see the line on local above")
        }
        Err(why) => Line::missing(AUTO_NEAR, why.clone())
            .remedy("choose a transport that works above (NetBuilder::transport, --transport)"),
    }
}

/// Whether kernels can connect here, and one line on how.
pub(super) fn verdict(machine: &Machine) -> (bool, String) {
    let proofs = &machine.answers.proofs;
    let works: Vec<_> = proofs
        .ways
        .iter()
        .filter(|proof| proof.outcome.is_ok())
        .map(|proof| proof.way.as_str())
        .collect();
    let runs = works.iter().any(|way| [TCP4, TCP6].contains(way));
    let auto = match proofs.auto.as_ref().map(|proof| &proof.outcome) {
        Some(Ok(Transfer { rdma: true, .. })) => "auto takes RDMA",
        Some(Ok(_)) => "auto takes TCP",
        _ => "auto does not work",
    };
    let near = match proofs.near.as_ref().map(|proof| &proof.outcome) {
        Some(Ok(Transfer { local: true, .. })) => ", and local between kernels",
        _ => "",
    };
    let summary = match &proofs.gpu {
        Some(Ok((name, _))) if runs => {
            format!("gpunet runs here: {name}; {}; {auto}{near}", works.join(", "))
        }
        Some(Ok((name, _))) => {
            format!("gpunet does not run here: kernels on {name} cannot connect by TCP")
        }
        Some(Err(_)) => {
            "gpunet does not run here: there is no GPU for kernels, not even an emulated one"
                .to_owned()
        }
        None => "whether gpunet runs here was not tried".to_owned(),
    };
    (runs, summary)
}
