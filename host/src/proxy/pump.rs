//! What moves between the rings of a stream and its peer, one attempt at a time.

use gpunet_device::abi::bits::{PACKET_BYTES, Unit};
use gpunet_device::abi::errno::Errno;
use gpunet_device::planted::{Bug, planted};

use super::context::Context;
use super::counted::MOST;
use super::entry::{Entry, Role};
use super::shared::Readiness;
use super::stream::Turn;
use crate::memory::RingSlice;
use crate::transport::{Direction, RingRegion, Transferred};

impl Entry {
    /// Loads the GPU's last send tail, of a kernel that has nothing on its way any more.
    pub(crate) fn load_last_tail(&mut self, context: &Context) {
        let word = context.memory().send_tail(self.channel.index).load_acquire();
        if !self.use_tail(word, context) {
            self.violate("send tail", word, context);
        }
    }

    /// Uses a new value of the GPU's send tail. False: its bytes are still on their way, and it
    /// is to be loaded again.
    pub(crate) fn use_tail(&mut self, word: u64, context: &Context) -> bool {
        // As in load_head. And once it was closed nobody has the handle: what is written from
        // then on is not sent, and does not keep the socket.
        if self.channel.send.location.capacity == 0 || self.is_closing() {
            return true;
        }
        let Some(progress) = self.channel.send.read(word) else { return true };
        if let Some(stream) = self.stream_mut() {
            stream.one_way = 0;
        }
        let (from, tail) = (self.channel.send.theirs, progress.count());
        let length = tail.wrapping_sub(from);
        let is_packet = progress.is_packet() && length != 0;
        // What cannot be sent at once is put into the ring, which has to be within reach.
        let reachable = self.channel.send.location.region == RingRegion::Host as u8;
        let sensible = !is_packet || (length <= PACKET_BYTES as u64 && reachable);
        let mut bytes = None;
        if is_packet && sensible {
            bytes = context.memory().read_packet(self.channel.index, from, length as usize);
            if bytes.is_none() {
                return false;
            }
        }
        let limit = match self.channel.is_p2p() {
            true => MOST,
            false => self.channel.send.ours + u64::from(self.channel.send.location.capacity),
        };
        if !sensible || self.channel.send.update(tail, limit).is_err() {
            self.violate("send tail", word, context);
        } else if let Some(mut bytes) = bytes {
            context.counters.sent_packets.add(1);
            self.send_packet(&mut bytes[..length as usize], context);
        }
        true
    }

    /// Sends a packet without a look at the ring, where its bytes may not have arrived: what cannot be
    /// sent now is put there.
    fn send_packet(&mut self, bytes: &mut [u8], context: &Context) {
        let length = bytes.len() as u64;
        let first = self.channel.send.theirs - self.channel.send.ours == length;
        // Where bytes are limited, each is granted first.
        let first = first && !context.limits().slow() && !self.places_bytes();
        if first
            && self.is_open()
            && !self.channel.send_ended
            && let Some(socket) = &mut self.socket
        {
            match socket.send(&RingSlice::over(bytes)) {
                Ok(Transferred::Bytes(sent)) => {
                    self.count_sent(sent.min(bytes.len()) as u64, context);
                }
                Ok(Transferred::Later | Transferred::End) => {}
                Err(errno) => self.fail_send(errno, context),
            }
        }
        let send = &self.channel.send;
        let left = (send.theirs - send.ours).min(bytes.len() as u64) as usize;
        let slice = context.memory().slice(&send.location, send.theirs - left as u64, left);
        slice.fill(&bytes[bytes.len() - left..]);
    }

    /// So many bytes were sent.
    fn count_sent(&mut self, bytes: u64, context: &Context) {
        self.channel.send.ours += bytes;
        self.channel.publish_send(context.memory());
        context.counters.sent_bytes.add(bytes);
    }

