//! Arenas: GPU memory for the inboxes of p2p streams. Each peer process has arenas of its own, so that
//! a descriptor shows it nothing of others.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::{P2P_INBOX_BYTES, PAGE_BYTES};

use super::super::system::SystemRef;
use super::chunk::{Chunk, arena_of_this_process, out_of_memory};
use super::inbox::{Inbox, Outbox};
use super::message::Offer;
use super::process::{Process, token};
use crate::gpu::{Arena, Gpu, MemoryError, Moment};
use crate::lock::lock;
use crate::pool::{LARGEST_RING, SMALLEST_RING, ring_capacity};

/// Where the counters of p2p streams begin: beyond those of other streams, and each at a number
/// of its own, so that who knows how far one of them was never takes another for it.
pub(super) const BASE: u64 = 1 << 57;
const NUMBER_SHIFT: u32 = 33;
const NUMBERS: u64 = 1 << 23;
/// A peer's first arena is so large, the next ones so, or as their first ring needs it.
const FIRST_ARENA: u64 = 2 << 20;
const NEXT_ARENA: u64 = 16 << 20;
/// How many names (tokens) of one process can have memory at a time. A process that has ended may leave some to the
/// next one with its number, and a process may have this library twice. Without a limit, one that draws a new name
/// for each call would take all the memory.
const MOST_NAMES: usize = 4;
/// No proxy makes a larger one.
const LARGEST_ARENA: u64 = LARGEST_RING as u64 + FIRST_ARENA;

/// A base for the next stream. Callers choose: those of one process differ, and those of several
/// begin anywhere.
pub(crate) fn new_base(system: SystemRef) -> u64 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed).wrapping_add(token() as u64);
    (BASE | (call % NUMBERS) << NUMBER_SHIFT) + system.first_position()
}

fn is_base(system: SystemRef, base: u64) -> bool {
    let positions = (1 << NUMBER_SHIFT) - 1;
    base & !((NUMBERS - 1) << NUMBER_SHIFT | positions) == BASE
        && system.is_first_position(base & positions)
}

/// The arenas of a net: its own by the peer that they are for, and those of peers.
pub(crate) struct Arenas {
    system: SystemRef,
    gpu: Gpu,
    /// Bytes that arenas may take which no stream uses, of peers; its own in all.
    most: u64,
    /// Bytes that its own may still take.
    budget: Mutex<u64>,
    own: Mutex<HashMap<Process, Vec<Kept<Chunk>>>>,
    peers: Mutex<HashMap<(Process, u64), Kept<Arena>>>,
}

/// What streams use, and kept for a while when none does any more: a kernel may still look there, since
/// a poll holds no direction of the sockets that it looks at, and the next streams with the same peer use
/// it again.
struct Kept<T> {
    it: Arc<T>,
    /// Since when no stream does.
    idle: Option<(Moment, Duration)>,
}

/// So long a kernel may look at memory of a socket that was closed in order: far longer than a call
/// takes between its look at the socket and its look at the memory.
const FREE_DELAY: Duration =
    if cfg!(test) { Duration::from_millis(500) } else { Duration::from_secs(10) };

/// So long it waits for the next stream with the same peer, also where no kernel runs: else a peer
/// whose kernels run on, and which keeps what was offered to it for that long, would be offered
/// other memory by every launch, and have no room left after some of them.
const KEEP: Duration = if cfg!(test) { Duration::from_millis(250) } else { Duration::from_secs(1) };

impl<T> Kept<T> {
    fn new(it: &Arc<T>) -> Self {
        Self { it: Arc::clone(it), idle: None }
    }

    /// A stream may use it. Even one that comes and goes between two looks ends the time for which
    /// nobody did.
    fn use_again(&mut self) -> Arc<T> {
        self.idle = None;
        Arc::clone(&self.it)
    }

    fn is_idle(&self) -> bool {
        // Whoever takes it holds the lock of the map it is in.
        Arc::strong_count(&self.it) == 1
    }

    /// Whether it is to be kept: for the next stream, and until all kernels have ended that ran when
    /// it became idle, or the delay is over where all its streams were closed in order.
    /// `arena` is where it lies, and whether somebody else has that.
    fn is_needed(&mut self, now: Duration, arena: impl Fn(&T) -> (&Arena, bool)) -> bool {
        if !self.is_idle() {
            self.idle = None;
            return true;
        }
        let (moment, since) = *self.idle.get_or_insert_with(|| (Moment::now(), now));
        let idle = now.saturating_sub(since);
        if idle < KEEP {
            return true;
        }
        if moment.is_over() {
            return false;
        }
        let (arena, is_shared) = arena(&self.it);
        if arena.is_abandoned() || is_shared || idle < FREE_DELAY {
            return true;
        }
        arena.allow_free();
        false
    }
}

