//! What launches of a sharing scene do: they serve streams of remote clients, each for a few pieces, and
//! leave them to other launches, to later ones or to the program. Some wait for one stream at a time,
//! some watch theirs with a poller.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::{MSG_DONTWAIT, POLLIN, POLLOUT};
use gpunet_device::poller::{Event, Poller};
use gpunet_device::{Group, Handle, Listener, On, SocketAddr, Stream, calls, simt};

use super::group_calls::broadcast_by_leader;
use super::job::{Job, Terms};
use super::open_streams::{Entry, OpenStreams};
use super::owners;
use super::passing::{detach, finish, receive_stream, send_all, send_stream};
use super::plan::Plan;
use super::{inside_call, was_notified};

/// How long a worker waits for a connection, or for an event, before it looks around.
pub(crate) const WAIT_NS: u64 = 300_000;
/// A poller that reports nothing for so long, though its streams have something, has lost an event.
const NO_EVENT_NS: u64 = 300_000_000;
/// Memory of a group beside its bytes, for events.
pub(crate) const EVENTS_BYTES: usize = 64;
/// The token of the program's listener.
const LISTENER: u64 = 7;
/// Dead handles that a worker tries.
const DEAD: usize = 6;

/// What each group of such a launch runs.
pub(crate) fn work<G: Group>(on: On<G>, plan: &Plan, queue: &Arc<OpenStreams>, job: &Job) {
    try_dead(on, plan, queue);
    let outcome = match job {
        Job::Serve(terms) if terms.polls => Polling::new(on, plan, queue, terms)
            .and_then(|mut polling| polling.serve().and_then(|()| polling.leave())),
        Job::Serve(terms) => serve(on, plan, queue, terms),
        Job::Idle => idle(on, plan),
        Job::Own(owning) => owners::work(on, plan, queue, owning),
        Job::Listen { port, accepts } => listen(on, plan, queue, *port, *accepts),
    };
    if let Err(errno) = outcome {
        plan.complain(on, &format!("a worker ({job:?}): {errno}"));
    }
}

/// A handle whose socket is gone gives EBADF, whatever has its slot now.
fn try_dead<G: Group>(on: On<G>, plan: &Plan, queue: &OpenStreams) {
    for at in 0..DEAD {
        let handle = Handle(broadcast_by_leader(on, || queue.dead_handle(at)));
        if handle == Handle::NONE {
            return;
        }
        was_notified();
        let got = calls::grecv(on.net(), on.group(), handle, plan.buffer(), MSG_DONTWAIT);
        if got != i64::from(-Errno::EBADF.0) {
            plan.complain(on, &format!("the dead handle {handle:?} gave {got}"));
        }
    }
}

/// Waits until the launch is stopped, or a while.
fn idle<G: Group>(on: On<G>, plan: &Plan) -> Result<(), Errno> {
    let poller = Poller::new(on)?;
    let events = plan.buffer().cast::<Event>();
    match plan.timed(on, "wait", || poller.wait(events, plan.timeout_ns / 100)) {
        Err(Errno::ECANCELED | Errno::ETIMEDOUT) => Ok(()),
        Err(errno) => Err(errno),
        Ok(events) => {
            plan.complain(on, &format!("{events} events of a poller that watches nothing"));
            Ok(())
        }
    }
}

/// A listener of the launch's own. Those that it does not accept are its own all the same.
fn listen<G: Group>(
    on: On<G>,
    plan: &Plan,
    queue: &OpenStreams,
    port: u16,
    accepts: u64,
) -> Result<(), Errno> {
    if simt::position().block != 0 || plan.member() != 0 {
        return Ok(());
    }
    let listener = Listener::bind(on, &SocketAddr::v4([127, 0, 0, 1], port))?;
    listener.set(SocketOption::ReceiveTimeout, 4 * WAIT_NS)?;
    let mut left = vec![listener.handle()];
    for _ in 0..accepts {
        let accepted = || listener.accept().map(Stream::into_handle);
        match plan.timed(on, "accept", accepted) {
            Ok(handle) => {
                echo(on, plan, handle, 0)?;
                left.push(handle);
            }
            Err(Errno::ETIMEDOUT) => {}
            Err(errno) => return Err(errno),
        }
    }
    if on.group().is_leader() {
        left.into_iter().for_each(|handle| queue.leave(handle));
    }
    let _ = listener.into_handle();
    Ok(())
}

/// Before a launch ends: what waits for others, and is the launches' own, must outlive them.
fn detach_all<G: Group>(on: On<G>, plan: &Plan, queue: &OpenStreams) -> Result<(), Errno> {
    while let Some(mut entry) = receive_stream(on, queue, |entry| !entry.detached) {
        detach(on, plan, &mut entry)?;
        send_stream(on, queue, entry);
    }
    Ok(())
}

