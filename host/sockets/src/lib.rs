//! Sockets of ordinary programs, the other ends of kernels: TCP, UNIX, and RDMA by the stock rsocket library,
//! under one name. The programs of apps/, the soak and the end-to-end suites use them.
//!
//! ```text
//!   address   HOST:PORT, [IPV6]:PORT or unix:/path, as people write them
//!   limits    how long a call waits, and who may end the wait
//!   stock     a stream of stock rsocket whose calls wait
//!   stream    a stream of any kind, and listeners
//! ```

mod address;
mod limits;
mod stock;
mod stream;

pub use address::{Address, plain};
pub use limits::Limits;
pub use stock::Stock;
pub use stream::{By, Listener, Stream, is_time_out};
