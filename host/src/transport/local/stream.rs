//! A direct stream as its proxy sees it: the talk with the other end's proxy. Bytes and counters go
//! from kernel to kernel; what is said here is how it ends, and how far it is where a poller wants
//! to know.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use gpunet_device::abi::card::Inboxes;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};

use super::super::{Direct, Direction, Moved, News, Rings, Socket, TransportChoice};
use super::Local;
use super::inbox::{Inbox, Outbox};
use super::talk::{Heard, Message, Talk};
use crate::gpu::Moment;
use crate::memory::Window;

/// Messages heard in one turn, so that other sockets get theirs.
const A_TURN: usize = 64;

/// The ends' addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) domain: Domain,
    pub(crate) own: SocketAddr,
    pub(crate) peer: SocketAddr,
}

impl Names {
    /// Those of a stream that a listener accepts: of the caller, and of the address it has called.
    /// What a listener of any address lacks comes from that one, as with TCP; and at a listener of
    /// IPv6, addresses of IPv4 are mapped.
    pub(crate) fn of_accepted(self, caller: SocketAddr, called: SocketAddr) -> Self {
        let mapped = |address: SocketAddr| match address.to_ip() {
            Some(std::net::SocketAddr::V4(ip)) if self.domain == Domain::V6 => {
                std::net::SocketAddr::new(ip.ip().to_ipv6_mapped().into(), ip.port()).into()
            }
            _ => address,
        };
        let own = match (self.own.to_ip(), mapped(called).to_ip()) {
            (Some(own), Some(mut called)) if own.ip().is_unspecified() => {
                called.set_port(own.port());
                called.into()
            }
            _ => self.own,
        };
        Self { own, peer: mapped(caller), ..self }
    }
}

/// A stream that is connected, or was.
pub(crate) struct DirectStream {
    local: Arc<Local>,
    names: Names,
    news: News,
    /// What the other end has been told last, and whether it wants to be.
    told: (u64, u64),
    peer_watches: bool,
    /// What is still to be said.
    say_watch: bool,
    say_end: bool,
    said_close: bool,
    /// A kernel knows of its memory.
    known: bool,
    /// Its proxy has begun to leave.
    leaves: bool,
    /// Kernels of this side may touch the other's memory when it is closed.
    abandoned: bool,
    /// None when it has been laid to rest.
    body: Option<Body>,
}

struct Body {
    talk: Arc<Talk>,
    inbox: Inbox,
    outbox: Outbox,
}

/// An inbox whose stream is closed here, and whose other end may still write there.
pub(crate) struct Grave {
    pub(super) talk: Arc<Talk>,
    inbox: Inbox,
    said_close: bool,
    heard_close: bool,
}

impl Grave {
    /// Of a stream that nobody here uses, whose other end has not been told.
    pub(crate) fn new(talk: Arc<Talk>, inbox: Inbox) -> Self {
        Self { talk, inbox, said_close: false, heard_close: false }
    }

    /// Whether nobody writes there any more, and the other end knows the same of its own.
    pub(crate) fn is_quiet(&mut self) -> bool {
        if !self.said_close {
            self.said_close = self.talk.say(Message::Close, None) != Err(Errno::EAGAIN);
        }
        // So many, since others wait for the list of graves: who says more is heard next time.
        for _ in 0..A_TURN {
            if self.heard_close {
                return self.said_close;
            }
            match self.talk.hear() {
                Ok(Heard::Nothing) => return false,
                Ok(Heard::Message(Message::Close, _)) => self.heard_close = true,
                Ok(Heard::Message(..)) => {}
                Ok(Heard::Gone) | Err(_) => {
                    self.inbox.spoil();
                    return true;
                }
            }
        }
        false
    }
}

impl DirectStream {
    pub(crate) fn new(
        local: Arc<Local>,
        names: Names,
        talk: Arc<Talk>,
        inbox: Inbox,
        outbox: Outbox,
    ) -> Self {
        let base = inbox.place().base;
        Self {
            local,
            names,
            news: News { sent: base, received: base, ended: false, closed: false, more: false },
            told: (base, base),
            peer_watches: false,
            say_watch: false,
            say_end: false,
            said_close: false,
            known: false,
            leaves: false,
            abandoned: false,
            body: Some(Body { talk, inbox, outbox }),
        }
    }

    fn talk(&self) -> Result<&Talk, Errno> {
        self.body.as_ref().map(|body| body.talk.as_ref()).ok_or(Errno::ENOTCONN)
    }

    fn hear_all(&mut self) -> Result<(), Errno> {
        self.news.more = false;
        for _ in 0..A_TURN {
            match self.talk()?.hear()? {
                Heard::Nothing => return Ok(()),
                Heard::Gone if self.news.closed => return Ok(()),
                // A process that ends in order says so first.
                Heard::Gone => return Err(Errno::ECONNRESET),
                Heard::Message(Message::End, _) => self.news.ended = true,
                Heard::Message(Message::Close, _) => {
                    (self.news.ended, self.news.closed) = (true, true);
                }
                Heard::Message(Message::Watch, _) => self.peer_watches = true,
                Heard::Message(Message::Counts { tail, head }, _) => {
                    self.news.sent = self.news.sent.max(tail);
                    self.news.received = self.news.received.max(head);
                }
                Heard::Message(..) => return Err(Errno::EPROTO),
            }
        }
        self.news.more = true;
        Ok(())
    }

