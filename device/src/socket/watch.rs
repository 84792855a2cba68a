//! What is reported to the proxies of a p2p stream while a poller watches: the kernels at both ends move its
//! bytes without them. Rare, and out of line. One thread calls this, for its group.

use crate::abi::bits::WatchedProgress;
use crate::abi::handle::Handle;
use crate::abi::layout::{TAIL_AT, WATCHED_AT};
use crate::abi::net::Net;
use crate::abi::word::Word;
use crate::planted::{Bug, planted};
use crate::simt;

use super::direction::Direction;
use super::record::{Socket, TAIL};

/// Reports the progress of a direction of a p2p stream to the proxy. The calling group has the direction, and
/// gives it back later, with a release: who has it next reports more, behind this.
#[cold]
#[inline(never)]
#[allow(unsafe_code, reason = "a word of the net's layout")]
pub(crate) fn report_progress(net: Net, handle: Handle, direction: Direction, count: u64) {
    let socket = Socket::known(net, handle);
    let address = match direction {
        Direction::Receive => net.receive_head(socket.index()),
        Direction::Send => net.send_tail(socket.index()),
    };
    let progress = WatchedProgress::new(count, socket.info().progress_number(direction));
    // SAFETY: the handle is within the layout (`named`).
    let word = unsafe { Word::at(address) };
    // Release: counter and units are there for the kernel at the other end before its poller reports
    // them. A wait that does not find them then would not be notified again.
    if planted(Bug::ReportWithoutFence) {
        word.store(progress.0);
    } else {
        word.store_release(progress.0);
    }
}

/// Has the kernels at both ends of a p2p stream report what happens from now on to their proxies. Nothing
/// orders that with what they do meanwhile: the proxy looks once more, later. A direction that another
/// group has is left to it, which reports it by itself. Where both are, the proxy has the kernels report.
#[cold]
#[inline(never)]
pub(crate) fn watch_both_ends(net: Net, handle: Handle) {
    let socket = Socket::known(net, handle);
    if !socket.info().is_p2p() || socket.ring(Direction::Send).is_none() {
        return;
    }
    // Counted: both directions.
    for direction in [Direction::Receive, Direction::Send] {
        let Ok(position) = socket.lock(direction, false) else { continue };
        // With a direction of the socket: nobody can close it, and give its memory to others.
        if socket.is_still_here() {
            let peer = socket.tagged(TAIL).value() + 8 * (WATCHED_AT - TAIL_AT) as u64;
            socket.inbox().watched().store(1);
            Socket::at(peer).store(1);
            report_progress(net, handle, direction, position.count());
        }
        simt::gpu_release_fence();
        socket.unlock(direction, position);
    }
}
