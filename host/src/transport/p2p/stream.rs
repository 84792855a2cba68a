//! A p2p stream as its proxy has it: the control channel to the other end's proxy. Bytes and counters go
//! from kernel to kernel; the proxies report to each other how it ends.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use gpunet_device::SocketAddr;
use gpunet_device::abi::descriptor::Inboxes;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;

use super::super::{Direction, KernelStream, PeerEnding, Rings, Socket, Stream, Transport};
use super::channel::{ControlChannel, Received};
use super::deferred::DeferredFree;
use super::inbox::{Inbox, Outbox};
use super::message::Message;
use super::names::Names;
use super::shared::P2p;
use crate::gpu::Moment;

/// Messages received in one turn, so that other sockets get theirs.
const A_TURN: usize = 64;

/// A stream that is connected, or was.
pub(crate) struct P2pStream {
    p2p: Arc<P2p>,
    names: Names,
    ending: PeerEnding,
    /// End is still to be sent.
    end_pending: bool,
    close_sent: bool,
    /// A kernel knows of its memory.
    known: bool,
    /// Its proxy has begun to leave.
    leaves: bool,
    /// Kernels of this side may touch the other's memory when it is closed.
    abandoned: bool,
    /// None when it has been laid to rest.
    body: Option<Body>,
}

/// What a connected stream is made of.
pub(super) struct Body {
    pub(super) channel: Arc<ControlChannel>,
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
    /// Whether both ends say that they are on one GPU. Who lies about it harms what it receives itself.
    pub(super) one_gpu: bool,
}

impl P2pStream {
    pub(crate) fn new(p2p: Arc<P2p>, names: Names, body: Body) -> Self {
        Self {
            p2p,
            names,
            ending: PeerEnding::default(),
            end_pending: false,
            close_sent: false,
            known: false,
            leaves: false,
            abandoned: false,
            body: Some(body),
        }
    }

    fn channel(&self) -> Result<&ControlChannel, Errno> {
        self.body.as_ref().map(|body| body.channel.as_ref()).ok_or(Errno::ENOTCONN)
    }

    fn receive_all(&mut self) -> Result<(), Errno> {
        self.ending.more = false;
        for _ in 0..A_TURN {
            match self.channel()?.receive()? {
                Received::Nothing => return Ok(()),
                Received::Closed if self.ending.closed => return Ok(()),
                // A process that ends in order says so first.
                Received::Closed => return Err(Errno::ECONNRESET),
                Received::Message(Message::End, _) => self.ending.ended = true,
                Received::Message(Message::Close, _) => {
                    (self.ending.ended, self.ending.closed) = (true, true);
                }
                Received::Message(..) => return Err(Errno::EPROTO),
            }
        }
        self.ending.more = true;
        Ok(())
    }

    /// Sends End, if that is still to be sent. Nobody who is gone receives it.
    fn send_pending(&mut self) {
        if self.end_pending {
            let sent = self.channel().and_then(|channel| channel.send(Message::End, None));
            self.end_pending = sent == Err(Errno::EAGAIN);
        }
    }
}

impl KernelStream for P2pStream {
    fn rings(&mut self) -> Option<(Rings, Inboxes)> {
        self.known = true;
        let Body { inbox, outbox, one_gpu, .. } = self.body.as_ref()?;
        let (own, peer) = (inbox.inbox_page(), outbox.inbox_page());
        let inboxes = Inboxes { own, peer, one_gpu: *one_gpu };
        Some((Rings { receive: inbox.location(), send: outbox.location() }, inboxes))
    }

    fn receive_ending(&mut self) -> Result<PeerEnding, Errno> {
        self.send_pending();
        // What was sent before the end counts, and so all is received.
        if let Err(errno) = self.receive_all() {
            if let Some(Body { inbox, .. }) = &self.body {
                // Who has room in the ring sends without a look at what its proxy says.
                let _ = inbox.fail_head();
            }
            return Err(errno);
        }
        Ok(self.ending)
    }

    fn abandon(&mut self) {
        self.abandoned = true;
    }
}

impl Socket for P2pStream {
    fn transport(&self) -> Transport {
        Transport::P2p
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        match option {
            // Nothing is ever held back, nor does anybody die unnoticed.
            SocketOption::NoDelay | SocketOption::KeepAlive | SocketOption::QuickAck => {
                if value <= 1 { Ok(()) } else { Err(Errno::EINVAL) }
            }
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        match option {
            SocketOption::NoDelay => Ok(1),
            SocketOption::KeepAlive => Ok(0),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(self.names.own)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.body.as_ref().map(|body| body.channel.as_fd())
    }
}

impl Stream for P2pStream {
    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(self.names.peer)
    }

    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        if direction == Direction::Send {
            self.end_pending = true;
            self.send_pending();
        }
        Ok(())
    }

    fn leave(&mut self) -> bool {
        self.leaves = true;
        if self.abandoned {
            return true;
        }
        if !self.close_sent {
            let sent = self.channel().and_then(|channel| channel.send(Message::Close, None));
            self.close_sent = !matches!(sent, Err(Errno::EAGAIN));
        }
        self.close_sent
    }
}

impl Drop for P2pStream {
    fn drop(&mut self) {
        // Not closed in order: a proxy thread has panicked, and kernels run on.
        self.abandoned |= self.known && !self.leaves && !Moment::now().is_over();
        self.leave();
        let gone = self.abandoned || self.receive_all().is_err();
        let Some(Body { channel, inbox, outbox, .. }) = self.body.take() else { return };
        if self.abandoned {
            inbox.abandon();
            outbox.abandon();
        }
        let (close_sent, close_received) = (self.close_sent, self.ending.closed);
        if gone {
            // Where this side says nothing, the other one takes it for gone, and does the same.
            inbox.spoil();
        } else if !(close_sent && close_received) {
            let free = DeferredFree::new(channel, inbox, close_sent, close_received);
            self.p2p.defer_free(free);
        }
    }
}
