//! What sockets are made of: places in the tables and ring memory. Budgeted when the net is
//! made, shared by its proxy threads, touched only when sockets come and go.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpunet_device::Handle;
use gpunet_device::abi::card::Place;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::Layout;
use gpunet_device::planted::{Bug, planted};

use crate::transport::RingRegion;

/// The smallest ring: a page, so that rings of different writers share none.
pub(crate) const SMALLEST_RING: u32 = 4096;
/// The largest ring.
pub(crate) const LARGEST_RING: u32 = 1 << 30;

/// Places and ring memory of a net.
pub(crate) struct Pool {
    places: Mutex<Vec<Places>>,
    /// By region.
    rings: [Mutex<Buddies>; 2],
}

/// The places of one shard.
struct Places {
    /// In the order in which they are taken.
    free: VecDeque<u32>,
    generations: Vec<u32>,
    used: u32,
}

impl Pool {
    /// A pool for a net of that shape, with that much ring memory.
    pub(crate) fn new(layout: &Layout, ring_bytes: [u64; 2]) -> Self {
        let shard = || Places {
            free: (0..layout.places).collect(),
            generations: vec![0; layout.places as usize],
            used: 0,
        };
        Self {
            places: Mutex::new((0..layout.shards).map(|_| shard()).collect()),
            rings: ring_bytes.map(|bytes| Mutex::new(Buddies::new(bytes))),
        }
    }

    /// A handle in the shard that has the fewest sockets; ENFILE when all are full.
    pub(crate) fn take_handle(&self) -> Result<Handle, Errno> {
        let mut shards = lock(&self.places);
        let (shard, places) = shards
            .iter_mut()
            .enumerate()
            .filter(|(_, places)| !places.free.is_empty())
            .min_by_key(|(_, places)| places.used)
            .ok_or(Errno::ENFILE)?;
        let place = places.free.pop_front().ok_or(Errno::ENFILE)?;
        places.used += 1;
        let generation = &mut places.generations[place as usize];
        if *generation == 0 || !planted(Bug::GenerationNotBumped) {
            *generation = generation.checked_add(1).unwrap_or(1);
        }
        Ok(Handle::new(shard as u32, place, *generation))
    }

    /// Gives a handle's place back. It is the last to be taken again, so that a stale handle
    /// stays stale for long.
    pub(crate) fn give_handle(&self, handle: Handle) {
        let mut shards = lock(&self.places);
        let places = &mut shards[handle.shard() as usize];
        places.used -= 1;
        places.free.push_back(handle.place());
    }

    /// Ring memory; ENOBUFS when there is none left.
    pub(crate) fn take_ring(
        &self,
        region: RingRegion,
        capacity: u32,
        base: u64,
    ) -> Result<Place, Errno> {
        let capacity = ring_capacity(capacity);
        let region = region as u8;
        let offset = lock(self.rings(region)).take(capacity).ok_or(Errno::ENOBUFS)?;
        Ok(Place { region, offset, capacity, base })
    }

    /// Gives ring memory back; nothing for a place without a ring, or with one that came with the
    /// socket.
    pub(crate) fn give_ring(&self, place: &Place) {
        if place.capacity != 0 && place.region != RingRegion::Window as u8 {
            lock(self.rings(place.region)).give(place.offset, place.capacity);
        }
    }

    /// Sockets in use, free ring bytes.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let sockets = lock(&self.places).iter().map(|places| u64::from(places.used)).sum();
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

/// The pools hold plain numbers that are consistent whenever the lock is free.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    pub(crate) fn take(&mut self, capacity: u32) -> Option<u64> {
        let wanted = Self::order(capacity);
        let found = (wanted..self.free.len()).find(|order| !self.free[*order].is_empty())?;
        let offset = self.free[found].pop_first()?;
        for order in (wanted..found).rev() {
            self.free[order].insert(offset + (u64::from(SMALLEST_RING) << order));
        }
        Some(offset)
    }

    pub(crate) fn give(&mut self, mut offset: u64, capacity: u32) {
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

    const LAYOUT: Layout = Layout { shards: 2, places: 2, slots: 1 };

    #[test]
    fn handles_go_to_the_emptier_shard_and_run_out() {
        let pool = Pool::new(&LAYOUT, [0; 2]);
        let handles: Vec<_> = (0..4).map(|_| pool.take_handle().unwrap()).collect();
        assert_eq!(handles.iter().filter(|handle| handle.shard() == 0).count(), 2);
        assert_ne!(handles[0].shard(), handles[1].shard());
        assert_eq!(pool.take_handle(), Err(Errno::ENFILE));
        pool.give_handle(handles[0]);
        let again = pool.take_handle().unwrap();
        assert_eq!((again.shard(), again.place()), (handles[0].shard(), handles[0].place()));
        assert_ne!(again, handles[0], "a place's next socket has another generation");
    }

    #[test]
    fn many_places_come_back_in_no_time() {
        let pool = Pool::new(&Layout { shards: 1, places: 1 << 19, slots: 1 }, [0; 2]);
        let handles: Vec<_> = (0..1 << 19).map(|_| pool.take_handle().unwrap()).collect();
        let start = std::time::Instant::now();
        for handle in &handles {
            pool.give_handle(*handle);
        }
        assert!(start.elapsed().as_secs() < 3, "{:?}", start.elapsed());
        let again = pool.take_handle().unwrap();
        assert_eq!(again.place(), handles[0].place(), "the first to come back is the first to go");
    }

    proptest! {
        /// Rings never overlap, and what is given back can be taken again as a whole.
        #[test]
        fn rings_are_disjoint_and_come_back(asks in prop::collection::vec(1..200_000_u32, 1..60)) {
            let total = 4 << 20;
            let pool = Pool::new(&LAYOUT, [total, 0]);
            let mut taken: Vec<Place> = Vec::new();
            for (turn, ask) in asks.iter().enumerate() {
                if let Ok(place) = pool.take_ring(RingRegion::Host, *ask, 0) {
                    prop_assert!(place.capacity >= *ask && place.capacity.is_power_of_two());
                    prop_assert!(place.offset + u64::from(place.capacity) <= total);
                    for other in &taken {
                        let apart = place.offset + u64::from(place.capacity) <= other.offset
                            || other.offset + u64::from(other.capacity) <= place.offset;
                        prop_assert!(apart);
                    }
                    taken.push(place);
                }
                if turn % 3 == 2 && !taken.is_empty() {
                    let place = taken.swap_remove(turn % taken.len());
                    pool.give_ring(&place);
                }
            }
            for place in taken {
                pool.give_ring(&place);
            }
            prop_assert_eq!(pool.usage().1, total);
            prop_assert!(pool.take_ring(RingRegion::Host, 4 << 20, 0).is_ok());
        }
    }
}
