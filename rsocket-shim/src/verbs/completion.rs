//! Completion queues, and the channel that wakes who waits for them.
//!
//! A queue says once that it is no longer empty, and only if it was armed before. So one polls
//! until it is empty, arms it, and polls once more, for what came between: then it is safe to
//! sleep on the channel's descriptor. [`CompletionQueue::poll_or_arm`] does all of this.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::channel::{Token, set_nonblocking};
use super::device::Device;
use super::error::{VerbsError, check};
use crate::sys::inline::{ibv_poll_cq, ibv_req_notify_cq};
use crate::sys::types as c;
use crate::work::{Completion, Fault};

/// How completions know what they complete: the rest of one that failed means nothing.
pub(super) const WRITE: u64 = 1;
/// As [`WRITE`].
pub(super) const RECEIVE: u64 = 2;

/// How many completions are taken at once.
const BATCH: usize = 16;

/// Where armed queues say that they are no longer empty. Clones are the same channel.
#[derive(Clone)]
pub struct CompletionChannel(Arc<Open>);

struct Open {
    device: Device,
    channel: NonNull<c::ibv_comp_channel>,
}

// SAFETY: verbs may be called from any thread, also at once.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

impl CompletionChannel {
    /// Opens a channel.
    pub fn open(device: &Device) -> Result<Self, VerbsError> {
        // SAFETY: the device keeps its context open.
        let channel =
            unsafe { device.libraries().verbs.ibv_create_comp_channel(device.context().as_ptr()) };
        let Some(channel) = NonNull::new(channel) else {
            return Err(VerbsError::last("ibv_create_comp_channel"));
        };
        let open = Self(Arc::new(Open { device: device.clone(), channel }));
        set_nonblocking(open.as_fd())?;
        Ok(open)
    }

    /// The next queue that is no longer empty, if there is one now. It is not armed any more.
    pub fn next(&self) -> Result<Option<Token>, VerbsError> {
        let verbs = &self.0.device.libraries().verbs;
        let mut queue: *mut c::ibv_cq = ptr::null_mut();
        let mut context: *mut c_void = ptr::null_mut();
        // SAFETY: the channel is open; on success both pointers are written.
        let returned = unsafe {
            verbs.ibv_get_cq_event(self.0.channel.as_ptr(), &raw mut queue, &raw mut context)
        };
        if returned != 0 {
            return match VerbsError::last("ibv_get_cq_event") {
                VerbsError::Call { errno: libc::EAGAIN | libc::EINTR, .. } => Ok(None),
                error => Err(error),
            };
        }
        // At once: destroying a queue waits for its events.
        // SAFETY: the queue is not gone while one of its events is not acked.
        unsafe { verbs.ibv_ack_cq_events(queue, 1) };
        Ok(Some(Token(context.addr())))
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel owns its descriptor and lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.0.channel.as_ref().fd) }
    }
}

impl AsRawFd for CompletionChannel {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: every queue of the channel holds an `Arc` of it, so none is left.
        unsafe { self.device.libraries().verbs.ibv_destroy_comp_channel(self.channel.as_ptr()) };
    }
}

/// Where a queue pair says what it has done. Each queue serves one queue pair.
pub struct CompletionQueue {
    queue: NonNull<c::ibv_cq>,
    channel: CompletionChannel,
}

