//! The kernels of the benchmark: ordinary Rust, for the GPU and for the host. They are a module of
//! their own, which no other program loads.
//!
//! ```text
//!   scale    a server of very many connections, and what makes them passive
//!   serve    servers of the round trips and streams that are measured from the CPU
//!   p2p      p2p streams, and the bare flags and copies that they are compared with
//!   sgemm    a matrix multiplication, with calls and without
//!   sizes    a client that measures an echo server, and the bare exchange of the same bytes
//!   streams  both ends of one-way streams
//!   waiters  a server beside blocks that wait
//! ```

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch, link_llvm_intrinsics))]

pub mod p2p;
pub mod scale;
pub mod serve;
pub mod sgemm;
pub mod sizes;
pub mod streams;
pub mod waiters;
