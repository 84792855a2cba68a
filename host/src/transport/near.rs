//! Sockets of a net that has direct streams: to a listener of this machine and this user they are
//! tried first, and what else the socket can be comes second. A listener takes both.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};

use super::local::{DirectStream, Listening, Local, Meeting, Names, Progressed};
use super::patience::{Patience, also, either, no_more};
use super::{Direct, Direction, Moved, RingRegion, Rings, Socket, TransportChoice, any_address};
use crate::memory::Window;

/// How long the other end's proxy may take to answer: it does so at once if it is well.
const PATIENCE: Duration = Duration::from_secs(5);
/// Meetings that a listener has under way. More wait in its queue ...
const MOST_MEETINGS: usize = 256;
/// ... until the oldest has taken so long, and has to go.
const PROMPT: Duration = Duration::from_millis(250);
/// Calls that a listener takes in one turn.
const CALLS: usize = 32;

/// What it has become.
enum Way {
    /// Nothing yet.
    Open,
    /// The other end is asked.
    Calling {
        meeting: Option<Box<Meeting>>,
        patience: Patience,
    },
    /// Its listener has had too many calls since then: ask again.
    Waiting {
        since: Instant,
    },
    /// It is not to be: the far way is to be begun.
    Refused,
    Direct(Box<DirectStream>),
    /// A listener of both ways, with a descriptor for all that may happen to it.
    Both(Box<Both>),
    /// Whatever the far socket is.
    Far,
}

/// A listener's near side.
struct Both {
    listening: Listening,
    meetings: Vec<(Box<Meeting>, Instant)>,
    next: Option<Box<DirectStream>>,
    /// Calls wait that could not be taken, and of which no edge will tell.
    more: bool,
    either: OwnedFd,
}

impl Both {
    /// Goes on with the meetings, until one has become a stream.
    fn turn_all(&mut self) {
        for (meeting, begun) in std::mem::take(&mut self.meetings) {
            self.turn_one(meeting, begun);
        }
    }

    fn turn_one(&mut self, meeting: Box<Meeting>, begun: Instant) {
        if self.next.is_some() {
            return self.meetings.push((meeting, begun));
        }
        match meeting.turn() {
            Ok(Progressed::Later(meeting)) if begun.elapsed() < PATIENCE => {
                self.meetings.push((meeting, begun));
            }
            Ok(Progressed::Later(_)) => {}
            Ok(Progressed::Done(stream)) => {
                if let Some(descriptor) = stream.descriptor() {
                    no_more(&self.either, descriptor);
                }
                self.next = Some(stream);
            }
            Err(errno) => tracing::info!(%errno, "a direct stream did not come about"),
        }
    }

    /// Whether there is room for one more meeting.
    fn has_room(&mut self) -> bool {
        if self.meetings.len() < MOST_MEETINGS {
            return true;
        }
        let slow = self.meetings.first().is_some_and(|(_, begun)| begun.elapsed() >= PROMPT);
        if slow {
            self.meetings.remove(0);
        }
        slow
    }
}

/// A socket that may be a direct stream.
pub(super) struct NearSocket {
    local: Arc<Local>,
    far: Box<dyn Socket>,
    choice: TransportChoice,
    way: Way,
    bound: bool,
    /// Capacities of the rings: its own, and the other end's.
    wishes: (u32, u32),
    peer: SocketAddr,
    moved: bool,
}

impl NearSocket {
    pub(super) fn new(local: Arc<Local>, far: Box<dyn Socket>, choice: TransportChoice) -> Self {
        let near = matches!(choice, TransportChoice::Auto | TransportChoice::Local);
        let way = if near { Way::Open } else { Way::Far };
        let peer = SocketAddr::NONE;
        Self { local, far, choice, way, bound: false, wishes: (0, 0), peer, moved: false }
    }

    fn is_local(&self) -> bool {
        self.choice == TransportChoice::Local
    }

