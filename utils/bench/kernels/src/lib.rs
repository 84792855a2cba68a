//! The kernels of the benchmark: ordinary Rust, for the GPU and for the host. They are a module of
//! their own, which no other program loads.
//!
//! ```text
//!   client   a client that measures an echo server, kernel to kernel
//!   flag     words that kernels without gpunet notify each other by
//!   floor    the best exchanges known of the same bytes, between two blocks and with the CPU
//!   p2p      the throughput of p2p streams, and the bare copy that they are compared with
//!   scale    a server of very many connections, and what makes them passive
//!   serve    servers of the round trips and streams that are measured from the CPU
//!   sgemm    a matrix multiplication, with calls and without
//!   streams  both ends of one-way streams
//!   waiters  a server beside blocks that wait
//!   ways     an echo server for each way of calling
//! ```

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch, link_llvm_intrinsics))]

pub mod client;
mod flag;
pub mod floor;
pub mod p2p;
pub mod scale;
pub mod serve;
pub mod sgemm;
pub mod streams;
pub mod waiters;
pub mod ways;
