//! A p2p stream that is being connected.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;

use super::super::{Carrier, Connector, RingRegion, RingSizes, Socket, Transport};
use super::channel::ControlChannel;
use super::handshake::{Handshake, Progressed};
use super::names::Names;
use super::shared::P2p;
use super::stream::P2pStream;

enum State {
    /// The listener's queue was full: until when it is called again and again.
    Waiting { until: Duration },
    /// The listener's proxy will take the call.
    Called(ControlChannel),
    /// It answers.
    Handshake(Box<Handshake>),
    /// The stream is there.
    Connected(Box<P2pStream>),
    /// It failed.
    Gone,
}

/// See the module.
pub(super) struct P2pConnector {
    p2p: Arc<P2p>,
    names: Names,
    sizes: RingSizes,
    state: State,
}

impl P2pConnector {
    /// With a channel to the listener, or without one where its queue is full.
    pub(super) fn new(
        p2p: Arc<P2p>,
        channel: Option<ControlChannel>,
        names: Names,
        sizes: RingSizes,
        timeout: Duration,
    ) -> Self {
        let state = match channel {
            Some(channel) => State::Called(channel),
            None => State::Waiting { until: p2p.system.now() + timeout },
        };
        Self { p2p, names, sizes, state }
    }

    fn start(&mut self, channel: ControlChannel) -> Result<bool, Errno> {
        let handshake = Handshake::call(Arc::clone(&self.p2p), channel, self.names, self.sizes)?;
        self.state = State::Handshake(handshake);
        Ok(false)
    }
}

impl Socket for P2pConnector {
    fn transport(&self) -> Transport {
        Transport::P2p
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(self.names.own)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Waiting { .. } | State::Gone => None,
            State::Called(channel) => Some(channel.as_fd()),
            State::Handshake(handshake) => Some(handshake.as_fd()),
            State::Connected(stream) => stream.descriptor(),
        }
    }
}

impl Connector for P2pConnector {
    fn region(&mut self, _: &SocketAddr) -> Result<RingRegion, Errno> {
        Ok(RingRegion::Window)
    }

    fn connect(&mut self, peer: &SocketAddr) -> Result<bool, Errno> {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Called(channel) => self.start(channel),
            State::Waiting { until } => match self.p2p.call(peer) {
                Ok(Some(channel)) => self.start(channel),
                Ok(None) => Err(Errno::ECONNREFUSED),
                Err(Errno::EAGAIN) if self.p2p.system.now() < until => {
                    self.state = State::Waiting { until };
                    Err(Errno::EAGAIN)
                }
                Err(Errno::EAGAIN) => Err(Errno::ETIMEDOUT),
                Err(errno) => Err(errno),
            },
            State::Handshake(_) => Err(Errno::EALREADY),
            State::Connected(_) => Err(Errno::EISCONN),
            State::Gone => Err(Errno::EINVAL),
        }
    }

    fn finish_connect(&mut self) -> Result<bool, Errno> {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Handshake(handshake) => match handshake.turn()? {
                Progressed::Later(handshake) => {
                    self.state = State::Handshake(handshake);
                    Ok(false)
                }
                Progressed::Done(stream) => {
                    self.state = State::Connected(stream);
                    Ok(true)
                }
            },
            State::Gone => Err(Errno::EINVAL),
            waiting => {
                let done = matches!(waiting, State::Connected(_));
                self.state = waiting;
                Ok(done)
            }
        }
    }

    #[cfg(test)]
    fn has_waited(&mut self, time: std::time::Duration) {
        if let State::Waiting { until } = &mut self.state {
            *until = until.checked_sub(time).expect("it waits for no longer");
        }
    }

    fn into_stream(self: Box<Self>) -> Result<Carrier, Errno> {
        match self.state {
            State::Connected(stream) => Ok(Carrier::Kernels(stream)),
            _ => Err(Errno::ENOTCONN),
        }
    }
}