    /// Receives once, as much as fits and no more than `most`.
    pub(crate) fn pump_receive(&mut self, context: &Context, most: u64) -> Turn {
        // One that has received all of the stream may still be notified that the other end is closed.
        if self.channel.is_p2p() && self.is_open() && self.channel.failure.is_none() {
            return self.receive_p2p_progress(context);
        }
        if self.channel.receive_ended || !self.is_open() {
            return Turn::Idle;
        }
        if self.places_bytes() {
            return self.receive_progress(context, most);
        }
        let capacity = u64::from(self.channel.receive.location.capacity);
        if self.channel.receive.unread() >= capacity / 2 {
            self.load_head(context);
        }
        let mut free = capacity - self.channel.receive.unread();
        if free == 0 && planted(Bug::FullTakenForFree) {
            free = 16;
        }
        if self.channel.receive_ended {
            return Turn::Idle;
        }
        if free == 0 {
            return Turn::Full;
        }
        let Some(socket) = &mut self.socket else { return Turn::Idle };
        let free = free.min(most);
        if free == 0 {
            // To ask for nothing would look like the end.
            return Turn::Idle;
        }
        let receive = &self.channel.receive;
        let slice = context.memory().slice(&receive.location, receive.ours, free as usize);
        match socket.receive(&slice) {
            Ok(Transferred::Bytes(bytes)) => {
                let bytes = (bytes as u64).min(free);
                if let Some(stream) = self.stream_mut() {
                    stream.one_way += bytes;
                }
                self.count_received(bytes, context)
            }
            Ok(Transferred::Later) => {
                // Now, and not when the next bytes are in a hurry.
                if self.channel.packet_holds && self.channel.receive.unread() > 0 {
                    self.load_head(context);
                }
                Turn::Idle
            }
            Ok(Transferred::End) => self.end_receive(None, context),
            Err(errno) => self.end_receive(Some(errno), context),
        }
    }

    /// The same of a socket whose bytes come by themselves: learns how many did, and reports how far
    /// the kernel has read.
    fn receive_progress(&mut self, context: &Context, most: u64) -> Turn {
        let wants_head = |this: &Self| this.socket.as_ref().is_some_and(|s| s.wants_head());
        if wants_head(self) {
            self.load_head(context);
            if self.channel.receive_ended {
                return Turn::Idle;
            }
        }
        let receive = &self.channel.receive;
        let free = u64::from(receive.location.capacity) - self.unread();
        let free = free.min(most);
        let slice = context.memory().slice(&receive.location, receive.ours, free as usize);
        let head = receive.theirs;
        let progressed = std::mem::replace(&mut self.channel.reported_head, head) != head;
        let Some(socket) = &mut self.socket else { return Turn::Idle };
        socket.consumed(head);
        match socket.receive(&slice) {
            Ok(Transferred::Bytes(0)) => Turn::Progress,
            Ok(Transferred::Bytes(bytes)) => self.count_received((bytes as u64).min(free), context),
            // Said again, it means that the kernel waits: the peer gets what little room there is.
            Ok(Transferred::Later) if progressed && self.unread() > 0 && wants_head(self) => {
                Turn::Progress
            }
            // The peer waits for the kernel's next head.
            Ok(Transferred::Later) if self.unread() > 0 && wants_head(self) => Turn::Full,
            Ok(Transferred::Later) => Turn::Idle,
            Ok(Transferred::End) => self.end_receive(None, context),
            Err(errno) => self.end_receive(Some(errno), context),
        }
    }

    /// So many bytes have arrived, and stand in the ring.
    fn count_received(&mut self, bytes: u64, context: &Context) -> Turn {
        self.channel.packet_holds = false;
        let within_reach = self.channel.receive.location.region == RingRegion::Host as u8;
        if bytes <= PACKET_BYTES as u64 && within_reach {
            self.write_packet(bytes, context);
        }
        self.channel.receive.ours += bytes;
        self.channel.publish_receive(context.memory());
        context.counters.received_bytes.add(bytes);
        Turn::Progress
    }

    /// Nothing more will be received: the peer has ended its stream, or it failed.
    fn end_receive(&mut self, failure: Option<Errno>, context: &Context) -> Turn {
        match failure {
            Some(errno) => self.fail(errno, context),
            None => {
                self.channel.receive_ended = true;
                self.channel.publish_receive(context.memory());
            }
        }
        Turn::Progress
    }

