//! Ids of the connection manager: what a socket is to TCP.

use std::ffi::c_int;
use std::fmt;
use std::net::SocketAddr;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use super::address::{SystemAddress, from_system};
use super::channel::{EventChannel, Token};
use super::error::{VerbsError, check};
use crate::sys::Rdmacm;
use crate::sys::types as c;

/// The private data that a request for a connection holds.
pub const MAX_CONNECT_DATA: usize = 56;
/// The private data that an accepting answer holds.
pub const MAX_ACCEPT_DATA: usize = 196;
/// The private data that a rejecting answer holds.
pub const MAX_REJECT_DATA: usize = 148;

/// How often a queue pair tries again; 7 means for ever where the peer has posted no receive.
const RETRIES: u8 = 7;

/// One end of a connection, or a listener. A queue pair on it keeps it open.
pub struct Id(Arc<RawId>);

/// An id that is destroyed when nothing uses it any more.
pub(super) struct RawId {
    channel: EventChannel,
    id: NonNull<c::rdma_cm_id>,
}

// SAFETY: the library has no thread-local state, and every use of an id holds its channel's lock.
unsafe impl Send for RawId {}
// SAFETY: as above.
unsafe impl Sync for RawId {}

impl Id {
    /// A new id, whose events come through `channel` under `token`.
    pub fn create(channel: &EventChannel, token: Token) -> Result<Self, VerbsError> {
        let mut id = ptr::null_mut();
        let guard = channel.lock();
        // SAFETY: the channel lives; the context is a number, which nobody follows.
        let returned = unsafe {
            channel.libraries().cm.rdma_create_id(
                channel.as_ptr(),
                &raw mut id,
                ptr::without_provenance_mut(token.0),
                c::RDMA_PS_TCP,
            )
        };
        check("rdma_create_id", returned)?;
        drop(guard);
        let id = NonNull::new(id)
            .ok_or(VerbsError::Call { call: "rdma_create_id", errno: libc::EIO })?;
        // SAFETY: a new id of this channel.
        Ok(unsafe { Self::adopt(channel.clone(), id) })
    }

    /// # Safety
    /// The id is one of the channel's, and nobody else destroys it.
    pub(super) unsafe fn adopt(channel: EventChannel, id: NonNull<c::rdma_cm_id>) -> Self {
        Self(Arc::new(RawId { channel, id }))
    }

    /// Gives the id another token.
    pub fn set_token(&self, token: Token) {
        self.with(|_, id| {
            // SAFETY: the id lives, and its channel is locked.
            unsafe { (*id).context = ptr::without_provenance_mut(token.0) };
        });
    }

    /// Has its events come through another channel from now on: before it has a queue pair.
    pub fn move_to(&mut self, channel: &EventChannel) -> Result<(), VerbsError> {
        let busy = VerbsError::Call { call: "rdma_migrate_id", errno: libc::EBUSY };
        let raw = Arc::get_mut(&mut self.0).ok_or(busy)?;
        // SAFETY: both channels live; all events of the id that were taken are acked.
        let moved = raw.with(|cm, id| unsafe { cm.rdma_migrate_id(id, channel.as_ptr()) });
        check("rdma_migrate_id", moved)?;
        raw.channel = channel.clone();
        Ok(())
    }

    /// Lets the address be bound while older connections from it fade away.
    pub fn reuse_address(&self) -> Result<(), VerbsError> {
        self.set_option(c::RDMA_OPTION_ID_REUSEADDR as c_int, true)
    }

    /// Whether an address of IPv6 that is no particular one is IPv6's alone, before it is bound. As
    /// the system has it for its sockets unless this is called.
    pub fn only_v6(&self, only: bool) -> Result<(), VerbsError> {
        self.set_option(c::RDMA_OPTION_ID_AFONLY as c_int, only)
    }

    fn set_option(&self, option: c_int, on: bool) -> Result<(), VerbsError> {
        let on = c_int::from(on);
        // SAFETY: these options are ints, which are read during the call.
        self.call("rdma_set_option", |cm, id| unsafe {
            cm.rdma_set_option(
                id,
                c::RDMA_OPTION_ID as c_int,
                option,
                (&raw const on).cast_mut().cast(),
                size_of::<c_int>(),
            )
        })
    }

    /// Binds to a local address; port 0 takes any.
    pub fn bind(&self, local: SocketAddr) -> Result<(), VerbsError> {
        let mut address = SystemAddress::from(local);
        // SAFETY: the address is a valid one and is read during the call.
        self.call("rdma_bind_addr", |cm, id| unsafe { cm.rdma_bind_addr(id, address.as_mut_ptr()) })
    }

    /// Listens: requests come as events. More than `backlog` that wait are refused.
    pub fn listen(&self, backlog: u32) -> Result<(), VerbsError> {
        let backlog = c_int::try_from(backlog).unwrap_or(c_int::MAX);
        // SAFETY: takes the id and a number.
        self.call("rdma_listen", |cm, id| unsafe { cm.rdma_listen(id, backlog) })
    }

    /// Begins to look for the device that reaches `peer`.
    pub fn resolve_address(
        &self,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        limit: Duration,
    ) -> Result<(), VerbsError> {
        let mut local = local.map(SystemAddress::from);
        let mut peer = SystemAddress::from(peer);
        let local = local.as_mut().map_or(ptr::null_mut(), SystemAddress::as_mut_ptr);
        // SAFETY: the addresses are valid ones, and are read during the call.
        self.call("rdma_resolve_addr", |cm, id| unsafe {
            cm.rdma_resolve_addr(id, local, peer.as_mut_ptr(), milliseconds(limit))
        })
    }

