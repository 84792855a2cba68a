//! How a scene is played: who goes on, what is checked meanwhile and at the end.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use corosensei::CoroutineResult;

use super::FIRST_ACTOR;
use super::peers::{Peer, Role};
use super::scene::{Scene, Summary, Yield};
use crate::proxy::rounds::Next;

/// A scene that takes longer hangs.
const LIMIT_NS: u64 = 60_000_000_000;
const LIMIT_STEPS: u64 = 20_000_000;

impl Scene {
    pub(super) fn play(&mut self) -> Result<Summary, String> {
        let begin = self.now.get();
        let (mut steps, mut quiet, mut calm, mut seen) = (0_u64, 0_u64, 0, (0, 0, 0));
        while !self.step()? {
            if let Some(complaint) = self.first_complaint() {
                return Err(complaint);
            }
            steps += 1;
            if self.now.get() - begin > LIMIT_NS || steps > LIMIT_STEPS {
                return Err(format!("not over after {steps} steps, {} ns", self.now.get() - begin));
            }
            // Time passes faster when nothing happens.
            let worked = self.kernels.iter().map(|kernel| kernel.stage.worked).sum::<u64>();
            let state = (self.memory.stores.get(), self.network.moves.get(), worked);
            if state != seen {
                (quiet, calm) = (0, 0);
            }
            quiet += 1;
            seen = state;
            let ready: u64 =
                self.kernels.iter().map(|kernel| kernel.stage.ready.len() as u64).sum();
            if quiet > 8 * (ready + 8) {
                (quiet, calm) = (0, (calm + 1).min(9));
                let jump = self.draw.below(2000 << calm);
                let next = self.network.next_ns().map_or(jump, |at| jump.min(at - self.now.get()));
                self.now.advance(next);
            } else {
                // Many threads do in the same time what one does.
                self.now.advance((100 + self.draw.below(400)) / (4 + ready));
            }
        }
        match self.first_complaint() {
            Some(complaint) => Err(complaint),
            None => Ok(Summary {
                steps,
                took_ns: self.now.get() - begin,
                stores: self.memory.stores.get(),
                moves: self.network.moves.get(),
            }),
        }
    }

