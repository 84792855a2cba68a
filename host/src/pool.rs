//! What sockets are made of: slots in the tables and ring memory. Budgeted when the net is
//! made, shared by its proxy threads, touched only when sockets come and go.
//!
//! Some of both is reserved, so that peers which nobody has accepted cannot take all: for kernels' own
//! sockets, and for each listener its share. Taking a slot needs more free ones than others have
//! reserved and not used.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Mutex;

use gpunet_device::Handle;
use gpunet_device::abi::descriptor::RingLocation;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::Layout;
use gpunet_device::planted::{Bug, planted};

use crate::lock::lock;
use crate::transport::RingRegion;

/// The smallest ring: a page, so that rings of different writers share none.
pub(crate) const SMALLEST_RING: u32 = 4096;
/// The largest ring.
pub(crate) const LARGEST_RING: u32 = 1 << 30;
/// Reservations for kernels' own sockets, and those for all listeners, take no more than such a part
/// of ring memory; a listener's of slots no more than half of that.
const PART: u64 = 4;

/// On whose account something is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// A kernel's or the program's own socket.
    Own,
    /// A connection that no kernel has accepted yet, of that listener.
    Unaccepted(Handle),
}

/// Slots and ring memory of a net.
pub(crate) struct Pool {
    slots: Mutex<Slots>,
    /// By region.
    rings: [Mutex<Buddies>; 2],
    ring_bytes: [u64; 2],
    /// What a reserved slot reserves of ring memory.
    rings_of_slot: u64,
}

/// The slots of all shards.
struct Slots {
    shards: Vec<ShardSlots>,
    free: u32,
    reserved: Reserved,
}

/// The slots of one shard.
struct ShardSlots {
    /// In the order in which they are taken.
    free: VecDeque<u32>,
    generations: Vec<u32>,
    /// On whose account those are that are used; none once a connection was accepted.
    accounts: Vec<Option<Account>>,
    used: u32,
}

/// Slots that are kept free for some.
#[derive(Default)]
struct Reserved {
    /// For own sockets, and how many of these there are.
    own: u32,
    own_used: u32,
    /// For each listener; and what all of them have not used.
    shares: HashMap<u64, Share>,
    shares_unused: u32,
}

/// A listener's share of the slots.
#[derive(Clone, Copy)]
struct Share {
    reserved: u32,
    used: u32,
}

impl Share {
    fn unused(self) -> u32 {
        self.reserved.saturating_sub(self.used)
    }
}

impl Reserved {
    /// What others have reserved and not used, and this one has to leave: own sockets, listeners.
    fn by_others(&self, account: Account) -> (u32, u32) {
        match account {
            // Its own reservation comes first: what was accepted of a share may have used it up.
            Account::Own if self.own_used < self.own => (0, 0),
            Account::Own => (0, self.shares_unused),
            Account::Unaccepted(listener) => {
                let mine = self.shares.get(&listener.0).map_or(0, |share| share.unused());
                (self.own.saturating_sub(self.own_used), self.shares_unused - mine)
            }
        }
    }

    /// One more is used on an account, or one less.
    fn count(&mut self, account: Account, used: bool) {
        let step = |count: &mut u32| *count = if used { *count + 1 } else { *count - 1 };
        match account {
            Account::Own => step(&mut self.own_used),
            Account::Unaccepted(listener) => {
                let Some(share) = self.shares.get_mut(&listener.0) else { return };
                self.shares_unused -= share.unused();
                step(&mut share.used);
                self.shares_unused += share.unused();
            }
        }
    }
}

impl Pool {
    /// A pool for a net of that shape, with that much ring memory, and nothing reserved.
    pub(crate) fn new(layout: &Layout, ring_bytes: [u64; 2]) -> Self {
        let shard = || ShardSlots {
            free: (0..layout.socket_slots).collect(),
            generations: vec![0; layout.socket_slots as usize],
            accounts: vec![None; layout.socket_slots as usize],
            used: 0,
        };
        let slots = Slots {
            shards: (0..layout.shards).map(|_| shard()).collect(),
            free: layout.shards * layout.socket_slots,
            reserved: Reserved::default(),
        };
        Self {
            slots: Mutex::new(slots),
            rings: ring_bytes.map(|bytes| Mutex::new(Buddies::new(bytes))),
            ring_bytes,
            rings_of_slot: 0,
        }
    }

