//! What the server keeps for each client between two requests. Commands change it, replies read the
//! version of the protocol from it.

#![allow(unsafe_code, reason = "any bytes are a state")]

use gpunet_device::buf::Plain;
use gpunet_serve::Block;

use crate::request::Progress;

/// What is kept for each client.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct State {
    /// The version of RESP, 0 before HELLO.
    pub(crate) version: u64,
    /// Where a long answer goes on: a position among the arguments, 0 at the beginning.
    pub(crate) position: u64,
    /// The client's name.
    pub(crate) name: Block,
    /// Bytes of it.
    pub(crate) name_length: u64,
    /// What is known of an incomplete request.
    pub(crate) parsed: Progress,
}

// SAFETY: numbers without padding.
unsafe impl Plain for State {}

impl State {
    /// Whether answers are RESP3.
    pub(crate) const fn is_resp3(&self) -> bool {
        self.version == 3
    }
}
