//! An RDMA stream or listener in the terms of [`Socket`].

use std::net::SocketAddr as IpSocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};
use rsocket_shim::protocol::Settings;
use rsocket_shim::stream::{Buffers, Listener, Next, Request, State, Stream, StreamError};
use rsocket_shim::verbs::Domain as Protection;

use super::super::{
    Direction, Moved, Placement, Placements, RingRegion, Rings, Socket, TransportChoice,
    any_address,
};
use super::adapter::Adapter;
use super::{Rdma, errno};
use crate::memory::Window;

/// How often a peer is asked for a sign of life unless told otherwise, as TCP does.
const KEEPALIVE: Duration = Duration::from_secs(7200);
/// The longest time between two, in seconds, as TCP has it.
const MOST_IDLE: u64 = 32767;

/// What it is by now.
enum Kind {
    Fresh,
    /// Its way is known, and its rings may come: a peer's request, or our own wish to connect.
    Prepared(Prepared),
    Stream(Box<Stream>),
    Listener(Listener, Option<Prepared>),
    /// It failed, and has nothing left.
    Gone,
}

/// A connection that has a device and lacks rings.
struct Prepared {
    adapter: Arc<Adapter>,
    local: IpSocketAddr,
    placement: Placement,
    request: Option<Request>,
    rings: Option<(Protection, Buffers)>,
}

/// A socket that travels by RDMA.
pub(in super::super) struct RdmaSocket {
    rdma: Arc<Rdma>,
    domain: Domain,
    kind: Kind,
    bound: Option<IpSocketAddr>,
    /// Whether a listener at any address of IPv6 takes peers of that family alone.
    v6_only: bool,
    /// Where its rings may lie, where that is not the net's wish; and where they do.
    placements: Option<Placements>,
    placement: Option<Placement>,
    /// What the proxy has been told: bytes sent, bytes received, as positions.
    told_sent: u64,
    told_received: u64,
    offered: u64,
    /// The last time that the stream was moved on it was not done.
    busy: bool,
    /// Whether the peer is asked for a sign of life, and how often.
    keepalive: bool,
    keepalive_every: Duration,
    peer: Option<IpSocketAddr>,
}

impl RdmaSocket {
    pub(in super::super) fn new(
        rdma: Arc<Rdma>,
        domain: Domain,
        bound: Option<IpSocketAddr>,
        placements: Option<Placements>,
    ) -> Self {
        Self {
            rdma,
            domain,
            kind: Kind::Fresh,
            bound,
            v6_only: false,
            placements,
            placement: None,
            told_sent: 0,
            told_received: 0,
            offered: 0,
            busy: false,
            keepalive: false,
            keepalive_every: KEEPALIVE,
            peer: None,
        }
    }

