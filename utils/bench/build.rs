//! Builds the kernels' PTX.

fn main() {
    gpunet_builder::Builder::new("../../apps/kernels").build();
}
