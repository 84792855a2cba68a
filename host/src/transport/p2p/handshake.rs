//! The handshake by which two ends connect: four messages. A descriptor is given to nobody who has not shown who it is.
//!
//! ```text
//!  caller                                   listener
//!    ── Hello: who, which GPU, address ──────▶  same user? a GPU whose memory can be reached?
//!    ◀─ Welcome: who, which GPU  (or Refused) ─
//!    ── Offer: its inbox, a descriptor ──────▶  maps it, makes its own inbox
//!    ◀─ Offer: its inbox, a descriptor ───────  and is connected
//!  maps it, is connected
//! ```

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use gpunet_device::abi::errno::Errno;

use super::super::RingSizes;
use super::arena;
use super::channel::{ControlChannel, Received};
use super::deferred::DeferredFree;
use super::inbox::Inbox;
use super::message::Message;
use super::names::Names;
use super::process::{self, Process};
use super::shared::P2p;
use super::stream::{Body, P2pStream};
use crate::pool::ring_capacity;

/// How long the other end's proxy may take to answer when no other transport can be tried. A healthy proxy
/// answers at once, and the kernel's call has its own time limit. This one ends calls without a limit,
/// and a listener drops callers that stay silent for as long.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// What comes next.
enum Expected {
    /// The listener waits for it.
    Hello,
    /// The caller waits for it.
    Welcome,
    /// Either waits for it, of that process; the caller has made its own. Whether both are on one GPU.
    Offer(Process, bool),
}

/// See the module.
pub(crate) struct Handshake {
    p2p: Arc<P2p>,
    channel: Arc<ControlChannel>,
    names: Names,
    sizes: RingSizes,
    expected: Expected,
    /// What the caller has offered: the listener's kernel may write there already.
    offered: Option<Inbox>,
}

impl Handshake {
    /// Of one that calls.
    pub(crate) fn call(
        p2p: Arc<P2p>,
        channel: ControlChannel,
        names: Names,
        sizes: RingSizes,
    ) -> Result<Box<Self>, Errno> {
        let mut this = Self::answer(p2p, channel, names, sizes)?;
        let (token, gpu) = (process::token(), this.p2p.gpu.identity());
        let (send_ring, name, called) = (sizes.send, names.own, names.peer);
        this.channel.send(Message::Hello { token, gpu, send_ring, name, called }, None)?;
        this.expected = Expected::Welcome;
        Ok(this)
    }

    /// Of one that was called.
    pub(crate) fn answer(
        p2p: Arc<P2p>,
        channel: ControlChannel,
        names: Names,
        sizes: RingSizes,
    ) -> Result<Box<Self>, Errno> {
        channel.peer_pid()?;
        let (channel, expected) = (Arc::new(channel), Expected::Hello);
        Ok(Box::new(Self { p2p, channel, names, sizes, expected, offered: None }))
    }

    /// Goes on as far as it can; the stream once it is connected.
    pub(crate) fn turn(mut self: Box<Self>) -> Result<Progressed, Errno> {
        // Counted: each message is the next of four.
        loop {
            let received = match self.channel.receive()? {
                Received::Nothing => return Ok(Progressed::Later(self)),
                Received::Closed => return Err(Errno::ECONNREFUSED),
                Received::Message(message, descriptor) => (message, descriptor),
            };
            let expected = std::mem::replace(&mut self.expected, Expected::Hello);
            self.expected = match (expected, received) {
                (_, (Message::Refused { errno }, _)) => {
                    // Who refuses has given its kernel nothing.
                    self.offered = None;
                    return Err(Errno(errno));
                }
                (Expected::Hello, (Message::Hello { token, gpu, send_ring, name, called }, _)) => {
                    let peer = Process { pid: self.channel.peer_pid()?, token };
                    let own_gpu = self.p2p.gpu.identity();
                    // GPUs of one kind may reach each other's memory; the driver will say.
                    if gpu[0] != own_gpu[0] {
                        return self.refuse(Errno::EXDEV);
                    }
                    self.names = self.names.of_accepted(name, called);
                    self.sizes.receive = together(self.sizes.receive, send_ring);
                    let (token, send_ring) = (process::token(), self.sizes.send);
                    self.channel.send(Message::Welcome { token, gpu: own_gpu, send_ring }, None)?;
                    Expected::Offer(peer, gpu == own_gpu)
                }
                (Expected::Welcome, (Message::Welcome { token, gpu, send_ring }, _)) => {
                    let peer = Process { pid: self.channel.peer_pid()?, token };
                    let ring = together(self.sizes.receive, send_ring);
                    self.offered =
                        Some(self.offer(peer, ring, arena::new_base(self.p2p.system))?);
                    Expected::Offer(peer, gpu == self.p2p.gpu.identity())
                }
                (Expected::Offer(peer, one_gpu), (Message::Offer(offer), descriptor)) => {
                    // A listener's answer has the base that the caller chose.
                    if self.offered.as_ref().is_some_and(|inbox| inbox.base() != offer.base) {
                        return self.refuse(Errno::EPROTO);
                    }
                    let outbox = self.p2p.arenas.outbox(peer, &offer, descriptor);
                    let outbox = outbox.or_else(|errno| self.refuse(errno))?;
                    let inbox = match self.offered.take() {
                        Some(inbox) => inbox,
                        None => {
                            let offered = self.offer(peer, self.sizes.receive, offer.base);
                            offered.or_else(|errno| self.refuse(errno))?
                        }
                    };
                    let (p2p, channel) = (Arc::clone(&self.p2p), Arc::clone(&self.channel));
                    let body = Body { channel, inbox, outbox, one_gpu };
                    let stream = P2pStream::new(p2p, self.names, body);
                    return Ok(Progressed::Done(Box::new(stream)));
                }
                _ => return self.refuse(Errno::EPROTO),
            };
        }
    }

    /// Offers the other end an inbox.
    fn offer(&self, peer: Process, ring: u32, base: u64) -> Result<Inbox, Errno> {
        let inbox = self.p2p.inbox(peer, ring, base)?;
        let (offer, descriptor) = inbox.offer()?;
        self.channel.send(Message::Offer(offer), Some(descriptor.as_fd()))?;
        Ok(inbox)
    }

    fn refuse<T>(&self, errno: Errno) -> Result<T, Errno> {
        // To the listener the caller's offer was the last word: what it receives next is the end.
        if self.offered.is_none() {
            // Who does not receive it sees the channel end.
            let _ = self.channel.send(Message::Refused { errno: errno.0 }, None);
        }
        Err(errno)
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        if let Some(inbox) = self.offered.take() {
            self.p2p.defer_free(DeferredFree::new(Arc::clone(&self.channel), inbox, false, false));
        }
    }
}

impl AsFd for Handshake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// How far a handshake is.
pub(crate) enum Progressed {
    Later(Box<Handshake>),
    Done(Box<P2pStream>),
}

/// The one ring of a direction stands for two: the sender's and the receiver's. It lies in the
/// receiver's memory, so the sender's wish counts for no more than the receiver's own.
fn together(receive_ring: u32, send_ring: u32) -> u32 {
    let own = ring_capacity(receive_ring);
    own.saturating_add(ring_capacity(send_ring).min(own))
}
