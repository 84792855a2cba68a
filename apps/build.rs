//! Compiles the kernels of this folder's programs to PTX, where a compiler for it is found.

fn main() {
    gpunet_builder::Builder::new("kernels").build();
    gpunet_builder::Builder::new("kv").build();
}