    /// The same with so many slots that are for kernels' own sockets; each reserved slot, these and
    /// those of listeners, reserves so many bytes of rings.
    pub(crate) fn reserving(mut self, own: u32, rings_of_slot: u64) -> Self {
        lock(&self.slots).reserved.own = own;
        self.rings_of_slot = rings_of_slot;
        self
    }

    /// Reserves a listener's share, as far as the net is not too small for that, until the listener's
    /// slot comes back.
    pub(crate) fn reserve_share(&self, listener: Handle, share: u32) {
        let slots = &mut *lock(&self.slots);
        let all: u64 = slots.shards.iter().map(|shard| shard.accounts.len() as u64).sum();
        let reserved = share.min((all / (2 * PART)) as u32);
        let before = slots.reserved.shares.insert(listener.0, Share { reserved, used: 0 });
        slots.reserved.shares_unused += reserved;
        slots.reserved.shares_unused -= before.map_or(0, |share| share.unused());
    }

    /// A handle in the shard that has the fewest sockets; ENFILE when all are full, or what is free
    /// is reserved for others.
    pub(crate) fn allocate_handle(&self, account: Account) -> Result<Handle, Errno> {
        let slots = &mut *lock(&self.slots);
        let (own, shares) = slots.reserved.by_others(account);
        if slots.free <= own + shares {
            return Err(Errno::ENFILE);
        }
        let (shard, found) = slots
            .shards
            .iter_mut()
            .enumerate()
            .filter(|(_, shard)| !shard.free.is_empty())
            .min_by_key(|(_, shard)| shard.used)
            .ok_or(Errno::ENFILE)?;
        let slot = found.free.pop_front().ok_or(Errno::ENFILE)?;
        slots.free -= 1;
        found.used += 1;
        found.accounts[slot as usize] = Some(account);
        slots.reserved.count(account, true);
        let generation = &mut found.generations[slot as usize];
        if *generation == 0 || !planted(Bug::GenerationNotBumped) {
            *generation = generation.checked_add(1).unwrap_or(1);
        }
        Ok(Handle::new(shard as u32, slot, *generation))
    }

    /// A kernel has accepted a connection: its listener's share has room again.
    pub(crate) fn accepted(&self, handle: Handle) {
        let slots = &mut *lock(&self.slots);
        let shard = &mut slots.shards[handle.shard() as usize];
        let slot = handle.slot() as usize;
        if shard.generations[slot] == handle.generation()
            && let Some(account @ Account::Unaccepted(_)) = shard.accounts[slot]
        {
            shard.accounts[slot] = None;
            slots.reserved.count(account, false);
        }
    }

    /// Gives a handle's slot back. It is the last to be taken again, so that a stale handle
    /// stays stale for long.
    pub(crate) fn free_handle(&self, handle: Handle) {
        let slots = &mut *lock(&self.slots);
        let shard = &mut slots.shards[handle.shard() as usize];
        shard.used -= 1;
        shard.free.push_back(handle.slot());
        slots.free += 1;
        if let Some(account) = shard.accounts[handle.slot() as usize].take() {
            slots.reserved.count(account, false);
        }
        if let Some(share) = slots.reserved.shares.remove(&handle.0) {
            slots.reserved.shares_unused -= share.unused();
        }
    }

    /// Ring memory; ENOBUFS when there is none left, or it is reserved for others.
    pub(crate) fn allocate_ring(
        &self,
        account: Account,
        region: RingRegion,
        capacity: u32,
        base: u64,
    ) -> Result<RingLocation, Errno> {
        let capacity = ring_capacity(capacity);
        let region = region as u8;
        let withheld = self.withheld(account, region);
        let mut rings = lock(self.rings(region));
        // Who has nothing to leave to others need not count what is free.
        if withheld > 0 && rings.free_bytes() < withheld + u64::from(capacity) {
            return Err(Errno::ENOBUFS);
        }
        let offset = rings.allocate(capacity).ok_or(Errno::ENOBUFS)?;
        Ok(RingLocation { region, offset, capacity, base })
    }

