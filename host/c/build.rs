//! Names the shared library after the major version of its ABI, so that programs that were linked with one
//! are not run with another.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libgpunet.so.1");
}
