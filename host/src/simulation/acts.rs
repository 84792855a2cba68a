//! What the program of a sharing scene does: it begins launches, takes sockets back when none runs, serves
//! them by itself for a while, and hands them over again.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, mpsc};

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;

use super::job::{Job, Role};
use super::open_streams;
use super::plan::Work;
use super::program::{BACKLOG, Back, Begins, Held, Planned, Program, Stage};
use super::scene::{RING, Scene, TIMEOUT_NS};
use crate::pool::Account;
use crate::proxy::entry::{Entry, Owner, Wishes};
use crate::proxy::message::{Message, Released};
use crate::proxy::stream::StreamPhase;
use crate::transport::{Endpoint, RingRegion, RingSizes, Transferred};

/// How long closed sockets may take to go, and a socket to come back.
const DRAIN_NS: u64 = 1_000_000_000;

impl Scene {
    /// Whether the program has nothing left to do.
    pub(super) fn program_is_done(&self) -> bool {
        self.program.as_ref().is_none_or(|program| {
            matches!(program.stage, Stage::Act(1, _))
                && program.backs.is_empty()
                && program.planned.iter().all(|planned| planned.kernel.is_some())
        })
    }

    /// A launch is over.
    pub(super) fn is_over(&mut self, kernel: usize) {
        let Some(program) = &self.program else { return };
        let owns = |planned: &Planned| {
            let owns = matches!(&planned.job, Job::Own(owning) if owning.role == Role::Owns);
            owns && planned.kernel == Some(kernel)
        };
        if program.planned.iter().any(owns) {
            program.queue.owner_over_at.store(self.now.get(), Ordering::Relaxed);
        }
    }

    /// The program does a little.
    pub(super) fn step_program(&mut self) -> Result<(), String> {
        let Some(mut program) = self.program.take() else { return Ok(()) };
        let stepped = program.step(self);
        self.program = Some(program);
        stepped
    }

    /// Hands a socket over to kernels, as a net does.
    pub(super) fn hand_over(&mut self, socket: Endpoint, listens: bool) -> Result<Handle, String> {
        let fail = |errno: Errno| format!("a socket is not handed over: {errno}");
        self.as_host(|scene| {
            let shared = &scene.shared;
            let handle = shared.pool.allocate_handle(Account::Own).map_err(fail)?;
            let index = shared.index(handle);
            let wishes =
                Wishes { rings: RingSizes { receive: RING, send: RING }, timeout_ns: TIMEOUT_NS };
            let mut made = Entry::new(handle, index, Owner::Host, wishes, Some(socket));
            if listens {
                let word = shared.memory.receive_head(index).load();
                let ring = shared.ring(BACKLOG * 8, word).map_err(fail)?;
                made.start_listening(shared, ring, BACKLOG);
            } else {
                made.start_stream(StreamPhase::Open);
                made.channel
                    .allocate(shared, Account::Own, RingRegion::Host, made.wishes.rings)
                    .map_err(fail)?;
            }
            made.publish(&shared.memory);
            shared.send(handle.shard() as usize, Message::Adopt(Box::new(made)));
            Ok(handle)
        })
    }

    fn take_back(&self, handle: Handle) -> mpsc::Receiver<Result<Released, Errno>> {
        let (to, answer) = mpsc::channel();
        self.shared.send(handle.shard() as usize, Message::Release { handle, to });
        answer
    }
}

impl Program {
    fn step(&mut self, scene: &mut Scene) -> Result<(), String> {
        let now = scene.now.get();
        self.call(scene);
        self.stops.retain(|(at, kernel)| {
            let due = *at <= now && !scene.kernels[*kernel].reported;
            if due {
                scene.trace.log(now, 0, format!("launch {kernel} is stopped"));
                scene.stop(*kernel);
            }
            *at > now && !scene.kernels[*kernel].reported
        });
        self.step_backs(scene)?;
        match self.stage {
            Stage::Act(act, since) => {
                self.begin_launches(scene, act, since)?;
                let mine = self.planned.iter().filter(|planned| planned.act == act);
                let begun = mine.clone().all(|planned| planned.kernel.is_some());
                if act == 0 && begun && scene.all_over() {
                    self.stage = Stage::Drains(now + DRAIN_NS);
                }
                Ok(())
            }
            Stage::Drains(deadline_ns) => {
                let waiting = scene.shared.waiting().len();
                let expected = 1 + self.queue.len() + waiting;
                let (sockets, _) = scene.shared.pool.usage();
                if sockets as usize == expected {
                    self.queue.close_left();
                    self.begin_taking_back(scene);
                    self.stage = Stage::TakesBack;
                } else if now > deadline_ns {
                    return Err(format!("{sockets} sockets are open, not {expected}"));
                }
                Ok(())
            }
            Stage::TakesBack => {
                // A net gives nothing back while a kernel runs.
                if self.backs.iter().all(|back| matches!(back, Back::Held(_))) {
                    self.stage = Stage::Act(1, now);
                }
                Ok(())
            }
        }
    }

    /// Clients come to a launch's own listener.
    fn call(&mut self, scene: &mut Scene) {
        let Some(callers) = &mut self.callers else { return };
        if !scene.network.has_listener(callers.port.into()) {
            return;
        }
        for stream in 0..callers.count {
            scene.add_client(callers.port, 50 + stream, 40, true);
        }
        self.callers = None;
    }

