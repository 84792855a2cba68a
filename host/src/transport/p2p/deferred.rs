//! Deferred frees: inboxes whose streams are closed here, and whose other ends may still write there.
//! They are freed when the other end says that it is closed, too, or is gone.
//!
//! A set reports which control channels have something to be received, so that the work for a stream
//! that closes does not depend on how many others wait.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;

use gpunet_device::abi::errno::Errno;

use super::super::ready_set::ReadySet;
use super::super::system::SystemRef;
use super::channel::{ControlChannel, Received};
use super::inbox::Inbox;
use super::message::Message;

/// Messages of one channel that are received in one go: others wait for the same lock.
const AT_ONCE: usize = 64;
/// Entries that are looked at in one go, of those that no set reports.
const POLLED_AT_ONCE: usize = 64;
/// Answers of the set that are handled in one go.
const ANSWERS: usize = 16;

/// An inbox whose stream is closed here, and whose other end may still write there.
pub(crate) struct DeferredFree {
    pub(super) channel: Arc<ControlChannel>,
    inbox: Inbox,
    close_sent: bool,
    close_received: bool,
}

impl DeferredFree {
    /// Of a stream that nobody here uses; what was sent to the other end, and received from it.
    pub(crate) fn new(
        channel: Arc<ControlChannel>,
        inbox: Inbox,
        close_sent: bool,
        close_received: bool,
    ) -> Self {
        Self { channel, inbox, close_sent, close_received }
    }

    /// Whether nobody writes there any more, and the other end knows the same of its own.
    pub(crate) fn is_complete(&mut self) -> bool {
        if !self.close_sent {
            self.close_sent = self.channel.send(Message::Close, None) != Err(Errno::EAGAIN);
        }
        // So many: who sends more is received from next time.
        for _ in 0..AT_ONCE {
            if self.close_received {
                return self.close_sent;
            }
            match self.channel.receive() {
                Ok(Received::Nothing) => return false,
                Ok(Received::Message(Message::Close, _)) => self.close_received = true,
                Ok(Received::Message(..)) => {}
                Ok(Received::Closed) | Err(_) => {
                    self.inbox.spoil();
                    return true;
                }
            }
        }
        false
    }
}

/// All of a net.
pub(super) struct DeferredFrees {
    system: SystemRef,
    entries: HashMap<u64, DeferredFree>,
    next: u64,
    /// Reports which of the entries' channels are ready. None until there is an entry.
    set: Option<ReadySet>,
    /// Entries that are asked in turn: their Close was not sent, or the system had no room in the set.
    polled: VecDeque<u64>,
}

impl DeferredFrees {
    pub(super) fn new(system: SystemRef) -> Self {
        Self { system, entries: HashMap::new(), next: 0, set: None, polled: VecDeque::new() }
    }

    /// Takes one, unless it is complete.
    pub(super) fn add(&mut self, mut free: DeferredFree) {
        if free.is_complete() {
            return;
        }
        let key = self.next;
        self.next += 1;
        if self.set.is_none() {
            self.set = ReadySet::new(self.system).ok();
        }
        let set = self.set.as_ref();
        let watched = set.is_some_and(|set| set.add(free.channel.as_fd(), key).is_ok());
        if !watched || !free.close_sent {
            self.polled.push_back(key);
        }
        self.entries.insert(key, free);
    }

    /// Takes out those that are complete, to be dropped where no lock is held.
    pub(super) fn collect(&mut self) -> Vec<DeferredFree> {
        let mut complete = Vec::new();
        for _ in 0..ANSWERS {
            // Where the system does not answer now, it does later.
            let Some(Ok(ready)) = self.set.as_ref().map(ReadySet::ready) else { break };
            if ready.is_empty() {
                break;
            }
            let before = complete.len();
            complete.extend(ready.into_iter().filter_map(|key| self.take_complete(key)));
            if complete.len() == before {
                break;
            }
        }
        for _ in 0..self.polled.len().min(POLLED_AT_ONCE) {
            let Some(key) = self.polled.pop_front() else { break };
            match self.take_complete(key) {
                Some(free) => complete.push(free),
                None if self.entries.contains_key(&key) => self.polled.push_back(key),
                None => {}
            }
        }
        complete
    }

    fn take_complete(&mut self, key: u64) -> Option<DeferredFree> {
        if !self.entries.get_mut(&key)?.is_complete() {
            return None;
        }
        let free = self.entries.remove(&key)?;
        if let Some(set) = &self.set {
            set.remove(free.channel.as_fd());
        }
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl DeferredFrees {
        pub(crate) fn len(&self) -> usize {
            self.entries.len()
        }
    }
}
