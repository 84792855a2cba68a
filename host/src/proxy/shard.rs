//! A shard: the sockets of one proxy thread, as a state machine.
//!
//! It is notified from outside through [`Shard::ready`] and its message queue, and takes [`Shard::turn`]s;
//! it neither waits nor reads a clock. Only its own thread touches it.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::message::Request;

use super::context::Context;
use super::entry::{Closer, Entry, Owner, Phase};
use super::message::Message;
use super::schedule::Schedule;
use super::shared::{Readiness, Shared};
use super::statistics::Counters;
use super::table::Table;

/// Between two looks at what closed streams have left behind, and at slots that need no scan.
const TIDY_NS: u64 = 20_000_000;

/// The sockets of one proxy thread.
pub(crate) struct Shard {
    pub(crate) context: Context,
    pub(super) table: Table,
    pub(super) schedule: Schedule,
    queue: Receiver<Message>,
    tidy_at_ns: u64,
}

impl Shard {
    pub(crate) fn new(
        id: usize,
        shared: Arc<Shared>,
        counters: Arc<Counters>,
        queue: Receiver<Message>,
    ) -> Self {
        let layout = *shared.memory.layout();
        let (slots, requests) = (layout.socket_slots as usize, layout.request_slots as usize);
        Self {
            context: Context::new(id, shared, counters),
            table: Table::new(slots),
            schedule: Schedule::new(slots, requests),
            queue,
            tidy_at_ns: 0,
        }
    }

    /// Whether sockets are being tried without asking epoll.
    pub(crate) fn is_busy(&self) -> bool {
        !self.schedule.busy.is_empty()
    }

    /// Whether no socket is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// One round over everything that may have work. Whether there was any.
    pub(crate) fn turn(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        self.context.now_ns = now_ns;
        self.context.beat();
        self.context.counters.turns.add(1);
        let mut worked = self.answer_requests(now_ns, io);
        worked |= self.retry_throttled(now_ns);
        worked |= self.go_on_sending();
        worked |= self.scan_tails();
        worked |= self.poll_busy(now_ns, io);
        worked |= self.scan_heads(io);
        worked |= self.ring_timers(now_ns, io);
        worked |= self.write_events();
        worked |= self.finish_closing(now_ns, io);
        self.watch_again(io);
        self.tidy(now_ns);
        // The heartbeat, if nothing else, may still be in the processor, and the thread may sleep.
        self.context.memory().flush();
        worked
    }

    fn tidy(&mut self, now_ns: u64) {
        if now_ns < self.tidy_at_ns {
            return;
        }
        self.tidy_at_ns = now_ns + TIDY_NS;
        self.table.shrink();
        // One thread clears up after all.
        if self.context.id == 0 {
            self.context.shared.transports.tidy();
        }
    }

    /// Takes what came in. Called by the thread in each round, and before requests are answered.
    pub(crate) fn receive_messages(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        self.context.now_ns = now_ns;
        let mut any = false;
        while let Ok(message) = self.queue.try_recv() {
            any = true;
            self.context.beat();
            self.handle_message(message, now_ns, io);
        }
        any
    }

    fn handle_message(&mut self, message: Message, now_ns: u64, io: &mut dyn Readiness) {
        match message {
            Message::Adopt(entry) => self.adopt(entry, io),
            Message::Notify { poller, notice } => self.notify(poller, notice),
            Message::PassOn { listener, poller, connections, gone } => {
                self.pass_on(listener, poller, connections, gone);
            }
            Message::CommitAccepts(done) => {
                self.commit_accepts();
                let _ = done.send(());
            }
            Message::LaunchEnded { launch, last, done } => {
                self.launch_ended(launch, last, now_ns);
                // Who has waited for the kernel finds its slots free, and calls of other launches on
                // its sockets fail.
                self.finish_closing(now_ns, io);
                self.context.shared.drain.notify_when_closed(done);
            }
            Message::CloseListeners { which, done } => {
                self.close_listeners(which.as_deref(), now_ns);
                self.finish_closing(now_ns, io);
                let _ = done.send(());
            }
            Message::Close(handle) => {
                self.close(handle, Closer::Host, now_ns);
            }
            Message::CloseForProgram { handle, done } => {
                if self.close(handle, Closer::Host, now_ns) {
                    self.finish_closing(now_ns, io);
                    self.context.shared.drain.notify_when_closed(done);
                }
            }
            Message::SeenClosed(handle) => self.seen_closed(handle),
            Message::Drained(handle) => self.drained(handle),
            Message::Release { handle, to } => {
                let released = self.release(handle, io);
                if matches!(released, Err(errno) if errno != Errno::EAGAIN)
                    && self.has_failed(handle)
                {
                    // Nobody could close it but a kernel.
                    self.close(handle, Closer::Host, now_ns);
                    self.finish(handle, now_ns, io);
                }
                let _ = to.send(released);
            }
            Message::Dump(to) => {
                let context = &self.context;
                let states = self.table.iter_mut().map(|entry| {
                    entry.load_head(context);
                    entry.describe()
                });
                let _ = to.send(states.collect());
            }
            #[cfg(feature = "fault-injection")]
            Message::Panic => panic!("a panic was asked for"),
            #[cfg(feature = "fault-injection")]
            Message::Stall(time) => std::thread::sleep(time),
        }
    }

