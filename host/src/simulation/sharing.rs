//! Who plays in a sharing scene: launches that come and go on one net, and pass their sockets on. In the
//! first of two acts they leave what they have not served to the end; then none runs, and the program
//! takes some of it back; those of the second act serve all of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gpunet_device::calls::{POLLIN, POLLOUT};

use super::cast::{BURST, KERNELS_PORT, REMOTE_PORT};
use super::job::{Job, Owning, Role, Terms};
use super::open_streams::OpenStreams;
use super::peers::{self, Peer};
use super::program::{Begins, Callers, Planned, Program};
use super::scene::Scene;
use super::workers::EVENTS_BYTES;

/// The port of a launch's own listener.
const OWN_PORT: u16 = 3000;
/// Calls that move a stream's bytes.
const CALLS: u64 = 24;

impl Scene {
    /// A remote client that wants so many bytes back.
    pub(super) fn add_client(&mut self, port: u16, stream: u64, total: u64, excused: bool) -> bool {
        let Some(endpoint) = self.network.remote_connect(port) else { return false };
        self.peers.push(Peer {
            network: self.network.clone(),
            endpoint,
            stream,
            role: peers::Role::Client { total, sent: 0, got: 0, ended: false },
            breaks_at: None,
            excused,
            burst: self.draw.of(&[20, 100, 400, BURST]),
            waits: self.draw.one_in(2),
            done: false,
        });
        true
    }

    /// Puts the program and its launches on the stage.
    pub(super) fn share(
        &mut self,
        shapes: &[(u32, u32)],
        first_actors: &[usize],
    ) -> Result<(), String> {
        let queue = Arc::new(OpenStreams::default());
        let owner_ends = self.draw.one_in(2);
        queue.owner_ends.store(owner_ends, Ordering::Relaxed);
        let listener = self.listener()?;
        queue.listener.store(listener.0, Ordering::Relaxed);
        let piece = self.draw.of(&[7, 64, 100, 300, 1000]);
        let mut clients = 0;
        for stream in 0..1 + self.draw.below(4) {
            let total = self.draw.of(&[1, 40, 300, 2000, 5000]).min(piece * CALLS);
            clients += u64::from(self.add_client(KERNELS_PORT, stream, total, false));
        }
        let endpoint = self.network.remote_listener(REMOTE_PORT).map_err(|e| e.to_string())?;
        self.peers.push(Peer {
            network: self.network.clone(),
            endpoint,
            stream: 100,
            role: peers::Role::Server { connections: Vec::new() },
            breaks_at: None,
            excused: false,
            burst: BURST,
            waits: false,
            done: false,
        });

        let piece = piece + EVENTS_BYTES as u64;
        let mut planned: Vec<Planned> = Vec::new();
        let first = 1 + self.draw.below(4) as usize;
        let second = 1 + self.draw.below(3) as usize;
        let mut callers = None;
        for (act, launches) in [first, second].into_iter().enumerate() {
            // Only one poller at a time watches the listener.
            let mut listens = self.draw.one_in(2);
            for launch in 0..launches {
                let at = planned.len();
                let drawn = self.draw.below(8);
                let owns = owner_ends && act == 0 && launch + 1 == launches;
                let mut job = match (act, launch, if owns { 6 } else { drawn }) {
                    // Who serves all that is left.
                    (1, 0 | 1, _) | (0, 0, 0..6) | (_, _, 0..3) => Job::Serve(self.terms(act)),
                    (0, _, 3) => Job::Own(self.owning(Role::Begins, planned.len() as u64)),
                    (0, _, 4) if callers.is_none() => {
                        let count = 1 + self.draw.below(3);
                        callers = Some(Callers { port: OWN_PORT, count });
                        Job::Listen { port: OWN_PORT, accepts: self.draw.below(count + 1) }
                    }
                    (0, _, 5 | 6) => Job::Own(self.owning(Role::Owns, 0)),
                    _ => Job::Idle,
                };
                if let Job::Serve(terms) = &mut job {
                    // One of the last serves what only those do that wait for one stream at a time;
                    // the next may be the one to serve all others.
                    terms.polls &= (act, launch) != (1, 0);
                    terms.polls |= (act, launch) == (1, 1) && listens;
                    terms.converses = (act, launch) == (1, 0) && listens && launches > 1;
                    terms.listens = terms.polls && std::mem::take(&mut listens);
                }
                if matches!(&job, Job::Own(owning) if owning.role == Role::Begins) {
                    queue.unfinished.fetch_add(1, Ordering::Relaxed);
                    queue.conversations.fetch_add(1, Ordering::Relaxed);
                }
                let behind = at.checked_sub(1).filter(|other| planned[*other].act == act);
                let after = Begins::After(self.draw.below(400_000));
                let begins = match behind {
                    // Those of the last act end with it.
                    Some(other) if act == 0 => {
                        self.draw.of(&[Begins::Behind(other), Begins::During(other), after])
                    }
                    _ => after,
                };
                let stops = matches!(job, Job::Idle) && self.draw.one_in(2);
                let stops_after = stops.then(|| self.draw.below(500_000));
                let uses = match &job {
                    Job::Own(owning) if owning.role == Role::Owns => Some(*owning),
                    _ => None,
                };
                planned.push(Planned {
                    act,
                    shape: shapes[at],
                    first_actor: first_actors[at],
                    job,
                    begins,
                    stops_after,
                    piece,
                    kernel: None,
                });
                if let Some(owning) = uses {
                    let at = planned.len();
                    planned.push(Planned {
                        act,
                        shape: shapes[at],
                        first_actor: first_actors[at],
                        job: Job::Own(Owning { role: Role::Uses, ..owning }),
                        begins: Begins::After(self.draw.below(400_000)),
                        stops_after: None,
                        piece,
                        kernel: None,
                    });
                    // Both at once, whoever else begins later.
                    planned[at - 1].begins = Begins::After(self.draw.below(400_000));
                    break;
                }
            }
        }
        queue.unfinished.fetch_add(clients, Ordering::Relaxed);
        for planned in &planned {
            let (job, begins) = (&planned.job, planned.begins);
            let text = format!("act {}: {job:?}, begins {begins:?}", planned.act);
            self.trace.log(self.now.get(), 0, text);
        }
        let mut program = Program::new(queue, planned, clients, self.now.get());
        program.callers = callers;
        self.program = Some(program);
        Ok(())
    }

    fn terms(&mut self, act: usize) -> Terms {
        Terms {
            pieces: (act == 0).then(|| 1 + self.draw.below(30)),
            passes_after: self.draw.of(&[1, 2, 4, 10, 1000]),
            polls: self.draw.one_in(2),
            listens: false,
            removes: self.draw.one_in(2),
            events: self.draw.of(&[POLLIN, POLLIN, POLLIN | POLLOUT]),
            leaves_poller: self.draw.one_in(2),
            renews: self.draw.of(&[0, 0, 0, 60]),
            converses: false,
        }
    }

    fn owning(&mut self, role: Role, number: u64) -> Owning {
        let total = self.draw.of(&[1, 40, 300, 1000]);
        Owning {
            role,
            port: REMOTE_PORT,
            number: 200 + number,
            total,
            at: self.draw.below(total + 1),
            leaves: self.draw.one_in(2),
            sends: self.draw.one_in(2),
        }
    }
}
