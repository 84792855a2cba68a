//! rsocket's wire protocol as a state machine: no I/O, no clock, no memory of its own.
//!
//! The driver of a connection calls it from one thread. It posts [`Terms::receives`] receives,
//! exchanges [`Terms::private_data`] with the peer, makes a [`Protocol`] of what the peer said, and
//! then, in each round:
//!
//! 1. hands over what the queue pair has reported ([`Protocol::completed`]), what the kernel has
//!    published ([`Protocol::offer`]) and, while [`Protocol::wants_head`], what it has consumed
//!    ([`Protocol::consumed`]);
//! 2. posts [`Protocol::receives_to_post`] receives, before any write: writes report to the peer what
//!    it may send;
//! 3. posts writes until [`Protocol::next_write`] has none;
//! 4. publishes [`Protocol::sent`] and [`Protocol::arrived`] to the kernel.
//!
//! ```text
//!  wire        private data, immediate data, target entries: bytes and values
//!  terms       what we bring: rings, target list, sizes of queues
//!  sending     from the send ring to where the peer allows it
//!  granting    what of the receive ring the peer may write, and how many messages it may send
//!  this file   the queues that both share, and how a connection ends
//! ```
//!
//! Nothing that the peer sends is trusted: private data, immediate data and the target list lead
//! to a [`Violation`] or do harm to the peer alone. No position of ours moves past what was
//! granted, none moves back.

mod granting;
mod sending;
mod terms;
mod wire;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod stock;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use terms::{BadTerms, Ring, Settings, Terms};
pub use wire::{ByteOrder, PRIVATE_DATA_BYTES, Refused};

use crate::work::{Completion, Fault, Write};

use granting::Granting;
use sending::Sending;
use terms::CONTROL_SLOTS;
use wire::{Handshake, Message};

/// Our target list: two entries of 16 bytes, in memory of the CPU that the peer's device writes.
///
/// It is read only when a message has said that it may have changed. An entry should lie in one
/// line of the cache, as devices write such a piece at once.
pub trait TargetList {
    /// The bytes of entry 0 or 1.
    fn read(&self, entry: usize) -> [u8; 16];

    /// Zeroes entry 0 or 1. Has to be done before a write that is handed out later is posted.
    fn clear(&mut self, entry: usize);
}

/// What the peer did that rsocket does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Data of no bytes.
    #[error("a message without bytes")]
    Empty,
    /// Data for which there was no memory.
    #[error("a message of {length} bytes where it was granted {left}")]
    Beyond {
        /// Bytes of the message.
        length: u32,
        /// Bytes that were granted in one piece.
        left: u64,
    },
    /// More messages than it had credits for.
    #[error("a message for which it had no credit")]
    Uncredited,
    /// Data after it had said that there would be no more.
    #[error("data after the end of its stream")]
    AfterEnd,
    /// A limit which its receive queue does not have.
    #[error("more credits than its receive queue has places")]
    Limit,
}

/// Why a connection has failed. Both directions end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The peer's fault (EPROTO).
    #[error("the peer broke the rsocket protocol: {0}")]
    Violation(#[from] Violation),
    /// The network's, or the peer is gone (ETIMEDOUT where it did not answer, else EIO).
    #[error("the queue pair failed ({0:?}): see whether the peer and the network are up")]
    Queue(Fault),
    /// The driver's: it has reported work that it was not given.
    #[error("a completion of work that was never posted: a defect of the driver")]
    Unasked,
}

/// A position that a kernel cannot have come to: its fault. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPosition {
    /// What it has published.
    #[error("the kernel's send tail {tail} is not between {least} and {most}")]
    Tail {
        /// What it says.
        tail: u64,
        /// What was known before.
        least: u64,
        /// What the ring holds.
        most: u64,
    },
    /// What it has consumed.
    #[error("the kernel's receive head {head} is not between {least} and {most}")]
    Head {
        /// What it says.
        head: u64,
        /// What was known before.
        least: u64,
        /// What has arrived.
        most: u64,
    },
}

/// How far a side has ended the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    /// Not at all.
    Open,
    /// It sends no more.
    Shutdown,
    /// It neither sends nor receives.
    Disconnect,
}

