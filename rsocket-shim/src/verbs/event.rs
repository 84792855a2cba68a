//! The connection manager's events: what comes through a channel.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use super::channel::{EventChannel, Token};
use super::error::{VerbsError, check};
use super::id::Id;
use crate::sys::types as c;

/// Something happened to an id.
#[derive(Debug)]
pub struct Event {
    /// The id's; for a request that of the listening id.
    pub token: Token,
    /// What happened.
    pub kind: EventKind,
}

/// What can happen to an id. Private data is as long as the message's field, which is longer than
/// what the peer put there: the rest is zeros.
#[derive(Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The address is resolved, and the id is on a device.
    AddressResolved,
    /// The route is resolved; next is [`Id::connect`].
    RouteResolved,
    /// A peer wants to connect to a listening id.
    Request {
        /// A new id on the same channel, with the listener's token until it gets its own. Dropped,
        /// it is rejected.
        id: Id,
        /// The peer's private data.
        data: Vec<u8>,
    },
    /// Connected. The side that connected has the other's private data.
    Established {
        /// The peer's private data.
        data: Vec<u8>,
    },
    /// The peer does not want the connection.
    Rejected {
        /// Why, in the numbers of the device's protocol.
        reason: c_int,
        /// The peer's private data.
        data: Vec<u8>,
    },
    /// A step of connecting failed.
    Failed {
        /// Which.
        step: Step,
        /// The system's error number.
        errno: i32,
    },
    /// The connection is over, on the peer's wish or ours.
    Disconnected,
    /// The queue pair's numbers may be used again.
    TimewaitExit,
    /// The device goes away: everything on it must be dropped.
    DeviceRemoved,
    /// The device's address changed.
    AddressChanged,
    /// An event that streams do not know, by its number.
    Other(u32),
}

/// What was under way when connecting failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Resolving the address.
    Address,
    /// Resolving the route.
    Route,
    /// Connecting or accepting.
    Connect,
    /// Waiting for an answer.
    Reach,
}

impl EventChannel {
    /// The next event, if there is one now. Readiness of the descriptor promises one.
    pub fn next(&self) -> Result<Option<Event>, VerbsError> {
        let cm = &self.libraries().cm;
        let mut raw: *mut c::rdma_cm_event = ptr::null_mut();
        let guard = self.lock();
        // SAFETY: the channel lives; on success one event is written, which is ours until acked.
        if unsafe { cm.rdma_get_cm_event(self.as_ptr(), &raw mut raw) } != 0 {
            return match VerbsError::last("rdma_get_cm_event") {
                VerbsError::Call { errno: libc::EAGAIN | libc::EINTR, .. } => Ok(None),
                error => Err(error),
            };
        }
        // SAFETY: an event that was not acked yet, of ids that live: no id of this channel is
        // destroyed while `guard` is held.
        let parsed = unsafe { Parsed::read(&*raw) };
        // Acked at once: destroying an id waits for its events.
        // SAFETY: the event is acked once, and not used afterwards.
        let acked = check("rdma_ack_cm_event", unsafe { cm.rdma_ack_cm_event(raw) });
        drop(guard);
        let event = parsed.into_event(self);
        acked.map(|()| Some(event))
    }
}

/// What an event says, copied out of it.
struct Parsed {
    token: Token,
    number: c::rdma_cm_event_type,
    status: c_int,
    data: Vec<u8>,
    /// The new id of a request.
    fresh: Option<NonNull<c::rdma_cm_id>>,
}

impl Parsed {
    /// # Safety
    /// The event was not acked, and its id lives.
    unsafe fn read(event: &c::rdma_cm_event) -> Self {
        let is_request = event.event == c::RDMA_CM_EVENT_CONNECT_REQUEST;
        let carries_data = is_request
            || event.event == c::RDMA_CM_EVENT_ESTABLISHED
            || event.event == c::RDMA_CM_EVENT_REJECTED;
        let data = if carries_data {
            // SAFETY: these events of a connected port space fill `conn`, whose private data is
            // inside the event.
            unsafe { bytes_of(&event.param.conn) }
        } else {
            Vec::new()
        };
        // SAFETY: an event's id is never null, and lives. A new id has its listener's token.
        let token = Token(unsafe { (*event.id).context }.addr());
        let fresh = if is_request { NonNull::new(event.id) } else { None };
        Self { token, number: event.event, status: event.status, data, fresh }
    }

