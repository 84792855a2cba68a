//! Queue pairs: what is posted to them is done by the device.

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::completion::{CompletionQueue, RECEIVE, WRITE};
use super::domain::Domain;
use super::error::{VerbsError, check};
use super::id::{Id, RawId};
use crate::sys::inline::{ibv_post_recv, ibv_post_send};
use crate::sys::types as c;
use crate::work::Write;

/// Bytes of the protocol's own that travel inside a write.
const OWN: usize = 16;
/// Receives are posted in chains of so many.
const CHAIN: usize = 32;

/// How much work may be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Writes.
    pub writes: u32,
    /// Receives.
    pub receives: u32,
}

/// A reliable connected queue pair on an id. It owns its completion queue.
pub struct QueuePair {
    pair: NonNull<c::ibv_qp>,
    id: Arc<RawId>,
    completions: CompletionQueue,
    domain: Domain,
}

// SAFETY: verbs may be called from any thread, also at once.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

impl QueuePair {
    /// Creates a queue pair on an id that has come to a device. Receives can be posted at once,
    /// writes after the connection is there.
    pub fn create(
        id: &Id,
        domain: &Domain,
        completions: CompletionQueue,
        capacity: Capacity,
    ) -> Result<Self, VerbsError> {
        let device = domain.device();
        if !id.is_on(device) || completions.device() != device {
            return Err(VerbsError::OtherDevice { name: device.name().to_owned() });
        }
        let needs = capacity.writes.saturating_add(capacity.receives);
        let has = completions.entries();
        if has < needs {
            return Err(VerbsError::SmallQueue { has, needs });
        }
        // SAFETY: zeros are valid attributes.
        let mut attributes: c::ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        attributes.send_cq = completions.as_ptr();
        attributes.recv_cq = completions.as_ptr();
        attributes.qp_type = c::IBV_QPT_RC;
        attributes.sq_sig_all = 1;
        attributes.cap = c::ibv_qp_cap {
            max_send_wr: capacity.writes,
            max_recv_wr: capacity.receives,
            max_send_sge: 2,
            // Receives name no memory, but not every device takes a zero here.
            max_recv_sge: 1,
            max_inline_data: OWN as u32,
        };
        let pair = id.raw().with(|cm, raw| {
            // SAFETY: id, domain and completion queue live and are of one device.
            let created = unsafe { cm.rdma_create_qp(raw, domain.as_ptr(), &raw mut attributes) };
            check("rdma_create_qp", created)?;
            // SAFETY: the id lives, and has its queue pair now.
            NonNull::new(unsafe { (*raw).qp }).ok_or(VerbsError::NoQueuePair)
        })?;
        Ok(Self { pair, id: Arc::clone(id.raw()), completions, domain: domain.clone() })
    }

    /// What it has done.
    #[must_use]
    pub fn completions(&self) -> &CompletionQueue {
        &self.completions
    }

    /// Its domain.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Posts a write; its completion says when and how it was done.
    ///
    /// Addresses and keys that are no registered memory fail there, and do no harm.
    pub fn write(&self, write: &Write) -> Result<(), VerbsError> {
        let mut own = write.own;
        let (mut pieces, count) = scattered(write, own.as_mut());
        // SAFETY: zeros are valid work.
        let mut work: c::ibv_send_wr = unsafe { std::mem::zeroed() };
        work.wr_id = WRITE;
        work.sg_list = if count == 0 { ptr::null_mut() } else { pieces.as_mut_ptr() };
        work.num_sge = count;
        work.opcode = c::IBV_WR_RDMA_WRITE;
        work.send_flags = c::IBV_SEND_SIGNALED;
        if own.is_some() {
            work.send_flags |= c::IBV_SEND_INLINE;
        }
        if let Some(immediate) = write.immediate {
            work.opcode = c::IBV_WR_RDMA_WRITE_WITH_IMM;
            work.__bindgen_anon_1.imm_data = immediate.to_be();
        }
        work.wr.rdma.remote_addr = write.target.address;
        work.wr.rdma.rkey = write.target.key;
        let mut refused = ptr::null_mut();
        // SAFETY: the queue pair lives. The work names pieces that the device checks against its
        // registered memory, or bytes of our own, which are copied during the call.
        let posted = unsafe { ibv_post_send(self.pair.as_ptr(), &raw mut work, &raw mut refused) };
        check("ibv_post_send", posted)
    }

