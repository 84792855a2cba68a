//! The program `kv` from outside: its answers beside those of a redis-server, clients that nobody here
//! wrote, and what must not disturb the other clients of a server.
//!
//! ```text
//!   server, resp      a kv that runs, a redis-server that runs, a client that sees raw answers
//!   draw ── redis     commands drawn from a seed; both servers' answers compared
//!   clients           redis-cli, redis-benchmark, redis-py
//!   bystander         a client that behaves well while the tests below go on
//!     ├─ malformed    requests that are none, and halves of requests
//!     ├─ load         floods, slow readers, large values, resets, clients that are killed
//!     ├─ limits       connections, idle time, memory, expiry
//!     └─ shares       clients that keep the server's memory, late requests
//!   turns             clients that ask one thing at a time, of one block
//!   contention        writers and readers of the same few keys
//!   program           the command line, the orderly end
//!   soak              for minutes: clients that know each answer, beside others that do their worst
//!     ├─ model        a client that knows what each answer has to be
//!     └─ abuse        resets, halves of requests, floods, random bytes, a process that is killed
//! ```

#[path = "../common/mod.rs"]
mod common;

mod abuse;
mod bystander;
mod clients;
mod contention;
mod draw;
mod limits;
mod load;
mod malformed;
mod model;
mod program;
mod redis;
mod resp;
mod server;
mod shares;
mod soak;
mod turns;
