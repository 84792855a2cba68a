//! The kernels of the programs in apps/: ordinary Rust, for the GPU and for the host.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

pub mod echo;
pub mod exchange;
pub mod first;
pub mod first_client;
pub mod pingpong;
pub mod rstream;