    /// Ring memory that others have reserved and not used.
    fn withheld(&self, account: Account, region: u8) -> u64 {
        if self.rings_of_slot == 0 {
            return 0;
        }
        let (own, shares) = lock(&self.slots).reserved.by_others(account);
        // Whole rings of whole slots.
        let most = self.ring_bytes[usize::from(region & 1)] / PART / self.rings_of_slot;
        [own, shares].map(|slots| u64::from(slots).min(most) * self.rings_of_slot).iter().sum()
    }

    /// Gives ring memory back; nothing for a location without a ring, or with one that came with the
    /// socket.
    pub(crate) fn free_ring(&self, location: &RingLocation) {
        if location.capacity != 0 && location.region != RingRegion::Window as u8 {
            lock(self.rings(location.region)).free(location.offset, location.capacity);
        }
    }

    /// Sockets in use, free ring bytes.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let sockets = lock(&self.slots).shards.iter().map(|shard| u64::from(shard.used)).sum();
        (sockets, self.rings.iter().map(|rings| lock(rings).free_bytes()).sum())
    }

    fn rings(&self, region: u8) -> &Mutex<Buddies> {
        &self.rings[usize::from(region & 1)]
    }
}

/// A ring's capacity for the bytes asked for.
pub(crate) fn ring_capacity(asked: u32) -> u32 {
    asked.clamp(SMALLEST_RING, LARGEST_RING).next_power_of_two()
}

/// A buddy allocator over ring memory: powers of two, merged when given back.
pub(crate) struct Buddies {
    /// Free offsets by order: order 0 is [`SMALLEST_RING`].
    free: Vec<BTreeSet<u64>>,
}

impl Buddies {
    pub(crate) fn new(bytes: u64) -> Self {
        let orders = (LARGEST_RING / SMALLEST_RING).ilog2() as usize + 1;
        let mut this = Self { free: vec![Default::default(); orders] };
        let mut offset = 0;
        // The largest blocks first: each offset is then a multiple of its block's size.
        for order in (0..orders).rev() {
            let size = u64::from(SMALLEST_RING) << order;
            while offset + size <= bytes {
                this.free[order].insert(offset);
                offset += size;
            }
        }
        this
    }

    fn order(capacity: u32) -> usize {
        (capacity / SMALLEST_RING).ilog2() as usize
    }

    pub(crate) fn allocate(&mut self, capacity: u32) -> Option<u64> {
        let wanted = Self::order(capacity);
        let found = (wanted..self.free.len()).find(|order| !self.free[*order].is_empty())?;
        let offset = self.free[found].pop_first()?;
        for order in (wanted..found).rev() {
            self.free[order].insert(offset + (u64::from(SMALLEST_RING) << order));
        }
        Some(offset)
    }

