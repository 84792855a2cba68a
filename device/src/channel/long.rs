//! Messages that are longer than 256 bytes, by all warps of a group; each is whole. The group has the
//! direction. Between kernels each warp polls the counter and its part of a packet at once, so that nobody
//! waits between the two. Across PCIe the first warp alone polls the counter: reads by several would queue up.

use crate::abi::bits::P2P_PACKET_BYTES;
use crate::simt;

use super::eights::is_in_eights;

mod receive;
mod send;

pub(crate) use receive::{poll, receive};
pub(crate) use send::{load_part, longest_packet, send, send_by_ring, send_unaligned};

/// Bytes of a packet that a warp moves with one instruction: eight a lane.
const ROW: u32 = 8 * simt::WARP;
/// Bytes of a packet that a warp moves at once.
const PART: u32 = 4 * ROW;

/// Where a thread's bytes of its warp's part of a packet begin.
#[inline(always)]
fn first_of(rank: u32) -> u32 {
    rank / simt::WARP * PART + rank % simt::WARP * 8
}

/// Whether a warp's lanes move eight bytes of a message each, and no fewer.
#[inline(always)]
fn moves_eights(buffer: *const u8, length: usize) -> bool {
    is_in_eights(buffer.addr(), length) & (length <= P2P_PACKET_BYTES)
}
