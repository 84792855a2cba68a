//! Builds the kernels' PTX.

fn main() {
    gpunet_builder::Builder::new("../../host/e2e/kernels").build();
}
