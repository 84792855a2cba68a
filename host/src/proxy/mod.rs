//! The proxy: moves bytes between the rings of a net and the sockets of the system.
//!
//! A net has one [`shard`] for each proxy thread, and a socket stays in its shard for life. The
//! shard is a state machine without a clock and without waiting: it is told what happened
//! (`ready`, `message`) and takes turns. [`rounds`] and [`thread`] are the thin loop around it:
//! epoll, clock, sleep. Everything that the shard reads from the GPU is checked before it is believed.
//!
//! ```text
//!   thread ── turn(now) ──▶ shard ──┬─▶ request   answers request slots
//!     │                             ├─▶ connection  rings, counters, endings
//!   epoll ── ready(place) ──▶       ├─▶ listener  accept rings
//!   inbox ── message(..) ──▶        ├─▶ watch     pollers' event rings
//!                                   ├─▶ throttle  bytes that wait for the net's limits
//!                                   └─▶ closing   how sockets go ─▶ drain, for launches inside them
//! ```

pub(crate) mod closing;
#[cfg(test)]
mod combining_tests;
pub(crate) mod connection;
mod direct;
// On the emulated GPU as it usually is: the simulation has waits look at their deadlines more rarely.
#[cfg(all(test, not(any(feature = "loom", feature = "simulation"))))]
mod direct_hostile_tests;
#[cfg(all(test, feature = "loom"))]
mod direct_models;
#[cfg(test)]
mod direct_tests;
pub(crate) mod drain;
#[cfg(test)]
mod hostile_tests;
pub(crate) mod listener;
pub(crate) mod message;
#[cfg(all(test, feature = "loom"))]
mod models;
#[cfg(test)]
mod placing_tests;
pub(crate) mod request;
pub(crate) mod rounds;
pub(crate) mod shard;
pub(crate) mod shared;
pub(crate) mod statistics;
#[cfg(test)]
mod tests;
pub(crate) mod thread;
mod throttle;
pub(crate) mod watch;