/// A write on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Posted {
    /// Data, so many bytes.
    Data(u32),
    /// A grant, a credit, a sign of life.
    Control,
    /// The end of our stream, or of the connection.
    End(Ending),
}

/// A connection.
#[derive(Debug)]
pub struct Protocol {
    sending: Sending,
    granting: Granting,
    /// Writes on the way, oldest first.
    posted: VecDeque<Posted>,
    /// How many of them are control messages.
    controls: u16,
    /// Receives that are posted, and those that are to be.
    receives: u32,
    receives_to_post: u32,
    keepalive: bool,
    /// What our side was asked to end, what it has said of that, and what the peer has said.
    asked: Ending,
    said: Ending,
    peer_ending: Ending,
    /// No more is to be said: writes that fail now are none of our concern.
    over: bool,
    failure: Option<Failure>,
}

impl Protocol {
    /// A connection on these terms with a peer that sent this private data.
    pub fn new(terms: &Terms, peer: &[u8]) -> Result<Self, Refused> {
        let peer = Handshake::parse(peer)?;
        Ok(Self {
            sending: Sending::new(terms, &peer),
            granting: Granting::new(terms, &peer),
            posted: VecDeque::with_capacity(terms.settings.send_queue.into()),
            controls: 0,
            receives: terms.receives(),
            receives_to_post: 0,
            keepalive: false,
            asked: Ending::Open,
            said: Ending::Open,
            peer_ending: Ending::Open,
            over: false,
            failure: None,
        })
    }

    /// The kernel has published bytes up to here. Ignored once our side was asked to end.
    pub fn offer(&mut self, tail: u64) -> Result<(), BadPosition> {
        if self.asked == Ending::Open { self.sending.offer(tail) } else { Ok(()) }
    }

    /// The kernel has consumed bytes up to here. Said again without a change, it means that the
    /// kernel waits for more.
    pub fn consumed(&mut self, head: u64) -> Result<(), BadPosition> {
        self.granting.consumed(head)
    }

    /// Ends our stream behind what was offered.
    pub fn shutdown_send(&mut self) {
        self.asked = self.asked.max(Ending::Shutdown);
    }

    /// Ends the connection behind what was offered. Who will not wait until the peer has taken
    /// that destroys the queue pair instead.
    pub fn disconnect(&mut self) {
        self.asked = Ending::Disconnect;
    }

    /// Asks for a write that fails if the peer is gone and that it does not notice otherwise.
    pub fn keepalive(&mut self) {
        self.keepalive = true;
    }

    /// How many receives to post now; the caller does.
    pub fn receives_to_post(&mut self) -> u32 {
        if self.over {
            return 0;
        }
        let count = std::mem::take(&mut self.receives_to_post);
        self.receives += count;
        count
    }

    /// The next write to post; the caller does, in this order.
    pub fn next_write(&mut self) -> Option<Write> {
        if self.over || self.said == Ending::Disconnect {
            return None;
        }
        if self.controls < CONTROL_SLOTS
            && let Some((write, posted)) = self.next_control()
        {
            self.controls += 1;
            self.posted.push_back(posted);
            return Some(write);
        }
        let write = self.sending.next()?;
        self.posted.push_back(Posted::Data(write.target.length));
        Some(write)
    }

    fn next_control(&mut self) -> Option<(Write, Posted)> {
        if self.asked > self.said && self.sending.is_posted() {
            // When the peer has ended its stream too, nothing is left of the connection.
            let both = self.peer_ending >= Ending::Shutdown;
            self.said = if both { Ending::Disconnect } else { self.asked };
            let message = match self.said {
                Ending::Disconnect => Message::Disconnect,
                _ => Message::Shutdown,
            };
            return Some((empty_write(Some(message)), Posted::End(self.said)));
        }
        // Who sends no more needs no grants.
        if self.peer_ending == Ending::Open
            && let Some(write) = self.granting.next()
        {
            return Some((write, Posted::Control));
        }
        std::mem::take(&mut self.keepalive).then(|| (empty_write(None), Posted::Control))
    }

