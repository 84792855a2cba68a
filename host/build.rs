//! Compiles the device library and the kernel of stream-ordered operations to PTX, where a compiler for it is found.

use gpunet_builder::{Builder, source_of};

fn main() {
    Builder::library(source_of("gpunet-device")).build();
    Builder::new(source_of("gpunet-stream-kernels")).build();
}