    fn into_event(self, channel: &EventChannel) -> Event {
        let Self { token, number, status, data, fresh } = self;
        let failed =
            |step| EventKind::Failed { step, errno: status.checked_abs().unwrap_or(libc::EIO) };
        let kind = match (number, fresh) {
            (_, Some(id)) => {
                // SAFETY: the library made this id for us, and it is wrapped once.
                let id = unsafe { Id::adopt(channel.clone(), id) };
                EventKind::Request { id, data }
            }
            (c::RDMA_CM_EVENT_ADDR_RESOLVED, _) => EventKind::AddressResolved,
            (c::RDMA_CM_EVENT_ROUTE_RESOLVED, _) => EventKind::RouteResolved,
            (c::RDMA_CM_EVENT_ESTABLISHED, _) => EventKind::Established { data },
            (c::RDMA_CM_EVENT_REJECTED, _) => EventKind::Rejected { reason: status, data },
            (c::RDMA_CM_EVENT_ADDR_ERROR, _) => failed(Step::Address),
            (c::RDMA_CM_EVENT_ROUTE_ERROR, _) => failed(Step::Route),
            (c::RDMA_CM_EVENT_CONNECT_ERROR, _) => failed(Step::Connect),
            (c::RDMA_CM_EVENT_UNREACHABLE, _) => failed(Step::Reach),
            (c::RDMA_CM_EVENT_DISCONNECTED, _) => EventKind::Disconnected,
            (c::RDMA_CM_EVENT_TIMEWAIT_EXIT, _) => EventKind::TimewaitExit,
            (c::RDMA_CM_EVENT_DEVICE_REMOVAL, _) => EventKind::DeviceRemoved,
            (c::RDMA_CM_EVENT_ADDR_CHANGE, _) => EventKind::AddressChanged,
            (other, _) => EventKind::Other(other),
        };
        Event { token, kind }
    }
}

/// # Safety
/// `private_data` is null or names `private_data_len` bytes.
unsafe fn bytes_of(parameters: &c::rdma_conn_param) -> Vec<u8> {
    if parameters.private_data.is_null() {
        return Vec::new();
    }
    let length = usize::from(parameters.private_data_len);
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(parameters.private_data.cast::<u8>(), length) }.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(number: c::rdma_cm_event_type, status: c_int, data: &mut [u8]) -> Parsed {
        // SAFETY: zeros are an id without a device and an event without data.
        let (mut id, mut event): (c::rdma_cm_id, c::rdma_cm_event) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        id.context = ptr::without_provenance_mut(7);
        event.id = &raw mut id;
        event.event = number;
        event.status = status;
        event.param.conn.private_data = data.as_mut_ptr().cast();
        event.param.conn.private_data_len = data.len() as u8;
        // SAFETY: the id and the data live here.
        unsafe { Parsed::read(&event) }
    }

    #[test]
    fn private_data_is_read_only_where_an_event_has_it() {
        let with = [c::RDMA_CM_EVENT_ESTABLISHED, c::RDMA_CM_EVENT_REJECTED];
        for number in with {
            let parsed = parsed(number, 0, &mut [1, 2, 3]);
            assert_eq!((parsed.token, parsed.data.as_slice()), (Token(7), &[1, 2, 3][..]));
            assert!(parsed.fresh.is_none());
        }
        assert!(parsed(c::RDMA_CM_EVENT_DISCONNECTED, 0, &mut [1, 2, 3]).data.is_empty());
        assert!(parsed(c::RDMA_CM_EVENT_CONNECT_REQUEST, 0, &mut []).fresh.is_some());
    }
}
