//! P2p streams: bytes and counters go from kernel to kernel, so there is nothing to move. What is left: how
//! the other end goes, and, where a poller watches, how far both kernels are.

use super::{Bytes, Moved, Other, Turn};
use crate::transport::{KernelStream, PeerProgress};

/// What an exchange with the other end's proxy has changed.
struct Exchanged {
    received: bool,
    sent: bool,
    more: bool,
}

/// Receives what the other end's proxy has sent of its progress, and reports this end's.
pub(super) fn receive(peer: &mut dyn KernelStream, bytes: &mut Bytes<'_>) -> Moved {
    let Exchanged { received, sent, more } = exchange(peer, bytes);
    let turn = match received || sent || more {
        true => Turn::Progress,
        // The kernel's next head must be reported to the other end.
        false if peer.is_watched() => Turn::FullOrIdle,
        false => Turn::Idle,
    };
    Moved { turn, other: if sent { Other::Changed } else { Other::Nothing } }
}

/// The same, for the direction that sends. `open`: the kernel has not closed the stream.
pub(super) fn send(peer: &mut dyn KernelStream, bytes: &mut Bytes<'_>, open: bool) -> Moved {
    if !open || bytes.channel.endings.failure.is_some() {
        peer.report_progress(bytes.channel.send.theirs, bytes.channel.receive.theirs);
        return Moved::NOTHING;
    }
    let Exchanged { received, sent, .. } = exchange(peer, bytes);
    // One exchange a visit: a hostile proxy could make many of them.
    let turn = if sent { Turn::Once } else { Turn::Idle };
    Moved { turn, other: if received { Other::Changed } else { Other::Nothing } }
}

fn exchange(peer: &mut dyn KernelStream, bytes: &mut Bytes<'_>) -> Exchanged {
    bytes.channel.load_head(bytes.context);
    let progress = peer.receive_progress();
    // Where the control channel takes nothing now, its descriptor reports when it does.
    peer.report_progress(bytes.channel.send.theirs, bytes.channel.receive.theirs);
    match progress {
        Ok(progress) => note(progress, bytes),
        Err(errno) => {
            bytes.channel.fail(errno, bytes.context);
            Exchanged { received: true, sent: true, more: false }
        }
    }
}

/// Notes how far the other end is.
fn note(progress: PeerProgress, bytes: &mut Bytes<'_>) -> Exchanged {
    let (channel, memory) = (&mut *bytes.channel, bytes.context.memory());
    let (received, sent) = (channel.receive.ours, channel.send.ours);
    let ends = progress.ended && !channel.endings.receive;
    let closes = progress.closed && !channel.endings.send;
    let capacity = u64::from(channel.receive.location.capacity);
    let (head, tail) = (channel.receive.theirs, channel.send.theirs);
    // What the other end says of itself is not trusted to make sense.
    channel.receive.ours = received.max(progress.sent.min(head + capacity));
    channel.send.ours = sent.max(progress.received.min(tail));
    if closes {
        // Before the end of what is received: who has seen that sends no more.
        channel.endings.send = true;
        channel.publish_send(memory);
    }
    if ends {
        channel.endings.receive = true;
        channel.publish_receive(memory);
    }
    Exchanged {
        received: ends || channel.receive.ours != received,
        sent: closes || channel.send.ours != sent,
        more: progress.more,
    }
}