    /// Says what is still to be said. Nobody who is gone hears it.
    fn say_all(&mut self) {
        let say = |this: &Self, message| {
            let said = this.talk().and_then(|talk| talk.say(message, None));
            !matches!(said, Err(Errno::EAGAIN))
        };
        if self.say_watch && say(self, Message::Watch) {
            self.say_watch = false;
        }
        if self.say_end && say(self, Message::End) {
            self.say_end = false;
        }
    }
}

impl Direct for DirectStream {
    fn rings(&mut self) -> Option<(Rings, Inboxes)> {
        self.known = true;
        let Body { inbox, outbox, .. } = self.body.as_ref()?;
        let inboxes = Inboxes { own: inbox.inbox_page(), peer: outbox.inbox_page() };
        Some((Rings { receive: inbox.place(), send: outbox.place() }, inboxes))
    }

    fn hear(&mut self) -> Result<News, Errno> {
        self.say_all();
        // What was said before the end counts, and so it is heard to its end.
        if let Err(errno) = self.hear_all() {
            if let Some(Body { inbox, .. }) = &self.body {
                // Who has room in the ring sends without a look at what its proxy says.
                let _ = inbox.fail();
            }
            return Err(errno);
        }
        Ok(self.news)
    }

    fn tell(&mut self, tail: u64, head: u64) {
        if !self.peer_watches || self.told == (tail, head) {
            return;
        }
        let said = self.talk().and_then(|talk| talk.say(Message::Counts { tail, head }, None));
        if !matches!(said, Err(Errno::EAGAIN)) {
            self.told = (tail, head);
        }
    }

    fn is_watched(&self) -> bool {
        self.peer_watches
    }

    fn watch(&mut self) {
        self.say_watch = true;
        if let Some(Body { inbox, outbox, .. }) = &self.body
            && inbox.is_watched() != Ok(true)
        {
            // The kernel could not say so: it was not connected when it asked. Where the driver
            // refuses, it has said why.
            let _ = inbox.set_watched().and_then(|()| outbox.set_watched());
        }
        self.look();
        self.say_all();
    }

    fn abandon(&mut self) {
        self.abandoned = true;
    }

    fn look(&mut self) {
        let counts = self.body.as_ref().map(|body| body.inbox.counts());
        if let Some(Ok((sent, received))) = counts {
            self.news.sent = self.news.sent.max(sent);
            self.news.received = self.news.received.max(received);
        }
    }
}

impl Socket for DirectStream {
    fn transport(&self) -> &'static str {
        "local"
    }

    fn domain(&self) -> Domain {
        self.names.domain
    }

    fn bind(&mut self, _: &SocketAddr) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn listen(&mut self, _: u32) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn connect(&mut self, _: &SocketAddr) -> Result<bool, Errno> {
        Err(Errno::EISCONN)
    }

    fn finish_connect(&mut self) -> Result<bool, Errno> {
        Ok(true)
    }

    fn accept(&mut self) -> Result<Option<Box<dyn Socket>>, Errno> {
        Err(Errno::EINVAL)
    }

    fn places_bytes(&self) -> bool {
        true
    }

    fn direct(&mut self) -> Option<&mut dyn Direct> {
        Some(self)
    }

    fn receive(&mut self, _: &Window) -> Result<Moved, Errno> {
        Ok(Moved::Later)
    }

    fn send(&mut self, _: &Window) -> Result<Moved, Errno> {
        Ok(Moved::Later)
    }

    fn discard(&mut self) -> Result<Moved, Errno> {
        Ok(Moved::Later)
    }

    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        if direction == Direction::Send {
            self.say_end = true;
            self.say_all();
        }
        Ok(())
    }

    fn leave(&mut self) -> bool {
        self.leaves = true;
        if self.abandoned {
            return true;
        }
        if !self.said_close {
            let said = self.talk().and_then(|talk| talk.say(Message::Close, None));
            self.said_close = !matches!(said, Err(Errno::EAGAIN));
        }
        self.said_close
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        match option {
            // Nothing is ever held back, nor does anybody die unnoticed.
            SocketOption::NoDelay | SocketOption::KeepAlive | SocketOption::QuickAck => {
                if value <= 1 { Ok(()) } else { Err(Errno::EINVAL) }
            }
            SocketOption::Transport | SocketOption::Placement => Err(Errno::EISCONN),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        match option {
            SocketOption::NoDelay => Ok(1),
            SocketOption::KeepAlive => Ok(0),
            SocketOption::Transport => Ok(TransportChoice::Local as u64),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(self.names.own)
    }

    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(self.names.peer)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.body.as_ref().map(|body| body.talk.as_fd())
    }

    fn into_descriptor(self: Box<Self>) -> Option<OwnedFd> {
        None
    }
}

impl Drop for DirectStream {
    fn drop(&mut self) {
        // Not closed in order: a proxy thread has panicked, and kernels run on.
        self.abandoned |= self.known && !self.leaves && !Moment::now().is_over();
        self.leave();
        let gone = self.abandoned || self.hear_all().is_err();
        let Some(Body { talk, inbox, outbox }) = self.body.take() else { return };
        if self.abandoned {
            inbox.abandon();
            outbox.abandon();
        }
        let (said_close, heard_close) = (self.said_close, self.news.closed);
        if gone {
            // Where this side says nothing, the other one takes it for gone, and does the same.
            inbox.spoil();
        } else if !(said_close && heard_close) {
            self.local.lay_to_rest(Grave { talk, inbox, said_close, heard_close });
        }
    }
}
