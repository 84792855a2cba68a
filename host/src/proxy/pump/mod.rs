//! What moves between the rings of a stream and its peer, one attempt at a time. What an attempt is depends
//! on what carries the bytes, which is asked here and nowhere else.
//!
//! It touches the words and rings of its own stream, and what carries its bytes; not the schedule, and no
//! other socket.

mod bytes;
mod device;
mod kernels;
mod system;

use gpunet_device::abi::bits::PACKET_BYTES;

use super::channel::Channel;
use super::context::Context;
use super::shared::Readiness;
use super::stream::{Stream, StreamPhase};
use crate::memory::RingSlice;
use crate::transport::{Carrier, Direction, RingRegion};
use bytes::Bytes;

/// How an attempt at a socket went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Something moved; there may be more.
    Progress,
    /// Something moved; whatever else does is reported.
    Once,
    /// Nothing to do until the descriptor or the GPU says so.
    Idle,
    /// The receive ring is full: the GPU's next head is what counts.
    Full,
    /// The GPU's next head counts, and so does the descriptor.
    FullOrIdle,
    /// It was not tried: it backs off.
    BackOff,
    /// It was not tried: the net's limits leave it nothing now, and it is in the queue.
    Throttled,
}

/// What an attempt at one direction may have done for the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    Nothing,
    /// A device has learned of both directions: it must be asked, since its descriptor may not report it again.
    Learned,
    /// It has changed for the kernel.
    Changed,
}

/// What an attempt came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) turn: Turn,
    pub(super) other: Other,
}

impl Moved {
    pub(super) const NOTHING: Self = Turn::Idle.alone();
}

impl Turn {
    /// An attempt that did nothing for the other direction.
    const fn alone(self) -> Moved {
        Moved { turn: self, other: Other::Nothing }
    }

    /// An attempt by a device, which has learned of both directions.
    const fn learned(self) -> Moved {
        Moved { turn: self, other: Other::Learned }
    }
}

/// How much an attempt may move.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Most {
    /// So many bytes of the thread's time: of those that it copies itself.
    Copied(u64),
    /// So many bytes that the net's limits have granted.
    Granted(u64),
}

/// A stream whose bytes move. See the module.
pub(crate) struct Pump<'a> {
    pub(super) bytes: Bytes<'a>,
    pub(super) stream: &'a mut Stream,
    pub(super) carrier: &'a mut Carrier,
}

impl<'a> Pump<'a> {
    pub(super) fn new(
        channel: &'a mut Channel,
        stream: &'a mut Stream,
        carrier: &'a mut Carrier,
        context: &'a Context,
    ) -> Self {
        Self { bytes: Bytes { channel, context }, stream, carrier }
    }

    /// Receives once.
    pub(crate) fn receive(&mut self, most: Most) -> Moved {
        let Self { bytes, stream, carrier } = self;
        let open = stream.phase == StreamPhase::Open;
        let may_receive = open && !bytes.channel.endings.receive;
        let (Most::Copied(most) | Most::Granted(most)) = most;
        match carrier {
            Carrier::System(socket) if may_receive => {
                system::receive(socket.as_mut(), bytes, stream, most).alone()
            }
            Carrier::Device(device) if may_receive => {
                device::receive(device.as_mut(), bytes, stream, most).learned()
            }
            // One that has received all of the stream may still be notified that the other end is closed.
            Carrier::Kernels(peer) if open && bytes.channel.endings.failure.is_none() => {
                kernels::receive(peer.as_mut(), bytes)
            }
            _ => self.untried(Turn::Idle),
        }
    }

    /// The result of an attempt to receive that was not made: a device may have learned of what it sends
    /// all the same, and reports more than the kernel's next head.
    pub(super) fn untried(&self, turn: Turn) -> Moved {
        match (&self.carrier, turn) {
            (Carrier::Device(_), Turn::Full) => Turn::FullOrIdle.learned(),
            (Carrier::Device(_), turn) => turn.learned(),
            (_, turn) => turn.alone(),
        }
    }

    /// Sends once; then ends the direction if the kernel has.
    pub(crate) fn send(&mut self, most: Most) -> Moved {
        let Self { bytes, stream, carrier } = self;
        if bytes.channel.endings.send || stream.phase == StreamPhase::Connecting {
            return Moved::NOTHING;
        }
        match (carrier, most) {
            (Carrier::System(socket), Most::Copied(most) | Most::Granted(most)) => {
                let send = |slice: &RingSlice| socket.send(slice);
                bytes.send_with(most, send).unwrap_or_else(|| self.end_send()).alone()
            }
            // What a device moves takes none of the thread's time.
            (Carrier::Device(device), most) => {
                let most = if let Most::Granted(most) = most { most } else { u64::MAX };
                let send = |slice: &RingSlice| device.send(slice.len() as u64);
                bytes.send_with(most, send).unwrap_or_else(|| self.end_send()).learned()
            }
            (Carrier::Kernels(peer), _) => {
                // Who has closed it, or has seen it fail, need not know how the other end goes.
                let open = stream.phase == StreamPhase::Open;
                let moved = match open && bytes.channel.endings.failure.is_none() {
                    true => kernels::send(peer.as_mut(), bytes),
                    false => Moved::NOTHING,
                };
                let ends = bytes.channel.endings.finish_send && !bytes.channel.endings.send;
                if ends { Moved { turn: self.end_send(), ..moved } } else { moved }
            }
        }
    }

