//! What the proxy has of a socket: one of four states, and the calls of all of them. A call that a
//! state does not have gives the error that POSIX has for it.

use std::os::fd::{BorrowedFd, OwnedFd};

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;

use super::candidate::candidates;
use super::connecting::{Connected, Connecting};
use super::listener::Listener;
use super::unconnected::Unconnected;
use super::{
    Acceptor, Direction, P2pControl, RingRegion, RingSizes, Rings, Stream, SystemSocket,
    Transferred, TransportChoice, TransportNames,
};
use crate::memory::RingSlice;

enum State {
    Unconnected(Box<Unconnected>),
    Connecting(Box<Connecting>),
    Listener(Box<Listener>),
    Stream {
        stream: Box<dyn Stream>,
        /// Holds its port, where it has none of its own.
        _port: Option<Box<dyn SystemSocket>>,
    },
    /// Between two of them, and of one that failed in between.
    Changing,
}

/// See the module.
pub(crate) struct Endpoint {
    state: State,
    sizes: RingSizes,
    descriptor_changed: bool,
}

impl Endpoint {
    fn new(state: State) -> Self {
        Self { state, sizes: RingSizes::default(), descriptor_changed: false }
    }

    pub(super) fn unconnected(socket: Unconnected) -> Self {
        Self::new(State::Unconnected(Box::new(socket)))
    }

    /// A stream of one transport.
    pub(crate) fn stream(stream: Box<dyn Stream>) -> Self {
        Self::new(State::Stream { stream, _port: None })
    }

    /// A listener of one transport.
    pub(crate) fn listener(acceptor: Box<dyn Acceptor>) -> Self {
        let listener = Listener::new(vec![acceptor], None, None, TransportChoice::Tcp);
        Self::new(State::Listener(Box::new(listener)))
    }

    /// A socket of a test's own that has begun to connect.
    #[cfg(test)]
    pub(crate) fn connecting(system: Box<dyn SystemSocket>) -> Self {
        let available = std::sync::Arc::clone(&super::Transports::default().available);
        let (choice, domain) = (TransportChoice::Tcp, gpunet_device::Domain::V4);
        let socket = Unconnected::with_system(available, choice, domain, system);
        Self::new(State::Connecting(Box::new(Connecting::begun(socket, &SocketAddr::NONE))))
    }

    /// As if it had waited so long for room in a p2p listener's queue.
    #[cfg(test)]
    pub(super) fn has_waited(&mut self, time: std::time::Duration) {
        let State::Connecting(connecting) = &mut self.state else { panic!("it connects") };
        connecting.has_waited(time);
    }

    /// Turns the state into another, or into itself where that fails.
    fn change<T>(&mut self, change: impl FnOnce(State) -> (State, T)) -> T {
        let (state, result) = change(std::mem::replace(&mut self.state, State::Changing));
        self.state = state;
        result
    }

    /// By which transports it travels, or peers may come.
    pub(crate) fn transport(&self) -> TransportNames {
        match &self.state {
            State::Unconnected(socket) => socket.transport().into(),
            State::Connecting(connecting) => connecting.transport().into(),
            State::Listener(listener) => listener.transports(),
            State::Stream { stream, .. } => stream.transport().into(),
            State::Changing => TransportNames::default(),
        }
    }