/// The next connection of the program's listener; none if nobody comes.
fn accept<G: Group>(on: On<G>, plan: &Plan, queue: &OpenStreams) -> Result<Option<Entry>, Errno> {
    let listener = Handle(broadcast_by_leader(on, || queue.listener.load(Ordering::Relaxed)));
    was_notified();
    let listener = Listener::from_handle(on, listener);
    let _ = listener.set(SocketOption::ReceiveTimeout, plan.accept_ns);
    let accepted = || listener.accept().map(Stream::into_handle);
    let accepted = plan.timed(on, "accept", accepted);
    let _ = listener.into_handle();
    match accepted {
        Ok(handle) => {
            if on.group().is_leader() {
                queue.accepted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Some(Entry::echo(handle)))
        }
        Err(Errno::ETIMEDOUT | Errno::EAGAIN) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether a worker ends.
fn ends<G: Group>(on: On<G>, queue: &OpenStreams, terms: &Terms, pieces: u64) -> bool {
    terms.pieces.is_some_and(|most| pieces >= most)
        || broadcast_by_leader(on, || u64::from(queue.is_over(terms.converses))) != 0
}

/// Serves one stream after the other.
fn serve<G: Group>(
    on: On<G>,
    plan: &Plan,
    queue: &OpenStreams,
    terms: &Terms,
) -> Result<(), Errno> {
    let mut pieces = 0;
    while !ends(on, queue, terms, pieces) {
        let waits = receive_stream(on, queue, |entry| entry.asks.is_some() || !terms.converses);
        let Some(mut entry) = (match waits {
            None if !terms.converses => accept(on, plan, queue)?,
            waits => waits,
        }) else {
            pieces += u64::from(terms.pieces.is_some());
            simt::pause();
            continue;
        };
        let mut more = true;
        for _ in 0..terms.passes_after {
            pieces += 1;
            more = match entry.asks {
                Some(asks) => {
                    entry.asks = owners::converse(on, plan, entry.handle, asks)?;
                    entry.asks.is_some()
                }
                None => echo(on, plan, entry.handle, 0)?,
            };
            if !more {
                break;
            }
        }
        match more {
            true => send_stream(on, queue, entry),
            false => finish(on, plan, queue, entry)?,
        }
    }
    detach_all(on, plan, queue)
}

/// Sends one piece back. Whether there may be more; EAGAIN with MSG_DONTWAIT where none has come.
fn echo<G: Group>(on: On<G>, plan: &Plan, handle: Handle, flags: u32) -> Result<bool, Errno> {
    let (net, group) = (on.net(), on.group());
    let buffer = plan.buffer();
    let buffer = buffer.first(buffer.len().saturating_sub(EVENTS_BYTES).max(1));
    group.barrier();
    let receive = || calls::grecv(net, group, handle, buffer, flags);
    let got = inside_call(handle, on.group().is_leader(), || plan.timed(on, "recv", receive));
    let got = Errno::check(got)? as usize;
    if got > 0 {
        send_all(on, plan, handle, buffer.first(got))?;
    }
    Ok(got > 0)
}

/// A stream that a poller watches.
struct Held {
    entry: Entry,
    token: u64,
    pieces: u64,
}

/// A worker with a poller. All threads of its group have the same one.
struct Polling<'p, G: Group> {
    on: On<G>,
    plan: &'p Plan,
    queue: &'p OpenStreams,
    terms: &'p Terms,
    poller: Poller<G>,
    held: Vec<Held>,
    /// Tokens of which events may still come: of streams that were not removed, or that another proxy
    /// serves, from which the poller is notified later.
    gone: Vec<u64>,
    pieces: u64,
}

impl<'p, G: Group> Polling<'p, G> {
    fn new(
        on: On<G>,
        plan: &'p Plan,
        queue: &'p OpenStreams,
        terms: &'p Terms,
    ) -> Result<Self, Errno> {
        let poller = Poller::new(on)?;
        let (held, gone, pieces) = (Vec::new(), Vec::new(), 0);
        let polling = Self { on, plan, queue, terms, poller, held, gone, pieces };
        polling.listen()?;
        Ok(polling)
    }

    /// Watches the listener, if it is the one that does.
    fn listen(&self) -> Result<(), Errno> {
        if self.terms.listens && simt::position().block == 0 && self.plan.member() == 0 {
            let listener =
                broadcast_by_leader(self.on, || self.queue.listener.load(Ordering::Relaxed));
            was_notified();
            let add = || self.poller.add(Handle(listener), POLLIN, LISTENER);
            self.plan.timed(self.on, "watch the listener", add)?;
        }
        Ok(())
    }

    /// Has another poller in the last one's place, whose events are gone with it.
    fn renew(&mut self) -> Result<(), Errno> {
        let slot = |poller: &Poller<G>| (poller.handle().shard(), poller.handle().slot());
        let last = slot(&self.poller);
        for _ in 0..self.terms.renews {
            self.poller = Poller::new(self.on)?;
            if slot(&self.poller) == last {
                break;
            }
        }
        self.gone.clear();
        self.listen()
    }

    fn serve(&mut self) -> Result<(), Errno> {
        let (mut no_event_ns, mut renewed_at) = (0, 0);
        while !ends(self.on, self.queue, self.terms, self.pieces) {
            if self.held.len() < 3
                && let Some(entry) =
                    receive_stream(self.on, self.queue, |entry| entry.asks.is_none())
            {
                self.watch(entry)?;
            }
            if self.terms.renews > 0 && self.held.is_empty() && self.pieces > renewed_at {
                renewed_at = self.pieces;
                self.renew()?;
            }
            let whole = self.plan.buffer();
            let at = whole.len().saturating_sub(EVENTS_BYTES);
            let events = whole.slice(at, EVENTS_BYTES).cast::<Event>();
            let wait = || self.poller.wait(events, WAIT_NS);
            match self.plan.timed(self.on, "wait", wait) {
                Ok(count) => {
                    no_event_ns = 0;
                    // They are read before the memory is used again.
                    let events: Vec<Event> = (0..count).filter_map(|at| events.get(at)).collect();
                    self.on.group().barrier();
                    events.into_iter().try_for_each(|event| self.handle_event(event))?;
                }
                Err(Errno::ETIMEDOUT) => {
                    no_event_ns += WAIT_NS;
                    self.pieces += u64::from(self.terms.pieces.is_some() && self.held.is_empty());
                    let count = self.held.len() as u64;
                    let most = if count > 0 { NO_EVENT_NS } else { 3 * NO_EVENT_NS };
                    if no_event_ns > most && (count > 0 || self.terms.listens) {
                        self.plan.complain(self.on, &format!("no event of {count} streams"));
                        return Ok(());
                    }
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn watch(&mut self, entry: Entry) -> Result<(), Errno> {
        let token = broadcast_by_leader(self.on, || self.queue.token());
        let add = || self.poller.add(entry.handle, self.terms.events, token);
        self.plan.timed(self.on, "watch", add)?;
        self.held.push(Held { entry, token, pieces: 0 });
        Ok(())
    }

    fn handle_event(&mut self, event: Event) -> Result<(), Errno> {
        if event.token == LISTENER && self.terms.listens {
            while let Some(entry) = accept(self.on, self.plan, self.queue)? {
                self.watch(entry)?;
            }
            return Ok(());
        }
        let Some(at) = self.held.iter().position(|held| held.token == event.token) else {
            if !self.gone.contains(&event.token) {
                let token = event.token;
                self.plan.complain(self.on, &format!("an event with the token {token}"));
            }
            return Ok(());
        };
        if event.events == u64::from(POLLOUT) {
            return Ok(());
        }
        // Edges: until there is nothing more, or the stream is passed on.
        loop {
            let handle = self.held[at].entry.handle;
            match echo(self.on, self.plan, handle, MSG_DONTWAIT) {
                Err(Errno::EAGAIN | Errno::EBUSY) => return Ok(()),
                Err(errno) => return Err(errno),
                Ok(true) => {
                    self.pieces += 1;
                    self.held[at].pieces += 1;
                    if self.held[at].pieces >= self.terms.passes_after {
                        return self.pass_on(at, false);
                    }
                }
                Ok(false) => {
                    let held = self.held.swap_remove(at);
                    self.note_gone(&held);
                    return finish(self.on, self.plan, self.queue, held.entry);
                }
            }
        }
    }

    /// Events of it may still come, if another proxy serves it.
    fn note_gone(&mut self, held: &Held) {
        if self.poller.handle().shard() != held.entry.handle.shard() {
            self.gone.push(held.token);
        }
    }

    /// Leaves a stream to others; `outlives`: this launch.
    fn pass_on(&mut self, at: usize, outlives: bool) -> Result<(), Errno> {
        let mut held = self.held.swap_remove(at);
        if self.terms.removes {
            let remove = || self.poller.remove(held.entry.handle);
            self.plan.timed(self.on, "remove", remove)?;
            self.note_gone(&held);
        } else {
            self.gone.push(held.token);
        }
        if outlives {
            detach(self.on, self.plan, &mut held.entry)?;
        }
        send_stream(self.on, self.queue, held.entry);
        Ok(())
    }

    fn leave(mut self) -> Result<(), Errno> {
        while !self.held.is_empty() {
            self.pass_on(0, true)?;
        }
        let (on, plan, queue) = (self.on, self.plan, self.queue);
        if self.terms.leaves_poller {
            if on.group().is_leader() {
                queue.leave(self.poller.handle());
            }
            std::mem::forget(self.poller);
        }
        detach_all(on, plan, queue)
    }
}
