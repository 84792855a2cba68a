//! A shard: the sockets of one proxy thread, as a state machine.
//!
//! It is notified from outside through [`Shard::ready`] and its message queue, and takes [`Shard::turn`]s;
//! it neither waits nor reads a clock. Only its own thread touches it.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use gpunet_device::Handle;
use gpunet_device::abi::message::Request;

use super::accepting::commit_accepts;
use super::closing::{Closer, Closing};
use super::connecting::Connecting;
use super::context::Context;
use super::entry::Phase;
use super::message::Message;
use super::notices::Notices;
use super::request::Requests;
use super::shared::{Readiness, Shared};
use super::sockets::Sockets;
use super::statistics::{Counters, SocketState};
use super::steps::Steps;
use super::throttle;
use crate::memory::SeenWords;

/// Between two looks at what closed streams have left behind, and at slots that need no scan.
const TIDY_NS: u64 = 20_000_000;

/// The sockets of one proxy thread.
pub(crate) struct Shard {
    pub(crate) sockets: Sockets,
    queue: Receiver<Message>,
    /// The numbers of the kernels' requests, as last seen.
    requests: SeenWords,
    /// What scans find; kept for its memory.
    changed: Vec<(usize, u64)>,
    tidy_at_ns: u64,
}

impl Shard {
    pub(crate) fn new(
        id: usize,
        shared: Arc<Shared>,
        counters: Arc<Counters>,
        queue: Receiver<Message>,
    ) -> Self {
        let requests = SeenWords::new(shared.memory.layout().request_slots as usize);
        let sockets = Sockets::new(Context::new(id, shared, counters));
        Self { sockets, queue, requests, changed: Vec::new(), tidy_at_ns: 0 }
    }

    /// Whether sockets are being tried without asking epoll.
    pub(crate) fn is_busy(&self) -> bool {
        !self.sockets.schedule.busy.handles().is_empty()
    }

