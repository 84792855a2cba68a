//! Who plays in a scene: kernels, and remote peers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gpunet_device::abi::errno::Errno;
use gpunet_device::{Domain, Handle, SocketAddr};

use super::exchange::EDGE_BYTES;
use super::grouping::Grouping;
use super::kernels;
use super::peers::{Peer, Role};
use super::plan::{GROUP_BYTES, Plan, SHARED_BYTES, Work};
use super::program::BACKLOG;
use super::scene::{Kernel, MOST_PEERS, Scene, TIMEOUT_NS};
use super::script::{Ending, Receives, Round, Script, Sends};
use super::workers::WAIT_NS;
use crate::gpu::LaunchSpec;

/// How long kernels wait for another connection.
const ACCEPT_NS: u64 = 300_000_000;
/// Calls that move a stream's bytes: more would show nothing new.
const CALLS: u64 = 40;
/// The port of the kernels' listener, and of the remote one.
pub(super) const KERNELS_PORT: u16 = 1000;
pub(super) const REMOTE_PORT: u16 = 2000;
/// Bytes that a client sends at a time.
pub(super) const BURST: u64 = 1500;
/// Bytes of shared memory that an exchange may use.
const MOST_BYTES: u64 = 6 << 10;

impl Scene {
    /// Puts kernels and peers on the stage.
    pub(super) fn cast(
        &mut self,
        shapes: &[(u32, u32)],
        first_actors: &[usize],
    ) -> Result<(), String> {
        let aborts = self.draw.one_in(8);
        if aborts {
            self.abort_at = Some(self.now.get() + self.draw.below(20_000_000));
        }
        let serves = shapes[0].0 > 0;
        let piece = self.draw.of(&[1, 7, 64, 100, 1000, 6000]);
        let breaks = self.draw.one_in(4);
        let excused = aborts || breaks;
        let listener = if serves { Some(self.listener()?) } else { None };
        if let Some(listener) = listener {
            self.launch(shapes[0], first_actors[0], Work::Serve { listener }, piece, excused)?;
            for stream in 0..self.draw.below(MOST_PEERS + 1) {
                let total = self.draw.of(&[0, 1, 40, 64, 200, 5000, 9000]).min(piece * CALLS);
                let Some(endpoint) = self.network.remote_connect(KERNELS_PORT) else { continue };
                let breaks_at = (breaks && self.draw.one_in(2)).then(|| self.draw.below(total + 1));
                self.peers.push(Peer {
                    network: self.network.clone(),
                    endpoint,
                    stream,
                    role: Role::Client { total, sent: 0, got: 0, ended: false },
                    breaks_at,
                    excused: false,
                    burst: BURST,
                    waits: false,
                    done: false,
                });
            }
        }
        if shapes[1].0 > 0 {
            let port = if serves && self.draw.one_in(2) { KERNELS_PORT } else { REMOTE_PORT };
            if port == REMOTE_PORT {
                let endpoint =
                    self.network.remote_listener(REMOTE_PORT).map_err(|e| e.to_string())?;
                let breaks_at = breaks.then(|| self.draw.below(5000));
                self.peers.push(Peer {
                    network: self.network.clone(),
                    endpoint,
                    stream: 100,
                    role: Role::Server { connections: Vec::new() },
                    breaks_at,
                    excused: false,
                    burst: BURST,
                    waits: false,
                    done: false,
                });
            }
            let total = self.draw.of(&[1, 64, 65, 300, 3000]).min(piece * CALLS);
            let work = if self.draw.one_in(3) {
                // All of it has to fit, since nobody receives before all have sent.
                Work::Share { port, total: total.min(600) }
            } else {
                let rounds = if shapes[1].1 > 3 { 2 } else { 4 };
                let rounds = 1 + self.draw.below(rounds);
                Work::Ask { port, total, rounds, first_stream: 200 }
            };
            self.launch(shapes[1], first_actors[1], work, piece, excused)?;
        }
        Ok(())
    }

