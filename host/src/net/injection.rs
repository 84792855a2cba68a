//! Faults that tests play on a net. Only with the feature `fault-injection`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::Net;
use crate::proxy::message::Message;

impl Net {
    /// Where everything lies that kernels of this net can reach, for kernels that do harm: address
    /// on the GPU and bytes of the GPU's control block, the host's, rings and records.
    #[must_use]
    pub fn regions(&self) -> [(*mut u8, usize); 4] {
        self.shared.memory.regions()
    }

    /// How many kernels did not end with this net and had to be killed, and threads that were left behind: a
    /// counter that outlives the net.
    #[must_use]
    pub fn stuck(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.control.stuck)
    }

    /// Makes a proxy thread panic, to see what kernels make of it.
    pub fn inject_panic(&self) {
        self.shared.send(0, Message::Panic);
    }

    /// Has the net find that the GPU memory with its control block was taken away.
    pub fn inject_loss_of_control_memory(&self) {
        self.control.takes_control_memory.store(true, Ordering::Release);
    }

    /// Has the supervisor overlook proxy threads that hang, as if it were stopped with them.
    pub fn inject_blindness(&self) {
        self.control.blind.store(true, Ordering::Release);
    }

    /// Makes a proxy thread hang for so long, to see what kernels make of it.
    pub fn inject_stall(&self, thread: usize, time: Duration) {
        self.shared.send(thread, Message::Stall(time));
    }
}
