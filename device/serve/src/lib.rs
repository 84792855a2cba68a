//! A server as a kernel: this crate accepts, receives, sends and closes; the author of a protocol
//! writes how bytes are parsed and answered.
//!
//! ```text
//!   client ──▶ proxy ──▶ receive ring ──▶ input, in shared memory ──▶ Protocol::answer
//!   client ◀── proxy ◀── send ring    ◀── output, in shared memory ◀──────┘
//!                                            what does not fit yet: a piece, or a block of the heap
//! ```
//!
//! Every group of threads (a block, as a rule) calls [`serve`] with the same listener. It has a poller
//! of its own; each connection belongs to the group that accepted it. Between two events a connection
//! costs a record of GPU memory and two pieces of [`PIECE`] bytes, and, where a request is incomplete or a client
//! reads slowly and that does not fit there, a block of the [`heap`], which it loses to connections that have less.
//! A connection whose client does not read is not read from.
//!
//! All threads of the group run [`Protocol::answer`] with the same input; it must do the same in each
//! of them. What one thread alone shall do stands behind `group.is_leader()`.
//!
//! ```
//! use gpunet_device::{Block, Handle, kernels, simt};
//! use gpunet_serve::{Exchange, Memory, Options, Protocol, Step, serve};
//!
//! struct Echo;
//!
//! impl Protocol<Block> for Echo {
//!     type State = u64;
//!
//!     fn answer(&mut self, exchange: &mut Exchange<'_, Block, u64>) -> Step {
//!         let input = exchange.input();
//!         exchange.write(input);
//!         Step::Consumed(input.len())
//!     }
//! }
//!
//! kernels! {
//!     /// Sends back what comes in, until the program stops it.
//!     pub fn echo_server(net: Net, listener: Handle, memory: Memory) {
//!         let staging = simt::shared_memory();
//!         let _ = serve(net.block(), listener, memory, Options::DEFAULT, staging, &mut Echo);
//!     }
//! }
//! ```
//!
//! Why it is so: decision 15 of docs/explanation/decisions.md.

#![no_std]

#[cfg(not(target_arch = "nvptx64"))]
extern crate std;

mod beside;
mod connection;
mod event_loop;
mod exchange;
pub mod heap;
mod memory;
mod output;
mod refusal;
mod server;
mod shares;
mod turn;

pub use event_loop::{LEAST_STAGING, serve};
pub use exchange::{Exchange, Protocol, Refusal, Step};
pub use heap::{Block, Heap};
pub use memory::{Counter, Memory, STOP_OFFSET};
pub use server::Options;
pub use shares::PIECE;
