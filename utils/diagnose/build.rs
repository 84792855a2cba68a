//! Builds the PTX of the kernels that the proof runs.

fn main() {
    gpunet_builder::Builder::new("kernels").build();
}
