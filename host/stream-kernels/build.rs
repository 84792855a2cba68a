//! Tells build scripts of crates that depend on this one where its source is: they compile it for the GPU.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    match std::env::var("CARGO_MANIFEST_DIR") {
        Ok(folder) => println!("cargo::metadata=source={folder}"),
        Err(why) => println!("cargo::error=cargo does not say where this package is: {why}"),
    }
}
