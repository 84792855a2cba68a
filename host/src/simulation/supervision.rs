//! What the net's supervisor does: launches begin in a free slot, and the proxies close what those that
//! have ended left open, one after the other, while all others go on.

use std::sync::atomic::Ordering;
use std::sync::mpsc;

use gpunet_device::abi::errno::Errno;

use super::ending::{Ending, Phase};
use super::scene::Scene;
use crate::proxy::message::Message;

/// How long the proxies may take to close what a launch left open.
const CLOSE_NS: u64 = 1_000_000_000;

impl Scene {
    /// The slot of the next launch, whose number among all launches is `kernels.len() + 1`.
    pub(super) fn free_slot(&self) -> u32 {
        let taken = |slot: &u32| self.kernels.iter().any(|it| !it.over && it.slot == *slot);
        (0..).find(|slot| !taken(slot)).unwrap_or_default()
    }

    /// Whether all launches that have begun are over.
    pub(super) fn all_over(&self) -> bool {
        self.kernels.iter().all(|kernel| kernel.over)
    }

    /// Does something as the host, at once.
    pub(super) fn as_host<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        self.memory.current.set(0);
        self.memory.set_quiet(true);
        let result = f(self);
        self.memory.set_quiet(false);
        result
    }

    /// Stops a launch.
    pub(super) fn stop(&mut self, kernel: usize) {
        let slot = self.kernels[kernel].slot as usize;
        self.as_host(|scene| scene.shared.memory.stop(slot, Errno::ECANCELED));
    }

    /// Has sockets drain that the host has closed under launches that run: a thread of a net does so.
    fn drain(&mut self) {
        if self.shared.drain.is_idle() || self.draw.of(&[false, false, false, true]) {
            return;
        }
        let now = self.now.get();
        // What is left waits for the next step.
        let _ = self.as_host(|scene| scene.shared.drain.step(&scene.shared, now));
    }

    /// Has the proxies clear up after launches that have ended.
    pub(super) fn supervise(&mut self) -> Result<(), String> {
        self.drain();
        let Some(ending) = &mut self.ending else {
            let ended = |at: &usize| {
                let kernel = &self.kernels[*at];
                !kernel.reported && kernel.stage.ready.is_empty() && kernel.stalled.is_empty()
            };
            if let Some(kernel) = (0..self.kernels.len()).find(ended) {
                self.begin_end(kernel);
            }
            return Ok(());
        };
        let (kernel, last, now) = (ending.kernel, ending.last, self.now.get());
        let shards = self.shared.queues.len();
        match &mut ending.phase {
            Phase::Begins(at) if now < *at => return Ok(()),
            Phase::Begins(_) => {
                self.send_to_all(kernel, last, !last || shards == 1);
                return Ok(());
            }
            Phase::Notified { closes, done, answers, deadline_ns } => {
                *answers += done.try_iter().count();
                if *answers < shards {
                    let late = now > *deadline_ns;
                    return if late { Err("the proxies do not answer".to_owned()) } else { Ok(()) };
                }
                if !*closes {
                    self.send_to_all(kernel, last, true);
                    return Ok(());
                }
            }
        }
        self.ending = None;
        self.control.running.fetch_sub(1, Ordering::AcqRel);
        self.kernels[kernel].over = true;
        self.trace.log(self.now.get(), 0, format!("launch {kernel} is over"));
        self.is_over(kernel);
        Ok(())
    }

    fn begin_end(&mut self, kernel: usize) {
        let slot = self.kernels[kernel].slot;
        self.kernels[kernel].reported = true;
        self.callers.fetch_sub(u64::from(self.kernels[kernel].calls), Ordering::Relaxed);
        let last = self.kernels.iter().all(|it| it.over || it.slot == slot);
        // Before the proxies are notified: none of them takes in a socket of this launch afterwards.
        self.shared.launches.set(slot, false);
        // Who is notified of a kernel's end knows what it has written.
        self.memory.knows_all(0);
        let at = self.now.get() + self.draw.of(&[0, 0, 20_000, 100_000]);
        self.ending = Some(Ending { kernel, last, phase: Phase::Begins(at) });
    }

    fn send_to_all(&mut self, kernel: usize, last: bool, closes: bool) {
        let (sender, done) = mpsc::channel();
        let launch = self.kernels[kernel].slot;
        for shard in 0..self.shared.queues.len() {
            let done = sender.clone();
            let message = match closes {
                true => Message::LaunchEnded { launch, last, done },
                false => Message::CommitAccepts(done),
            };
            self.shared.send(shard, message);
        }
        let deadline_ns = self.now.get() + CLOSE_NS;
        let phase = Phase::Notified { closes, done, answers: 0, deadline_ns };
        self.ending = Some(Ending { kernel, last, phase });
    }
}
