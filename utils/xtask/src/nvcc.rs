//! How nvcc is called: for which architectures, and with how many registers for the device library.

/// Turing, Ampere, Hopper and Blackwell.
pub(crate) const ARCHITECTURES: [&str; 4] = ["75", "80", "90", "100"];

/// Held to so many registers, the library leaves room for blocks of 1,024 threads.
pub(crate) const LIBRARY_REGISTERS: &str = "-maxrregcount=64";

/// Options for machine code of these architectures.
pub(crate) fn code_of<'a>(architectures: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    architectures.iter().flat_map(|architecture| {
        ["-gencode".to_owned(), format!("arch=compute_{architecture},code=sm_{architecture}")]
    })
}
