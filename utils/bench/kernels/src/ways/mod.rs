//! Echo servers for the suite `ways`: one for each way in which a kernel may call. Groups of all three kinds.
//!
//! ```text
//!   call    how bytes are received and sent: blocking, non-blocking, MSG_DONTWAIT, slices of the rings
//!   echo    servers that receive from streams in turns, by each of these
//!   events  servers that wait first: `gpoll`, and a poller by hand
//!   serve   the server loop of `gpunet-serve`
//! ```
//!
//! A new way is a `Call` in `call`, a kernel in `echo`, and a variant of `Way` in the benchmark program.

pub mod call;
pub mod echo;
pub mod events;
pub mod serve;

use gpunet_device::{Handle, kernel_arg};

kernel_arg! {
    /// What a group serves.
    pub struct Service {
        /// Where clients connect.
        pub listener: Handle,
        /// Streams of each group, up to 16, on which the client sends in turns.
        pub streams: u64,
        /// Bytes of a message: a server that waits for one stream at a time serves the next one after them.
        pub bytes: u64,
    }
}
