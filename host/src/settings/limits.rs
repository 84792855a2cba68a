//! How much the kernels of a net may have and move: sockets, bytes in flight, bytes a second.
//!
//! Part of a net's policy, shared by its proxy threads, which ask before they make a socket or move
//! bytes. A socket too many is refused; bytes too many wait where they are: in the system's buffers,
//! or in a kernel's send ring.
//!
//! Why it is so: decision 14 of docs/explanation/decisions.md.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lock::lock;
use crate::transport::Direction;

/// A bucket of tokens holds what a net may move in so small a part of a second ...
const BURST: u64 = 20;
/// ... but no fewer bytes than this.
const SMALLEST_BURST: u64 = 1024;
/// A socket is granted such a part of the bucket at once, and no less unless it wants less: sockets
/// take turns, and bytes do not trickle.
const SHARE: u64 = 4;
/// Such a part of the bucket is more than who is next may want: it did not come for it.
const PILE: u64 = 2;

/// A socket that has nothing in flight in a direction may always have so much: what nobody reads on
/// other sockets does not starve it.
const ALLOWANCE: u64 = 1024;

/// The limits of a net. A copy has the same limits, and counts by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) sockets: Option<Quota>,
    /// Of bytes in flight, by direction.
    pub(crate) in_flight: Option<[Quota; 2]>,
    pub(crate) rate: Option<Rate>,
}

impl Limits {
    /// Whether bytes are limited at all: the only question for nets without such limits.
    #[inline]
    pub(crate) fn slow(&self) -> bool {
        self.rate.is_some() || self.in_flight.is_some()
    }

    /// Time has come to `now_ns`, for a proxy thread of whose sockets one waits for it, or none.
    pub(crate) fn refill(&self, now_ns: u64, thread: usize, waits: bool) {
        if let Some(rate) = &self.rate {
            let mut bucket = lock(&rate.0);
            bucket.refill(now_ns);
            bucket.line_up(thread, waits);
        }
    }

    /// How many of `want` bytes may be moved now, by a socket of that proxy thread that has
    /// `flying` in flight.
    pub(crate) fn acquire(
        &self,
        thread: usize,
        direction: Direction,
        want: u64,
        flying: u64,
    ) -> Result<u64, Withheld> {
        let fly = match self.quota(direction) {
            None => want,
            Some(quota) => match quota.acquire_some(want) {
                0 if flying == 0 => quota.lift(want.min(ALLOWANCE)),
                0 => return Err(Withheld::NotThisOne),
                some => some,
            },
        };
        let granted = self.rate.as_ref().map_or(fly, |rate| lock(&rate.0).acquire(thread, fly));
        self.land(direction, fly - granted);
        if granted == 0 { Err(Withheld::Nobody) } else { Ok(granted) }
    }

    /// So many bytes that were granted have not moved.
    pub(crate) fn release(&self, direction: Direction, unused: u64) {
        if let Some(rate) = &self.rate {
            lock(&rate.0).release(unused);
        }
        self.land(direction, unused);
    }

    /// So many bytes are no longer in flight.
    pub(crate) fn land(&self, direction: Direction, bytes: u64) {
        if let Some(quota) = self.quota(direction) {
            quota.release(bytes);
        }
    }

    fn quota(&self, direction: Direction) -> Option<&Quota> {
        self.in_flight.as_ref().map(|quotas| &quotas[direction as usize])
    }

    /// One more socket of a kernel; whether it may have it.
    pub(crate) fn acquire_socket(&self) -> bool {
        self.sockets.as_ref().is_none_or(Quota::acquire_one)
    }

    /// One socket less.
    pub(crate) fn release_socket(&self) {
        if let Some(quota) = &self.sockets {
            quota.release(1);
        }
    }
}

/// Why the limits leave a socket no byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withheld {
    /// Its bytes that are in flight must land first.
    NotThisOne,
    /// Nor any socket that queued up later: time must pass first.
    Nobody,
}

/// A number that may be used up and is given back.
#[derive(Debug)]
pub(crate) struct Quota {
    limit: u64,
    used: AtomicU64,
}

impl Quota {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    fn acquire_one(&self) -> bool {
        let taken = |used: u64| (used < self.limit).then_some(used + 1);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    /// As many as there are; none if those are few and more are wanted.
    fn acquire_some(&self, want: u64) -> u64 {
        let mut granted = 0;
        let taken = |used: u64| {
            let left = self.limit.saturating_sub(used);
            let few = left < want && left < (self.limit / SHARE).max(1);
            granted = if few { 0 } else { left.min(want) };
            Some(used + granted)
        };
        // It always gives something, so it cannot fail.
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
        granted
    }

    /// Takes so many, whether there are any or not.
    fn lift(&self, number: u64) -> u64 {
        self.used.fetch_add(number, Ordering::Relaxed);
        number
    }