    fn begin_launches(&mut self, scene: &mut Scene, act: usize, since: u64) -> Result<(), String> {
        let now = scene.now.get();
        for at in 0..self.planned.len() {
            let planned = &self.planned[at];
            let due = match planned.begins {
                Begins::After(ns) => now >= since + ns,
                Begins::Behind(other) => {
                    let kernel = self.planned.get(other).and_then(|other| other.kernel);
                    kernel.is_some_and(|kernel| scene.kernels[kernel].over)
                }
                Begins::During(other) => {
                    let kernel = self.planned.get(other).and_then(|other| other.kernel);
                    kernel.is_some_and(|kernel| scene.kernels[kernel].reported)
                }
            };
            if planned.act != act || planned.kernel.is_some() || !due {
                continue;
            }
            let work = Work::Job { queue: Arc::clone(&self.queue), job: planned.job.clone() };
            let kernel = scene.kernels.len();
            let (shape, first, piece) = (planned.shape, planned.first_actor, planned.piece);
            scene.as_host(|scene| scene.launch(shape, first, work, piece, false))?;
            self.planned[at].kernel = Some(kernel);
            self.stops.extend(self.planned[at].stops_after.map(|ns| (now + ns, kernel)));
        }
        Ok(())
    }

    /// Asks for some of the sockets that launches have left to it.
    fn begin_taking_back(&mut self, scene: &mut Scene) {
        let deadline_ns = scene.now.get() + DRAIN_NS;
        let mut stay = Vec::new();
        while let Some(entry) = self.queue.receive(|_| true) {
            if scene.draw.one_in(2) {
                stay.push(entry);
                continue;
            }
            let answer = scene.take_back(entry.handle);
            self.backs.push(Back::Asked { entry, answer, deadline_ns });
        }
        stay.into_iter().for_each(|entry| self.queue.send(entry));
        // One whose clients were all accepted: others that wait there would be broken off.
        let accepted = self.queue.accepted.load(Ordering::Relaxed);
        if scene.draw.one_in(3) && accepted == self.clients {
            let listener = Handle(self.queue.listener.load(Ordering::Relaxed));
            self.backs.push(Back::Listener(scene.take_back(listener)));
        }
    }

    fn step_backs(&mut self, scene: &mut Scene) -> Result<(), String> {
        for back in std::mem::take(&mut self.backs) {
            let next = self.step_back(scene, back)?;
            self.backs.extend(next);
        }
        Ok(())
    }

    fn dead(&self, handle: Handle) {
        self.queue.dead.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    fn step_back(&mut self, scene: &mut Scene, back: Back) -> Result<Option<Back>, String> {
        match back {
            Back::Listener(answer) => match answer.try_recv() {
                Ok(Ok(Released { socket, .. })) => {
                    self.dead(Handle(self.queue.listener.load(Ordering::Relaxed)));
                    let socket = scene.network.handed_over(socket, true);
                    let socket = socket.map_err(|e| e.to_string())?;
                    let handle = scene.hand_over(socket, true)?;
                    self.queue.listener.store(handle.0, Ordering::Relaxed);
                    Ok(None)
                }
                Ok(Err(errno)) => Err(format!("the listener does not come back: {errno}")),
                Err(_) => Ok(Some(Back::Listener(answer))),
            },
            Back::Asked { entry, answer, deadline_ns } => match answer.try_recv() {
                Ok(Ok(Released { socket, unread })) => {
                    if entry.asks.is_some() && !unread.is_empty() {
                        return Err(format!("{} unread bytes of {entry:?}", unread.len()));
                    }
                    self.dead(entry.handle);
                    let endpoint = scene.network.named(socket.as_fd()).ok_or("no socket")?;
                    scene.trace.log(
                        scene.now.get(),
                        0,
                        format!("{entry:?} is back, {} unread bytes", unread.len()),
                    );
                    let pieces = scene.draw.below(4);
                    let unsent = unread.into();
                    Ok(Some(Back::Held(Held { entry, socket, endpoint, unsent, pieces })))
                }
                Ok(Err(Errno::EAGAIN)) if scene.now.get() < deadline_ns => {
                    let answer = scene.take_back(entry.handle);
                    Ok(Some(Back::Asked { entry, answer, deadline_ns }))
                }
                Ok(Err(errno)) => Err(format!("{entry:?} does not come back: {errno}")),
                Err(_) => Ok(Some(Back::Asked { entry, answer, deadline_ns })),
            },
            Back::Held(held) => self.serve(scene, held),
        }
    }

    /// Sends back what came; hands the stream over again once that was enough.
    fn serve(&mut self, scene: &mut Scene, mut held: Held) -> Result<Option<Back>, String> {
        let fail = |errno: Errno| format!("a stream of the program: {errno}");
        let network = &scene.network;
        let (front, _) = held.unsent.as_slices();
        if !front.is_empty() {
            let sent = network.send(held.endpoint, front).map_err(fail)?;
            held.unsent.drain(..sent);
            return Ok(Some(Back::Held(held)));
        }
        if held.pieces > 0 && held.entry.asks.is_none() {
            match network.receive(held.endpoint, 1000).map_err(fail)? {
                (bytes, Transferred::Bytes(_)) => {
                    held.pieces -= 1;
                    held.unsent.extend(bytes);
                }
                (_, Transferred::Later) => {}
                (_, Transferred::End) => {
                    network.forget(held.socket.as_raw_fd());
                    network.close(held.endpoint);
                    self.queue.finish();
                    return Ok(None);
                }
            }
            return Ok(Some(Back::Held(held)));
        }
        let socket = network.handed_over(held.socket, false).map_err(fail)?;
        let handle = scene.hand_over(socket, false)?;
        self.queue.send(open_streams::Entry { handle, detached: true, ..held.entry });
        Ok(None)
    }
}
