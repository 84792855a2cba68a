//! Calls of a group, whatever its work is.

use gpunet_device::abi::errno::Errno;
use gpunet_device::{Group, On, SharedBuf, Stream, calls};

use super::plan::Plan;

/// Closes a stream, and sees that its handle is dead.
pub(super) fn close<G: Group>(on: On<G>, plan: &Plan, stream: Stream<G>) {
    let handle = stream.into_handle();
    let closed = plan.timed(on, "close", || calls::gclose(on.net(), on.group(), handle));
    if closed < 0 && !plan.excused {
        plan.complain(on, &format!("close gave {closed}"));
    }
    let stale = calls::grecv(on.net(), on.group(), handle, plan.buffer(), calls::MSG_DONTWAIT);
    if stale != i64::from(-Errno::EBADF.0) && !plan.excused {
        plan.complain(on, &format!("a closed handle gave {stale}"));
    }
}

/// Receives out of the ring.
pub(super) fn receive_in_place<G: Group>(
    on: On<G>,
    stream: &Stream<G>,
    buffer: SharedBuf,
) -> Result<usize, Errno> {
    let Some(peek) = stream.peek(1)? else { return Ok(0) };
    let (rank, size) = (on.group().rank(), on.group().size());
    let mut at = 0;
    for piece in peek.pieces() {
        for index in 0..piece.len() {
            if (at + index) % size == rank
                && let Some(byte) = piece.get(index)
            {
                buffer.set(at + index, byte);
            }
        }
        at += piece.len();
    }
    let bytes = at.min(buffer.len());
    peek.consume(bytes);
    Ok(bytes)
}

/// Sends by the ring itself.
pub(super) fn send_in_place<G: Group>(
    on: On<G>,
    stream: &Stream<G>,
    bytes: SharedBuf,
) -> Result<(), Errno> {
    let mut sent = 0;
    while sent < bytes.len() {
        let space = stream.reserve(1, bytes.len() - sent)?;
        let (rank, size) = (on.group().rank(), on.group().size());
        let mut at = 0;
        for piece in space.pieces() {
            for index in 0..piece.len() {
                if (at + index) % size == rank
                    && let Some(byte) = bytes.get(sent + at + index)
                {
                    piece.set(index, byte);
                }
            }
            at += piece.len();
        }
        let filled = at.min(bytes.len() - sent);
        space.commit(filled);
        sent += filled;
    }
    Ok(())
}

/// What the group's leader says, to all of it.
pub(super) fn broadcast_by_leader<G: Group>(on: On<G>, f: impl FnOnce() -> u64) -> u64 {
    let word = if on.group().is_leader() { f() } else { 0 };
    on.group().broadcast([word])[0]
}
