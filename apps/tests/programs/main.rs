//! The programs of this folder as a user runs them: what they print, how they end, and what they say of mistakes.

#[path = "../common/mod.rs"]
mod common;

mod apart;
mod bad_input;
mod local;
mod pairings;
mod pingpong;
mod readme;
mod real_clients;
mod rstream;
mod transport;