    /// The same of p2p streams: one launch answers, the other calls.
    pub(super) fn p2p_cast(
        &mut self,
        shapes: &[(u32, u32)],
        first_actors: &[usize],
    ) -> Result<(), String> {
        let aborts = self.draw.one_in(12);
        if aborts {
            self.abort_at = Some(self.now.get() + self.draw.below(5_000_000));
        }
        let dies = self.draw.one_in(8);
        if dies {
            let at = self.now.get() + self.draw.below(3_000_000);
            self.dies_at = Some((at, self.draw.below(2) as usize));
        }
        let excused = aborts || dies;
        let listener = self.listener()?;
        let piece = self.draw.of(&[1, 7, 64, 65, 256, 300, 4096, 6000]);
        let total = self.draw.of(&[1, 64, 300, 3000]).min(piece * CALLS);
        let port = KERNELS_PORT;
        let [answers, asks] = match self.draw.below(8) {
            0 => {
                let asks = Work::Ask { port, total, rounds: 2, first_stream: 200 };
                [Work::Serve { listener }, asks]
            }
            1 | 2 => [Work::Serve { listener }, Work::Share { port, total: total.min(600) }],
            _ => {
                let script = Arc::new(self.script(shapes));
                self.trace.log(self.now.get(), 0, format!("{script:?}"));
                let streams = 1 + self.draw.below(3);
                let asks = Work::Exchange { port, script: Arc::clone(&script), streams };
                [Work::Answer { listener, script }, asks]
            }
        };
        // An exchange has its own lengths.
        let piece = if matches!(asks, Work::Exchange { .. }) { MOST_BYTES } else { piece };
        self.launch(shapes[0], first_actors[0], answers, piece, excused)?;
        self.launch(shapes[1], first_actors[1], asks, piece, excused)
    }

    /// What both ends of an exchange do.
    fn script(&mut self, shapes: &[(u32, u32)]) -> Script {
        let sends = [Sends::Whole, Sends::Whole, Sends::Parts, Sends::Slice, Sends::Polled];
        let receives = [
            Receives::Whole,
            Receives::Whole,
            Receives::Parts,
            Receives::Peeked,
            Receives::Slice,
            Receives::Polled,
        ];
        let watches = [self.draw.one_in(2), self.draw.one_in(2)];
        let rounds = 1 + self.draw.below(6);
        // Many of one length: one packet after the other.
        let usual = self.draw.of(&[1, 4, 60, 64, 200, 256, 257, 1000, 4096, 4097]);
        let rounds = (0..rounds).map(|_| {
            let any = self.draw.of(&[usual, usual, usual, 3, 256, 300, 4096, 5000]);
            let length = any as usize;
            let messages = if any <= 2000 { self.draw.of(&[1, 1, 1, 2, 3]) } else { 1 };
            let mut round = Round {
                length,
                messages,
                sends: [(); 2].map(|()| self.draw.of(&sends)),
                receives: [(); 2].map(|()| self.draw.of(&receives)),
                skips: 0,
            };
            for (receives, watches) in round.receives.iter_mut().zip(watches) {
                if watches && self.draw.one_in(2) {
                    *receives = Receives::Watched;
                }
            }
            if self.draw.one_in(3) {
                // So far that the tag of the last packet comes again, or about half of that.
                (round.messages, round.sends) = (1, [Sends::Whole; 2]);
                let back = self.draw.of(&[0, length, length, length]) as u64;
                round.skips = self.draw.of(&[1 << 32, 1 << 32, 1 << 32, 1 << 31]) - back;
            }
            round
        });
        let rounds = rounds.collect();
        let groupings = [shapes[0].1, shapes[1].1].map(|threads| self.grouping(threads));
        // What the buffers of both hold.
        let blocks = groupings == [Grouping::Blocks; 2];
        let most = if blocks { MOST_BYTES as usize } else { GROUP_BYTES };
        let endings = [Ending::Shutdown, Ending::Close, Ending::SendAndClose, Ending::Answered];
        let ending = self.draw.of(&endings);
        Script { rounds, ending, watches, groupings, most: most - EDGE_BYTES }
    }