    /// The entry that a handle names.
    #[cfg(test)]
    pub(crate) fn find(&mut self, handle: Handle) -> Option<&mut Entry> {
        self.table.find(handle)
    }

    /// The same, with the GPU's head as it is now.
    #[cfg(test)]
    pub(crate) fn find_now(&mut self, handle: Handle) -> Option<&mut Entry> {
        let entry = self.table.find(handle)?;
        entry.load_head(&self.context);
        Some(entry)
    }

    fn has_failed(&mut self, handle: Handle) -> bool {
        self.table.find(handle).is_some_and(|entry| entry.channel.failure.is_some())
    }

    /// Whatever the GPU's send tail is now belongs to an earlier socket.
    pub(super) fn forget_tail(&mut self, handle: Handle) {
        if let Some(entry) = self.table.find(handle) {
            let stale = entry.channel.send.stale_word();
            self.schedule.tails.set(handle.slot() as usize, stale);
        }
    }

    /// Hands a new socket to its shard, this one or another.
    pub(super) fn hand_over(&mut self, entry: Entry, io: &mut dyn Readiness) {
        let shard = entry.handle.shard() as usize;
        let entry = Box::new(entry);
        if shard == self.context.id {
            self.adopt(entry, io);
        } else {
            self.context.shared.send(shard, Message::Adopt(entry));
        }
    }

    /// Takes a socket into its slot, published already, and starts to serve it.
    pub(crate) fn adopt(&mut self, entry: impl Into<Box<Entry>>, io: &mut dyn Readiness) {
        let entry: Box<Entry> = entry.into();
        let (handle, phase) = (entry.handle, entry.phase());
        // What the GPU wrote before this socket had the slot is no progress of its own.
        let stale = match entry.channel.send.location.capacity {
            0 => self.context.memory().send_tail(entry.channel.index).load(),
            _ => entry.channel.send.stale_word(),
        };
        self.schedule.tails.set(handle.slot() as usize, stale);
        self.table.insert(entry);
        if phase != Phase::Fresh {
            self.watch_descriptor(handle, io);
        }
        if self.is_left_over(handle) {
            // Its launch has ended, and this shard may have cleared up after it already.
            self.close(handle, Closer::Host, self.context.now_ns);
        }
    }

    /// Whether a socket belongs to a launch that does not run: a kernel may ask for one and end
    /// without waiting for it. Connections that wait in an accept ring belong to none.
    fn is_left_over(&mut self, handle: Handle) -> bool {
        let shared = &self.context.shared;
        let Some(entry) = self.table.find(handle) else { return false };
        let runs = match entry.owner {
            Owner::Host => true,
            Owner::AnyLaunch => shared.launches.any_runs(),
            Owner::Launch(launch) => shared.launches.runs(launch),
        };
        if runs {
            return false;
        }
        let waits = shared.waiting().contains(&handle.0);
        if waits {
            entry.owner = Owner::AnyLaunch;
        }
        !waits
    }

    /// Has the descriptor reported from now on, and tries it at once.
    pub(super) fn watch_descriptor(&mut self, handle: Handle, io: &mut dyn Readiness) {
        let Some(entry) = self.table.find(handle) else { return };
        let added = match entry.socket.as_ref().and_then(|socket| socket.descriptor()) {
            Some(descriptor) => io.add(descriptor, handle.0),
            None => Ok(()),
        };
        match added {
            Ok(()) => self.schedule.poll_busily(entry, 1),
            Err(errno) => {
                entry.fail(errno, &self.context);
                self.notify_readable(handle.slot() as usize);
            }
        }
    }

    fn answer_requests(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        let slots = self.schedule.requests.len();
        let first = self.context.id * slots;
        let mut asked = std::mem::take(&mut self.schedule.changed);
        let gpu = self.context.memory().request_sequences(first, slots);
        self.schedule.requests.compare(&gpu, 0..slots, &mut asked);
        let any = !asked.is_empty();
        if any {
            // The GPU may know of sockets that other shards have just handed over.
            self.receive_messages(now_ns, io);
        }
        for (slot, sequence) in asked.drain(..) {
            let request = Request(self.context.memory().request(first + slot).read());
            let reply = self.answer(&request, now_ns, io);
            self.context.counters.requests.add(1);
            if reply.result() < 0 {
                self.context.counters.refused_requests.add(1);
            }
            let memory = self.context.memory();
            memory.reply(first + slot).write(&reply.0);
            // Release: who sees the number sees the reply.
            memory.reply_sequence(first + slot).store_release(sequence);
        }
        self.schedule.changed = asked;
        any
    }
}