    /// Asks the listener at an address. False: there is none.
    fn call(&mut self, peer: &SocketAddr) -> Result<bool, Errno> {
        if peer.domain() != Some(self.far.domain()) {
            return Ok(false);
        }
        let Some(talk) = self.local.registry.call(peer)? else { return Ok(false) };
        if let (Some(mut ip), false) = (peer.to_ip(), self.bound) {
            // So that it has a name of its own. A link's own address keeps its scope.
            ip.set_port(0);
            self.far.bind(&ip.into())?;
            self.bound = true;
        }
        let own = self.far.local_addr()?;
        let names = Names { domain: self.far.domain(), own, peer: *peer };
        let meeting = Meeting::call(Arc::clone(&self.local), talk, names, self.wishes)?;
        let patience = Patience::new(Some(meeting.as_fd()), PATIENCE)?;
        self.way = Way::Calling { meeting: Some(meeting), patience };
        Ok(true)
    }

    /// Why nobody is there.
    fn nobody_at(&self, peer: &SocketAddr) -> Errno {
        match peer.domain() == Some(self.far.domain()) {
            true => super::local::nobody_at(peer),
            false => Errno::EAFNOSUPPORT,
        }
    }

    /// What becomes of a call that failed.
    fn give_up(&mut self, errno: Errno) -> Result<bool, Errno> {
        if self.is_local() {
            self.way = Way::Open;
            return Err(errno);
        }
        let transport = self.far.transport();
        tracing::info!(peer = %self.peer, %errno, "no direct stream to that peer: {transport}");
        self.way = Way::Refused;
        Ok(false)
    }

    /// Goes on with the meetings of a listener, until one has become a stream.
    fn meet(&mut self) -> Result<(), Errno> {
        let (local, wishes, domain) = (Arc::clone(&self.local), self.wishes, self.far.domain());
        let own = self.far.local_addr()?;
        let Way::Both(both) = &mut self.way else { return Ok(()) };
        if both.next.is_some() {
            return Ok(());
        }
        // Those that wait first: they need no descriptors, and give some back.
        both.turn_all();
        both.more = true;
        for _ in 0..CALLS {
            if both.next.is_some() || !both.has_room() {
                return Ok(());
            }
            let Some(talk) = both.listening.next()? else {
                both.more = false;
                return Ok(());
            };
            let names = Names { domain, own, peer: SocketAddr::NONE };
            match Meeting::answer(Arc::clone(&local), talk, names, wishes) {
                Ok(meeting) => {
                    also(&both.either, meeting.as_fd())?;
                    both.turn_one(meeting, Instant::now());
                }
                Err(errno) => tracing::warn!(%errno, "a direct stream was refused"),
            }
        }
        Ok(())
    }

    fn now(&self) -> &dyn Socket {
        match &self.way {
            Way::Direct(stream) => stream.as_ref(),
            _ => self.far.as_ref(),
        }
    }

    fn now_mut(&mut self) -> &mut dyn Socket {
        match &mut self.way {
            Way::Direct(stream) => stream.as_mut(),
            _ => self.far.as_mut(),
        }
    }
}

