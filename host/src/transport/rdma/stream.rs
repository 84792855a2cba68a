//! An RDMA stream: rsocket-shim's, in the terms of [`Stream`].

use std::net::SocketAddr as IpSocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use rsocket_shim::stream::{Next, Request, State, Stream as Connection, StreamError};

use super::super::{
    DeviceStream, Direction, Placement, Rings, Socket, Stream, Transferred, Transport,
};
use super::options::RdmaOptions;
use super::prepared::Prepared;
use super::{Rdma, errno};

enum Link {
    /// A peer's request, which waits for rings.
    Requested(Prepared),
    Connection(Box<Connection>),
    /// It failed, and has nothing left.
    Gone,
}

/// See the module.
pub(super) struct RdmaStream {
    rdma: Arc<Rdma>,
    options: RdmaOptions,
    link: Link,
    placement: Placement,
    local: IpSocketAddr,
    peer: Option<IpSocketAddr>,
    /// What was reported to the proxy: bytes sent, bytes received, as positions.
    reported_sent: u64,
    reported_received: u64,
    offered: u64,
    /// The last time that the stream was moved on it was not done.
    busy: bool,
}

impl RdmaStream {
    fn new(
        rdma: Arc<Rdma>,
        options: RdmaOptions,
        link: Link,
        placement: Placement,
        (local, peer): (IpSocketAddr, Option<IpSocketAddr>),
    ) -> Self {
        Self {
            rdma,
            options,
            link,
            placement,
            local,
            peer,
            reported_sent: 0,
            reported_received: 0,
            offered: 0,
            busy: false,
        }
    }

    /// One that has begun to connect, with the addresses of both ends.
    pub(super) fn connecting(
        rdma: Arc<Rdma>,
        options: RdmaOptions,
        connection: Connection,
        placement: Placement,
        ends: (IpSocketAddr, Option<IpSocketAddr>),
    ) -> Self {
        let mut this = Self::new(rdma, options, Link::Gone, placement, ends);
        this.start(connection);
        this
    }

    /// One whose request is accepted when it has rings.
    pub(super) fn accepted(rdma: Arc<Rdma>, options: RdmaOptions, prepared: Prepared) -> Self {
        let (local, placement) = (prepared.local, prepared.placement);
        let peer = prepared.request.as_ref().and_then(Request::peer_address);
        Self::new(rdma, options, Link::Requested(prepared), placement, (local, peer))
    }

    /// Whether it is connected by now.
    pub(super) fn is_open(&mut self) -> Result<bool, Errno> {
        // One that is busy is open, and tried again.
        let (connection, progressed) = self.progress()?;
        let _ = progressed.map_err(errno)?;
        Ok(connection.state() == State::Open)
    }

    fn start(&mut self, connection: Connection) {
        self.reported_sent = connection.sent();
        self.offered = self.reported_sent;
        self.reported_received = connection.arrived();
        self.link = Link::Connection(Box::new(connection));
        if let Err(errno) = self.apply_keepalive() {
            tracing::warn!(%errno, "a stream goes without signs of life");
        }
    }

    fn apply_keepalive(&mut self) -> Result<(), Errno> {
        let every = self.options.keepalive();
        match &mut self.link {
            Link::Connection(connection) => connection.set_keepalive(every).map_err(errno),
            _ => Ok(()),
        }
    }

    fn connected(&self) -> Option<&Connection> {
        if let Link::Connection(connection) = &self.link { Some(connection) } else { None }
    }

    fn connection(&mut self) -> Result<&mut Connection, Errno> {
        match &mut self.link {
            Link::Connection(connection) => Ok(connection),
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// Moves the connection on, as far as it goes.
    fn progress(&mut self) -> Result<(&mut Connection, Result<Next, StreamError>), Errno> {
        let Link::Connection(connection) = &mut self.link else { return Err(Errno::ENOTCONN) };
        let progressed = connection.progress();
        self.busy = progressed == Ok(Next::Again);
        Ok((connection, progressed))
    }

    /// The same where bytes are all that is wanted: while they come, there is no system call. Only
    /// where none did is looked for all else, and only that look can say that one may wait.
    fn progress_unless(
        &mut self,
        has_progress: impl Fn(&Connection) -> bool,
    ) -> Result<(&mut Connection, Result<Next, StreamError>), Errno> {
        let Link::Connection(connection) = &mut self.link else { return Err(Errno::ENOTCONN) };
        let mut progressed = connection.flow();
        if !has_progress(connection) {
            progressed = connection.progress();
        }
        self.busy = progressed == Ok(Next::Again);
        Ok((connection, progressed))
    }
}

impl Socket for RdmaStream {
    fn transport(&self) -> Transport {
        Transport::Rdma(Some(self.placement))
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        self.options.set(option, value)?;
        match option {
            SocketOption::KeepAlive | SocketOption::KeepAliveIdle => self.apply_keepalive(),
            _ => Ok(()),
        }
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        self.options.get(option, Some(self.placement), self.rdma.placements)
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        let known = self.connected().and_then(Connection::local_address);
        Ok(self.options.name(known.unwrap_or(self.local)))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.connected().map(Connection::descriptor)
    }
}

impl Stream for RdmaStream {
    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        let known = self.connected().and_then(Connection::peer_address);
        known.or(self.peer).map(|ip| self.options.name(ip)).ok_or(Errno::ENOTCONN)
    }

    fn attach(&mut self, rings: &Rings) -> Result<(), Errno> {
        match std::mem::replace(&mut self.link, Link::Gone) {
            Link::Requested(mut prepared) => {
                prepared.attach(rings)?;
                let connection = prepared.accept()?;
                self.start(connection);
                Ok(())
            }
            other => {
                self.link = other;
                Err(Errno::EINVAL)
            }
        }
    }

    fn discard(&mut self) -> Result<Transferred, Errno> {
        let reported = self.reported_received;
        let (connection, progressed) = self.progress()?;
        let arrived = connection.arrived();
        let _ = connection.consumed(arrived);
        self.reported_received = arrived;
        match progressed {
            Err(error) => Err(errno(error)),
            Ok(_) if arrived != reported => Ok(Transferred::Bytes((arrived - reported) as usize)),
            Ok(Next::Again) => Ok(Transferred::Bytes(0)),
            Ok(Next::Wait) => Ok(Transferred::Later),
        }
    }

    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        let connection = self.connection()?;
        if direction == Direction::Send {
            connection.shutdown_send();
        }
        let (_, progressed) = self.progress()?;
        progressed.map(drop).map_err(errno)
    }