    fn ip(&self, address: &SocketAddr) -> Result<IpSocketAddr, Errno> {
        match address.to_ip() {
            Some(ip) if address.domain() == Some(self.domain) => Ok(ip),
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    fn prepare(&self, adapter: Arc<Adapter>, local: IpSocketAddr) -> Result<Prepared, Errno> {
        let allowed = self.rdma.allowed(self.placements);
        let placement = adapter.placement(allowed).ok_or_else(|| {
            tracing::warn!("no placement that is allowed works with this RDMA device");
            Errno::ENOBUFS
        })?;
        Ok(Prepared { adapter, local, placement, request: None, rings: None })
    }

    /// The listener's next request, with its way. After an error there may be more.
    fn next_request(&self, listener: &Listener) -> Result<Option<Prepared>, Errno> {
        let Some(request) = listener.next().map_err(|error| errno(&error))? else {
            return Ok(None);
        };
        // Its device may not be for us: then it is rejected, and others wait behind it.
        let (adapter, local) = self.rdma.adapter_of(&request).map_err(|error| {
            tracing::warn!(%error, "a peer's request is rejected");
            Errno::EAGAIN
        })?;
        let mut prepared = self.prepare(adapter, local)?;
        prepared.request = Some(request);
        Ok(Some(prepared))
    }

    fn stream(&mut self) -> Result<&mut Stream, Errno> {
        match &mut self.kind {
            Kind::Stream(stream) => Ok(stream),
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// Moves the stream on, as far as it goes.
    fn progress(&mut self) -> Result<(&mut Stream, Result<Next, StreamError>), Errno> {
        let Kind::Stream(stream) = &mut self.kind else { return Err(Errno::ENOTCONN) };
        let progressed = stream.progress();
        self.busy = progressed == Ok(Next::Again);
        Ok((stream, progressed))
    }

    /// The same where bytes are all that is wanted: while they come, there is no system call. Only
    /// where none did is looked for all else, and only that look can say that one may wait.
    fn progress_unless(
        &mut self,
        moved: impl Fn(&Stream) -> bool,
    ) -> Result<(&mut Stream, Result<Next, StreamError>), Errno> {
        let Kind::Stream(stream) = &mut self.kind else { return Err(Errno::ENOTCONN) };
        let mut progressed = stream.flow();
        if !moved(stream) {
            progressed = stream.progress();
        }
        self.busy = progressed == Ok(Next::Again);
        Ok((stream, progressed))
    }

    fn start(&mut self, stream: Stream) {
        self.told_sent = stream.sent();
        self.offered = self.told_sent;
        self.told_received = stream.arrived();
        self.kind = Kind::Stream(Box::new(stream));
        if let Err(errno) = self.apply_keepalive() {
            tracing::warn!(%errno, "a stream goes without signs of life");
        }
    }

    fn apply_keepalive(&mut self) -> Result<(), Errno> {
        let every = self.keepalive.then_some(self.keepalive_every);
        match &mut self.kind {
            Kind::Stream(stream) => stream.set_keepalive(every).map_err(|error| errno(&error)),
            _ => Ok(()),
        }
    }
}

impl Prepared {
    fn region(&self) -> RingRegion {
        match self.placement {
            Placement::Bounce => RingRegion::Host,
            _ => RingRegion::Gpu,
        }
    }

    fn register(&self, rings: &Rings) -> Result<(Protection, Buffers), Errno> {
        self.adapter.register(self.placement, rings).map_err(|error| {
            tracing::warn!(%error, "a stream gets no rings");
            Errno(error.errno())
        })
    }
}

impl Socket for RdmaSocket {
    fn transport(&self) -> &'static str {
        match self.placement {
            Some(Placement::DmaBuf) => "rdma (dma-buf)",
            Some(Placement::PeerMemory) => "rdma (peer memory)",
            Some(Placement::Bounce) => "rdma (bounce)",
            None => "rdma",
        }
    }

    fn domain(&self) -> Domain {
        self.domain
    }

    fn bind(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        let Kind::Fresh = self.kind else { return Err(Errno::EINVAL) };
        let local = self.ip(address)?;
        // Held from now on, as a socket's address is.
        let libraries = self.rdma.libraries;
        let listener = match local {
            IpSocketAddr::V4(_) => Listener::bind(libraries, local),
            IpSocketAddr::V6(v6) => Listener::bind_v6(libraries, v6, self.v6_only),
        };
        let listener = listener.map_err(|error| errno(&error))?;
        self.bound = listener.local_address().or(Some(local));
        self.kind = Kind::Listener(listener, None);
        Ok(())
    }

    fn listen(&mut self, backlog: u32) -> Result<(), Errno> {
        if let Kind::Fresh = self.kind {
            let local = self.bound.map_or_else(|| any_address(self.domain), |at| Ok(at.into()));
            self.bind(&local?)?;
        }
        match &self.kind {
            Kind::Listener(listener, _) => listener.listen(backlog).map_err(|error| errno(&error)),
            _ => Err(Errno::EINVAL),
        }
    }

    fn region(&mut self, peer: Option<&SocketAddr>) -> Result<RingRegion, Errno> {
        if let Some(peer) = peer {
            let peer = self.ip(peer)?;
            let (adapter, local) =
                self.rdma.way_to(self.bound, peer).map_err(|error| errno(&error))?;
            let prepared = self.prepare(adapter, local)?;
            let region = prepared.region();
            self.kind = Kind::Prepared(prepared);
            return Ok(region);
        }
        let waiting = match &self.kind {
            Kind::Listener(listener, None) => self.next_request(listener)?,
            _ => None,
        };
        match &mut self.kind {
            Kind::Listener(_, slot) => {
                if waiting.is_some() {
                    *slot = waiting;
                }
                Ok(slot.as_ref().map_or(RingRegion::Host, Prepared::region))
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn attach(&mut self, rings: &Rings) -> Result<(), Errno> {
        let Kind::Prepared(prepared) = &mut self.kind else { return Err(Errno::EINVAL) };
        let (domain, buffers) = prepared.register(rings)?;
        self.placement = Some(prepared.placement);
        let Some(request) = prepared.request.take() else {
            prepared.rings = Some((domain, buffers));
            return Ok(());
        };
        self.kind = Kind::Gone;
        let stream = Stream::accept(request, &domain, buffers, Settings::default())
            .map_err(|error| errno(&error))?;
        self.start(stream);
        Ok(())
    }

    fn connect(&mut self, address: &SocketAddr) -> Result<bool, Errno> {
        let peer = self.ip(address)?;
        let Kind::Prepared(prepared) = &mut self.kind else { return Err(Errno::EINVAL) };
        let (domain, buffers) = prepared.rings.take().ok_or(Errno::ENOBUFS)?;
        let local = prepared.local;
        self.kind = Kind::Gone;
        let stream = Stream::connect(&domain, Some(local), peer, buffers, Settings::default())
            .map_err(|error| errno(&error))?;
        self.peer = Some(peer);
        self.start(stream);
        Ok(false)
    }

    fn finish_connect(&mut self) -> Result<bool, Errno> {
        // One that is busy is open, and tried again.
        let (stream, progressed) = self.progress()?;
        let _ = progressed.map_err(|error| errno(&error))?;
        Ok(stream.state() == State::Open)
    }

    fn accept(&mut self) -> Result<Option<Box<dyn Socket>>, Errno> {
        let Kind::Listener(_, slot) = &mut self.kind else { return Err(Errno::EINVAL) };
        let Some(prepared) = slot.take() else { return Ok(None) };
        let (rdma, local) = (Arc::clone(&self.rdma), Some(prepared.local));
        let mut accepted = Self::new(rdma, self.domain, local, self.placements);
        accepted.peer = prepared.request.as_ref().and_then(Request::peer_address);
        accepted.keepalive = self.keepalive;
        accepted.keepalive_every = self.keepalive_every;
        accepted.kind = Kind::Prepared(prepared);
        Ok(Some(Box::new(accepted)))
    }

    fn places_bytes(&self) -> bool {
        true
    }

    fn wants_head(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if stream.wants_head())
    }

    fn consumed(&mut self, head: u64) {
        if let Kind::Stream(stream) = &mut self.kind {
            // What the proxy has checked is never refused.
            let _ = stream.consumed(head);
        }
    }

    fn has_news(&self, of: Direction) -> bool {
        let Kind::Stream(stream) = &self.kind else { return false };
        let of_it = match of {
            Direction::Send => stream.sent() != self.told_sent,
            Direction::Receive => {
                let ended = stream.is_peer_done() || stream.has_failed();
                ended || stream.arrived() != self.told_received
            }
        };
        self.busy || of_it
    }

    fn receive(&mut self, window: &Window) -> Result<Moved, Errno> {
        let told = self.told_received;
        let in_gpu_memory = self.placement.is_some_and(|placement| placement != Placement::Bounce);
        let (stream, progressed) = self.progress_unless(|stream| stream.arrived() != told)?;
        let new = stream.arrived() - told;
        // The rest of what came before it failed is still for the kernel.
        match (new, progressed) {
            (0, Err(StreamError::Reset)) if stream.is_peer_done() => Ok(Moved::End),
            (0, Err(error)) => Err(errno(&error)),
            (0, Ok(_)) if stream.is_peer_done() => Ok(Moved::End),
            (0, Ok(Next::Again)) => Ok(Moved::Bytes(0)),
            (0, Ok(Next::Wait)) => Ok(Moved::Later),
            (new, _) => {
                let bytes = new.min(window.len() as u64);
                if in_gpu_memory {
                    self.rdma.flush()?;
                }
                self.told_received += bytes;
                Ok(Moved::Bytes(bytes as usize))
            }
        }
    }

    fn peek(&mut self) -> Result<Moved, Errno> {
        let told = self.told_received;
        let (stream, progressed) = self.progress()?;
        match progressed {
            _ if stream.arrived() != told => Ok(Moved::Bytes(1)),
            Err(error) if error != StreamError::Reset || !stream.is_peer_done() => {
                Err(errno(&error))
            }
            _ if stream.is_peer_done() => Ok(Moved::End),
            Ok(Next::Again) => Ok(Moved::Bytes(0)),
            _ => Ok(Moved::Later),
        }
    }

    fn untaken(&self) -> u64 {
        self.offered - self.told_sent
    }

    fn send(&mut self, window: &Window) -> Result<Moved, Errno> {
        let told = self.told_sent;
        // The window begins behind what was told; what is under way may reach beyond a smaller one.
        let tail = self.offered.max(told + window.len() as u64);
        self.offered = tail;
        self.stream()?.offer(tail).map_err(|error| errno(&error))?;
        // Not only for bytes: nobody receives any more where the peer has ended its stream.
        let (stream, progressed) = self.progress_unless(|stream| stream.sent() != told)?;
        match (stream.sent() - told, progressed) {
            (0, Ok(_)) => Ok(Moved::Later),
            (0, Err(error)) => Err(errno(&error)),
            (bytes, _) => {
                let bytes = bytes.min(window.len() as u64);
                self.told_sent += bytes;
                Ok(Moved::Bytes(bytes as usize))
            }
        }
    }

    fn discard(&mut self) -> Result<Moved, Errno> {
        let told = self.told_received;
        let (stream, progressed) = self.progress()?;
        let arrived = stream.arrived();
        let _ = stream.consumed(arrived);
        self.told_received = arrived;
        match progressed {
            Err(error) => Err(errno(&error)),
            Ok(_) if arrived != told => Ok(Moved::Bytes((arrived - told) as usize)),
            Ok(Next::Again) => Ok(Moved::Bytes(0)),
            Ok(Next::Wait) => Ok(Moved::Later),
        }
    }

    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        if let Kind::Listener(..) = self.kind {
            self.kind = Kind::Gone;
            return Ok(());
        }
        let stream = self.stream()?;
        if direction == Direction::Send {
            stream.shutdown_send();
        }
        let (_, progressed) = self.progress()?;
        progressed.map(drop).map_err(|error| errno(&error))
    }

    fn leave(&mut self) -> bool {
        match &mut self.kind {
            Kind::Stream(stream) => stream.leave(),
            _ => true,
        }
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        match option {
            // Nothing is ever held back, nor an address kept.
            SocketOption::NoDelay | SocketOption::ReuseAddress if value <= 1 => Ok(()),
            SocketOption::V6Only if value <= 1 && self.domain == Domain::V6 => {
                let Kind::Fresh = self.kind else { return Err(Errno::EINVAL) };
                self.v6_only = value == 1;
                Ok(())
            }
            SocketOption::Placement => {
                let placements = Placements::from_number(value).ok_or(Errno::EINVAL)?;
                if matches!(self.kind, Kind::Stream(_)) {
                    return Err(Errno::EISCONN);
                }
                self.placements = Some(placements);
                Ok(())
            }
            SocketOption::KeepAlive if value <= 1 => {
                self.keepalive = value == 1;
                self.apply_keepalive()
            }
            SocketOption::KeepAliveIdle if (1..=MOST_IDLE).contains(&value) => {
                self.keepalive_every = Duration::from_secs(value);
                self.apply_keepalive()
            }
            SocketOption::NoDelay
            | SocketOption::ReuseAddress
            | SocketOption::KeepAlive
            | SocketOption::KeepAliveIdle => Err(Errno::EINVAL),
            // How often is tried again, and for how long, is the device's own.
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        match option {
            SocketOption::NoDelay | SocketOption::ReuseAddress => Ok(1),
            SocketOption::V6Only if self.domain == Domain::V6 => Ok(self.v6_only.into()),
            SocketOption::Transport => Ok(TransportChoice::Rdma as u64),
            SocketOption::KeepAlive => Ok(self.keepalive.into()),
            SocketOption::KeepAliveIdle => Ok(self.keepalive_every.as_secs()),
            SocketOption::Placement => Ok(match self.placement {
                Some(placement) => placement as u64,
                None => self.placements.unwrap_or(self.rdma.placements).number(),
            }),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        let known = match &self.kind {
            Kind::Stream(stream) => stream.local_address(),
            Kind::Listener(listener, _) => listener.local_address(),
            _ => None,
        };
        let known = known.or(self.bound);
        known.map_or_else(|| any_address(self.domain), |ip| Ok(name(self.domain, ip)))
    }

    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        let known = match &self.kind {
            Kind::Stream(stream) => stream.peer_address(),
            _ => None,
        };
        known.or(self.peer).map(|ip| name(self.domain, ip)).ok_or(Errno::ENOTCONN)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Stream(stream) => Some(stream.descriptor()),
            Kind::Listener(listener, _) => Some(listener.descriptor()),
            _ => None,
        }
    }

    fn into_descriptor(self: Box<Self>) -> Option<OwnedFd> {
        None
    }
}

/// An address as sockets of a domain have it: at a listener of IPv6, that of a peer of IPv4 is mapped.
fn name(domain: Domain, ip: IpSocketAddr) -> SocketAddr {
    match ip {
        IpSocketAddr::V4(v4) if domain == Domain::V6 => {
            IpSocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()).into()
        }
        ip => ip.into(),
    }
}
