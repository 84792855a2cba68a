//! Counts what was moved, and publishes it: the same for whatever carries the bytes.

use gpunet_device::abi::bits::{PACKET_BYTES, Unit};
use gpunet_device::abi::errno::Errno;
use gpunet_device::planted::{Bug, planted};

use super::Turn;
use crate::memory::RingSlice;
use crate::proxy::channel::Channel;
use crate::proxy::context::Context;
use crate::transport::{RingRegion, Transferred};

/// The rings and counters of a stream.
pub(in crate::proxy) struct Bytes<'a> {
    pub(in crate::proxy) channel: &'a mut Channel,
    pub(in crate::proxy) context: &'a Context,
}

impl Bytes<'_> {
    /// Counts bytes that have arrived in the ring.
    fn received(&mut self, bytes: u64) -> Turn {
        let channel = &mut self.channel;
        channel.packet_holds = false;
        let within_reach = channel.receive.location.region == RingRegion::Host as u8;
        if bytes <= PACKET_BYTES as u64 && within_reach {
            self.write_packet(bytes);
        }
        self.channel.receive.ours += bytes;
        self.channel.publish_receive(self.context.memory());
        self.context.counters.received_bytes.add(bytes);
        Turn::Progress
    }

    /// Puts a packet that was just received into the inbox, if the kernel has taken everything before
    /// it: it may still be reading the units otherwise.
    fn write_packet(&mut self, length: u64) {
        self.channel.load_head(self.context);
        let (memory, channel) = (self.context.memory(), &mut *self.channel);
        let begin = channel.receive.ours;
        if channel.receive.theirs != begin {
            return;
        }
        if Unit::are_apart(channel.units_since, begin) {
            // These bytes go by the ring, and what is published with them is that no unit is old.
            channel.units_since = begin;
            memory.renew_units(channel.index, begin);
            return;
        }
        channel.packet_holds = true;
        let slice = memory.slice(&channel.receive.location, begin, length as usize);
        memory.write_packet(channel.index, &slice, begin);
        self.context.counters.received_packets.add(1);
    }

    /// Nothing more will be received: the peer has ended its stream, or it failed.
    fn end_receive(&mut self, failure: Option<Errno>) -> Turn {
        match failure {
            Some(errno) => self.channel.fail(errno, self.context),
            None => {
                self.channel.endings.receive = true;
                self.channel.publish_receive(self.context.memory());
            }
        }
        Turn::Progress
    }

    /// Takes the result of an attempt to receive, which all carriers report alike.
    pub(super) fn attempted(&mut self, most: u64, result: Result<Transferred, Errno>) -> Turn {
        match result {
            Ok(Transferred::Bytes(count)) => self.received((count as u64).min(most)),
            Ok(Transferred::Later) => Turn::Idle,
            Ok(Transferred::End) => self.end_receive(None),
            Err(errno) => self.end_receive(Some(errno)),
        }
    }

    /// What a look without receiving has found.
    pub(super) fn probed(&mut self, found: Result<Transferred, Errno>) -> Turn {
        match found {
            Ok(Transferred::Bytes(_)) => Turn::Throttled,
            found => self.attempted(0, found),
        }
    }

    /// Sends at most `most` bytes of those that wait in the ring. None: none wait, and the direction must end.
    pub(super) fn send_with(
        &mut self,
        most: u64,
        send: impl FnOnce(&RingSlice) -> Result<Transferred, Errno>,
    ) -> Option<Turn> {
        let waiting = self.channel.send.unsent();
        let finish = self.channel.endings.finish_send;
        if finish && (waiting == 0 || planted(Bug::EndedBeforeSent)) {
            return None;
        }
        let length = waiting.min(most);
        if length == 0 {
            return Some(Turn::Idle);
        }
        let ring = &self.channel.send;
        let slice = self.context.memory().slice(&ring.location, ring.ours, length as usize);
        Some(self.sent(length, send(&slice)))
    }

    /// Takes the result of an attempt to send at most `most` bytes.
    pub(super) fn sent(&mut self, most: u64, result: Result<Transferred, Errno>) -> Turn {
        match result {
            Ok(Transferred::Bytes(bytes)) => {
                let bytes = (bytes as u64).min(most);
                self.channel.send.ours += bytes;
                self.channel.publish_send(self.context.memory());
                self.context.counters.sent_bytes.add(bytes);
                Turn::Progress
            }
            Ok(Transferred::Later | Transferred::End) => Turn::Idle,
            Err(errno) => {
                self.channel.fail_send(errno, self.context);
                Turn::Progress
            }
        }
    }
}