    /// Ends sending: the kernel has, and all is sent.
    fn end_send(&mut self) -> Turn {
        // An error here is one that receiving will meet, too.
        let _ = self.carrier.shutdown(Direction::Send);
        let channel = &mut self.bytes.channel;
        channel.endings.send = true;
        channel.publish_send(self.bytes.context.memory());
        Turn::Progress
    }

    /// Sees whether the stream has ended or failed, of a socket that may not receive now.
    pub(super) fn probe(&mut self) -> Moved {
        let Self { bytes, stream, carrier } = self;
        if bytes.channel.endings.receive || stream.phase != StreamPhase::Open {
            return self.untried(Turn::Idle);
        }
        match carrier {
            Carrier::System(socket) => bytes.probed(socket.peek()).alone(),
            Carrier::Device(device) => device::probe(device.as_mut(), bytes, stream).learned(),
            Carrier::Kernels(peer) => kernels::receive(peer.as_mut(), bytes),
        }
    }

    /// Uses a new value of the GPU's send tail. False: its bytes are still on their way, and it
    /// must be loaded again.
    pub(crate) fn use_tail(&mut self, word: u64) -> bool {
        let Bytes { channel, context } = &mut self.bytes;
        // Where the proxy moves no bytes for a socket, this word is still that of an earlier one. And once a
        // socket was closed no kernel has its handle: what is written then is not sent, and does not keep it.
        if !channel.moves(&channel.send) || self.stream.is_closing() {
            return true;
        }
        let Some(progress) = channel.send.read(word) else { return true };
        self.stream.one_way = 0;
        let (from, tail) = (channel.send.theirs, progress.count());
        let length = tail.wrapping_sub(from);
        let is_packet = progress.is_packet() && length != 0;
        // What cannot be sent at once is put into the ring, which has to be within reach.
        let reachable = channel.send.location.region == RingRegion::Host as u8;
        let sensible = !is_packet || (length <= PACKET_BYTES as u64 && reachable);
        let mut packet = None;
        if is_packet && sensible {
            packet = context.memory().read_packet(channel.index, from, length as usize);
            if packet.is_none() {
                return false;
            }
        }
        if !sensible || channel.send.update_tail(tail).is_err() {
            channel.violate("send tail", word, context);
        } else if let Some(mut packet) = packet {
            context.counters.sent_packets.add(1);
            self.send_packet(&mut packet[..length as usize]);
        }
        true
    }

    /// Loads the GPU's last send tail, of a kernel that has nothing on its way any more.
    pub(crate) fn load_last_tail(&mut self) {
        let context = self.bytes.context;
        let word = context.memory().send_tail(self.bytes.channel.index).load_acquire();
        if !self.use_tail(word) {
            self.bytes.channel.violate("send tail", word, context);
        }
    }

    /// Sends a packet without a look at the ring, where its bytes may not have arrived: what cannot be
    /// sent now is put there.
    fn send_packet(&mut self, packet: &mut [u8]) {
        let Self { bytes, stream, carrier } = self;
        let length = packet.len() as u64;
        // Where bytes are limited, each is granted first.
        let first = bytes.channel.send.unsent() == length && !bytes.context.limits().slow();
        if first
            && stream.phase == StreamPhase::Open
            && !bytes.channel.endings.send
            && let Carrier::System(socket) = carrier
        {
            bytes.sent(length, socket.send(&RingSlice::over(packet)));
        }
        let send = &bytes.channel.send;
        let left = send.unsent().min(length) as usize;
        let slice = bytes.context.memory().slice(&send.location, send.theirs - left as u64, left);
        slice.fill(&packet[packet.len() - left..]);
    }

    /// Bytes that a device was given to send, and has not reported.
    pub(super) fn under_way(&self) -> u64 {
        match &self.carrier {
            Carrier::Device(device) => device.untaken().min(self.bytes.channel.unsent()),
            Carrier::System(_) | Carrier::Kernels(_) => 0,
        }
    }

    /// Bytes that were sent and that the peer has not taken.
    pub(super) fn untaken(&self) -> u64 {
        match &self.carrier {
            _ if self.stream.flow.flying[Direction::Send as usize] == 0 => 0,
            Carrier::System(socket) => socket.untaken(),
            Carrier::Device(device) => device.untaken(),
            Carrier::Kernels(_) => 0,
        }
    }

    /// Whether a device has made progress that concerns the kernel, and that can be published
    /// without waiting for the net's limits.
    pub(super) fn has_progress(&self) -> bool {
        let (channel, Carrier::Device(device)) = (&self.bytes.channel, &self.carrier) else {
            return false;
        };
        let open = self.stream.phase == StreamPhase::Open;
        let receives = !channel.endings.receive
            && !self.stream.flow.queued[Direction::Receive as usize]
            && open;
        receives && device.has_progress(Direction::Receive)
            || channel.unsent() > 0 && device.has_progress(Direction::Send)
    }

    /// A turn has moved bytes without epoll's help. A socket that does so often is taken off epoll, whose
    /// callback would be part of each of the peer's sends: it is tried in every turn anyway.
    pub(super) fn leave_epoll(&mut self, io: &mut dyn Readiness) {
        let stream = &mut self.stream;
        stream.moves = stream.moves.saturating_add(1);
        let often = stream.moves >= self.bytes.context.pacing().often;
        let idle = stream.phase == StreamPhase::Open && self.bytes.channel.unsent() == 0;
        if !stream.off_epoll
            && often
            && idle
            && let Some(descriptor) = self.carrier.descriptor()
        {
            io.remove(descriptor);
            stream.off_epoll = true;
        }
    }
}
