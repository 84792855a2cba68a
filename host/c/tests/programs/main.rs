//! Programs in C and C++ that use libgpunet, compiled here and run on the emulated GPU.

#[path = "../common/mod.rs"]
mod common;

mod c11;
mod cpp;
