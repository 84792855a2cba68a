//! What this process has taken of the system.

/// Bytes that nets and the emulated GPU have mapped: rings and control memory, used or not.
///
/// # Panics
/// When the system does not say.
#[must_use]
pub fn mapped() -> u64 {
    mappings().lines().filter_map(mapping_of_gpunet).sum()
}

/// How many mappings of any kind there are.
///
/// # Panics
/// When the system does not say.
#[must_use]
pub fn mapping_count() -> usize {
    mappings().lines().count()
}

fn mappings() -> String {
    std::fs::read_to_string("/proc/self/maps").expect("a process has mappings")
}

/// `7f00-7f02 rw-s 00000000 00:01 1058 /memfd:gpunet (deleted)` has 2 bytes.
fn mapping_of_gpunet(line: &str) -> Option<u64> {
    if !line.contains(" /memfd:gpunet") {
        return None;
    }
    let (begin, end) = line.split_whitespace().next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(address(end)? - address(begin)?)
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
    mappings().lines().filter(|line| line.contains("memfd:gpunet-arena")).count()
}

/// Lets this process open as many files as the system allows at all.
pub fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // A test that needs more says so when it does not get them.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
