//! The net as a kernel gets it: a by-value struct of a pointer and a number, its first argument.
//!
//! Two words, so that it travels in two registers wherever it goes. The rest of what a kernel
//! must know of its net stands in GPU memory, in the header before the sockets' records.

#![allow(unsafe_code, reason = "turns the net's pointers into words, bounds checked")]

use super::descriptor::{DESCRIPTOR_WORDS, Inboxes, RingLocation};
use super::layout::{
    HEADER_WORDS, Layout, P2P_INBOX_BYTES, PAGE_BYTES, RECORD_WORDS, RELAY_WORDS, SLOT_RECORD_WORDS,
};
use super::message::{REPLY_WORDS, REQUEST_WORDS};
use super::word::{Word, Words};
use super::{MAGIC, VERSION};

/// A net, as the host hands it to a launch. Made by the host crate alone; `Copy`, no globals.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Net {
    records: *mut u64,
    /// Launch (8 bits), shards (8), socket slots (21), request slots (13), epoch (14).
    shape: u64,
}

const _: () = assert!(size_of::<Net>() == 16);

// SAFETY: the pointer leads to words that are reached atomically, and to ring bytes whose owner
// the counters name.
unsafe impl Send for Net {}
// SAFETY: as above.
unsafe impl Sync for Net {}

/// Regions that rings lie in.
pub const RING_REGIONS: usize = 3;
/// That of p2p streams: every arena of the process, its own and its peers', lies in it.
pub const WINDOW: u8 = 2;

/// The regions of a net, by their addresses on the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    /// Words that the GPU writes.
    pub gpu_control: *mut u64,
    /// Words that the proxy writes.
    pub host_control: *mut u64,
    /// Ring memory: pinned host memory, GPU memory, the window of p2p streams.
    pub rings: [*mut u8; RING_REGIONS],
    /// Bytes of each.
    pub ring_bytes: [u64; RING_REGIONS],
}

// Words of the header.
const MARK: usize = 0;
const GPU_CONTROL: usize = 1;
const HOST_CONTROL: usize = 2;
const RINGS: usize = 3;
const RING_BYTES: usize = RINGS + RING_REGIONS;
const HEARTBEAT_TIMEOUT: usize = RING_BYTES + RING_REGIONS;

/// The header that the host writes at the beginning of the records before the first launch.
pub fn header(regions: &Regions, heartbeat_timeout_ns: u64) -> [u64; HEADER_WORDS] {
    let mut words = [0; HEADER_WORDS];
    words[MARK] = MARK_WORD;
    words[GPU_CONTROL] = regions.gpu_control.expose_provenance() as u64;
    words[HOST_CONTROL] = regions.host_control.expose_provenance() as u64;
    for region in 0..RING_REGIONS {
        words[RINGS + region] = regions.rings[region].expose_provenance() as u64;
        words[RING_BYTES + region] = regions.ring_bytes[region];
    }
    words[HEARTBEAT_TIMEOUT] = heartbeat_timeout_ns;
    words
}

/// Magic and version.
const MARK_WORD: u64 = MAGIC as u64 | (VERSION as u64) << 32;

impl Net {
    /// A net for one launch.
    ///
    /// # Safety
    /// `records` leads to the records of the layout, 16-byte aligned, which begin with the
    /// [`header`] of regions that are as large as the layout says; all of them outlive every
    /// kernel that is given the net.
    pub unsafe fn new(layout: Layout, launch: u32, epoch: u64, records: *mut u64) -> Self {
        let shape = u64::from(launch)
            | u64::from(layout.shards) << 8
            | u64::from(layout.socket_slots) << 16
            | u64::from(layout.request_slots) << 37
            | epoch << 50;
        Self { records, shape }
    }

    /// The net as the functions of the device library take it.
    #[inline(always)]
    pub(crate) fn to_words(self) -> [u64; 2] {
        [self.records.expose_provenance() as u64, self.shape]
    }

    /// The net that has these words.
    ///
    /// # Safety
    /// They come from [`Self::to_words`], or nothing is done with the net.
    #[inline(always)]
    pub(crate) unsafe fn from_words([records, shape]: [u64; 2]) -> Self {
        Self { records: core::ptr::with_exposed_provenance_mut(records as usize), shape }
    }

    /// Which launch of the net this is.
    #[inline(always)]
    pub const fn launch(self) -> u32 {
        self.shape as u8 as u32
    }

    /// The net's shape.
    #[inline(always)]
    pub const fn layout(self) -> Layout {
        Layout {
            shards: (self.shape >> 8) as u8 as u32,
            socket_slots: (self.shape >> 16) as u32 & 0x1F_FFFF,
            request_slots: (self.shape >> 37) as u32 & 0x1FFF,
        }
    }

    /// The lowest 14 bits of the launch's number among all of the net.
    #[inline(always)]
    pub(crate) const fn epoch(self) -> u64 {
        self.shape >> 50
    }

    /// Whether the header is one that this code understands.
    #[inline(always)]
    pub fn is_understood(self) -> bool {
        self.header(MARK) == MARK_WORD
    }

    #[inline(always)]
    fn header(self, word: usize) -> u64 {
        // SAFETY: the header stands at the beginning of the records (`new`).
        unsafe { Words::<HEADER_WORDS>::at(self.records) }.get(word).load()
    }

    #[inline(always)]
    fn gpu_control_word(self, at: usize) -> *mut u64 {
        let base: *mut u64 =
            core::ptr::with_exposed_provenance_mut(self.header(GPU_CONTROL) as usize);
        base.wrapping_add(at)
    }