    fn release(&self, number: u64) {
        // Never below zero, whatever was counted.
        let given = |used: u64| Some(used.saturating_sub(number));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, given);
    }
}

impl Clone for Quota {
    fn clone(&self) -> Self {
        Self::new(self.limit)
    }
}

/// Bytes a second.
#[derive(Debug)]
pub(crate) struct Rate(Mutex<Bucket>);

impl Rate {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self(Mutex::new(Bucket::new(bytes_per_second)))
    }
}

impl Clone for Rate {
    fn clone(&self) -> Self {
        Self::new(lock(&self.0).rate)
    }
}

/// A bucket of tokens, one a byte, that fills as time passes.
#[derive(Debug)]
struct Bucket {
    rate: u64,
    burst: u64,
    tokens: u64,
    /// Up to when time has been turned into tokens.
    at_ns: u64,
    /// Threads that wait, in the order in which they came: who wants little at a time does not
    /// take it from under who wants much.
    waiting: VecDeque<usize>,
}

impl Bucket {
    fn new(rate: u64) -> Self {
        let burst = (rate / BURST).max(SMALLEST_BURST);
        Self { rate, burst, tokens: burst, at_ns: 0, waiting: VecDeque::new() }
    }

    fn refill(&mut self, now_ns: u64) {
        const SECOND: u128 = 1_000_000_000;
        let passed = now_ns.saturating_sub(self.at_ns);
        let earned = u128::from(passed) * u128::from(self.rate) / SECOND;
        if earned >= u128::from(self.burst - self.tokens) {
            // What does not fit is lost: a net that was quiet may not make up for it.
            self.tokens = self.burst;
            self.at_ns = self.at_ns.max(now_ns);
        } else if earned > 0 {
            self.tokens += earned as u64;
            // The time that these tokens took, no more: what is left of it counts next time.
            self.at_ns += (earned * SECOND).div_ceil(u128::from(self.rate)) as u64;
        }
    }

    /// A thread waits, or no longer does.
    fn line_up(&mut self, thread: usize, waits: bool) {
        match self.waiting.iter().position(|other| *other == thread) {
            None if waits => self.waiting.push_back(thread),
            Some(at) if !waits => {
                self.waiting.remove(at);
            }
            _ => {}
        }
    }

    fn acquire(&mut self, thread: usize, want: u64) -> u64 {
        let share = want.min(self.burst / SHARE);
        let ahead = self.waiting.iter().take_while(|other| **other != thread).count();
        // Tokens pile up when those ahead do not come for them: they hang, and lose their turn.
        let turn = ahead == 0 || self.tokens >= self.burst / PILE;
        if !turn || self.tokens < share {
            return 0;
        }
        self.waiting.drain(..self.waiting.len().min(ahead + 1));
        self.tokens -= share;
        share
    }

