//! Receiving by a device: bytes come by themselves; the proxy learns how many did, and reports how far the
//! kernel has read.

use super::{Bytes, Turn};
use crate::proxy::stream::Stream;
use crate::transport::{DeviceStream, Transferred};

/// Learns once how many bytes have come, at most `most`.
pub(super) fn receive(
    device: &mut dyn DeviceStream,
    bytes: &mut Bytes<'_>,
    stream: &mut Stream,
    most: u64,
) -> Turn {
    if device.wants_head() {
        bytes.channel.load_head(bytes.context);
        if bytes.channel.endings.receive {
            return Turn::Idle;
        }
    }
    let progressed = report_head(device, bytes, stream);
    let receive = &bytes.channel.receive;
    let free = u64::from(receive.location.capacity) - receive.unread();
    match device.receive(free.min(most)) {
        Ok(Transferred::Bytes(0)) => Turn::Progress,
        Ok(Transferred::Later) => waits(device, bytes, progressed),
        result => bytes.attempted(free, result),
    }
}

/// Sees whether the stream has ended or failed.
pub(super) fn probe(
    device: &mut dyn DeviceStream,
    bytes: &mut Bytes<'_>,
    stream: &mut Stream,
) -> Turn {
    // Bytes come once it is known what the kernel has read.
    bytes.channel.load_head(bytes.context);
    let progressed = report_head(device, bytes, stream);
    match device.peek() {
        Ok(Transferred::Later) => waits(device, bytes, progressed),
        found => bytes.probed(found),
    }
}

/// Reports how far the kernel has read. Whether that is news.
fn report_head(device: &mut dyn DeviceStream, bytes: &Bytes<'_>, stream: &mut Stream) -> bool {
    let head = bytes.channel.receive.theirs;
    device.consumed(head);
    std::mem::replace(&mut stream.reported_head, head) != head
}

/// What a device waits for that has nothing to report.
fn waits(device: &dyn DeviceStream, bytes: &Bytes<'_>, progressed: bool) -> Turn {
    match bytes.channel.receive.unread() > 0 && device.wants_head() {
        // Said again, it means that the kernel waits: the peer gets what little room there is.
        true if progressed => Turn::Progress,
        // The peer waits for the kernel's next head.
        true => Turn::FullOrIdle,
        false => Turn::Idle,
    }
}
