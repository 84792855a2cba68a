//! How sockets fail: by an error of their transport, or by a word of the GPU that makes no sense.

use gpunet_device::abi::errno::Errno;

use super::context::Context;
use super::counted::MOST;
use super::entry::Entry;

/// Sockets of a proxy thread that ended with EPROTO and are logged; the rest are counted.
const LOGGED_VIOLATIONS: u64 = 100;

impl Entry {
    /// Ends the socket with an error; bytes that have arrived can still be read.
    pub(crate) fn fail(&mut self, errno: Errno, context: &Context) {
        self.channel.receive_ended = true;
        self.marks.busy_turns = 0;
        self.fail_send(errno, context);
    }

    /// Ends sending with an error. What the peer sent before it left may still be in the system's
    /// hands: receiving goes on to its own end.
    pub(super) fn fail_send(&mut self, errno: Errno, context: &Context) {
        self.channel.send_ended = true;
        if self.channel.failure.is_none() {
            context.counters.failed.add(1);
            tracing::debug!(handle = self.handle.0, %errno, "socket failed");
            self.channel.failure = Some(errno);
        }
        let memory = context.memory();
        self.publish_status(memory);
        // Sending first: a kernel that has seen its receive fail does not find that bytes are sent.
        self.channel.publish_send(memory);
        self.channel.publish_receive(memory);
    }

    /// Ends the socket because the GPU wrote a word that makes no sense. One that goes on writing
    /// is not reported again: it has ended, and neither the count nor the log is the kernel's to
    /// fill.
    pub(crate) fn violate(&mut self, what: &str, word: u64, context: &Context) {
        if std::mem::replace(&mut self.channel.violated, true) {
            return;
        }
        context.counters.violations.add(1);
        if context.counters.violations.get() <= LOGGED_VIOLATIONS {
            tracing::warn!(
                handle = self.handle.0,
                word,
                "a kernel wrote a bad {what}; its socket ends"
            );
        }
        self.fail(Errno::EPROTO, context);
    }

    /// Loads the GPU's receive head.
    pub(crate) fn load_head(&mut self, context: &Context) {
        // Without a ring, the word is still that of the socket which had the slot before.
        if self.channel.receive.location.capacity == 0 {
            return;
        }
        // Acquire: the GPU has read the bytes before the counter, so they may be overwritten.
        let word = context.memory().receive_head(self.channel.index).load_acquire();
        let p2p = self.channel.is_p2p();
        let receive = &mut self.channel.receive;
        receive.seen = word;
        let Some(head) = receive.read(word) else { return };
        // The proxy of a p2p stream does not know how much has come.
        let limit = if p2p { MOST } else { receive.ours };
        let sensible = receive.update(head.count(), limit).is_ok();
        receive.ours = receive.ours.max(receive.theirs);
        if !sensible {
            self.violate("receive head", word, context);
        }
    }
}
