//! Facts of this machine that belong beside figures, as far as Linux tells them.

use std::fs;

use serde::Serialize;

/// The machine that was measured on.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// The processor's model.
    pub(crate) cpu: Option<String>,
    /// Cores that this program may use.
    pub(crate) cores: usize,
    /// Memory, bytes.
    pub(crate) memory_bytes: Option<u64>,
    /// Version of the Linux kernel.
    pub(crate) linux: Option<String>,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let model = || {
            let text = fs::read_to_string("/proc/cpuinfo").ok()?;
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let linux = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            cpu: model(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory("MemTotal:"),
            linux: linux.map(|text| text.trim().to_owned()),
        }
    }
}

/// Bytes that the machine, and this program's control group, can still give.
pub(crate) fn available_memory() -> Option<u64> {
    let machine = memory("MemAvailable:")?;
    let group = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse().ok()
    };
    match (group("memory.max"), group("memory.current")) {
        (Some(limit), Some(used)) => Some(machine.min(limit.saturating_sub(used))),
        _ => Some(machine),
    }
}

fn memory(what: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(what))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}
