//! Receiving from a socket of the system: it reads into the ring itself.

use gpunet_device::planted::{Bug, planted};

use super::{Bytes, Turn};
use crate::proxy::stream::Stream;
use crate::transport::SystemStream;

/// Receives once, as much as fits and no more than `most`.
pub(super) fn receive(
    socket: &mut dyn SystemStream,
    bytes: &mut Bytes<'_>,
    stream: &mut Stream,
    most: u64,
) -> Turn {
    let (channel, context) = (&mut *bytes.channel, bytes.context);
    let capacity = u64::from(channel.receive.location.capacity);
    if channel.receive.unread() >= capacity / 2 {
        channel.load_head(context);
    }
    let mut free = capacity - channel.receive.unread();
    if free == 0 && planted(Bug::FullTakenForFree) {
        free = 16;
    }
    // The head may have been one that makes no sense. And to ask for nothing would look like the end.
    if channel.endings.receive || most == 0 {
        return Turn::Idle;
    }
    if free == 0 {
        return Turn::Full;
    }
    let (free, receive) = (free.min(most), &channel.receive);
    let slice = context.memory().slice(&receive.location, receive.ours, free as usize);
    let before = receive.ours;
    let turn = bytes.attempted(free, socket.receive(&slice));
    let channel = &mut *bytes.channel;
    stream.one_way += channel.receive.ours - before;
    if turn == Turn::Idle && channel.packet_holds && channel.receive.unread() > 0 {
        // Now, and not when the next bytes are urgent.
        channel.load_head(context);
    }
    turn
}
