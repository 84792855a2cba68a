//! Builds the PTX of the kernels beside this package.

fn main() {
    // Shared objects with kernels find the device functions that a test program exports.
    println!("cargo::rustc-link-arg-tests=-Wl,--export-dynamic-symbol=gpunet_*");
    gpunet_builder::Builder::new("kernels").build();
}
