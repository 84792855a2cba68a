//! The proxy: moves bytes between the rings of a net and the sockets of the system.
//!
//! A net has one [`shard`] for each proxy thread, and a socket stays in its shard for life. The
//! shard is a state machine without a clock and without waiting: it is notified of what happened
//! (`ready`, messages) and takes turns. [`rounds`] and [`thread`] are the thin loop around it:
//! epoll, clock, sleep. Everything that the shard reads from the GPU is checked before it is believed.
//!
//! ```text
//!   thread ── turn(now) ──▶ shard ── sockets ─┬─ context    memory, clock, counters, what the net shares
//!     │                       │               ├─ table      entries by slot, each with its role:
//!   epoll ── ready(handle) ──▶│               │    entry ──┬─ stream    what is beside its rings
//!   queue ── message(..) ──▶  │               │    channel ├─ listener  accept ring
//!                             │               │            └─ poller    event ring
//!                             │               └─ schedule   which sockets a turn visits, and why
//!                             │
//!   one socket:  visit ── pump      moves bytes between ring and peer, by what carries them
//!                  ├───── limited   the same under the net's limits
//!                  └───── connecting
//!   several:     steps      scans, busy polling, timers     throttle   who waits for limits
//!                requests   answers request slots           accepting
//!                notices    from sockets to pollers         closing
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
mod connecting;
mod context;
pub(crate) mod control;
mod counted;
pub(crate) mod drain;
mod endings;
pub(crate) mod entry;
#[cfg(test)]
mod hostile_tests;
mod limited;
mod listener;
pub(crate) mod message;
#[cfg(all(test, feature = "loom"))]
mod models;
mod notices;
mod options;
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
pub(crate) mod rounds;
pub(crate) mod running;
mod scan;
mod schedule;
pub(crate) mod shard;
pub(crate) mod shared;
mod sockets;
pub(crate) mod statistics;
mod steps;
pub(crate) mod stream;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod thread;
mod throttle;
mod timers;
#[cfg(test)]
mod turn_tests;
mod visit;
mod watchers;
