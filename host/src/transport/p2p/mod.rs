//! P2P streams: kernels of one machine write straight into each other's rings in GPU memory, and the
//! proxies only connect them.
//!
//! ```text
//!  P2p         what a net has of it: its arenas, the registry; one a net (shared)
//!   ├ registry   how ends find each other: a folder of the user's
//!   ├ channel    the control channel between the proxies of a stream's ends, and its messages
//!   ├ handshake  how a stream is connected; connector and acceptor drive it
//!   ├ arena      GPU memory by peer process, in chunks, and in it
//!   ├ inbox      where a stream receives
//!   ├ stream     the stream as its proxy has it
//!   └ deferred   memory of streams that are closed at this end alone
//! ```
//!
//! Why it is so: decision 21 of docs/explanation/decisions.md.

mod acceptor;
mod addresses;
mod arena;
mod channel;
mod chunk;
mod connector;
mod deferred;
mod handshake;
mod inbox;
mod message;
mod names;
mod process;
mod provider;
pub(super) mod registry;
mod shared;
mod stream;
#[cfg(test)]
mod tests;

#[cfg(fuzzing)]
pub(crate) use message::fuzz as fuzz_message;
pub(crate) use shared::P2p;
