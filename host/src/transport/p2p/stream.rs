//! A p2p stream as its proxy has it: the control channel to the other end's proxy. Bytes and counters go
//! from kernel to kernel; the proxies report to each other how it ends, and how far it is where a poller
//! wants it.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use gpunet_device::SocketAddr;
use gpunet_device::abi::bits::Progress;
use gpunet_device::abi::descriptor::Inboxes;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;

use super::super::{Direction, KernelStream, PeerProgress, Rings, Socket, Stream, Transport};
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
    progress: PeerProgress,
    /// How often the inbox was read since watching began, and what the other end's kernel had sent then.
    read: (u8, Progress),
    /// What was last reported to the other end, and whether it wants reports.
    reported: (u64, u64),
    peer_watches: bool,
    /// What is still to be sent.
    watch_pending: bool,
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
        let base = body.inbox.location().base;
        Self {
            p2p,
            names,
            progress: PeerProgress {
                sent: base,
                received: base,
                ended: false,
                closed: false,
                more: false,
            },
            read: (0, Progress(0)),
            reported: (base, base),
            peer_watches: false,
            watch_pending: false,
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
        self.progress.more = false;
        for _ in 0..A_TURN {
            match self.channel()?.receive()? {
                Received::Nothing => return Ok(()),
                Received::Closed if self.progress.closed => return Ok(()),
                // A process that ends in order says so first.
                Received::Closed => return Err(Errno::ECONNRESET),
                Received::Message(Message::End, _) => self.progress.ended = true,
                Received::Message(Message::Close, _) => {
                    (self.progress.ended, self.progress.closed) = (true, true);
                }
                Received::Message(Message::Watch, _) => self.peer_watches = true,
                Received::Message(Message::Counts { tail, head }, _) => {
                    self.progress.sent = self.progress.sent.max(tail);
                    self.progress.received = self.progress.received.max(head);
                }
                Received::Message(..) => return Err(Errno::EPROTO),
            }
        }
        self.progress.more = true;
        Ok(())
    }

    /// Sends what is still to be sent. Nobody who is gone receives it.
    fn send_pending(&mut self) {
        let send = |this: &Self, message| {
            let sent = this.channel().and_then(|channel| channel.send(message, None));
            !matches!(sent, Err(Errno::EAGAIN))
        };
        if self.watch_pending && send(self, Message::Watch) {
            self.watch_pending = false;
        }
        if self.end_pending && send(self, Message::End) {
            self.end_pending = false;
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

    fn receive_progress(&mut self) -> Result<PeerProgress, Errno> {
        self.send_pending();
        // What was sent before the end counts, and so all is received.
        if let Err(errno) = self.receive_all() {
            if let Some(Body { inbox, .. }) = &self.body {
                // Who has room in the ring sends without a look at what its proxy says.
                let _ = inbox.fail_head();
            }
            return Err(errno);
        }
        Ok(self.progress)
    }

    fn report_progress(&mut self, tail: u64, head: u64) {
        if !self.peer_watches || self.reported == (tail, head) {
            return;
        }
        let sent =
            self.channel().and_then(|channel| channel.send(Message::Counts { tail, head }, None));
        if !matches!(sent, Err(Errno::EAGAIN)) {
            self.reported = (tail, head);
        }
    }

    fn is_watched(&self) -> bool {
        self.peer_watches
    }

    fn watch(&mut self) {
        self.watch_pending = true;
        if let Some(Body { inbox, outbox, .. }) = &self.body
            && inbox.is_watched() != Ok(true)
        {
            // The kernel could not say so: it was not connected when it asked. Where the driver
            // refuses, it has said why.
            let _ = inbox.set_watched().and_then(|()| outbox.set_watched());
        }
        self.read.0 = 0;
        self.read_progress();
        self.send_pending();
    }

    fn abandon(&mut self) {
        self.abandoned = true;
    }

    fn read_progress(&mut self) -> bool {
        let Some(Ok([sent, received])) = self.body.as_ref().map(|body| body.inbox.progress())
        else {
            return false;
        };
        self.progress.received = self.progress.received.max(received.count());
        // A packet is announced before it has come as a whole: a kernel that is notified too early finds
        // nothing, and is not notified again when the other end's report brings nothing new. Who watches from
        // now on is notified in any case later, too. After that a packet counts when it is found a second time;
        // another one was then sent by a kernel that has long known that it is to report.
        let (reads, before) = self.read;
        self.read = (reads.saturating_add(1), sent);
        let has_come = !sent.is_packet() || reads == 0 || before == sent;
        if has_come {
            self.progress.sent = self.progress.sent.max(sent.count());
        }
        !has_come && reads == 1
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
        let (close_sent, close_received) = (self.close_sent, self.progress.closed);
        if gone {
            // Where this side says nothing, the other one takes it for gone, and does the same.
            inbox.spoil();
        } else if !(close_sent && close_received) {
            let free = DeferredFree::new(channel, inbox, close_sent, close_received);
            self.p2p.defer_free(free);
        }
    }
}