    fn release(&mut self, unused: u64) {
        self.tokens = (self.tokens + unused).min(self.burst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Quota {
        pub(crate) fn used(&self) -> u64 {
            self.used.load(Ordering::Relaxed)
        }
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_bucket_gives_what_time_brings_and_no_more_than_a_burst_beside() {
        for (rate, step_ns) in
            [(1_000_000, 50_000), (3_333_333, 7_001), (5_000, MS), (1 << 30, 999)]
        {
            let mut bucket = Bucket::new(rate);
            let (mut now, mut moved) = (7 * MS, 0);
            bucket.refill(now);
            while now < 1007 * MS {
                now += step_ns;
                bucket.refill(now);
                moved += bucket.acquire(0, 1 << 20);
            }
            let most = rate + bucket.burst;
            assert!((rate - rate / 100..=most).contains(&moved), "{rate}: {moved}");
        }
    }

    #[test]
    fn a_quiet_bucket_saves_a_burst_and_clocks_may_differ() {
        let mut bucket = Bucket::new(1_000_000);
        bucket.refill(10_000 * MS);
        assert_eq!(bucket.tokens, 50_000);
        assert_eq!(bucket.acquire(0, 1_000_000), 12_500, "a share");
        assert_eq!(bucket.acquire(0, 10), 10);
        bucket.release(10);
        // Another thread's clock is behind: nothing is earned twice.
        bucket.refill(9_999 * MS);
        assert_eq!(bucket.tokens, 37_500);
        bucket.refill(10_001 * MS);
        assert_eq!(bucket.tokens, 38_500);
        bucket.release(1 << 40);
        assert_eq!(bucket.tokens, 50_000);
    }

    #[test]
    fn what_is_granted_keeps_both_limits() {
        let limits = Limits {
            sockets: Some(Quota::new(2)),
            in_flight: Some([(); 2].map(|()| Quota::new(1000))),
            rate: Some(Rate::new(20_480)),
        };
        let take = |limits: &Limits, want| limits.acquire(0, Direction::Send, want, 1).unwrap_or(0);
        let flying =
            || limits.in_flight.as_ref().map(|quotas| quotas[Direction::Send as usize].used());
        assert!(limits.slow() && !Limits::default().slow());
        // The rate's share is 256 of 1024 bytes.
        assert_eq!(take(&limits, 900), 256);
        limits.release(Direction::Send, 56);
        assert_eq!([256; 3].map(|want| take(&limits, want)), [256; 3]);
        assert_eq!(flying(), Some(968));
        assert_eq!(take(&limits, 256), 0, "32 are few");
        assert_eq!(take(&limits, 32), 32, "who wants no more gets it");
        assert_eq!(take(&limits, 1), 0);
        limits.land(Direction::Send, 1000);
        assert_eq!(take(&limits, 256), 0, "no tokens are left");
        assert_eq!(flying(), Some(0));
        let copy = limits.clone();
        assert_eq!(take(&copy, 256), 256, "a copy counts by itself");
        assert!(limits.acquire_socket() && limits.acquire_socket() && !limits.acquire_socket());
        limits.release_socket();
        assert!(limits.acquire_socket());
        assert!(Limits::default().acquire_socket());
    }

    #[test]
    fn limits_of_nothing_and_of_everything() {
        let nothing =
            Limits { in_flight: Some([(); 2].map(|()| Quota::new(0))), ..Limits::default() };
        assert_eq!(nothing.acquire(0, Direction::Receive, 100, 1), Err(Withheld::NotThisOne));
        let little = nothing.acquire(0, Direction::Receive, 5000, 0);
        assert_eq!(little, Ok(ALLOWANCE), "nobody is starved");
        let everything = Limits {
            rate: Some(Rate::new(u64::MAX)),
            in_flight: Some([(); 2].map(|()| Quota::new(u64::MAX))),
            ..Limits::default()
        };
        everything.refill(u64::MAX, 0, false);
        assert_eq!(everything.acquire(0, Direction::Send, 1 << 30, 0), Ok(1 << 30));
        let stopped = Limits { rate: Some(Rate::new(0)), ..Limits::default() };
        stopped.refill(u64::MAX, 0, false);
        while stopped.acquire(0, Direction::Send, 256, 0) != Err(Withheld::Nobody) {}
        stopped.refill(u64::MAX, 0, true);
        assert_eq!(stopped.acquire(0, Direction::Send, 1024, 0), Err(Withheld::Nobody));
    }

    /// Threads that each want so many bytes whenever they ask, every 10 us; for a second, after the
    /// first burst is gone. Bytes granted to each, and the longest time each went without.
    fn compete(wants: &[u64], hangs: Option<usize>) -> Vec<(u64, u64)> {
        let limits = Limits { rate: Some(Rate::new(1_000_000)), ..Limits::default() };
        while limits.acquire(0, Direction::Send, 1, 0) != Err(Withheld::Nobody) {}
        let mut waits = vec![false; wants.len()];
        let mut seen = vec![(0, 0, 0); wants.len()];
        for now in (0..1000 * MS).step_by(10_000) {
            for (thread, want) in wants.iter().enumerate() {
                if hangs == Some(thread) && now > 100 * MS {
                    continue;
                }
                limits.refill(now, thread, waits[thread]);
                let (moved, last, longest) = &mut seen[thread];
                let grant = limits.acquire(thread, Direction::Send, *want, 0);
                waits[thread] = grant == Err(Withheld::Nobody);
                if let Ok(bytes) = grant {
                    *moved += bytes;
                    *last = now;
                }
                *longest = now.saturating_sub(*last).max(*longest);
            }
        }
        seen.iter().map(|(moved, _, longest)| (*moved, *longest)).collect()
    }

    #[test]
    fn a_thread_that_wants_much_is_not_starved_by_one_that_wants_little() {
        // A share of the bucket is what 12.5 ms bring.
        for wants in [[16, 1 << 20], [1 << 20, 16], [1 << 20, 1 << 20]] {
            let seen = compete(&wants, None);
            let all: u64 = seen.iter().map(|(moved, _)| moved).sum();
            assert!((975_000..=1_000_000).contains(&all), "{seen:?}");
            assert!(seen.iter().all(|(_, longest)| *longest < 30 * MS), "{wants:?}: {seen:?}");
        }
        let seen = compete(&[7, 1 << 20, 100, 1 << 20, 3000], None);
        assert!(seen.iter().all(|(_, longest)| *longest < 60 * MS), "{seen:?}");
    }

    #[test]
    fn a_thread_that_hangs_holds_up_no_other_for_long() {
        let seen = compete(&[1 << 20, 1 << 20, 500], Some(0));
        let all: u64 = seen.iter().map(|(moved, _)| moved).sum();
        assert!(all >= 970_000, "{seen:?}");
        assert!(seen[1..].iter().all(|(_, longest)| *longest < 60 * MS), "{seen:?}");
    }
}