    fn first_complaint(&self) -> Option<String> {
        if let Some((at, old, new)) = self.memory.backwards.get() {
            return Some(format!("{} went back from {old} to {new}", self.trace.name(at)));
        }
        if let Some(complaint) = &self.memory.reuse.borrow().complaint {
            return Some(complaint.clone());
        }
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    /// Somebody does something. Whether all is over.
    fn step(&mut self) -> Result<bool, String> {
        if self.abort_at.is_some_and(|at| self.now.get() >= at) {
            self.abort_at = None;
            self.stopped = true;
            self.trace.log(self.now.get(), 0, "all kernels are stopped".to_owned());
            (0..self.kernels.len()).for_each(|kernel| self.stop(kernel));
        }
        // Not while a request is under way: each process has request slots of its own, but these two.
        if let Some((at, launch)) = self.dies_at
            && self.now.get() >= at
            && self.claimed_slots() == 0
        {
            self.dies_at = None;
            self.die(launch);
        }
        match self.draw.below(16) {
            0..10 => self.step_kernels()?,
            10..14 => self.step_proxy()?,
            _ => {
                self.step_program()?;
                self.step_peers()?;
            }
        }
        if self.all_over() && self.program_is_done() {
            return self.finish();
        }
        Ok(false)
    }

    /// The process of a launch dies: its threads stop where they are, and its proxy's control channels
    /// break. Its proxy itself is the other end's as well, and clears up as after a launch.
    fn die(&mut self, launch: usize) {
        let Some(kernel) = self.kernels.get_mut(launch).filter(|kernel| !kernel.reported) else {
            return;
        };
        (kernel.died, self.died) = (true, true);
        kernel.stage.ready.clear();
        kernel.stalled.clear();
        self.network.break_channels();
        self.trace.log(self.now.get(), 0, format!("the process of launch {launch} dies"));
    }

    fn step_kernels(&mut self) -> Result<(), String> {
        let now = self.now.get();
        for kernel in &mut self.kernels {
            let ready = &mut kernel.stage.ready;
            kernel.stalled.retain(|(until, thread)| {
                let goes_on = *until <= now;
                ready.extend(goes_on.then_some(*thread));
                !goes_on
            });
        }
        let live: Vec<usize> = (0..self.kernels.len())
            .filter(|at| !self.kernels[*at].stage.ready.is_empty())
            .collect();
        if live.is_empty() {
            return self.supervise();
        }
        let kernel = &mut self.kernels[self.draw.of(&live)];
        let at = self.draw.below(kernel.stage.ready.len() as u64) as usize;
        if self.draw.one_in(20 + 10 * kernel.stage.ready.len() as u64) {
            let thread = kernel.stage.ready.swap_remove(at);
            kernel.stalled.push((now + self.draw.below(100_000), thread));
            return Ok(());
        }
        let actor = kernel.first_actor + kernel.stage.ready[at] as usize;
        self.memory.current.set(actor);
        FIRST_ACTOR.with(|cell| cell.set(kernel.first_actor));
        kernel.stage.turn(at).map_err(|error| error.to_string())?;
        self.supervise()
    }

    fn step_proxy(&mut self) -> Result<(), String> {
        let which = self.draw.below(self.proxies.len() as u64) as usize;
        if self.draw.one_in(20_000) {
            self.proxies[which].stalls_until = self.now.get() + self.draw.below(5_000_000);
            self.trace.log(self.now.get(), which, "the proxy stalls".to_owned());
        }
        if self.draw.one_in(20_000) && !self.control.stopping.load(Ordering::Relaxed) {
            self.restart.set(true);
        }
        let now = self.now.get();
        let proxy = &mut self.proxies[which];
        let woken = !self.shared.queues.is_empty() && proxy.epoll.is_ready();
        let asleep = proxy.sleeps_until.is_some_and(|until| now < until) && !woken;
        // A message wakes it, too; the eventfd says so.
        let notified =
            || rustix::io::read(&self.shared.queues[which].waker, &mut [0_u8; 8]).is_ok();
        if proxy.ended || now < proxy.stalls_until || (asleep && !notified()) {
            return Ok(());
        }
        proxy.sleeps_until = None;
        self.memory.current.set(which);
        match proxy.coroutine.resume(()) {
            CoroutineResult::Yield(Yield::Next(Next::Sleep(ns))) => {
                proxy.sleeps_until = Some(now + ns);
            }
            CoroutineResult::Yield(_) => {}
            CoroutineResult::Return(()) => proxy.ended = true,
        }
        Ok(())
    }

    fn step_peers(&mut self) -> Result<(), String> {
        if self.peers.is_empty() {
            return Ok(());
        }
        let which = self.draw.below(self.peers.len() as u64) as usize;
        let excused =
            self.stopped || self.died || self.peers.iter().any(|peer| peer.breaks_at.is_some());
        self.peers[which].step(excused)
    }

    /// Kernels are gone: peers see their ends, the net closes, and nothing is missing.
    fn finish(&mut self) -> Result<bool, String> {
        let deadline = self.now.get() + 2_000_000_000;
        let excused =
            self.stopped || self.died || self.peers.iter().any(|peer| peer.breaks_at.is_some());
        let waits = |peer: &Peer| matches!(peer.role, Role::Client { .. }) && !peer.done;
        while !excused && self.peers.iter().any(waits) {
            self.step_proxy()?;
            self.step_peers()?;
            self.now.advance(500);
            if self.now.get() > deadline {
                return Err("a client is not served to the end".to_owned());
            }
        }
        self.control.stopping.store(true, Ordering::Release);
        let deadline = self.now.get() + 2_000_000_000;
        while !self.proxies.iter().all(|proxy| proxy.ended) {
            for proxy in &mut self.proxies {
                proxy.sleeps_until = None;
            }
            self.step_proxy()?;
            self.step_peers()?;
            self.now.advance(500);
            if self.now.get() > deadline {
                return Err("the proxies do not end".to_owned());
            }
        }
        let (sockets, free) = self.shared.pool.usage();
        if sockets != 0 || free != self.ring_bytes {
            let lost = self.ring_bytes - free;
            return Err(format!("{sockets} slots and {lost} bytes of rings are missing"));
        }
        let cut_short = self.stopped || self.died;
        self.check_arenas(cut_short)?;
        let slots = self.claimed_slots();
        if slots != 0 && !cut_short {
            return Err(format!("{slots} request slots are missing"));
        }
        Ok(true)
    }

    /// Request slots that kernels hold.
    fn claimed_slots(&self) -> usize {
        let memory = &self.shared.memory;
        let [.., (records, _)] = memory.regions();
        let claimed = |slot: &usize| {
            let word: *const u64 = records.cast();
            // SAFETY: the emulated GPU finds its memory where the CPU does, the slot's record lies in the
            // region, and all actors run on this OS thread.
            unsafe { word.add(memory.layout().slot_record(*slot)).read_volatile() != 0 }
        };
        (0..memory.layout().all_request_slots()).filter(claimed).count()
    }

    /// All p2p streams are gone: their memory is free, and no end waits for the other's.
    fn check_arenas(&mut self, cut_short: bool) -> Result<(), String> {
        if !self.p2p || cut_short {
            return Ok(());
        }
        let deadline = self.now.get() + 1_000_000_000;
        loop {
            self.shared.transports.tidy();
            let (waiting, used) = self.shared.transports.left_behind();
            if waiting == 0 && used == 0 {
                return Ok(());
            }
            if self.now.get() > deadline {
                return Err(format!("{waiting} streams are not closed, {used} bytes not free"));
            }
            self.now.advance(10_000);
        }
    }
}