    /// Whether no socket is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.table.is_empty()
    }

    /// One round over everything that may have work. Whether there was any.
    pub(crate) fn turn(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        self.sockets.context.now_ns = now_ns;
        self.sockets.context.beat();
        self.sockets.context.counters.turns.add(1);
        let mut worked = self.answer_requests(io);
        let Self { sockets, changed, .. } = self;
        worked |= throttle::serve(sockets);
        let mut steps = Steps { sockets, io, changed };
        worked |= steps.go_on_sending();
        worked |= steps.scan_tails();
        worked |= steps.poll_busy();
        worked |= steps.scan_heads();
        worked |= steps.ring_timers();
        worked |= Notices(sockets).deliver();
        worked |= Closing { sockets, io }.finish_all();
        Steps { sockets, io, changed }.watch_again();
        self.tidy(now_ns);
        // The heartbeat, if nothing else, may still be in the processor, and the thread may sleep.
        self.sockets.context.memory().host_control.flush();
        worked
    }

    fn tidy(&mut self, now_ns: u64) {
        if now_ns < self.tidy_at_ns {
            return;
        }
        self.tidy_at_ns = now_ns + TIDY_NS;
        self.sockets.table.shrink();
        // One thread clears up after all.
        if self.sockets.context.id == 0 {
            self.sockets.context.shared.transports.tidy();
        }
    }

    /// The descriptor of a socket has something to say.
    pub(crate) fn ready(&mut self, key: u64) {
        let Some(mut visit) = self.sockets.visit(Handle(key)) else { return };
        if visit.entry.phase() == Phase::Connecting {
            Connecting(&mut visit).finish();
        }
        visit.is_ready();
    }

    /// The thread is about to sleep: whatever comes must wake it, and what comes meanwhile is found by one
    /// scan.
    pub(crate) fn watch_before_sleep(&mut self, io: &mut dyn Readiness) {
        let schedule = &mut self.sockets.schedule;
        (schedule.tails.scan.whole, schedule.heads.scan.whole) = (true, true);
        schedule.off_epoll.extend(schedule.busy.handles());
        Steps { sockets: &mut self.sockets, io, changed: &mut self.changed }.watch_again();
    }

    /// Takes what came in. Called by the thread in each round, and before requests are answered.
    pub(crate) fn receive_messages(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        self.sockets.context.now_ns = now_ns;
        let mut any = false;
        while let Ok(message) = self.queue.try_recv() {
            any = true;
            self.sockets.context.beat();
            self.handle_message(message, io);
        }
        any
    }

    fn handle_message(&mut self, message: Message, io: &mut dyn Readiness) {
        let mut closing = Closing { sockets: &mut self.sockets, io };
        match message {
            Message::Adopt(entry) => closing.sockets.adopt(entry, closing.io),
            Message::Notify { poller, notice } => Notices(closing.sockets).notify(poller, notice),
            Message::PassOn { listener, poller, connections, gone } => {
                Notices(closing.sockets).pass_on(listener, poller, connections, gone);
            }
            Message::CommitAccepts(done) => {
                commit_accepts(closing.sockets);
                let _ = done.send(());
            }
            Message::LaunchEnded { launch, last, done } => {
                closing.launch_ended(launch, last);
                // Who has waited for the kernel finds its slots free, and calls of other launches on
                // its sockets fail.
                closing.finish_all();
                closing.sockets.context.shared.drain.notify_when_closed(done);
            }
            Message::CloseListeners { which, done } => {
                closing.close_listeners(which.as_deref());
                closing.finish_all();
                let _ = done.send(());
            }
            Message::Close(handle) => {
                closing.close(handle, Closer::Host);
            }
            Message::CloseForProgram { handle, done } => {
                if closing.close(handle, Closer::Host) {
                    closing.finish_all();
                    closing.sockets.context.shared.drain.notify_when_closed(done);
                }
            }
            Message::SeenClosed(handle) => closing.seen_closed(handle),
            Message::Drained(handle) => closing.drained(handle),
            Message::Release { handle, to } => {
                let _ = to.send(closing.release(handle));
            }
            Message::MakeRoom => {
                closing.make_room();
            }
            Message::Dump(to) => {
                let Sockets { context, table, .. } = &mut self.sockets;
                let states = table.iter_mut().map(|entry| {
                    entry.channel.load_head(context);
                    SocketState::from(&*entry)
                });
                let _ = to.send(states.collect());
            }
            #[cfg(feature = "fault-injection")]
            Message::Panic => panic!("a panic was asked for"),
            #[cfg(feature = "fault-injection")]
            Message::Stall(time) => std::thread::sleep(time),
        }
    }

    /// Closes everything, for a net that goes.
    pub(crate) fn close_all(&mut self, now_ns: u64, io: &mut dyn Readiness) {
        self.sockets.context.now_ns = now_ns;
        Closing { sockets: &mut self.sockets, io }.close_all();
    }

    fn answer_requests(&mut self, io: &mut dyn Readiness) -> bool {
        let (slots, now_ns) = (self.requests.len(), self.sockets.context.now_ns);
        let first = self.sockets.context.id * slots;
        let gpu = self.sockets.context.memory().request_sequences(first, slots);
        let mut asked = std::mem::take(&mut self.changed);
        self.requests.compare(&gpu, 0..slots, &mut asked);
        let any = !asked.is_empty();
        if any {
            // The GPU may know of sockets that other shards have just handed over.
            self.receive_messages(now_ns, io);
        }
        for (slot, sequence) in asked.drain(..) {
            let request = Request(self.sockets.context.memory().request(first + slot).read());
            let reply = Requests { sockets: &mut self.sockets, io }.answer(&request);
            let context = &self.sockets.context;
            context.counters.requests.add(1);
            if reply.result() < 0 {
                context.counters.refused_requests.add(1);
            }
            context.memory().reply(first + slot).write(&reply.0);
            // Release: a kernel that sees the number sees the reply.
            context.memory().reply_sequence(first + slot).store_release(sequence);
        }
        self.changed = asked;
        any
    }
}
