//! The proxy's sockets on the simulated network.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;

use super::network::{Network, current, network};
use crate::memory::RingSlice;
use crate::transport::{
    self, Acceptor, Carrier, Connector, Direction, Socket, Stream, SystemSocket, SystemStream,
    Transferred, Transport,
};

/// See the module.
pub(super) struct SimulatedSocket {
    id: usize,
    /// A descriptor that names it and nothing else; none once the program has it back.
    name: Option<OwnedFd>,
}

impl SimulatedSocket {
    pub(super) fn new(id: usize, name: OwnedFd) -> Self {
        Self { id, name: Some(name) }
    }
}

impl Network {
    pub(super) fn socket(&self, id: usize) -> Result<SimulatedSocket, Errno> {
        Ok(SimulatedSocket::new(id, self.name(id)?))
    }

    /// The socket that a descriptor names, which the program hands over.
    pub(super) fn handed_over(
        &self,
        name: OwnedFd,
        listens: bool,
    ) -> Result<transport::Endpoint, Errno> {
        let id = self.named(name.as_fd()).ok_or(Errno::EBADF)?;
        let socket = Box::new(SimulatedSocket::new(id, name));
        Ok(if listens {
            transport::Endpoint::from(socket as Box<dyn Acceptor>)
        } else {
            transport::Endpoint::from(Carrier::System(socket))
        })
    }
}

impl Drop for SimulatedSocket {
    fn drop(&mut self) {
        let (Some(network), Some(name)) = (current(), &self.name) else { return };
        network.forget(name.as_raw_fd());
        network.close(self.id);
    }
}

/// Copies between ring memory and bytes, through the harness.
fn fill(slice: &RingSlice, bytes: &[u8]) {
    let mut bytes = bytes;
    for (address, length) in slice.pieces() {
        let (now, rest) = bytes.split_at(length.min(bytes.len()));
        bytes = rest;
        gpunet_device::simulation::with(|harness| harness.write(address, now));
    }
}

impl Socket for SimulatedSocket {
    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    fn set_option(&mut self, _option: SocketOption, _value: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn option(&self, _option: SocketOption) -> Result<u64, Errno> {
        Ok(0)
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        let address = network().with(self.id, |endpoint| endpoint.address);
        Ok(address.unwrap_or(SocketAddr::v4([127, 0, 0, 1], 1)))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.name.as_ref().map(AsFd::as_fd)
    }

    fn into_descriptor(mut self: Box<Self>) -> Option<OwnedFd> {
        self.name.take()
    }
}

impl Connector for SimulatedSocket {
    fn connect(&mut self, address: &SocketAddr) -> Result<bool, Errno> {
        network().connect(self.id, address.port().into());
        Ok(false)
    }

    fn finish_connect(&mut self) -> Result<bool, Errno> {
        let now = network().now();
        network().with(self.id, |endpoint| match endpoint.connected_at {
            Some(at) if at <= now && endpoint.refused => Err(Errno::ECONNREFUSED),
            Some(at) => Ok(at <= now),
            None => Err(Errno::ENOTCONN),
        })
    }

    fn into_stream(self: Box<Self>) -> Result<Carrier, Errno> {
        Ok(Carrier::System(self))
    }
}

impl SystemSocket for SimulatedSocket {
    fn bind(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        network().with(self.id, |endpoint| endpoint.address = Some(*address));
        Ok(())
    }

    fn listen(&mut self, _backlog: u32) -> Result<(), Errno> {
        let port = network().with(self.id, |endpoint| endpoint.address.map_or(0, |a| a.port()));
        network().listen(self.id, port.into())
    }

    fn into_acceptor(self: Box<Self>) -> Box<dyn Acceptor> {
        self
    }
}

impl Acceptor for SimulatedSocket {
    fn accept(&mut self) -> Result<Option<Carrier>, Errno> {
        match network().accept(self.id) {
            Some(id) => Ok(Some(Carrier::System(Box::new(network().socket(id)?)))),
            None => Ok(None),
        }
    }
}

impl Stream for SimulatedSocket {
    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(SocketAddr::v4([127, 0, 0, 1], 1))
    }

    fn discard(&mut self) -> Result<Transferred, Errno> {
        network().receive(self.id, usize::MAX).map(|(_, transferred)| transferred)
    }

    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        if direction == Direction::Send {
            network().end(self.id);
        }
        Ok(())
    }
}

impl SystemStream for SimulatedSocket {
    fn receive(&mut self, slice: &RingSlice) -> Result<Transferred, Errno> {
        let (bytes, transferred) = network().receive(self.id, slice.len())?;
        fill(slice, &bytes);
        Ok(transferred)
    }

    fn send(&mut self, slice: &RingSlice) -> Result<Transferred, Errno> {
        let network = network();
        let room = network.room(self.id)?.min(slice.len());
        if room == 0 {
            return Ok(Transferred::Later);
        }
        let count = if network.draw(2) == 0 { room } else { 1 + network.draw(room) };
        let mut bytes = slice.copy();
        bytes.truncate(count);
        network.deliver(self.id, &bytes);
        Ok(Transferred::Bytes(count))
    }
}