impl Socket for NearSocket {
    fn transport(&self) -> &'static str {
        match (&self.way, self.far.transport()) {
            (Way::Both(_) | Way::Calling { .. }, _) if self.is_local() => "local",
            (Way::Both(_), "tcp4") => "tcp4 and local",
            (Way::Both(_), "tcp6") => "tcp6 and local",
            (Way::Both(_), "unix") => "unix and local",
            (Way::Both(_), "tcp and rdma") => "tcp, rdma and local",
            _ => self.now().transport(),
        }
    }

    fn domain(&self) -> Domain {
        self.far.domain()
    }

    fn wish(&mut self, receive_ring: u32, send_ring: u32) {
        self.wishes = (receive_ring, send_ring);
    }

    fn bind(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        if self.is_local() && address.to_ip().is_some() {
            // The system's socket holds the port and never listens: with this option, others could
            // listen there.
            self.far.set_option(SocketOption::ReuseAddress, 0)?;
        }
        self.far.bind(address)?;
        self.bound = true;
        Ok(())
    }

    fn listen(&mut self, backlog: u32) -> Result<(), Errno> {
        let Way::Open = self.way else { return self.far.listen(backlog) };
        if !self.is_local() {
            self.far.listen(backlog)?;
        } else if !self.bound {
            // The system's socket holds the port, and nobody is accepted there.
            self.bind(&any_address(self.far.domain())?)?;
        }
        let address = self.far.local_addr()?;
        let v6_only = self.far.option(SocketOption::V6Only).is_ok_and(|only| only != 0);
        match self.local.registry.listen(&address, v6_only) {
            Ok(listening) => {
                let far = if self.is_local() { None } else { self.far.descriptor() };
                let either = either([far, Some(listening.as_fd())])?;
                let meetings = Vec::new();
                let both = Both { listening, meetings, next: None, more: false, either };
                self.way = Way::Both(Box::new(both));
            }
            Err(errno) if self.is_local() => return Err(errno),
            Err(errno) => {
                tracing::info!(%address, %errno, "no direct streams there");
                self.way = Way::Far;
            }
        }
        Ok(())
    }

    fn region(&mut self, peer: Option<&SocketAddr>) -> Result<RingRegion, Errno> {
        let Some(peer) = peer else {
            match self.meet() {
                // Tried again a little later: no edge will come for who waits already.
                Err(errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)) => {
                    return Err(errno);
                }
                Err(errno) => tracing::warn!(%errno, "direct streams cannot be accepted now"),
                Ok(()) => {}
            }
            return match &self.way {
                Way::Both(both) if both.next.is_some() || self.is_local() => Ok(RingRegion::Window),
                _ => self.far.region(None),
            };
        };
        self.peer = *peer;
        match self.way {
            Way::Open | Way::Waiting { .. } | Way::Calling { .. } => match self.call(peer) {
                Ok(true) => return Ok(RingRegion::Window),
                Err(Errno::EAGAIN) => {
                    let since = match self.way {
                        Way::Waiting { since } => since,
                        _ => Instant::now(),
                    };
                    self.way = Way::Waiting { since };
                    return Ok(RingRegion::Window);
                }
                Ok(false) if self.is_local() => return Err(self.nobody_at(peer)),
                Err(errno) if self.is_local() => return Err(errno),
                Ok(false) => {}
                Err(errno) => tracing::info!(%peer, %errno, "no direct stream to that peer"),
            },
            Way::Refused | Way::Far => {}
            _ => return Err(Errno::EINVAL),
        }
        self.way = Way::Far;
        self.far.region(Some(peer))
    }

    fn attach(&mut self, rings: &Rings) -> Result<(), Errno> {
        match self.way {
            Way::Far => self.far.attach(rings),
            _ => Ok(()),
        }
    }

    fn connect(&mut self, address: &SocketAddr) -> Result<bool, Errno> {
        match self.way {
            Way::Calling { .. } => Ok(false),
            Way::Waiting { since } => match self.call(address) {
                Ok(true) => {
                    // What is waited on until now is the far socket.
                    self.moved = true;
                    Ok(false)
                }
                Ok(false) => self.give_up(Errno::ECONNREFUSED),
                Err(Errno::EAGAIN) if since.elapsed() < PATIENCE => Err(Errno::EAGAIN),
                Err(Errno::EAGAIN) => self.give_up(Errno::ETIMEDOUT),
                Err(errno) => self.give_up(errno),
            },
            _ => self.now_mut().connect(address),
        }
    }

    fn finish_connect(&mut self) -> Result<bool, Errno> {
        let Way::Calling { meeting, patience } = &mut self.way else {
            return match self.way {
                Way::Refused | Way::Waiting { .. } => Ok(false),
                _ => self.now_mut().finish_connect(),
            };
        };
        let over = patience.is_over();
        let Some(now) = meeting.take() else { return Err(Errno::EINVAL) };
        match now.turn() {
            Ok(Progressed::Later(_)) if over => self.give_up(Errno::ETIMEDOUT),
            Ok(Progressed::Later(later)) => {
                *meeting = Some(later);
                Ok(false)
            }
            Ok(Progressed::Done(stream)) => {
                // The timer watches no more.
                self.moved = true;
                self.way = Way::Direct(stream);
                Ok(true)
            }
            Err(errno) => self.give_up(errno),
        }
    }

    fn starts_anew(&mut self) -> Option<SocketAddr> {
        match self.way {
            Way::Refused => {
                self.moved = true;
                Some(self.peer)
            }
            Way::Far => self.far.starts_anew(),
            _ => None,
        }
    }

    fn has_moved(&mut self) -> bool {
        let far = matches!(self.way, Way::Far) && self.far.has_moved();
        std::mem::take(&mut self.moved) || far
    }

    fn accept(&mut self) -> Result<Option<Box<dyn Socket>>, Errno> {
        let local = self.is_local();
        let Way::Both(both) = &mut self.way else { return self.far.accept() };
        if let Some(stream) = both.next.take() {
            return Ok(Some(stream));
        }
        let far = if local { None } else { self.far.accept()? };
        // Tried again a little later: no edge will come for who waits already.
        if far.is_none() && both.more { Err(Errno::ENOBUFS) } else { Ok(far) }
    }

    fn places_bytes(&self) -> bool {
        self.now().places_bytes()
    }

    fn direct(&mut self) -> Option<&mut dyn Direct> {
        match &mut self.way {
            Way::Direct(stream) => Some(stream.as_mut()),
            _ => None,
        }
    }

    fn wants_head(&self) -> bool {
        self.now().wants_head()
    }

    fn consumed(&mut self, head: u64) {
        self.now_mut().consumed(head);
    }

    fn has_news(&self, of: Direction) -> bool {
        self.now().has_news(of)
    }

    fn receive(&mut self, window: &Window) -> Result<Moved, Errno> {
        self.now_mut().receive(window)
    }

    fn peek(&mut self) -> Result<Moved, Errno> {
        self.now_mut().peek()
    }

    fn untaken(&self) -> u64 {
        self.now().untaken()
    }

    fn send(&mut self, window: &Window) -> Result<Moved, Errno> {
        self.now_mut().send(window)
    }

    fn discard(&mut self) -> Result<Moved, Errno> {
        self.now_mut().discard()
    }

    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        if let Way::Both(_) = self.way {
            // Callers are refused as soon as the entry is gone, and so are those that wait.
            self.way = Way::Far;
            if self.is_local() {
                return Ok(());
            }
        }
        self.now_mut().shutdown(direction)
    }

    fn leave(&mut self) -> bool {
        self.now_mut().leave()
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        if option != SocketOption::Transport {
            return self.now_mut().set_option(option, value);
        }
        let early = matches!(self.way, Way::Open | Way::Far) && self.far.peer_addr().is_err();
        let choice = TransportChoice::from_number(value).ok_or(Errno::EINVAL)?;
        if !early {
            return Err(Errno::EISCONN);
        }
        if choice != TransportChoice::Local {
            match self.far.set_option(option, value) {
                // A socket that travels one way alone, as it was told to.
                Err(Errno::ENOPROTOOPT | Errno::EOPNOTSUPP) if choice != TransportChoice::Rdma => {}
                set => set?,
            }
        }
        let near = matches!(choice, TransportChoice::Auto | TransportChoice::Local);
        self.way = if near { Way::Open } else { Way::Far };
        self.choice = choice;
        Ok(())
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        if option != SocketOption::Transport {
            return self.now().option(option);
        }
        match self.way {
            Way::Direct(_) => Ok(TransportChoice::Local as u64),
            Way::Far => Ok(self.far.option(option).unwrap_or(TransportChoice::Tcp as u64)),
            _ => Ok(self.choice as u64),
        }
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        self.now().local_addr()
    }

    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        self.now().peer_addr()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.way {
            Way::Calling { patience, .. } => Some(patience.as_fd()),
            Way::Both(both) => Some(both.either.as_fd()),
            _ => self.now().descriptor(),
        }
    }

    fn into_descriptor(self: Box<Self>) -> Option<OwnedFd> {
        match self.way {
            Way::Direct(_) => None,
            _ if self.choice == TransportChoice::Local => None,
            _ => self.far.into_descriptor(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::super::tcp;
    use super::*;
    use crate::gpu::{EmulatedOptions, Gpu, GpuChoice};

    fn local() -> Arc<Local> {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).unwrap();
        Arc::new(Local::new(&gpu, 64 << 20).unwrap())
    }

    fn socket(local: &Arc<Local>, choice: TransportChoice) -> NearSocket {
        NearSocket::new(Arc::clone(local), tcp::make(Domain::V4).unwrap(), choice)
    }

    /// An address that nobody else has as long as the listener lives.
    fn address() -> (std::net::TcpListener, SocketAddr) {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap().into();
        (held, address)
    }

    #[test]
    fn a_call_waits_for_a_full_queue_and_not_for_ever() {
        let local = local();
        let (_held, address) = address();
        let listening = local.registry.listen(&address, false).unwrap();
        rustix::net::listen(&listening, 0).unwrap();
        let mut waiting = Vec::new();
        while let Ok(Some(talk)) = local.registry.call(&address) {
            waiting.push(talk);
        }
        let calls = |choice| {
            let mut socket = socket(&local, choice);
            assert!(matches!(socket.region(Some(&address)), Ok(RingRegion::Window)));
            assert_eq!(socket.connect(&address), Err(Errno::EAGAIN));
            assert!(!socket.has_moved());
            socket
        };
        let watched = |socket: &NearSocket| socket.descriptor().unwrap().as_raw_fd();
        let mut socket = calls(TransportChoice::Local);
        let before = watched(&socket);
        assert!(listening.next().unwrap().is_some());
        assert_eq!(socket.connect(&address), Ok(false));
        assert_ne!(watched(&socket), before);
        assert!(socket.has_moved(), "the new descriptor is to be watched");
        // The queue is full again, by that call.
        let long_ago = Way::Waiting { since: Instant::now().checked_sub(PATIENCE).unwrap() };
        let mut socket = calls(TransportChoice::Local);
        socket.way = long_ago;
        assert_eq!(socket.connect(&address), Err(Errno::ETIMEDOUT));
        let mut socket = calls(TransportChoice::Auto);
        let Way::Waiting { since } = &mut socket.way else { panic!("it waits") };
        *since = since.checked_sub(PATIENCE).unwrap();
        assert_eq!(socket.connect(&address), Ok(false));
        assert_eq!(socket.starts_anew(), Some(address), "TCP is tried");
    }

    /// Has the listener look at its calls; how many meetings it then has.
    fn look(listener: &mut NearSocket) -> usize {
        assert!(matches!(listener.region(None), Ok(RingRegion::Window)));
        let Way::Both(both) = &listener.way else { panic!("it listens") };
        both.meetings.len()
    }

    #[test]
    fn calls_are_taken_as_there_is_room() {
        let local = local();
        let mut listener = socket(&local, TransportChoice::Local);
        listener.listen(1).unwrap();
        let ip = listener.local_addr().unwrap().to_ip().unwrap();
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], ip.port())).into();
        let call = |_| local.registry.call(&address).unwrap().unwrap();
        let silent: Vec<_> = (0..MOST_MEETINGS + 1).map(call).collect();
        for turn in 1..=MOST_MEETINGS / CALLS {
            assert_eq!(look(&mut listener), turn * CALLS);
            assert_eq!(listener.accept().err(), Some(Errno::ENOBUFS), "more calls wait");
        }
        // All of them are young, and one waits behind them.
        assert_eq!(look(&mut listener), MOST_MEETINGS);
        assert_eq!(listener.accept().err(), Some(Errno::ENOBUFS));
        let Way::Both(both) = &mut listener.way else { panic!("it listens") };
        both.meetings[0].1 = both.meetings[0].1.checked_sub(PROMPT).unwrap();
        assert_eq!(look(&mut listener), MOST_MEETINGS);
        // That one found room, and whether more wait is not known.
        let Way::Both(both) = &mut listener.way else { panic!("it listens") };
        for (_, begun) in &mut both.meetings {
            *begun = begun.checked_sub(PATIENCE).unwrap();
        }
        assert_eq!(look(&mut listener), 0, "they are over");
        assert!(matches!(listener.accept(), Ok(None)));
        drop(silent);
    }

    #[test]
    fn a_local_listener_holds_its_port() {
        let local = local();
        let mut listener = socket(&local, TransportChoice::Local);
        let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&any.into()).unwrap();
        listener.listen(1).unwrap();
        let address = listener.local_addr().unwrap().to_ip().unwrap();
        // As most servers do it, with the option that lets them start again.
        let error = std::net::TcpListener::bind(address).err();
        assert_eq!(error.map(|error| error.kind()), Some(std::io::ErrorKind::AddrInUse));
        drop(listener);
        std::net::TcpListener::bind(address).unwrap();
    }
}
