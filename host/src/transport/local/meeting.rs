//! How two ends meet: four messages. A descriptor is given to nobody who has not shown who it is.
//!
//! ```text
//!  caller                                   listener
//!    ── Hello: who, which GPU, address ──────▶  same user? a GPU whose memory can be reached?
//!    ◀─ Welcome: who  (or Refused) ───────────
//!    ── Offer: its inbox, a descriptor ──────▶  maps it, makes its own inbox
//!    ◀─ Offer: its inbox, a descriptor ───────  and is connected
//!  maps it, is connected
//! ```

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use gpunet_device::abi::errno::Errno;

use super::Local;
use super::inbox::{self, Inbox};
use super::stream::{DirectStream, Grave, Names};
use super::talk::{Heard, Message, Process, Talk};
use crate::pool::ring_capacity;

/// What comes next.
enum Expected {
    /// The listener waits for it.
    Hello,
    /// The caller waits for it.
    Welcome,
    /// Either waits for it; the caller has made its own.
    Offer(Process),
}

/// A meeting that is under way.
pub(crate) struct Meeting {
    local: Arc<Local>,
    talk: Arc<Talk>,
    names: Names,
    receive_ring: u32,
    send_ring: u32,
    expected: Expected,
    /// What the caller has offered: the listener's kernel may write there already.
    offered: Option<Inbox>,
}

impl Meeting {
    /// Of one that calls.
    pub(crate) fn call(
        local: Arc<Local>,
        talk: Talk,
        names: Names,
        (receive_ring, send_ring): (u32, u32),
    ) -> Result<Box<Self>, Errno> {
        talk.peer_pid()?;
        let (token, gpu) = (super::token(), local.gpu.identity());
        let (name, called) = (names.own, names.peer);
        talk.say(Message::Hello { token, gpu, send_ring, name, called }, None)?;
        Ok(Self::new(local, talk, names, (receive_ring, send_ring), Expected::Welcome))
    }

    /// Of one that was called.
    pub(crate) fn answer(
        local: Arc<Local>,
        talk: Talk,
        names: Names,
        rings: (u32, u32),
    ) -> Result<Box<Self>, Errno> {
        talk.peer_pid()?;
        Ok(Self::new(local, talk, names, rings, Expected::Hello))
    }

    fn new(
        local: Arc<Local>,
        talk: Talk,
        names: Names,
        (receive_ring, send_ring): (u32, u32),
        expected: Expected,
    ) -> Box<Self> {
        let (talk, offered) = (Arc::new(talk), None);
        Box::new(Self { local, talk, names, receive_ring, send_ring, expected, offered })
    }

    /// Goes on as far as it can; the stream once it is connected.
    pub(crate) fn turn(mut self: Box<Self>) -> Result<Progressed, Errno> {
        // Counted: each message is the next of four.
        loop {
            let heard = match self.talk.hear()? {
                Heard::Nothing => return Ok(Progressed::Later(self)),
                Heard::Gone => return Err(Errno::ECONNREFUSED),
                Heard::Message(message, descriptor) => (message, descriptor),
            };
            let expected = std::mem::replace(&mut self.expected, Expected::Hello);
            self.expected = match (expected, heard) {
                (_, (Message::Refused { errno }, _)) => {
                    // Who refuses has given its kernel nothing.
                    self.offered = None;
                    return Err(Errno(errno));
                }
                (Expected::Hello, (Message::Hello { token, gpu, send_ring, name, called }, _)) => {
                    let peer = Process { pid: self.talk.peer_pid()?, token };
                    // GPUs of one kind may reach each other's memory; the driver will say.
                    if gpu[0] != self.local.gpu.identity()[0] {
                        return self.refuse(Errno::EXDEV);
                    }
                    self.names = self.names.of_accepted(name, called);
                    self.receive_ring = together(self.receive_ring, send_ring);
                    let send_ring = self.send_ring;
                    self.talk.say(Message::Welcome { token: super::token(), send_ring }, None)?;
                    Expected::Offer(peer)
                }
                (Expected::Welcome, (Message::Welcome { token, send_ring }, _)) => {
                    let peer = Process { pid: self.talk.peer_pid()?, token };
                    let ring = together(self.receive_ring, send_ring);
                    let inbox = self.local.inbox(peer, ring, inbox::new_base())?;
                    let (offer, descriptor) = inbox.offer()?;
                    self.talk.say(Message::Offer(offer), Some(descriptor.as_fd()))?;
                    self.offered = Some(inbox);
                    Expected::Offer(peer)
                }
                (Expected::Offer(peer), (Message::Offer(offer), descriptor)) => {
                    // A listener's answer has the base that the caller chose.
                    if self.offered.as_ref().is_some_and(|inbox| inbox.base() != offer.base) {
                        return self.refuse(Errno::EPROTO);
                    }
                    let outbox = self.local.arenas.outbox(peer, &offer, descriptor);
                    let outbox = outbox.or_else(|errno| self.refuse(errno))?;
                    let inbox = match self.offered.take() {
                        Some(inbox) => inbox,
                        None => {
                            let answered = self.answer_offer(peer, offer.base);
                            answered.or_else(|errno| self.refuse(errno))?
                        }
                    };
                    let (local, talk) = (Arc::clone(&self.local), Arc::clone(&self.talk));
                    let stream = DirectStream::new(local, self.names, talk, inbox, outbox);
                    return Ok(Progressed::Done(Box::new(stream)));
                }
                _ => return self.refuse(Errno::EPROTO),
            };
        }
    }

    fn answer_offer(&self, peer: Process, base: u64) -> Result<Inbox, Errno> {
        let inbox = self.local.inbox(peer, self.receive_ring, base)?;
        let (offer, descriptor) = inbox.offer()?;
        self.talk.say(Message::Offer(offer), Some(descriptor.as_fd()))?;
        Ok(inbox)
    }

    fn refuse<T>(&self, errno: Errno) -> Result<T, Errno> {
        // To the listener the caller's offer was the last word: what it is told next is the end.
        if self.offered.is_none() {
            // Who does not hear it sees the talk end.
            let _ = self.talk.say(Message::Refused { errno: errno.0 }, None);
        }
        Err(errno)
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        if let Some(inbox) = self.offered.take() {
            self.local.lay_to_rest(Grave::new(Arc::clone(&self.talk), inbox));
        }
    }
}

impl AsFd for Meeting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.talk.as_fd()
    }
}

/// How far a meeting is.
pub(crate) enum Progressed {
    Later(Box<Meeting>),
    Done(Box<DirectStream>),
}

/// The one ring of a direction stands for two: the sender's and the receiver's. It lies in the
/// receiver's memory, so the sender's wish counts for no more than the receiver's own.
fn together(receive_ring: u32, send_ring: u32) -> u32 {
    let own = ring_capacity(receive_ring);
    own.saturating_add(ring_capacity(send_ring).min(own))
}
