//! The proxy: moves bytes between the rings of a net and the sockets of the system.
//!
//! A net has one [`shard`] for each proxy thread, and a socket stays in its shard for life. The
//! shard is a state machine without a clock and without waiting: it is notified of what happened
//! (`ready`, messages) and takes turns. [`rounds`] and [`thread`] are the thin loop around it:
//! epoll, clock, sleep. Everything that the shard reads from the GPU is checked before it is believed.
//!
//! ```text
//!   thread ── turn(now) ──▶ shard ─┬─ context    memory, clock, counters, what the net shares
//!     │                            ├─ table      entries by slot, each with its role:
//!   epoll ── ready(handle) ──▶     │    entry ──┬─ stream, p2p   bytes between ring and peer
//!   queue ── message(..) ──▶       │    channel ├─ listener      accept ring
//!                                  │            └─ poller        event ring
//!                                  └─ schedule   who is to be looked at, and why
//!
//!   what an entry does by itself: pump      moves bytes between ring and peer
//!                                 accepting, rings, failing
//!   what a shard does with them:  request   answers request slots
//!                                 turn      scans, busy polling, each socket's byte budget
//!                                 connect, watching, throttle, closing
//!
//!   drain: sockets that the host has closed under launches that run
//! ```
//!
//! Why it is so: decision 14 of docs/explanation/decisions.md.

mod accepting;
mod channel;
mod closing;
#[cfg(test)]
mod combining_tests;
mod connect;
mod context;
pub(crate) mod control;
mod counted;
mod drain;
pub(crate) mod draining;
pub(crate) mod entry;
mod failing;
#[cfg(test)]
mod hostile_tests;
mod listener;
mod marks;
pub(crate) mod message;
#[cfg(all(test, feature = "loom"))]
mod models;
mod p2p;
// On the emulated GPU as it usually is: the simulation has waits look at their deadlines more rarely.
#[cfg(all(test, not(any(feature = "loom", feature = "simulation"))))]
mod p2p_hostile_tests;
#[cfg(all(test, feature = "loom"))]
mod p2p_models;
#[cfg(test)]
mod p2p_tests;
#[cfg(test)]
mod passive_tests;
#[cfg(test)]
mod placing_tests;
mod poller;
#[cfg(test)]
mod poller_tests;
mod pump;
mod request;
mod rings;
pub(crate) mod rounds;
pub(crate) mod running;
mod schedule;
pub(crate) mod shard;
pub(crate) mod shared;
pub(crate) mod statistics;
pub(crate) mod stream;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod thread;
mod throttle;
mod turn;
#[cfg(test)]
mod turn_tests;
mod watching;