    /// Posts receives, which name no memory: each takes the immediate data of one write.
    ///
    /// Where it fails, the receives before the one that was refused are posted.
    pub fn receive(&self, count: u32) -> Result<(), VerbsError> {
        let mut left = usize::try_from(count).unwrap_or(usize::MAX);
        while left > 0 {
            let length = left.min(CHAIN);
            let empty = c::ibv_recv_wr {
                wr_id: RECEIVE,
                next: ptr::null_mut(),
                sg_list: ptr::null_mut(),
                num_sge: 0,
            };
            let mut chain = [empty; CHAIN];
            let first = chain.as_mut_ptr();
            for index in 1..length {
                // SAFETY: both lie inside the chain.
                unsafe { (*first.add(index - 1)).next = first.add(index) };
            }
            let mut refused = ptr::null_mut();
            // SAFETY: the queue pair lives, and the chain is a valid one during the call.
            let posted = unsafe { ibv_post_recv(self.pair.as_ptr(), first, &raw mut refused) };
            check("ibv_post_recv", posted)?;
            left -= length;
        }
        Ok(())
    }

    /// Ends all work: what was posted comes back flushed, and so does what is posted later.
    pub fn flush(&self) -> Result<(), VerbsError> {
        // SAFETY: zeros are valid attributes.
        let mut attributes: c::ibv_qp_attr = unsafe { std::mem::zeroed() };
        attributes.qp_state = c::IBV_QPS_ERR;
        let verbs = &self.domain.device().libraries().verbs;
        // SAFETY: the queue pair lives; the mask names the one attribute that is read.
        let modified = unsafe {
            verbs.ibv_modify_qp(self.pair.as_ptr(), &raw mut attributes, c::IBV_QP_STATE as c_int)
        };
        check("ibv_modify_qp", modified)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: the id lives and has this queue pair, which is not used again. Completion queue
        // and domain go afterwards.
        self.id.with(|cm, id| unsafe { cm.rdma_destroy_qp(id) });
    }
}

/// What a write names: the protocol's own bytes, or the pieces that have any.
fn scattered(write: &Write, own: Option<&mut [u8; OWN]>) -> ([c::ibv_sge; 2], c_int) {
    let mut list = [c::ibv_sge { addr: 0, length: 0, lkey: 0 }; 2];
    if let Some(own) = own {
        list[0].addr = own.as_mut_ptr().expose_provenance() as u64;
        list[0].length = OWN as u32;
        return (list, 1);
    }
    let mut count = 0;
    for (entry, piece) in list.iter_mut().zip(write.pieces.iter().filter(|piece| piece.length > 0))
    {
        *entry = c::ibv_sge { addr: piece.address, length: piece.length, lkey: piece.key };
        count += 1;
    }
    (list, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{Piece, Target};

    fn write(lengths: [u32; 2], own: Option<[u8; OWN]>) -> Write {
        let pieces =
            lengths.map(|length| Piece { address: u64::from(length) * 10, key: 3, length });
        Write { pieces, own, target: Target::default(), immediate: None }
    }

    #[test]
    fn pieces_without_length_are_left_out() {
        let entries = |lengths| {
            let (list, count) = scattered(&write(lengths, None), None);
            let used = list.into_iter().take(count as usize);
            used.map(|entry| (entry.addr, entry.length, entry.lkey)).collect::<Vec<_>>()
        };
        assert_eq!(entries([0, 0]), []);
        assert_eq!(entries([5, 0]), [(50, 5, 3)]);
        assert_eq!(entries([0, 6]), [(60, 6, 3)]);
        assert_eq!(entries([5, 6]), [(50, 5, 3), (60, 6, 3)]);
    }

    #[test]
    fn own_bytes_go_instead_of_pieces() {
        let mut own = [7; OWN];
        let (list, count) = scattered(&write([5, 6], Some(own)), Some(&mut own));
        assert_eq!((count, list[0].length, list[0].lkey), (1, 16, 0));
        assert_eq!(list[0].addr, own.as_ptr().addr() as u64);
    }
}
