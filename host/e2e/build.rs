//! Builds the PTX of the kernels beside this package.

fn main() {
    gpunet_builder::Builder::new("kernels").build();
}