impl Arenas {
    pub(crate) fn new(system: SystemRef, gpu: Gpu, budget: u64) -> Self {
        let (own, peers) = (Mutex::default(), Mutex::default());
        Self { system, gpu, most: budget, budget: Mutex::new(budget), own, peers }
    }

    /// Gives up what no stream uses and no kernel keeps.
    pub(crate) fn tidy(&self) {
        let (now, mut unused) = (self.system.now(), Vec::new());
        lock(&self.own).retain(|_, chunks| {
            // The other end has it as well, where it is of this process.
            let is_unused = |chunk: &mut Kept<Chunk>| {
                !chunk.is_needed(now, |it| (&it.arena, Arc::strong_count(&it.arena) > 1))
            };
            unused.extend(chunks.extract_if(.., is_unused));
            !chunks.is_empty()
        });
        let unused_bytes: u64 = unused.iter().map(|chunk| chunk.it.arena.len() as u64).sum();
        let foreign: Vec<_> = lock(&self.peers)
            .extract_if(|_, arena| !arena.is_needed(now, |arena| (arena, false)))
            .collect();
        // Not under a lock: a driver is called.
        drop((unused, foreign));
        *lock(&self.budget) += unused_bytes;
    }

    /// An inbox for streams from a peer; ENOBUFS when the net's memory for them is used up.
    pub(crate) fn inbox(&self, peer: Process, ring: u32, base: u64) -> Result<Inbox, Errno> {
        let capacity = ring_capacity(ring);
        let known: Vec<Arc<Chunk>> = lock(&self.own)
            .get_mut(&peer)
            .map_or(Vec::new(), |chunks| chunks.iter_mut().map(Kept::use_again).collect());
        if let Some(inbox) = known.iter().find_map(|chunk| Inbox::take(chunk, capacity, base)) {
            inbox.prepare()?;
            return Ok(inbox);
        }
        let usual = if known.is_empty() { FIRST_ARENA } else { NEXT_ARENA };
        // Inboxes lie beside the rings, not in the place of one.
        let bytes = usual.max(u64::from(capacity) + FIRST_ARENA);
        let chunk = self.new_chunk(peer, bytes)?;
        let inbox = Inbox::take(&chunk, capacity, base).ok_or(Errno::ENOBUFS)?;
        inbox.prepare()?;
        Ok(inbox)
    }

    fn new_chunk(&self, peer: Process, bytes: u64) -> Result<Arc<Chunk>, Errno> {
        {
            let own = lock(&self.own);
            let same = |other: &&Process| other.pid == peer.pid && other.token != peer.token;
            // The system knows nothing of a process in a namespace that this one does not see: pid 0.
            if peer.pid > 0 && own.keys().filter(same).count() >= MOST_NAMES {
                tracing::debug!(pid = peer.pid, "a process calls under too many names");
                return Err(Errno::ENOBUFS);
            }
        }
        {
            let mut budget = lock(&self.budget);
            *budget = budget.checked_sub(bytes).ok_or(Errno::ENOBUFS)?;
        }
        let arena = self.gpu.arena(bytes as usize).map_err(|error| {
            *lock(&self.budget) += bytes;
            out_of_memory(&error)
        })?;
        // What it is larger than asked for is paid for, too.
        let more = arena.len() as u64 - bytes;
        {
            let mut budget = lock(&self.budget);
            *budget = budget.saturating_sub(more);
        }
        let chunk = Arc::new(Chunk::new(arena));
        lock(&self.own).entry(peer).or_default().push(Kept::new(&chunk));
        Ok(chunk)
    }

    /// What a peer offers. Nothing of it is trusted.
    pub(crate) fn outbox(
        &self,
        peer: Process,
        offer: &Offer,
        descriptor: Option<OwnedFd>,
    ) -> Result<Outbox, Errno> {
        let Offer { ring, capacity, inbox, arena_bytes: bytes, base, .. } = *offer;
        let inside = |at: u64, length: u64| {
            at.is_multiple_of(PAGE_BYTES as u64)
                && at.checked_add(length).is_some_and(|end| end <= bytes)
        };
        // Of two that lie inside, whose ends therefore exist.
        let apart =
            || inbox + (P2P_INBOX_BYTES as u64) <= ring || ring + u64::from(capacity) <= inbox;
        let sensible = capacity.is_power_of_two()
            && (SMALLEST_RING..=LARGEST_RING).contains(&capacity)
            && inside(ring, capacity.into())
            && inside(inbox, P2P_INBOX_BYTES as u64)
            && apart()
            && is_base(self.system, base);
        // Before it is mapped: kernels that run would keep it so.
        if !sensible || bytes > LARGEST_ARENA {
            return Err(Errno::EPROTO);
        }
        let arena = if peer == Process::this() {
            self.own_arena(offer.arena)?
        } else {
            self.peers_arena(peer, offer, descriptor)?
        };
        if arena.len() as u64 != bytes {
            return Err(Errno::EPROTO);
        }
        Ok(Outbox { arena, offer: *offer })
    }

