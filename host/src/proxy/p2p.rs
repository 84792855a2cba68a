//! P2p streams as a shard has them: bytes and counters go from kernel to kernel, so there is
//! nothing to move. What is left: how the other end goes, and, where a poller watches, how far
//! both kernels are.

use gpunet_device::Handle;

use super::context::Context;
use super::counted::Counted;
use super::entry::Entry;
use super::shard::Shard;
use super::stream::Turn;
use crate::memory::Memory;
use crate::transport::{Direction, PeerProgress};

/// When the inbox is read once more after a poller began to watch: what the other end's kernel did
/// before it was notified of that has long reached memory by then.
const REREAD_NS: u64 = 5_000_000;

impl Entry {
    /// Uses the rings that a p2p stream has brought; nothing for any other socket.
    pub(crate) fn use_own_rings(&mut self, memory: &Memory) {
        let p2p = self.socket.as_mut().and_then(|socket| socket.p2p());
        let Some((rings, inboxes)) = p2p.and_then(|p2p| p2p.rings()) else { return };
        let head = memory.receive_head(self.channel.index).load();
        let tail = memory.send_tail(self.channel.index).load();
        self.channel.receive = Counted::p2p(rings.receive, head);
        self.channel.send = Counted::p2p(rings.send, tail);
        self.channel.inboxes = Some(inboxes);
    }

    /// Receives what the other end's proxy has sent of its progress, and reports this end's.
    pub(super) fn receive_p2p_progress(&mut self, context: &Context) -> Turn {
        self.load_head(context);
        let (tail, head) = (self.channel.send.theirs, self.channel.receive.theirs);
        let Some(p2p) = self.socket.as_mut().and_then(|socket| socket.p2p()) else {
            return Turn::Idle;
        };
        let progress = p2p.receive_progress();
        // Where the control channel takes nothing now, its descriptor reports when it does.
        p2p.report_progress(tail, head);
        let watched = p2p.is_watched();
        match progress {
            Ok(progress) if self.note_progress(progress, context.memory()) || progress.more => {
                Turn::Progress
            }
            // The kernel's next head is to be reported to the other end.
            Ok(_) if watched => Turn::Full,
            Ok(_) => Turn::Idle,
            Err(errno) => {
                self.fail(errno, context);
                Turn::Progress
            }
        }
    }

    /// Notes how far the other end is. Whether anything is new.
    fn note_progress(&mut self, progress: PeerProgress, memory: &Memory) -> bool {
        let channel = &mut self.channel;
        let state = |channel: &super::channel::Channel| {
            let counts = (channel.receive.ours, channel.send.ours);
            (counts, channel.receive_ended, channel.send_ended)
        };
        let before = state(channel);
        let capacity = u64::from(channel.receive.location.capacity);
        let (head, tail) = (channel.receive.theirs, channel.send.theirs);
        // What the other end says of itself is not trusted to make sense.
        channel.receive.ours = channel.receive.ours.max(progress.sent.min(head + capacity));
        channel.send.ours = channel.send.ours.max(progress.received.min(tail));
        if progress.closed && !channel.send_ended {
            // Before the end of what is received: who has seen that sends no more.
            channel.send_ended = true;
            channel.publish_send(memory);
        }
        if progress.ended && !channel.receive_ended {
            channel.receive_ended = true;
            channel.publish_receive(memory);
        }
        before != state(channel)
    }

    /// Ends sending if the kernel has: what it sent is at the other end already.
    pub(super) fn end_p2p(&mut self, memory: &Memory) -> Turn {
        let (tail, head) = (self.channel.send.theirs, self.channel.receive.theirs);
        let finish = self.channel.finish_send
            && !self.channel.send_ended
            && self.looks_open_until_ns.is_none();
        let Some(socket) = &mut self.socket else { return Turn::Idle };
        if let Some(p2p) = socket.p2p() {
            p2p.report_progress(tail, head);
        }
        if !finish {
            return Turn::Idle;
        }
        // Who is gone need not be notified.
        let _ = socket.shutdown(Direction::Send);
        self.channel.send_ended = true;
        self.channel.publish_send(memory);
        Turn::Progress
    }
}

impl Shard {
    /// A poller watches a socket from now on: where that is a p2p stream, the other end is to
    /// report how far it is.
    pub(super) fn watch_p2p(&mut self, handle: Handle) {
        let due_ns = self.context.now_ns + REREAD_NS;
        let Some(entry) = self.table.find(handle) else { return };
        let Some(p2p) = entry.socket.as_mut().and_then(|socket| socket.p2p()) else { return };
        p2p.watch();
        entry.load_last_tail(&self.context);
        match entry.receive_p2p_progress(&self.context) {
            Turn::Full => self.schedule.await_head(entry, self.context.memory()),
            Turn::Progress => self.schedule.poll_busily(entry, 1),
            _ => {}
        }
        if let Some(stream) = entry.stream_mut() {
            stream.reread_ns = Some(due_ns);
            self.schedule.arm(entry, due_ns);
        }
    }

    /// Reads the inbox of a p2p stream once more, whose watching has just begun.
    pub(super) fn reread_inbox(&mut self, handle: Handle) {
        let Some(entry) = self.table.find(handle) else { return };
        let Some(p2p) = entry.socket.as_mut().and_then(|socket| socket.p2p()) else { return };
        let again = p2p.read_progress();
        match entry.receive_p2p_progress(&self.context) {
            Turn::Full => self.schedule.await_head(entry, self.context.memory()),
            Turn::Progress => self.schedule.poll_busily(entry, 1),
            _ => {}
        }
        if again && let Some(stream) = entry.stream_mut() {
            let due_ns = self.context.now_ns + REREAD_NS;
            stream.reread_ns = Some(due_ns);
            self.schedule.arm(entry, due_ns);
        }
        let slot = handle.slot() as usize;
        self.notify_readable(slot);
        self.notify_writable(slot);
    }
}