    /// Gives it its own address.
    pub(crate) fn bind(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        match &mut self.state {
            State::Unconnected(socket) => socket.bind(address),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Turns it into a listener.
    pub(crate) fn listen(&mut self, backlog: u32) -> Result<(), Errno> {
        self.change(|state| match state {
            State::Unconnected(socket) => match socket.listen(backlog) {
                Ok(listener) => (State::Listener(Box::new(listener)), Ok(())),
                Err((errno, socket)) => (State::Unconnected(socket), Err(errno)),
            },
            other => (other, Err(Errno::EINVAL)),
        })
    }

    /// Which rings it shall have, where it makes them itself: before `region`.
    pub(crate) fn wish(&mut self, receive_ring: u32, send_ring: u32) {
        self.sizes = RingSizes { receive: receive_ring, send: send_ring };
    }

    /// In which memory its rings shall lie: of a connection to `peer`, or of the one that is
    /// accepted next.
    pub(crate) fn region(&mut self, peer: Option<&SocketAddr>) -> Result<RingRegion, Errno> {
        let sizes = self.sizes;
        let Some(peer) = peer else {
            return match &mut self.state {
                State::Listener(listener) => listener.region(sizes),
                _ => Err(Errno::EINVAL),
            };
        };
        self.change(|state| {
            let (mut socket, rest) = match state {
                State::Unconnected(socket) => (*socket, None),
                State::Connecting(connecting) => {
                    // One that was refused for lack of rings may come again, perhaps to someone else.
                    let anew = connecting.starts_anew().is_some();
                    let Connecting { socket, candidates, .. } = *connecting;
                    (socket, anew.then_some(candidates))
                }
                other => return (other, Err(Errno::EISCONN)),
            };
            socket.sizes = sizes;
            let rest = rest.unwrap_or_else(|| candidates(&socket.available, socket.choice, peer));
            match Connecting::new(socket, peer, rest) {
                Ok(connecting) => {
                    let region = connecting.region();
                    (State::Connecting(Box::new(connecting)), Ok(region))
                }
                Err((errno, socket)) => (State::Unconnected(socket), Err(errno)),
            }
        })
    }

    /// Its rings, before it connects or after it was accepted.
    pub(crate) fn attach(&mut self, rings: &Rings) -> Result<(), Errno> {
        match &mut self.state {
            State::Connecting(connecting) => {
                let attached = connecting.attach(rings);
                self.give_up(attached)
            }
            State::Stream { stream, .. } => stream.attach(rings),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Begins to connect; whether it is done already. EAGAIN: the listener's queue is full, so try
    /// again.
    pub(crate) fn connect(&mut self, address: &SocketAddr) -> Result<bool, Errno> {
        let _ = address;
        let begun = match &mut self.state {
            State::Connecting(connecting) => connecting.connect(),
            State::Unconnected(_) => return Err(Errno::EINVAL),
            _ => return Err(Errno::EISCONN),
        };
        self.conclude(begun)
    }

    /// Asks, after the descriptor became ready, whether the connect is done.
    pub(crate) fn finish_connect(&mut self) -> Result<bool, Errno> {
        let finished = match &mut self.state {
            State::Connecting(connecting) => connecting.finish_connect(),
            State::Stream { .. } => return Ok(true),
            _ => return Err(Errno::ENOTCONN),
        };
        self.conclude(finished)
    }

    /// What comes of a step: the stream where it was the last one.
    fn conclude(&mut self, step: Result<bool, Errno>) -> Result<bool, Errno> {
        if step == Ok(true) {
            self.descriptor_changed |= self.descriptor_changed();
            return self
                .change(|state| match state {
                    State::Connecting(connecting) => match connecting.into_stream() {
                        Ok(Connected { stream, port, descriptor_changed }) => {
                            (State::Stream { stream, _port: port }, Ok((true, descriptor_changed)))
                        }
                        Err(errno) => (State::Changing, Err(errno)),
                    },
                    other => (other, Ok((true, false))),
                })
                .map(|(done, descriptor_changed)| {
                    self.descriptor_changed |= descriptor_changed;
                    done
                });
        }
        self.give_up(step)
    }

    /// After an error that is not one to try again for, it is as before it connected.
    fn give_up<T>(&mut self, step: Result<T, Errno>) -> Result<T, Errno> {
        if step.as_ref().is_err_and(|errno| *errno != Errno::EAGAIN) {
            self.change(|state| match state {
                State::Connecting(connecting) => {
                    (State::Unconnected(Box::new(connecting.socket)), ())
                }
                other => (other, ()),
            });
        }
        step
    }

    /// Asked after a connect was not done: whether it is to be connected once more, from `region`
    /// on, and where to. What was tried first did not work out.
    pub(crate) fn starts_anew(&mut self) -> Option<SocketAddr> {
        match &self.state {
            State::Connecting(connecting) => connecting.starts_anew(),
            _ => None,
        }
    }

    /// Whether its descriptor is another one since the last time this was asked.
    pub(crate) fn descriptor_changed(&mut self) -> bool {
        let connecting = match &mut self.state {
            State::Connecting(connecting) => connecting.descriptor_changed(),
            _ => false,
        };
        std::mem::take(&mut self.descriptor_changed) || connecting
    }

    /// The next connection of a listener, if one waits.
    pub(crate) fn accept(&mut self) -> Result<Option<Self>, Errno> {
        match &mut self.state {
            State::Listener(listener) => Ok(listener.accept()?.map(Self::stream)),
            _ => Err(Errno::EINVAL),
        }
    }

    fn now(&self) -> Option<&dyn Stream> {
        match &self.state {
            State::Stream { stream, .. } => Some(stream.as_ref()),
            _ => None,
        }
    }

    fn now_mut(&mut self) -> Result<&mut dyn Stream, Errno> {
        match &mut self.state {
            State::Stream { stream, .. } => Ok(stream.as_mut()),
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// See [`Stream::places_bytes`].
    pub(crate) fn places_bytes(&self) -> bool {
        self.now().is_some_and(|stream| stream.places_bytes())
    }

    /// Its proxy's part, if it is a p2p stream.
    pub(crate) fn p2p(&mut self) -> Option<&mut dyn P2pControl> {
        match &mut self.state {
            State::Stream { stream, .. } => stream.p2p(),
            _ => None,
        }
    }

    /// See [`Stream::wants_head`].
    pub(crate) fn wants_head(&self) -> bool {
        self.now().is_some_and(|stream| stream.wants_head())
    }

    /// See [`Stream::consumed`].
    pub(crate) fn consumed(&mut self, head: u64) {
        if let Ok(stream) = self.now_mut() {
            stream.consumed(head);
        }
    }

    /// See [`Stream::has_progress`].
    pub(crate) fn has_progress(&self, of: Direction) -> bool {
        self.now().is_some_and(|stream| stream.has_progress(of))
    }

    /// See [`Stream::receive`].
    pub(crate) fn receive(&mut self, slice: &RingSlice) -> Result<Transferred, Errno> {
        self.now_mut()?.receive(slice)
    }

    /// See [`Stream::peek`].
    pub(crate) fn peek(&mut self) -> Result<Transferred, Errno> {
        self.now_mut()?.peek()
    }

    /// See [`Stream::untaken`].
    pub(crate) fn untaken(&self) -> u64 {
        self.now().map_or(0, |stream| stream.untaken())
    }

    /// See [`Stream::send`].
    pub(crate) fn send(&mut self, slice: &RingSlice) -> Result<Transferred, Errno> {
        self.now_mut()?.send(slice)
    }

    /// See [`Stream::discard`].
    pub(crate) fn discard(&mut self) -> Result<Transferred, Errno> {
        self.now_mut()?.discard()
    }

    /// Ends a direction; of a listener, all.
    pub(crate) fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        match &mut self.state {
            State::Listener(listener) => listener.shutdown(),
            _ => self.now_mut()?.shutdown(direction),
        }
    }

    /// See [`Stream::leave`].
    pub(crate) fn leave(&mut self) -> bool {
        self.now_mut().map_or(true, |stream| stream.leave())
    }

    /// Sets an option.
    pub(crate) fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        let fixed = matches!(option, SocketOption::Transport | SocketOption::Placement);
        match &mut self.state {
            State::Unconnected(socket) => socket.set_option(option, value),
            State::Connecting(_) | State::Stream { .. } if fixed => Err(Errno::EISCONN),
            State::Connecting(connecting) => connecting.set_option(option, value),
            State::Listener(listener) => listener.set_option(option, value),
            State::Stream { stream, .. } => stream.set_option(option, value),
            State::Changing => Err(Errno::EINVAL),
        }
    }

    /// Reads an option.
    pub(crate) fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        match &self.state {
            State::Unconnected(socket) => socket.option(option),
            State::Connecting(connecting) => connecting.option(option),
            State::Listener(listener) => listener.option(option),
            State::Stream { stream, .. } if option == SocketOption::Transport => {
                Ok(stream.transport().choice() as u64)
            }
            State::Stream { stream, .. } => stream.option(option),
            State::Changing => Err(Errno::EINVAL),
        }
    }

    /// Its own address.
    pub(crate) fn local_addr(&self) -> Result<SocketAddr, Errno> {
        match &self.state {
            State::Unconnected(socket) => socket.system.local_addr(),
            State::Connecting(connecting) => connecting.local_addr(),
            State::Listener(listener) => listener.local_addr(),
            State::Stream { stream, .. } => stream.local_addr(),
            State::Changing => Err(Errno::EINVAL),
        }
    }

    /// The peer's address.
    pub(crate) fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        self.now().ok_or(Errno::ENOTCONN)?.peer_addr()
    }

    /// What to wait on.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Unconnected(socket) => socket.system.descriptor(),
            State::Connecting(connecting) => connecting.descriptor(),
            State::Listener(listener) => listener.descriptor(),
            State::Stream { stream, .. } => stream.descriptor(),
            State::Changing => None,
        }
    }

    /// The system's socket, for a program that takes it back.
    pub(crate) fn into_descriptor(self) -> Option<OwnedFd> {
        match self.state {
            State::Stream { stream, .. } => stream.into_descriptor(),
            State::Listener(listener) => listener.into_descriptor(),
            _ => None,
        }
    }
}
