//! Where requests for connections arrive.

use std::net::{SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};

use super::StreamError;
use crate::load::Libraries;
use crate::protocol::check_private_data;
use crate::verbs::{Device, EventChannel, EventKind, Id, Token, VerbsError};

/// Untrusted peers that are rejected in one go. Whoever sends more of them than can be rejected must not
/// keep the caller here.
const UNTRUSTED_PEERS: usize = 16;

/// Listens for connections by RDMA.
pub struct Listener {
    id: Id,
    channel: EventChannel,
}

/// A peer that wants to connect. Dropped, it is rejected.
#[derive(Debug)]
pub struct Request {
    pub(super) id: Id,
    pub(super) data: Vec<u8>,
}

impl Listener {
    /// Binds; port 0 takes any.
    pub fn bind(libraries: &'static Libraries, local: SocketAddr) -> Result<Self, StreamError> {
        Self::bind_id(libraries, local, |_| Ok(()))
    }

    /// The same for an address of IPv6, where one may say whether it takes peers of IPv4, too.
    pub fn bind_v6(
        libraries: &'static Libraries,
        local: SocketAddrV6,
        only_v6: bool,
    ) -> Result<Self, StreamError> {
        Self::bind_id(libraries, local.into(), |id| id.only_v6(only_v6))
    }

    fn bind_id(
        libraries: &'static Libraries,
        local: SocketAddr,
        prepare: impl FnOnce(&Id) -> Result<(), VerbsError>,
    ) -> Result<Self, StreamError> {
        let channel = EventChannel::open(libraries)?;
        let id = Id::create(&channel, Token::default())?;
        // Any port may be one that a stream goes out from, which is well, unless one asks for this.
        if local.port() != 0 {
            id.reuse_address()?;
        }
        prepare(&id)?;
        id.bind(local)?;
        Ok(Self { id, channel })
    }

    /// Lets peers come.
    pub fn listen(&self, backlog: u32) -> Result<(), StreamError> {
        Ok(self.id.listen(backlog)?)
    }

    /// The next peer that uses rsocket, if one is waiting. Others are rejected; where there are
    /// many of them, [`StreamError::PeersRejected`] says that this is to be called again.
    pub fn next(&self) -> Result<Option<Request>, StreamError> {
        for _ in 0..UNTRUSTED_PEERS {
            let Some(event) = self.channel.next()? else { return Ok(None) };
            match event.kind {
                // Dropped where it is not rsocket, and so rejected.
                EventKind::Request { id, data } if check_private_data(&data).is_ok() => {
                    return Ok(Some(Request { id, data }));
                }
                EventKind::DeviceRemoved => return Err(StreamError::DeviceRemoved),
                _ => {}
            }
        }
        Err(StreamError::PeersRejected)
    }

    /// Its address.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.id.local_address()
    }

    /// Readable when a request may be there.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl Request {
    /// Whether it came to this device.
    #[must_use]
    pub fn is_on(&self, device: &Device) -> bool {
        self.id.is_on(device)
    }

    /// The address that the peer wants to connect to, which names the device. A link's own has lost
    /// its scope.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.id.local_address()
    }

    /// The peer's.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.id.peer_address()
    }
}
