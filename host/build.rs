//! Compiles the device library to PTX, where a compiler for it is found.

fn main() {
    gpunet_builder::Builder::library("../device").build();
}