    pub(crate) fn free(&mut self, mut offset: u64, capacity: u32) {
        let mut order = Self::order(capacity);
        while order + 1 < self.free.len() {
            let buddy = offset ^ (u64::from(SMALLEST_RING) << order);
            if !self.free[order].remove(&buddy) {
                break;
            }
            offset = offset.min(buddy);
            order += 1;
        }
        self.free[order].insert(offset);
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        let of = |(order, set): (usize, &BTreeSet<u64>)| {
            (set.len() as u64) * (u64::from(SMALLEST_RING) << order)
        };
        self.free.iter().enumerate().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LAYOUT: Layout = Layout { shards: 2, socket_slots: 2, request_slots: 1 };

    #[test]
    fn handles_go_to_the_emptier_shard_and_run_out() {
        let pool = Pool::new(&LAYOUT, [0; 2]);
        let handles: Vec<_> = (0..4).map(|_| pool.allocate_handle(Account::Own).unwrap()).collect();
        assert_eq!(handles.iter().filter(|handle| handle.shard() == 0).count(), 2);
        assert_ne!(handles[0].shard(), handles[1].shard());
        assert_eq!(pool.allocate_handle(Account::Own), Err(Errno::ENFILE));
        pool.free_handle(handles[0]);
        let again = pool.allocate_handle(Account::Own).unwrap();
        assert_eq!((again.shard(), again.slot()), (handles[0].shard(), handles[0].slot()));
        assert_ne!(again, handles[0], "a slot's next socket has another generation");
    }

    #[test]
    fn peers_that_nobody_accepts_leave_slots_to_others() {
        let layout = Layout { shards: 2, socket_slots: 32, request_slots: 1 };
        let pool = Pool::new(&layout, [1 << 20, 0]).reserving(8, 8192);
        let [one, two] = [(); 2].map(|()| {
            let listener = pool.allocate_handle(Account::Own).unwrap();
            pool.reserve_share(listener, 6);
            listener
        });
        let mut taken = Vec::new();
        // The proxy does not do that: it stops at the listener's share.
        while let Ok(handle) = pool.allocate_handle(Account::Unaccepted(one)) {
            taken.push(handle);
        }
        assert_eq!(taken.len(), 64 - 2 - 6 - 6, "the other's share and the rest of the own");
        for _ in 0..6 {
            pool.allocate_handle(Account::Own).expect("reserved");
            pool.allocate_handle(Account::Unaccepted(two)).expect("reserved");
        }
        assert_eq!(pool.allocate_handle(Account::Own), Err(Errno::ENFILE));
        // Accepted, they are of the share no more, which others leave free.
        for handle in &taken[..50] {
            pool.accepted(*handle);
            pool.accepted(*handle);
        }
        pool.free_handle(taken[0]);
        assert_eq!(
            pool.allocate_handle(Account::Own),
            Err(Errno::ENFILE),
            "of the share of the first"
        );
        assert!(pool.allocate_handle(Account::Unaccepted(one)).is_ok());
        // And with the listener its share goes.
        for handle in [two, taken[1]] {
            pool.free_handle(handle);
        }
        pool.free_handle(one);
        assert!((0..3).all(|_| pool.allocate_handle(Account::Own).is_ok()));
    }

    #[test]
    fn peers_that_nobody_accepts_leave_ring_memory_to_others() {
        let layout = Layout { shards: 1, socket_slots: 64, request_slots: 1 };
        let pool = Pool::new(&layout, [16 * 8192, 0]).reserving(16, 8192);
        let listener = pool.allocate_handle(Account::Own).unwrap();
        let take = |account| pool.allocate_ring(account, RingRegion::Host, 4096, 0);
        let peers = (0..).take_while(|_| take(Account::Unaccepted(listener)).is_ok()).count();
        // A quarter is kept, as whole slots need it.
        assert_eq!(peers, 24);
        assert_eq!((0..).take_while(|_| take(Account::Own).is_ok()).count(), 8);
    }

    #[test]
    fn many_places_come_back_in_no_time() {
        let pool =
            Pool::new(&Layout { shards: 1, socket_slots: 1 << 19, request_slots: 1 }, [0; 2]);
        let handles: Vec<_> =
            (0..1 << 19).map(|_| pool.allocate_handle(Account::Own).unwrap()).collect();
        let start = std::time::Instant::now();
        for handle in &handles {
            pool.free_handle(*handle);
        }
        let limit = gpunet_support::testing::hang_limit(std::time::Duration::from_millis(300));
        assert!(start.elapsed() < limit, "{:?}", start.elapsed());
        let again = pool.allocate_handle(Account::Own).unwrap();
        assert_eq!(again.slot(), handles[0].slot(), "the first to come back is the first to go");
    }

    proptest! {
        /// Rings never overlap, and what is given back can be taken again as a whole.
        #[test]
        fn rings_are_disjoint_and_come_back(asks in prop::collection::vec(1..200_000_u32, 1..60)) {
            let total = 4 << 20;
            let pool = Pool::new(&LAYOUT, [total, 0]);
            let mut taken: Vec<RingLocation> = Vec::new();
            for (turn, ask) in asks.iter().enumerate() {
                if let Ok(location) = pool.allocate_ring(Account::Own, RingRegion::Host, *ask, 0) {
                    prop_assert!(location.capacity >= *ask && location.capacity.is_power_of_two());
                    prop_assert!(location.offset + u64::from(location.capacity) <= total);
                    for other in &taken {
                        let apart = location.offset + u64::from(location.capacity) <= other.offset
                            || other.offset + u64::from(other.capacity) <= location.offset;
                        prop_assert!(apart);
                    }
                    taken.push(location);
                }
                if turn % 3 == 2 && !taken.is_empty() {
                    let location = taken.swap_remove(turn % taken.len());
                    pool.free_ring(&location);
                }
            }
            for location in taken {
                pool.free_ring(&location);
            }
            prop_assert_eq!(pool.usage().1, total);
            prop_assert!(pool.allocate_ring(Account::Own, RingRegion::Host, 4 << 20, 0).is_ok());
        }
    }
}