    /// A listener of the program, as a net makes one.
    pub(super) fn listener(&mut self) -> Result<Handle, String> {
        let fail = |errno: Errno| format!("no listener: {errno}");
        let mut socket = self.shared.transports.make(Domain::V4).map_err(fail)?;
        socket.bind(&SocketAddr::v4([127, 0, 0, 1], KERNELS_PORT)).map_err(fail)?;
        socket.listen(BACKLOG).map_err(fail)?;
        self.hand_over(socket, true)
    }

    /// Who makes calls together in a block of so many threads.
    fn grouping(&mut self, threads: u32) -> Grouping {
        match threads {
            3 => self.draw.of(&[Grouping::Blocks, Grouping::Threads]),
            40 | 64 => self.draw.of(&[Grouping::Blocks, Grouping::Warps]),
            _ => Grouping::Blocks,
        }
    }

    pub(super) fn launch(
        &mut self,
        (blocks, threads): (u32, u32),
        first_actor: usize,
        work: Work,
        piece: u64,
        excused: bool,
    ) -> Result<(), String> {
        let slot = self.free_slot();
        let calls = calls_kernels(&work);
        self.callers.fetch_add(u64::from(calls), Ordering::Relaxed);
        let grouping = match &work {
            Work::Share { .. } => Grouping::Blocks,
            Work::Answer { script, .. } => script.groupings[0],
            Work::Exchange { script, .. } => script.groupings[1],
            _ => self.grouping(threads),
        };
        let plan = Plan {
            net: self.shared.memory.device_net(slot, self.kernels.len() as u64 + 1),
            timeout_ns: TIMEOUT_NS,
            accept_ns: if matches!(work, Work::Job { .. }) { WAIT_NS } else { ACCEPT_NS },
            work,
            grouping,
            common: Arc::default(),
            callers: self.callers.clone(),
            piece: piece as usize,
            offset: self.draw.of(&[0, 0, 3, 8]),
            in_place: self.draw.one_in(3),
            alone: self.draw.of(&[None, Some(Grouping::Warps), Some(Grouping::Threads)]),
            excused,
            complaints: self.complaints.clone(),
        };
        let shape = format!("{blocks} blocks of {threads} threads, calls by {grouping:?}");
        let number = self.kernels.len();
        self.trace.log(self.now.get(), 0, format!("launch {number} in slot {slot}: {shape}"));
        let spec = LaunchSpec {
            module: "simulation".into(),
            kernel: "scene".into(),
            grid: blocks.into(),
            block: threads.into(),
            shared_bytes: SHARED_BYTES,
            params: Vec::new(),
            entry: Arc::new(move || kernels::run(&plan)),
        };
        let stage = self.gpu.stage(spec).map_err(|error| error.to_string())?;
        self.shared.memory.clear_stop(slot as usize);
        // A launch orders everything before it.
        for actor in first_actor..first_actor + (blocks * threads) as usize {
            self.memory.knows_all(actor);
            self.memory.reuse.borrow_mut().begins(actor);
        }
        self.shared.launches.set(slot, true);
        self.control.running.fetch_add(1, Ordering::AcqRel);
        let stalled = Vec::new();
        let (reported, died, over) = (false, false, false);
        self.kernels.push(Kernel {
            stage,
            stalled,
            first_actor,
            slot,
            calls,
            reported,
            died,
            over,
        });
        for queue in &self.shared.queues {
            queue.wake();
        }
        Ok(())
    }
}

/// Whether it connects to the kernels' own listener.
fn calls_kernels(work: &Work) -> bool {
    match work {
        Work::Ask { port, .. } | Work::Share { port, .. } | Work::Exchange { port, .. } => {
            *port == KERNELS_PORT
        }
        Work::Serve { .. } | Work::Answer { .. } | Work::Job { .. } => false,
    }
}