    /// The queue pair has reported something.
    pub fn completed(&mut self, completion: Completion, list: &mut impl TargetList) {
        match completion {
            Completion::Written(result) => self.written(result),
            Completion::Received(result) => {
                let Some(receives) = self.receives.checked_sub(1) else {
                    return self.fail(Failure::Unasked);
                };
                self.receives = receives;
                match result {
                    Ok(immediate) => {
                        self.receives_to_post += 1;
                        self.received(immediate, list);
                    }
                    // Once we have said that we leave, the peer may be gone.
                    Err(_) if self.said == Ending::Disconnect => {}
                    Err(fault) => self.fail(Failure::Queue(fault)),
                }
            }
        }
    }

    fn written(&mut self, result: Result<(), Fault>) {
        let Some(posted) = self.posted.pop_front() else {
            return self.fail(Failure::Unasked);
        };
        match posted {
            Posted::Data(length) => self.sending.written(length, result.is_ok()),
            Posted::Control | Posted::End(_) => self.controls -= 1,
        }
        // A peer that leaves at the same time may be gone before it has received that we do.
        self.over |= posted == Posted::End(Ending::Disconnect);
        if let Err(fault) = result {
            self.fail(Failure::Queue(fault));
        }
    }

    fn received(&mut self, immediate: u32, list: &mut impl TargetList) {
        if self.over {
            return;
        }
        let result = match Message::decode(immediate) {
            Some(Message::Data(_)) if self.peer_ending > Ending::Open => Err(Violation::AfterEnd),
            Some(Message::Data(length)) => self.granting.arrive(length),
            Some(Message::Limit(limit)) => self.sending.granted(limit, list),
            Some(Message::Shutdown) => {
                self.peer_ending = self.peer_ending.max(Ending::Shutdown);
                self.over |= self.said >= Ending::Shutdown;
                Ok(())
            }
            Some(Message::Disconnect) => {
                self.peer_ending = Ending::Disconnect;
                self.over = true;
                Ok(())
            }
            None => Ok(()),
        };
        if let Err(violation) = result {
            self.fail(violation.into());
        }
    }

    /// Ends the connection with a failure, unless it has ended before.
    fn fail(&mut self, failure: Failure) {
        if !self.over {
            self.over = true;
            self.failure = Some(failure);
        }
    }

    /// What has been written: the kernel may overwrite it.
    pub fn sent(&self) -> u64 {
        self.sending.sent()
    }

    /// What has arrived: the kernel may read it.
    pub fn arrived(&self) -> u64 {
        self.granting.arrived()
    }

    /// Whether to look what the kernel has consumed: the peer could be granted that.
    pub fn wants_head(&self) -> bool {
        !self.over && self.peer_ending == Ending::Open && self.granting.wants_head()
    }

    /// Whether everything that was offered has been written, and the end of our stream has, where
    /// one was asked for and the peer still listened.
    pub fn is_all_sent(&self) -> bool {
        let is_end = |posted: &Posted| matches!(posted, Posted::End(_));
        let end_is_written = || self.said >= self.asked && !self.posted.iter().any(is_end);
        self.sending.is_sent() && (self.over || end_is_written())
    }

    /// Whether bytes were offered that will not be sent, or not for certain, because the peer has
    /// left (ECONNRESET). It does not concern what has arrived.
    pub fn is_reset(&self) -> bool {
        let unsent = !self.sending.is_posted() || self.sending.is_broken();
        self.over && self.failure.is_none() && unsent
    }

    /// Whether the peer has ended its stream, or left: what has arrived is all there will be.
    pub fn is_peer_done(&self) -> bool {
        self.peer_ending >= Ending::Shutdown
    }

    /// Whether the peer has left.
    pub fn is_peer_gone(&self) -> bool {
        self.peer_ending == Ending::Disconnect
    }

    /// Whether the connection has ended in any way: no write will come any more. Completions of
    /// those on the way are still worth waiting for: see [`Self::is_drained`].
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether no write is on the way.
    pub fn is_drained(&self) -> bool {
        self.posted.is_empty()
    }

    /// Why the connection has failed, if it has.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }
}

/// Whether private data is that of a peer with whom a connection can be made.
pub fn check_private_data(data: &[u8]) -> Result<(), Refused> {
    Handshake::parse(data).map(drop)
}

/// A write of nothing. Where it goes to does not matter: devices do not look.
fn empty_write(message: Option<Message>) -> Write {
    Write {
        pieces: Default::default(),
        own: None,
        target: Default::default(),
        immediate: message.map(Message::encode),
    }
}
