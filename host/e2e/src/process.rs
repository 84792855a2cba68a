//! What this process has taken of the system.

/// Bytes of this process that are in memory.
///
/// # Panics
/// When the system does not say.
#[must_use]
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its size");
    let number = line.split_whitespace().nth(1).expect("a number");
    number.parse::<u64>().expect("a number") * 1024
}

/// Descriptors that are open.
///
/// # Panics
/// When the system does not say.
#[must_use]
pub fn descriptors() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("a process has descriptors");
    // One of them is the folder itself.
    all.count() - 1
}

/// Mappings of memory that nets share with other processes, on the emulated GPU.
///
/// # Panics
/// When the system does not say.
#[must_use]
pub fn arenas() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a process has mappings");
    maps.lines().filter(|line| line.contains("memfd:gpunet-arena")).count()
}