    /// Begins to look for the way to the peer, after its address is resolved.
    pub fn resolve_route(&self, limit: Duration) -> Result<(), VerbsError> {
        self.has_device()?;
        // SAFETY: takes the id, which has a device for the library to ask, and a number.
        self.call("rdma_resolve_route", |cm, id| unsafe {
            cm.rdma_resolve_route(id, milliseconds(limit))
        })
    }

    /// Asks the peer for a connection, after the route is resolved and with a queue pair.
    pub fn connect(&self, data: &[u8]) -> Result<(), VerbsError> {
        let mut parameters = self.parameters(data, MAX_CONNECT_DATA)?;
        // SAFETY: the parameters name `data`, which is read during the call; there is a queue pair.
        self.call("rdma_connect", |cm, id| unsafe { cm.rdma_connect(id, &raw mut parameters) })
    }

    /// Accepts a request, with a queue pair.
    pub fn accept(&self, data: &[u8]) -> Result<(), VerbsError> {
        let mut parameters = self.parameters(data, MAX_ACCEPT_DATA)?;
        // SAFETY: the parameters name `data`, which is read during the call; there is a queue pair.
        self.call("rdma_accept", |cm, id| unsafe { cm.rdma_accept(id, &raw mut parameters) })
    }

    /// Rejects a request.
    pub fn reject(&self, data: &[u8]) -> Result<(), VerbsError> {
        let length = within(data, MAX_REJECT_DATA)?;
        // SAFETY: `data` is read during the call.
        self.call("rdma_reject", |cm, id| unsafe {
            cm.rdma_reject(id, data.as_ptr().cast(), length)
        })
    }

    /// Ends the connection: both ends get [`Disconnected`](super::EventKind::Disconnected), and
    /// what was posted comes back flushed.
    pub fn disconnect(&self) -> Result<(), VerbsError> {
        self.has_device()?;
        // SAFETY: takes the id alone, which has a device for the library to ask.
        self.call("rdma_disconnect", |cm, id| unsafe { cm.rdma_disconnect(id) })
    }

    /// The local address, where it is known by now.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        // SAFETY: the id lives and its channel is locked; a storage is there at any time.
        self.with(|_, id| from_system(unsafe { &(*id).route.addr.__bindgen_anon_1.src_storage }))
    }

    /// The peer's address, where it is known by now.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        // SAFETY: as above.
        self.with(|_, id| from_system(unsafe { &(*id).route.addr.__bindgen_anon_2.dst_storage }))
    }

    /// The verbs context of the device that the id has come to.
    pub(super) fn context(&self) -> Option<NonNull<c::ibv_context>> {
        // SAFETY: the id lives and its channel is locked.
        self.with(|_, id| NonNull::new(unsafe { (*id).verbs }))
    }

    /// The library follows the pointer to the device without looking.
    fn has_device(&self) -> Result<(), VerbsError> {
        self.context().map(drop).ok_or(VerbsError::NoDeviceYet)
    }

    pub(super) fn raw(&self) -> &Arc<RawId> {
        &self.0
    }

    fn parameters(&self, data: &[u8], limit: usize) -> Result<c::rdma_conn_param, VerbsError> {
        let private_data_len = within(data, limit)?;
        // SAFETY: the id lives and its channel is locked.
        if self.with(|_, id| unsafe { (*id).qp.is_null() }) {
            return Err(VerbsError::NoQueuePair);
        }
        Ok(c::rdma_conn_param {
            private_data: data.as_ptr().cast(),
            private_data_len,
            // Nothing is read over these connections.
            responder_resources: 0,
            initiator_depth: 0,
            flow_control: 1,
            retry_count: RETRIES,
            rnr_retry_count: RETRIES,
            srq: 0,
            qp_num: 0,
        })
    }

    fn call(
        &self,
        name: &'static str,
        call: impl FnOnce(&Rdmacm, *mut c::rdma_cm_id) -> c_int,
    ) -> Result<(), VerbsError> {
        self.with(|cm, id| check(name, call(cm, id)))
    }

    fn with<T>(&self, act: impl FnOnce(&Rdmacm, *mut c::rdma_cm_id) -> T) -> T {
        self.0.with(act)
    }
}

impl RawId {
    /// Uses the id while its channel is locked.
    pub(super) fn with<T>(&self, act: impl FnOnce(&Rdmacm, *mut c::rdma_cm_id) -> T) -> T {
        let _guard = self.channel.lock();
        act(&self.channel.libraries().cm, self.id.as_ptr())
    }
}

impl Drop for RawId {
    fn drop(&mut self) {
        // Fails only for an id that the system does not know, which cannot be mended here.
        // SAFETY: the last use of the id: its queue pair, which holds it, is gone, and its events
        // were acked when they were taken, so this waits for nobody.
        let _ = self.with(|cm, id| unsafe { cm.rdma_destroy_id(id) });
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Id")
            .field("local", &self.local_address())
            .field("peer", &self.peer_address())
            .finish()
    }
}

fn within(data: &[u8], limit: usize) -> Result<u8, VerbsError> {
    let too_long = VerbsError::PrivateData { given: data.len(), limit };
    if data.len() > limit {
        return Err(too_long);
    }
    u8::try_from(data.len()).map_err(|_| too_long)
}

fn milliseconds(limit: Duration) -> c_int {
    c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_has_its_limit() {
        assert_eq!(within(&[0; 56], MAX_CONNECT_DATA), Ok(56));
        let error = VerbsError::PrivateData { given: 57, limit: 56 };
        assert_eq!(within(&[0; 57], MAX_CONNECT_DATA), Err(error));
    }

    #[test]
    fn long_waits_stay_in_range() {
        assert_eq!(milliseconds(Duration::from_millis(1500)), 1500);
        assert_eq!(milliseconds(Duration::MAX), c_int::MAX);
    }
}