    /// Sees whether the stream has ended or failed, of a socket that may not receive now.
    pub(super) fn probe(&mut self, context: &Context) -> Turn {
        if self.channel.receive_ended || !self.is_open() {
            return Turn::Idle;
        }
        // Bytes that come by themselves come once it is known what the kernel has read.
        if self.places_bytes() {
            self.load_head(context);
        }
        let (head, unread) = (self.channel.receive.theirs, self.unread());
        let progressed = std::mem::replace(&mut self.channel.reported_head, head) != head;
        let Some(socket) = &mut self.socket else { return Turn::Idle };
        socket.consumed(head);
        match socket.peek() {
            Ok(Transferred::Bytes(_)) => Turn::Throttled,
            Ok(Transferred::Later) if progressed && unread > 0 && socket.wants_head() => {
                Turn::Progress
            }
            Ok(Transferred::Later) if unread > 0 && socket.wants_head() => Turn::Full,
            Ok(Transferred::Later) => Turn::Idle,
            Ok(Transferred::End) => self.end_receive(None, context),
            Err(errno) => self.end_receive(Some(errno), context),
        }
    }

    /// Puts a packet that was just received into the inbox, if the kernel has taken everything before
    /// it: it may still be reading the units otherwise.
    fn write_packet(&mut self, length: u64, context: &Context) {
        self.load_head(context);
        let (memory, channel) = (context.memory(), &mut self.channel);
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
        context.counters.received_packets.add(1);
    }

    /// Sends once, as much as there is and no more than `most`; then ends the direction if the kernel
    /// has.
    pub(crate) fn pump_send(&mut self, context: &Context, most: u64) -> Turn {
        let streaming = self.is_open() || self.is_closing();
        if self.channel.send_ended || !streaming {
            return Turn::Idle;
        }
        if self.channel.is_p2p() {
            return self.end_p2p(context.memory());
        }
        let Some(socket) = &mut self.socket else { return Turn::Idle };
        let send = &self.channel.send;
        let waiting = send.theirs - send.ours;
        if waiting == 0 || (self.channel.finish_send && planted(Bug::EndedBeforeSent)) {
            if !self.channel.finish_send {
                return Turn::Idle;
            }
            // An error here is one that receiving will meet, too.
            let _ = socket.shutdown(Direction::Send);
            self.channel.send_ended = true;
            self.channel.publish_send(context.memory());
            return Turn::Progress;
        }
        let waiting = waiting.min(most);
        if waiting == 0 {
            return Turn::Idle;
        }
        let slice = context.memory().slice(&send.location, send.ours, waiting as usize);
        match socket.send(&slice) {
            Ok(Transferred::Bytes(bytes)) => {
                self.count_sent((bytes as u64).min(waiting), context);
                Turn::Progress
            }
            Ok(Transferred::Later | Transferred::End) => Turn::Idle,
            Err(errno) => {
                self.fail_send(errno, context);
                Turn::Progress
            }
        }
    }

    /// A turn has moved bytes without epoll's help. Who does so `often` is taken off epoll, whose
    /// callback would be part of each of the peer's sends: it is tried in every turn anyway.
    pub(crate) fn leave_epoll(&mut self, often: u32, io: &mut dyn Readiness) {
        let (open, unsent) = (self.is_open(), self.channel.unsent());
        let descriptor = self.socket.as_ref().and_then(|socket| socket.descriptor());
        let Role::Stream(stream) = &mut self.role else { return };
        stream.moves = stream.moves.saturating_add(1);
        if stream.off_epoll || stream.moves < often || !open || unsent > 0 {
            return;
        }
        if let Some(descriptor) = descriptor {
            io.remove(descriptor);
            stream.off_epoll = true;
        }
    }

    /// Bytes that a kernel has received and will read.
    pub(super) fn unread(&self) -> u64 {
        if self.is_open() { self.channel.receive.unread() } else { 0 }
    }

    /// Whether its transport has made progress that concerns the kernel, and that can be published
    /// without waiting for the net's limits.
    pub(super) fn has_progress(&self) -> bool {
        let (Some(socket), Some(stream)) = (&self.socket, self.stream()) else { return false };
        let receives = !self.channel.receive_ended && !stream.flow.queued_receive && self.is_open();
        let sends = self.channel.unsent() > 0;
        receives && socket.has_progress(Direction::Receive)
            || sends && socket.has_progress(Direction::Send)
    }
}
