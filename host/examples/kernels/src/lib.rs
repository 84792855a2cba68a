//! The kernels of the examples: ordinary Rust, for the GPU and for the host.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

pub mod echo;
pub mod poll;
pub mod square;
