//! What the fuzzers (utils/fuzz) call of this crate's inside. Only in builds with `--cfg fuzzing`.

/// Looks at a file as at an image of kernels.
pub fn elf(bytes: &[u8]) {
    crate::gpu::fuzz_elf(bytes);
}

/// Reads a message between proxies, and writes it again.
///
/// # Panics
/// Where the words are others then.
pub fn p2p_message(bytes: &[u8]) {
    crate::transport::p2p::fuzz_message(bytes);
}