    #[inline(always)]
    fn host_control_word(self, at: usize) -> *mut u64 {
        let base: *mut u64 =
            core::ptr::with_exposed_provenance_mut(self.header(HOST_CONTROL) as usize);
        base.wrapping_add(at)
    }

    /// How long a heartbeat may stand still.
    #[inline(always)]
    pub(crate) fn heartbeat_timeout_ns(self) -> u64 {
        self.header(HEARTBEAT_TIMEOUT)
    }

    /// Address of a socket's send tail.
    #[inline(always)]
    pub(crate) fn send_tail(self, socket: usize) -> *mut u64 {
        self.gpu_control_word(self.layout().send_tail(socket))
    }

    /// Address of a socket's receive head.
    #[inline(always)]
    pub(crate) fn receive_head(self, socket: usize) -> *mut u64 {
        self.gpu_control_word(self.layout().receive_head(socket))
    }

    /// Address of the units of the packet that a socket sends.
    #[inline(always)]
    pub(crate) fn send_units(self, socket: usize) -> *mut u64 {
        self.gpu_control_word(self.layout().send_units(socket))
    }

    /// Address of a socket's inbox in the control block of the host.
    #[inline(always)]
    pub(crate) fn inbox(self, socket: usize) -> *mut u64 {
        self.host_control_word(self.layout().inbox(socket))
    }

    #[inline(always)]
    pub(crate) fn request_sequence(self, slot: usize) -> Word {
        // SAFETY: `new` promises the region's size, and callers' slots are below
        // `layout.all_request_slots()`. So for all that follow, and for sockets, whose handles
        // `socket::Socket` checks.
        unsafe { Word::at(self.gpu_control_word(self.layout().request_sequence(slot))) }
    }

    #[inline(always)]
    pub(crate) fn request(self, slot: usize) -> Words<REQUEST_WORDS> {
        // SAFETY: as request_sequence.
        unsafe { Words::at(self.gpu_control_word(self.layout().request(slot))) }
    }

    #[inline(always)]
    pub(crate) fn stop(self) -> Word {
        // SAFETY: as request_sequence; launch numbers are below MAX_LAUNCHES.
        unsafe { Word::at(self.host_control_word(self.layout().stop(self.launch() as usize))) }
    }

    #[inline(always)]
    pub(crate) fn heartbeat(self, shard: usize) -> Word {
        // SAFETY: as request_sequence.
        unsafe { Word::at(self.host_control_word(self.layout().heartbeat(shard))) }
    }

    #[inline(always)]
    pub(crate) fn descriptor(self, socket: usize) -> Words<DESCRIPTOR_WORDS> {
        // SAFETY: as request_sequence.
        unsafe { Words::at(self.host_control_word(self.layout().descriptor(socket))) }
    }

    #[inline(always)]
    pub(crate) fn reply_sequence(self, slot: usize) -> Word {
        // SAFETY: as request_sequence.
        unsafe { Word::at(self.host_control_word(self.layout().reply_sequence(slot))) }
    }

    #[inline(always)]
    pub(crate) fn reply(self, slot: usize) -> Words<REPLY_WORDS> {
        // SAFETY: as request_sequence.
        unsafe { Words::at(self.host_control_word(self.layout().reply(slot))) }
    }

    #[inline(always)]
    pub(crate) fn record(self, socket: usize) -> Words<RECORD_WORDS> {
        // SAFETY: as request_sequence.
        unsafe { Words::at(self.records.add(self.layout().record(socket))) }
    }

    #[inline(always)]
    pub(crate) fn slot_record(self, slot: usize) -> Words<SLOT_RECORD_WORDS> {
        // SAFETY: as request_sequence.
        unsafe { Words::at(self.records.add(self.layout().slot_record(slot))) }
    }

    /// What groups pass on to one another of this launch's stop word.
    #[inline(always)]
    pub(crate) fn stop_relay(self) -> Words<RELAY_WORDS> {
        let at = self.layout().stop_relay(self.launch() as usize);
        // SAFETY: as request_sequence; launch numbers are below MAX_LAUNCHES.
        unsafe { Words::at(self.records.add(at)) }
    }

    /// What groups pass on to one another of a shard's heartbeat.
    #[inline(always)]
    pub(crate) fn heartbeat_relay(self, shard: usize) -> Words<RELAY_WORDS> {
        // SAFETY: as request_sequence.
        unsafe { Words::at(self.records.add(self.layout().heartbeat_relay(shard))) }
    }

    /// The address of a ring's first byte; 0 for a location that has none, or one outside its region.
    pub(crate) fn ring(self, location: &RingLocation) -> u64 {
        self.inside(location.region, location.offset, u64::from(location.capacity))
    }

    /// The addresses of a p2p stream's inboxes, its own and the peer's; none where one lies outside
    /// the window.
    pub(crate) fn p2p_inboxes(self, pages: &Inboxes) -> Option<[*mut u64; 2]> {
        let address = |page: u32| {
            self.inside(WINDOW, u64::from(page) * PAGE_BYTES as u64, P2P_INBOX_BYTES as u64)
        };
        let [own, peer] = [pages.own, pages.peer].map(address);
        let at = |address: u64| core::ptr::with_exposed_provenance_mut(address as usize);
        (own != 0 && peer != 0).then(|| [at(own), at(peer)])
    }

    /// The address of so many bytes of a region; 0 if there are none, or they lie outside it.
    fn inside(self, region: u8, offset: u64, bytes: u64) -> u64 {
        if usize::from(region) >= RING_REGIONS || bytes == 0 {
            return 0;
        }
        let region = usize::from(region);
        let end = offset.wrapping_add(bytes);
        if end <= self.header(RING_BYTES + region) {
            self.header(RINGS + region) + offset
        } else {
            0
        }
    }
}
