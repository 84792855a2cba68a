//! What the proxy has of a socket: one of four states, and the calls of all of them. A call that a
//! state does not have gives the error that POSIX has for it.

use std::os::fd::{BorrowedFd, OwnedFd};

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;

use super::connecting::{Connected, Connecting};
use super::listener::Listener;
use super::unconnected::Unconnected;
use super::{
    Acceptor, Carrier, Direction, RingRegion, RingSizes, Rings, Socket, SystemSocket, Transport,
    TransportChoice, TransportNames,
};

enum State {
    Unconnected(Box<Unconnected>),
    Connecting(Box<Connecting>),
    Listener(Box<Listener>),
    Stream {
        carrier: Carrier,
        /// Holds its port, where it has none of its own.
        _port: Option<Box<dyn SystemSocket>>,
    },
    /// Between two of them, and of one that failed in between.
    Changing,
}

impl State {
    /// Turns it into another, or into itself where that fails.
    fn change<T>(&mut self, change: impl FnOnce(Self) -> (Self, T)) -> T {
        let (state, result) = change(std::mem::replace(self, Self::Changing));
        *self = state;
        result
    }

    /// What it is now.
    fn socket(&self) -> Result<&dyn Socket, Errno> {
        match self {
            Self::Unconnected(socket) => Ok(socket.as_ref()),
            Self::Connecting(connecting) => Ok(connecting.as_ref()),
            Self::Listener(listener) => Ok(listener.as_ref()),
            Self::Stream { carrier, .. } => Ok(&**carrier),
            Self::Changing => Err(Errno::EINVAL),
        }
    }

    /// The same, to be changed.
    fn socket_mut(&mut self) -> Result<&mut dyn Socket, Errno> {
        match self {
            Self::Unconnected(socket) => Ok(socket.as_mut()),
            Self::Connecting(connecting) => Ok(connecting.as_mut()),
            Self::Listener(listener) => Ok(listener.as_mut()),
            Self::Stream { carrier, .. } => Ok(&mut **carrier),
            Self::Changing => Err(Errno::EINVAL),
        }
    }
}

/// See the module.
pub(crate) struct Endpoint {
    state: State,
    descriptor_changed: bool,
}

impl From<State> for Endpoint {
    fn from(state: State) -> Self {
        Self { state, descriptor_changed: false }
    }
}

impl From<Unconnected> for Endpoint {
    fn from(socket: Unconnected) -> Self {
        State::Unconnected(Box::new(socket)).into()
    }
}

impl From<Carrier> for Endpoint {
    fn from(carrier: Carrier) -> Self {
        State::Stream { carrier, _port: None }.into()
    }
}

/// A listener of one transport.
impl From<Box<dyn Acceptor>> for Endpoint {
    fn from(acceptor: Box<dyn Acceptor>) -> Self {
        let listener = Listener::new(vec![acceptor], None, None, TransportChoice::Tcp);
        State::Listener(Box::new(listener)).into()
    }
}

