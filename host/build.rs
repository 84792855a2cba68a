//! Compiles the device library and the kernel of stream-ordered operations to PTX, where a compiler for it is found.

fn main() {
    gpunet_builder::Builder::library("../device").build();
    gpunet_builder::Builder::new("stream-kernels").build();
}