    fn own_arena(&self, number: u64) -> Result<Arc<Arena>, Errno> {
        let arena = arena_of_this_process(number).ok_or(Errno::EPROTO)?;
        arena.allow(&self.gpu).map_err(|error| refused(&error))?;
        Ok(arena)
    }

    fn peers_arena(
        &self,
        peer: Process,
        offer: &Offer,
        descriptor: Option<OwnedFd>,
    ) -> Result<Arc<Arena>, Errno> {
        let key = (peer, offer.arena);
        let mut peers = lock(&self.peers);
        if let Some(known) = peers.get_mut(&key) {
            return Ok(known.use_again());
        }
        let idle = peers.values().filter(|arena| arena.is_idle());
        if idle.map(|arena| arena.it.len() as u64).sum::<u64>() > self.most {
            return Err(Errno::ENOBUFS);
        }
        let bytes = usize::try_from(offer.arena_bytes).map_err(|_| Errno::EPROTO)?;
        let descriptor = descriptor.ok_or(Errno::EPROTO)?;
        let arena = self.gpu.import_arena(descriptor, bytes).map_err(|error| refused(&error))?;
        let arena = Arc::new(arena);
        peers.insert(key, Kept::new(&arena));
        Ok(arena)
    }
}

fn refused(error: &MemoryError) -> Errno {
    tracing::info!(%error, "a peer's GPU memory cannot be reached");
    Errno::EXDEV
}

#[cfg(test)]
mod tests {
    use super::super::super::linux::Linux;
    use super::*;
    use crate::gpu::{EmulatedOptions, GpuChoice};

    impl Arenas {
        /// Bytes of its own that streams have.
        pub(crate) fn used_bytes(&self) -> u64 {
            let own = lock(&self.own);
            let used = |chunk: &Chunk| chunk.arena.len() as u64 - lock(&chunk.free).free_bytes();
            own.values().flatten().map(|chunk| used(&chunk.it)).sum()
        }

        /// Bytes that new ones of its own may take.
        pub(crate) fn free_bytes(&self) -> u64 {
            *lock(&self.budget)
        }
    }

    #[test]
    fn memory_of_closed_streams_rests_and_goes_although_a_kernel_runs() {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let whole = 64 << 20;
        let arenas = Arenas::new(&Linux, gpu, whole);
        let peer = Process { pid: 1, token: 1 };
        let _kernel = crate::gpu::RunningKernel::new();
        for abandoned in [false, true] {
            let inbox = arenas.inbox(peer, 4096, BASE).expect("memory");
            if abandoned {
                inbox.abandon();
            }
            let begun = std::time::Instant::now();
            drop(inbox);
            arenas.tidy();
            let is_kept = arenas.free_bytes() < whole;
            assert!(is_kept || begun.elapsed() >= FREE_DELAY, "it is kept for a while");
            std::thread::sleep(2 * FREE_DELAY);
            arenas.tidy();
            assert_eq!(arenas.free_bytes() < whole, abandoned);
        }
    }

    #[test]
    fn a_peer_with_many_names_leaves_memory_to_others() {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let arenas = Arenas::new(&Linux, gpu, 16 << 20);
        let of = |pid, token| arenas.inbox(Process { pid, token }, 4096, BASE);
        let inboxes: Vec<_> = (1..20).filter_map(|token| of(1, token).ok()).collect();
        assert_eq!(inboxes.len(), MOST_NAMES);
        of(1, 1).expect("a name that it has");
        of(2, 1).expect("the memory of another peer");
    }

    #[test]
    fn the_next_stream_gets_the_same_memory_although_no_kernel_runs() {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let arenas = Arenas::new(&Linux, gpu, 64 << 20);
        let arena_of_next = || {
            let inbox = arenas.inbox(Process { pid: 2, token: 1 }, 4096, BASE).expect("memory");
            inbox.chunk.number
        };
        let first = arena_of_next();
        arenas.tidy();
        assert_eq!(arena_of_next(), first);
    }
}
