//! Images of kernels: ELF files, PTX, fat binaries, damaged ones among them.

#![no_main]

use gpunet_host::gpu::Image;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Image::bytes(bytes);
    gpunet_host::fuzzing::elf(bytes);
});
