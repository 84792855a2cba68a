//! The net as a kernel gets it: a by-value struct of pointers and numbers, its first argument.

#![allow(unsafe_code, reason = "turns the net's pointers into words, bounds checked")]

use super::card::{CARD_WORDS, Place};
use super::layout::{LIVE_WORDS, LOCAL_WORDS, Layout, SLOT_LOCAL_WORDS};
use super::message::{REPLY_WORDS, REQUEST_WORDS};
use super::word::{Word, Words};
use super::{MAGIC, VERSION};

/// A net, as the host hands it to a launch. Made by the host crate alone; `Copy`, no globals.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Net {
    magic: u32,
    version: u32,
    launch: u32,
    size: u32,
    layout: Layout,
    gpu_words: *mut u64,
    cpu_words: *mut u64,
    local: *mut u64,
    rings: [*mut u8; 2],
    ring_bytes: [u64; 2],
    silence_ns: u64,
}

// SAFETY: the pointers lead to words that are reached atomically, and to ring bytes whose owner
// the counters tell.
unsafe impl Send for Net {}
// SAFETY: as above.
unsafe impl Sync for Net {}

/// The regions of a net, by their addresses on the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    /// Words that the GPU writes.
    pub gpu_words: *mut u64,
    /// Words that the proxy writes.
    pub cpu_words: *mut u64,
    /// Words that stay on the GPU.
    pub local: *mut u64,
    /// Ring memory: pinned host memory, GPU memory.
    pub rings: [*mut u8; 2],
    /// Bytes of each.
    pub ring_bytes: [u64; 2],
}

impl Net {
    /// A net for one launch.
    ///
    /// # Safety
    /// The regions are as large as the layout says, 16-byte aligned, and outlive every kernel
    /// that is given the net.
    pub const unsafe fn new(
        layout: Layout,
        launch: u32,
        regions: Regions,
        silence_ns: u64,
    ) -> Self {
        Self {
            magic: MAGIC,
            version: VERSION,
            launch,
            size: size_of::<Self>() as u32,
            layout,
            gpu_words: regions.gpu_words,
            cpu_words: regions.cpu_words,
            local: regions.local,
            rings: regions.rings,
            ring_bytes: regions.ring_bytes,
            silence_ns,
        }
    }

    /// Which launch of the net this is.
    #[inline(always)]
    pub const fn launch(&self) -> u32 {
        self.launch
    }

    /// The net's shape.
    #[inline(always)]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How long a heartbeat may stand still.
    #[inline(always)]
    pub(crate) const fn silence_ns(&self) -> u64 {
        self.silence_ns
    }

    #[inline(always)]
    pub(crate) fn send_tail(&self, socket: usize) -> Word {
        // SAFETY: `new` promises the region's size, and callers' sockets are below
        // `layout.sockets()` (`local::Socket` checks handles). So for all that follow.
        unsafe { Word::at(self.gpu_words.add(self.layout.send_tail(socket))) }
    }

    #[inline(always)]
    pub(crate) fn receive_head(&self, socket: usize) -> Word {
        // SAFETY: as send_tail.
        unsafe { Word::at(self.gpu_words.add(self.layout.receive_head(socket))) }
    }

    #[inline(always)]
    pub(crate) fn request_sequence(&self, slot: usize) -> Word {
        // SAFETY: as send_tail, for slots.
        unsafe { Word::at(self.gpu_words.add(self.layout.request_sequence(slot))) }
    }

    #[inline(always)]
    pub(crate) fn request(&self, slot: usize) -> Words<REQUEST_WORDS> {
        // SAFETY: as send_tail, for slots.
        unsafe { Words::at(self.gpu_words.add(self.layout.request(slot))) }
    }

    #[inline(always)]
    pub(crate) fn stop(&self) -> Word {
        // SAFETY: the host gives launch numbers below MAX_LAUNCHES.
        unsafe { Word::at(self.cpu_words.add(self.layout.stop(self.launch as usize))) }
    }

    #[inline(always)]
    pub(crate) fn heartbeat(&self, shard: usize) -> Word {
        // SAFETY: as send_tail, for shards.
        unsafe { Word::at(self.cpu_words.add(self.layout.heartbeat(shard))) }
    }

    #[inline(always)]
    pub(crate) fn live(&self, socket: usize) -> Words<LIVE_WORDS> {
        // SAFETY: as send_tail.
        unsafe { Words::at(self.cpu_words.add(self.layout.live(socket))) }
    }

    #[inline(always)]
    pub(crate) fn card(&self, socket: usize) -> Words<CARD_WORDS> {
        // SAFETY: as send_tail.
        unsafe { Words::at(self.cpu_words.add(self.layout.card(socket))) }
    }

    #[inline(always)]
    pub(crate) fn reply_sequence(&self, slot: usize) -> Word {
        // SAFETY: as send_tail, for slots.
        unsafe { Word::at(self.cpu_words.add(self.layout.reply_sequence(slot))) }
    }

    #[inline(always)]
    pub(crate) fn reply(&self, slot: usize) -> Words<REPLY_WORDS> {
        // SAFETY: as send_tail, for slots.
        unsafe { Words::at(self.cpu_words.add(self.layout.reply(slot))) }
    }

    #[inline(always)]
    pub(crate) fn local(&self, socket: usize) -> Words<LOCAL_WORDS> {
        // SAFETY: as send_tail.
        unsafe { Words::at(self.local.add(self.layout.local(socket))) }
    }

    #[inline(always)]
    pub(crate) fn slot_local(&self, slot: usize) -> Words<SLOT_LOCAL_WORDS> {
        // SAFETY: as send_tail, for slots.
        unsafe { Words::at(self.local.add(self.layout.slot_local(slot))) }
    }

    /// The first byte of a ring; none when it does not lie inside its region.
    #[inline(always)]
    pub(crate) fn ring(&self, place: &Place) -> Option<*mut u8> {
        let region = usize::from(place.region & 1);
        let end = place.offset + u64::from(place.capacity);
        let inside = place.region < 2 && end <= self.ring_bytes[region];
        // SAFETY: inside the region, by the check.
        inside.then(|| unsafe { self.rings[region].add(place.offset as usize) })
    }
}
