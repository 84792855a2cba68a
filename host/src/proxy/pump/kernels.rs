//! P2p streams: bytes and counters go from kernel to kernel, so there is nothing to move. What is left: how
//! the other end goes.

use super::{Bytes, Moved, Other, Turn};
use crate::transport::KernelStream;

/// What an exchange with the other end's proxy has changed.
struct Exchanged {
    received: bool,
    sent: bool,
    more: bool,
}

/// Receives what the other end's proxy has sent of its end.
pub(super) fn receive(peer: &mut dyn KernelStream, bytes: &mut Bytes<'_>) -> Moved {
    let Exchanged { received, sent, more } = exchange(peer, bytes);
    let turn = if received || sent || more { Turn::Progress } else { Turn::Idle };
    Moved { turn, other: if sent { Other::Changed } else { Other::Nothing } }
}

/// The same, for the direction that sends.
pub(super) fn send(peer: &mut dyn KernelStream, bytes: &mut Bytes<'_>) -> Moved {
    let Exchanged { received, sent, .. } = exchange(peer, bytes);
    // One exchange a visit: a hostile proxy could make many of them.
    let turn = if sent { Turn::Once } else { Turn::Idle };
    Moved { turn, other: if received { Other::Changed } else { Other::Nothing } }
}

fn exchange(peer: &mut dyn KernelStream, bytes: &mut Bytes<'_>) -> Exchanged {
    let (channel, memory) = (&mut *bytes.channel, bytes.context.memory());
    let Ok(ending) = peer.receive_ending().inspect_err(|errno| channel.fail(*errno, bytes.context))
    else {
        return Exchanged { received: true, sent: true, more: false };
    };
    let received = ending.ended && !channel.endings.receive;
    let sent = ending.closed && !channel.endings.send;
    if sent {
        // Before the end of what is received: who has seen that sends no more.
        channel.endings.send = true;
        channel.publish_send(memory);
    }
    if received {
        channel.endings.receive = true;
        channel.publish_receive(memory);
    }
    Exchanged { received, sent, more: ending.more }
}