impl Endpoint {
    /// By which transports it travels, or peers may come.
    pub(crate) fn transports(&self) -> TransportNames {
        match &self.state {
            State::Listener(listener) => listener.transports(),
            _ => self.state.socket().into_iter().map(|socket| socket.transport()).collect(),
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
        self.state.change(|state| match state {
            State::Unconnected(socket) => match socket.listen(backlog) {
                Ok(listener) => (State::Listener(Box::new(listener)), Ok(())),
                Err((errno, socket)) => (State::Unconnected(socket), Err(errno)),
            },
            other => (other, Err(Errno::EINVAL)),
        })
    }

    /// In which memory its rings must lie: of a connection to `peer`, or of the one that is
    /// accepted next. `sizes`: those of its rings, where the transport makes them.
    pub(crate) fn region(
        &mut self,
        peer: Option<&SocketAddr>,
        sizes: RingSizes,
    ) -> Result<RingRegion, Errno> {
        let Some(peer) = peer else {
            return match &mut self.state {
                State::Listener(listener) => listener.region(sizes),
                _ => Err(Errno::EINVAL),
            };
        };
        self.state.change(|state| {
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
            let rest = rest.unwrap_or_else(|| socket.available.candidates(socket.choice, peer));
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
                let attached = connecting.attach(rings).map(|()| false);
                self.conclude(attached).map(drop)
            }
            State::Stream { carrier, .. } => carrier.attach(rings),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Begins to connect to the peer that [`Self::region`] named; whether it is done already. EAGAIN: the
    /// listener's queue is full, so try again.
    pub(crate) fn connect(&mut self) -> Result<bool, Errno> {
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

    /// What comes of a step: the stream where it was the last one. After an error that is not one to try
    /// again for, it is as before it connected.
    fn conclude(&mut self, step: Result<bool, Errno>) -> Result<bool, Errno> {
        if matches!(step, Ok(false) | Err(Errno::EAGAIN)) {
            return step;
        }
        let mut descriptor_changed = self.descriptor_changed();
        let concluded = self.state.change(|state| match (state, step) {
            (State::Connecting(connecting), Ok(_)) => match connecting.into_stream() {
                Ok(Connected { carrier, port, descriptor_changed: changed }) => {
                    descriptor_changed |= changed;
                    (State::Stream { carrier, _port: port }, Ok(true))
                }
                Err(errno) => (State::Changing, Err(errno)),
            },
            (State::Connecting(connecting), Err(errno)) => {
                (State::Unconnected(Box::new(connecting.socket)), Err(errno))
            }
            (other, step) => (other, step),
        });
        self.descriptor_changed = descriptor_changed;
        concluded
    }

    /// Asked after a connect was not done: whether it must be connected once more, from `region`
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
            State::Listener(listener) => Ok(listener.accept()?.map(Self::from)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// What carries the bytes, of a stream.
    pub(crate) fn carrier(&self) -> Option<&Carrier> {
        if let State::Stream { carrier, .. } = &self.state { Some(carrier) } else { None }
    }

    /// The same, to be used.
    pub(crate) fn carrier_mut(&mut self) -> Option<&mut Carrier> {
        if let State::Stream { carrier, .. } = &mut self.state { Some(carrier) } else { None }
    }

    /// Ends a direction; of a listener, all.
    pub(crate) fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        match &mut self.state {
            State::Listener(listener) => listener.shutdown(),
            State::Stream { carrier, .. } => carrier.shutdown(direction),
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// The system's socket, for a program that takes it back. Devices and kernels have none.
    pub(crate) fn into_descriptor(self) -> Option<OwnedFd> {
        match self.state {
            State::Stream { carrier: Carrier::System(stream), .. } => stream.into_descriptor(),
            State::Listener(listener) => listener.into_descriptor(),
            _ => None,
        }
    }
}

impl Socket for Endpoint {
    fn transport(&self) -> Transport {
        self.state.socket().map_or(Transport::Tcp, |socket| socket.transport())
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        let fixed = matches!(option, SocketOption::Transport | SocketOption::Placement);
        if fixed && self.carrier().is_some() {
            return Err(Errno::EISCONN);
        }
        self.state.socket_mut()?.set_option(option, value)
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        match self.carrier() {
            Some(carrier) if option == SocketOption::Transport => {
                Ok(carrier.transport().choice() as u64)
            }
            _ => self.state.socket()?.option(option),
        }
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        self.state.socket()?.local_addr()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.state.socket().ok()?.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transports;
    use super::*;

    impl Endpoint {
        /// A socket of a test's own that has begun to connect.
        pub(crate) fn connecting(system: Box<dyn SystemSocket>) -> Self {
            let available = std::sync::Arc::clone(&Transports::default().available);
            let (choice, domain) = (TransportChoice::Tcp, gpunet_device::Domain::V4);
            let socket = Unconnected::with_system(available, choice, domain, system);
            State::Connecting(Box::new(Connecting::begun(socket, &SocketAddr::NONE))).into()
        }

        /// As if it had waited so long for room in a p2p listener's queue.
        pub(crate) fn has_waited(&mut self, time: std::time::Duration) {
            let State::Connecting(connecting) = &mut self.state else { panic!("it connects") };
            connecting.has_waited(time);
        }
    }
}