// SAFETY: verbs may be called from any thread, also at once.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// A queue of at least `entries`, known to its channel by `token`.
    pub fn create(
        channel: &CompletionChannel,
        entries: u32,
        token: Token,
    ) -> Result<Self, VerbsError> {
        let device = &channel.0.device;
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        // SAFETY: context and channel live; the token is a number, which nobody follows.
        let queue = unsafe {
            device.libraries().verbs.ibv_create_cq(
                device.context().as_ptr(),
                entries,
                ptr::without_provenance_mut(token.0),
                channel.0.channel.as_ptr(),
                0,
            )
        };
        let queue = NonNull::new(queue).ok_or_else(|| VerbsError::last("ibv_create_cq"))?;
        Ok(Self { queue, channel: channel.clone() })
    }

    /// Appends what is done, and says how much that is.
    pub fn poll(&self, to: &mut Vec<Completion>) -> Result<usize, VerbsError> {
        let before = to.len();
        loop {
            // SAFETY: completions of zeros are valid.
            let mut batch: [c::ibv_wc; BATCH] = unsafe { std::mem::zeroed() };
            // SAFETY: the queue lives, and the batch has room for so many.
            let taken = unsafe { ibv_poll_cq(self.as_ptr(), BATCH as c_int, batch.as_mut_ptr()) };
            // What a negative number means, no manual says.
            let taken = usize::try_from(taken)
                .map_err(|_| VerbsError::Call { call: "ibv_poll_cq", errno: libc::EIO })?;
            to.extend(batch.iter().take(taken).map(completion));
            if taken < BATCH {
                return Ok(to.len() - before);
            }
        }
    }

    /// Appends what is done. Where it returns 0, the queue is armed: the next completion makes the
    /// channel's descriptor readable, and none came unseen.
    pub fn poll_or_arm(&self, to: &mut Vec<Completion>) -> Result<usize, VerbsError> {
        match self.poll(to)? {
            0 => {
                self.arm()?;
                self.poll(to)
            }
            some => Ok(some),
        }
    }

    /// Asks for one event at the next completion.
    pub fn arm(&self) -> Result<(), VerbsError> {
        // SAFETY: the queue lives.
        check("ibv_req_notify_cq", unsafe { ibv_req_notify_cq(self.as_ptr(), false) })
    }

    /// How many completions it holds.
    #[must_use]
    pub fn entries(&self) -> u32 {
        // SAFETY: the queue lives, and its size does not change.
        u32::try_from(unsafe { self.queue.as_ref() }.cqe).unwrap_or(0)
    }

    pub(super) fn as_ptr(&self) -> *mut c::ibv_cq {
        self.queue.as_ptr()
    }

    pub(super) fn device(&self) -> &Device {
        &self.channel.0.device
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // Fails only for a queue in use, and a queue pair owns its queue.
        // SAFETY: the last use of the queue; its events were acked when they were taken.
        unsafe { self.device().libraries().verbs.ibv_destroy_cq(self.queue.as_ptr()) };
    }
}

fn completion(raw: &c::ibv_wc) -> Completion {
    let done = fault(raw.status);
    if raw.wr_id == WRITE {
        return Completion::Written(done);
    }
    Completion::Received(done.and_then(|()| {
        if raw.wc_flags & c::IBV_WC_WITH_IMM == 0 {
            // A message that no stream sends.
            return Err(Fault::Other(c::IBV_WC_BAD_RESP_ERR));
        }
        // SAFETY: the flag says that this is what the union holds.
        Ok(u32::from_be(unsafe { raw.__bindgen_anon_1.imm_data }))
    }))
}

fn fault(status: c::ibv_wc_status) -> Result<(), Fault> {
    Err(match status {
        c::IBV_WC_SUCCESS => return Ok(()),
        c::IBV_WC_WR_FLUSH_ERR => Fault::Flushed,
        c::IBV_WC_RETRY_EXC_ERR => Fault::Unanswered,
        c::IBV_WC_RNR_RETRY_EXC_ERR => Fault::NotReady,
        c::IBV_WC_REM_ACCESS_ERR | c::IBV_WC_REM_INV_REQ_ERR => Fault::Refused,
        other => Fault::Other(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(id: u64, status: c::ibv_wc_status, immediate: Option<u32>) -> c::ibv_wc {
        // SAFETY: zeros are a valid completion.
        let mut raw: c::ibv_wc = unsafe { std::mem::zeroed() };
        raw.wr_id = id;
        raw.status = status;
        if let Some(value) = immediate {
            raw.wc_flags = c::IBV_WC_WITH_IMM;
            raw.__bindgen_anon_1.imm_data = value;
        }
        raw
    }

    #[test]
    fn immediate_data_is_in_network_order() {
        let on_the_wire = u32::from_ne_bytes([0x80, 0, 1, 2]);
        let received = completion(&raw(RECEIVE, c::IBV_WC_SUCCESS, Some(on_the_wire)));
        assert_eq!(received, Completion::Received(Ok(0x8000_0102)));
    }

    #[test]
    fn a_message_without_immediate_data_is_a_fault() {
        let received = completion(&raw(RECEIVE, c::IBV_WC_SUCCESS, None));
        assert_eq!(received, Completion::Received(Err(Fault::Other(c::IBV_WC_BAD_RESP_ERR))));
    }

    #[test]
    fn faults_keep_the_side_they_are_of() {
        let cases = [
            (c::IBV_WC_WR_FLUSH_ERR, Fault::Flushed),
            (c::IBV_WC_RETRY_EXC_ERR, Fault::Unanswered),
            (c::IBV_WC_RNR_RETRY_EXC_ERR, Fault::NotReady),
            (c::IBV_WC_REM_ACCESS_ERR, Fault::Refused),
            (c::IBV_WC_LOC_PROT_ERR, Fault::Other(c::IBV_WC_LOC_PROT_ERR)),
        ];
        for (status, fault) in cases {
            assert_eq!(completion(&raw(WRITE, status, None)), Completion::Written(Err(fault)));
            assert_eq!(completion(&raw(RECEIVE, status, None)), Completion::Received(Err(fault)));
        }
    }
}