    fn leave(&mut self) -> bool {
        match &mut self.link {
            Link::Connection(connection) => connection.leave(),
            _ => true,
        }
    }
}

impl DeviceStream for RdmaStream {
    fn receive(&mut self, most: u64) -> Result<Transferred, Errno> {
        let reported = self.reported_received;
        let in_gpu_memory = self.placement != Placement::Bounce;
        let (connection, progressed) = self.progress_unless(|it| it.arrived() != reported)?;
        let new = connection.arrived() - reported;
        // The rest of what came before it failed is still for the kernel.
        match (new, progressed) {
            (0, Err(StreamError::Reset)) if connection.is_peer_done() => Ok(Transferred::End),
            (0, Err(error)) => Err(errno(error)),
            (0, Ok(_)) if connection.is_peer_done() => Ok(Transferred::End),
            (0, Ok(Next::Again)) => Ok(Transferred::Bytes(0)),
            (0, Ok(Next::Wait)) => Ok(Transferred::Later),
            (new, _) => {
                let bytes = new.min(most);
                if in_gpu_memory {
                    self.rdma.flush()?;
                }
                self.reported_received += bytes;
                Ok(Transferred::Bytes(bytes as usize))
            }
        }
    }

    fn send(&mut self, most: u64) -> Result<Transferred, Errno> {
        let reported = self.reported_sent;
        // From where the last report ended; what is under way may reach further.
        let tail = self.offered.max(reported + most);
        self.offered = tail;
        self.connection()?.offer(tail).map_err(errno)?;
        // Not only for bytes: nobody receives any more where the peer has ended its stream.
        let (connection, progressed) = self.progress_unless(|it| it.sent() != reported)?;
        match (connection.sent() - reported, progressed) {
            (0, Ok(_)) => Ok(Transferred::Later),
            (0, Err(error)) => Err(errno(error)),
            (bytes, _) => {
                let bytes = bytes.min(most);
                self.reported_sent += bytes;
                Ok(Transferred::Bytes(bytes as usize))
            }
        }
    }

    fn peek(&mut self) -> Result<Transferred, Errno> {
        let reported = self.reported_received;
        let (connection, progressed) = self.progress()?;
        match progressed {
            _ if connection.arrived() != reported => Ok(Transferred::Bytes(1)),
            Err(error) if error != StreamError::Reset || !connection.is_peer_done() => {
                Err(errno(error))
            }
            _ if connection.is_peer_done() => Ok(Transferred::End),
            Ok(Next::Again) => Ok(Transferred::Bytes(0)),
            _ => Ok(Transferred::Later),
        }
    }

    fn untaken(&self) -> u64 {
        self.offered - self.reported_sent
    }

    fn wants_head(&self) -> bool {
        self.connected().is_some_and(Connection::wants_head)
    }

    fn consumed(&mut self, head: u64) {
        if let Link::Connection(connection) = &mut self.link {
            // What the proxy has checked is never refused.
            let _ = connection.consumed(head);
        }
    }

    fn has_progress(&self, of: Direction) -> bool {
        let Some(connection) = self.connected() else { return false };
        let of_it = match of {
            Direction::Send => connection.sent() != self.reported_sent,
            Direction::Receive => {
                let ended = connection.is_peer_done() || connection.has_failed();
                ended || connection.arrived() != self.reported_received
            }
        };
        self.busy || of_it
    }
}

impl Drop for RdmaStream {
    fn drop(&mut self) {
        if let Link::Connection(mut connection) = std::mem::replace(&mut self.link, Link::Gone) {
            // From here on no device reaches the rings, which others may get. That they are
            // registered ends when the system has the time for it.
            connection.destroy_queue_pair();
            self.rdma.releaser.release(connection);
        }
    }
}
