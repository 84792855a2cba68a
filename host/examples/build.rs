//! Compiles the kernels of the examples to PTX, where a compiler for it is found.

fn main() {
    gpunet_builder::Builder::new("kernels").build();
}
