//! What a net and its proxy threads share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32};

use gpu_usermap::AccessError;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Launches that run.
    pub(crate) running: AtomicU32,
    /// Close everything and end.
    pub(crate) stopping: AtomicBool,
    /// Shards that have done so. When all have, none hands a connection over to another any more.
    pub(crate) closed_shards: AtomicU32,
    /// A thread has panicked: the net is of no more use.
    pub(crate) down: AtomicBool,
    /// The GPU memory with the words that kernels poll is gone, and so is the net's use.
    pub(crate) control_memory_lost: OnceLock<AccessError>,
    /// The supervisor is to find that memory gone, for tests.
    pub(crate) takes_control_memory: AtomicBool,
    /// The supervisor is not to look at heartbeats, for tests.
    pub(crate) blind: AtomicBool,
    /// Kernels that had to be killed and threads that were left behind, for tests.
    pub(crate) stuck: std::sync::Arc<AtomicU32>,
}
