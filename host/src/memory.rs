//! A net's memory as the proxy sees it: words through [`Word`], ring bytes as slices.
//!
//! The one place of the host side where addresses of shared memory are made; indices are checked
//! here. The proxy never forms a Rust slice over any of it: the GPU may write at any time. The words
//! that the proxy writes are in `host_control.rs`, and where they lie is decided in `placement.rs`.

#![allow(unsafe_code, reason = "makes words and slices from the regions' addresses")]

mod host_control;
#[cfg(test)]
pub(crate) mod model;
mod placement;
mod seen;
mod slice;

use std::sync::Arc;

use gpunet_device::abi::bits::{PACKET_BYTES, PACKET_UNITS, RecordState, Unit};
use gpunet_device::abi::descriptor::{DESCRIPTOR_WORDS, RingLocation, SocketDescriptor};
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::{LIVE_WORDS, Layout, RECORD_STATE, RECORD_WORDS, UNITS_AT};
use gpunet_device::abi::message::{REPLY_WORDS, REQUEST_WORDS};
use gpunet_device::abi::net::{Net as DeviceNet, Regions, header};
use gpunet_device::abi::word::{Word, Words};
use gpunet_device::planted::{Bug, planted};

pub(crate) use host_control::{ControlArray, ControlWord, HostControl};
pub use placement::{ControlMemory, ControlMemoryRefused, ControlMemoryReport};
pub(crate) use seen::{GpuWords, SeenWords};
pub use slice::RingSlice;

use crate::gpu::{ArenaWindow, DeviceMemory, Gpu, HostMemory, MemoryError};

/// The regions of a net.
pub(crate) struct Memory {
    layout: Layout,
    gpu_control: HostMemory,
    pub(crate) host_control: HostControl,
    rings: Arc<HostMemory>,
    /// Rings of transports that place bytes there by themselves, where there are any.
    gpu_rings: Option<Arc<DeviceMemory>>,
    records: DeviceMemory,
}

impl Memory {
    /// Makes all regions around those words of the same layout, zeroed but for the header that
    /// kernels read.
    pub(crate) fn new(
        gpu: &Gpu,
        layout: Layout,
        host_control: HostControl,
        ring_bytes: usize,
        rings_on_gpu: bool,
        window: Option<&ArenaWindow>,
        heartbeat_timeout_ns: u64,
    ) -> Result<Self, MemoryError> {
        let this = Self {
            layout,
            gpu_control: gpu.host_memory(layout.gpu_control_words() * 8)?,
            host_control,
            rings: Arc::new(gpu.host_memory(ring_bytes)?),
            gpu_rings: rings_on_gpu
                .then(|| gpu.device_memory(ring_bytes).map(Arc::new))
                .transpose()?,
            records: gpu.device_memory(layout.records_words() * 8)?,
        };
        let [(gpu_control, _), (host_control, _), (rings, ring_bytes), _] = this.regions();
        let (gpu_rings, gpu_ring_bytes) = this.gpu_rings();
        let none = (std::ptr::null_mut(), 0);
        let (arenas, arena_bytes) = window.map_or(none, |window| (window.base, window.bytes));
        let regions = Regions {
            gpu_control: gpu_control.cast(),
            host_control: host_control.cast(),
            rings: [rings, gpu_rings, arenas],
            ring_bytes: [ring_bytes as u64, gpu_ring_bytes as u64, arena_bytes],
        };
        let header = header(&regions, heartbeat_timeout_ns).map(u64::to_ne_bytes);
        this.records.write(0, header.as_flattened())?;
        Ok(this)
    }

    /// The rings in host memory, and those in GPU memory.
    pub(crate) fn rings(&self) -> (Arc<HostMemory>, Option<Arc<DeviceMemory>>) {
        (Arc::clone(&self.rings), self.gpu_rings.clone())
    }

    /// Where those in GPU memory begin, and their bytes.
    fn gpu_rings(&self) -> (*mut u8, usize) {
        let at = |rings: &Arc<DeviceMemory>| (rings.device_ptr(), rings.len());
        self.gpu_rings.as_ref().map_or((std::ptr::null_mut(), 0), at)
    }

    /// The net's shape.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Addresses on the GPU and sizes of the GPU's control block, the host's, rings and records.
    pub(crate) fn regions(&self) -> [(*mut u8, usize); 4] {
        [
            (self.gpu_control.device_ptr(), self.layout.gpu_control_words() * 8),
            (self.host_control.device_ptr(), self.layout.host_control_words() * 8),
            (self.rings.device_ptr(), self.rings.len()),
            (self.records.device_ptr(), self.layout.records_words() * 8),
        ]
    }

    /// The argument for a launch.
    pub(crate) fn device_net(&self, launch: u32, epoch: u64) -> DeviceNet {
        // SAFETY: the regions were made for this layout, page aligned, and `new` wrote the
        // header. They outlive the kernels: the GPU gives memory back only when none runs.
        unsafe { DeviceNet::new(self.layout, launch, epoch, self.records.device_ptr().cast()) }
    }

    /// A socket's record in GPU memory, by a copy that waits for no kernel.
    pub(crate) fn record(&self, socket: usize) -> Result<[u64; RECORD_WORDS], MemoryError> {
        assert!(socket < self.layout.sockets());
        let mut bytes = [[0; 8]; RECORD_WORDS];
        self.records.read(self.layout.record(socket) * 8, bytes.as_flattened_mut())?;
        Ok(bytes.map(u64::from_ne_bytes))
    }

    /// Writes the state of a socket's record, in the same way.
    pub(crate) fn close_record(
        &self,
        socket: usize,
        state: RecordState,
    ) -> Result<(), MemoryError> {
        assert!(socket < self.layout.sockets());
        let at = (self.layout.record(socket) + RECORD_STATE) * 8;
        self.records.write(at, &state.0.to_ne_bytes())
    }

    /// Words that the GPU writes.
    fn gpu_array<const N: usize>(&self, at: usize) -> Words<N> {
        assert!(at + N <= self.layout.gpu_control_words());
        // SAFETY: inside the region, by the check: valid and aligned as long as self lives.
        unsafe { Words::at(self.gpu_control.as_ptr().cast::<u64>().add(at)) }
    }

    fn gpu_word(&self, at: usize) -> Word {
        self.gpu_array::<1>(at).get(0)
    }

    fn gpu_words(&self, first: usize, count: usize) -> GpuWords<'_> {
        assert!(first + count <= self.layout.gpu_control_words());
        // SAFETY: inside the region, by the check.
        unsafe { GpuWords::new(self.gpu_control.as_ptr().cast::<u64>().add(first), count) }
    }

    /// Written by the GPU: how far it has filled a socket's send ring.
    pub(crate) fn send_tail(&self, socket: usize) -> Word {
        self.gpu_word(self.layout.send_tail(socket))
    }

    /// The send tails of so many sockets, from socket `first` on.
    pub(crate) fn send_tails(&self, first: usize, count: usize) -> GpuWords<'_> {
        self.gpu_words(self.layout.send_tail(first), count)
    }

    /// Written by the GPU: how far it has emptied a socket's receive ring.
    pub(crate) fn receive_head(&self, socket: usize) -> Word {
        self.gpu_word(self.layout.receive_head(socket))
    }

    /// The receive heads of so many sockets.
    pub(crate) fn receive_heads(&self, first: usize, count: usize) -> GpuWords<'_> {
        self.gpu_words(self.layout.receive_head(first), count)
    }

    /// The numbers of the requests in so many slots, from slot `first` on.
    pub(crate) fn request_sequences(&self, first: usize, count: usize) -> GpuWords<'_> {
        self.gpu_words(self.layout.request_sequence(first), count)
    }

    /// Written by the GPU: the request in a slot.
    pub(crate) fn request(&self, slot: usize) -> Words<REQUEST_WORDS> {
        self.gpu_array(self.layout.request(slot))
    }

    /// Ends all waits of a launch with `errno`: a store to memory that its groups poll, and no call
    /// of a driver, which may wait for kernels.
    pub(crate) fn stop(&self, launch: usize, errno: Errno) {
        self.host_control.word(self.layout.stop(launch)).store_release(errno.0 as u64);
    }

    /// Makes a launch's stop word ready for the next launch in its slot; no kernel of the last one
    /// runs. What its groups may have passed on has that launch's number.
    pub(crate) fn clear_stop(&self, launch: usize) {
        if !planted(Bug::StopNotCleared) {
            self.host_control.word(self.layout.stop(launch)).store_release(0);
        }
    }

    /// Shows that a shard's thread lives: `beat` grows.
    pub(crate) fn beat(&self, shard: usize, beat: u64) {
        self.host_control.beat(self.layout.heartbeat(shard), shard, beat);
    }

    /// What a shard's thread showed last.
    pub(crate) fn last_beat(&self, shard: usize) -> u64 {
        self.host_control.last_beat(shard)
    }

    /// Written by the proxy: receive tail, send head, status.
    pub(crate) fn live(&self, socket: usize) -> ControlArray<LIVE_WORDS> {
        self.host_control.array(self.layout.inbox(socket))
    }

    /// Written by the proxy: number of the reply in a slot.
    pub(crate) fn reply_sequence(&self, slot: usize) -> ControlWord {
        self.host_control.word(self.layout.reply_sequence(slot))
    }

    /// Written by the proxy: the reply in a slot.
    pub(crate) fn reply(&self, slot: usize) -> ControlArray<REPLY_WORDS> {
        self.host_control.array(self.layout.reply(slot))
    }

    /// Publishes a descriptor: word 0 is cleared first and written last, so that the GPU never takes
    /// one socket's words for another's.
    pub(crate) fn publish_descriptor(&self, socket: usize, descriptor: &SocketDescriptor) {
        let published = self.descriptor(socket);
        let words = descriptor.to_words();
        // Of this generation, and of no kind: who reads it waits for the rest.
        published.get(0).store(SocketDescriptor::changing(descriptor.generation));
        // No word of the new descriptor is seen with the old word 0.
        self.host_control.fence();
        for (index, word) in words.iter().enumerate().skip(1) {
            published.get(index).store(*word);
        }
        published.get(0).store_release(words[0]);
    }

    /// Withdraws a descriptor: its handle is dead from now on.
    pub(crate) fn withdraw_descriptor(&self, socket: usize) {
        self.descriptor(socket).get(0).store_release(0);
    }

    /// Written by the proxy: what a socket is.
    pub(crate) fn descriptor(&self, socket: usize) -> ControlArray<DESCRIPTOR_WORDS> {
        self.host_control.array(self.layout.descriptor(socket))
    }

    /// `length` bytes of a ring from the counter `position` on, in one or two pieces. Those of a
    /// ring in GPU memory are not for the CPU to touch.
    pub(crate) fn slice(&self, ring: &RingLocation, position: u64, length: usize) -> RingSlice {
        let capacity = ring.capacity as usize;
        assert!(capacity.is_power_of_two() && length <= capacity);
        let (rings, bytes) = match ring.region {
            0 => (self.rings.as_ptr(), self.rings.len()),
            _ => self.gpu_rings(),
        };
        assert!(ring.offset as usize + capacity <= bytes);
        let start = position as usize & (capacity - 1);
        let first = length.min(capacity - start);
        // SAFETY: the ring lies inside the region, by the check, and both pieces in the ring.
        unsafe {
            let base = rings.add(ring.offset as usize);
            RingSlice { pieces: [(base.add(start), first), (base, length - first)] }
        }
    }

    /// Puts a packet into a socket's inbox, which stands in the receive ring and begins there.
    pub(crate) fn write_packet(&self, socket: usize, slice: &RingSlice, begin: u64) {
        let units = self.receive_units(socket);
        let mut bytes = [0; PACKET_BYTES];
        slice.read(&mut bytes);
        let (fours, _) = bytes.as_chunks::<4>();
        for (index, four) in fours.iter().enumerate().take(slice.len().div_ceil(4)) {
            units.get(index).store(Unit::new(u32::from_le_bytes(*four), begin).0);
        }
    }

    /// Makes the units of a socket's inbox anew: none belongs to a packet that begins at `position` or
    /// later.
    pub(crate) fn renew_units(&self, socket: usize, position: u64) {
        self.receive_units(socket).write(&[Unit::blank(position).0; PACKET_UNITS]);
    }

    /// Written by the proxy: the units of the packet that a kernel receives.
    pub(crate) fn receive_units(&self, socket: usize) -> ControlArray<PACKET_UNITS> {
        self.host_control.array(self.layout.inbox(socket) + UNITS_AT)
    }

    /// Written by the GPU: the units of the packet that a kernel sends.
    pub(crate) fn send_units(&self, socket: usize) -> Words<PACKET_UNITS> {
        self.gpu_array(self.layout.send_units(socket))
    }

    /// The bytes of the packet that a kernel sends, of that length and beginning there, if all of it has
    /// come.
    pub(crate) fn read_packet(
        &self,
        socket: usize,
        begin: u64,
        length: usize,
    ) -> Option<[u8; PACKET_BYTES]> {
        let units = self.send_units(socket);
        let mut bytes = [0; PACKET_BYTES];
        let (fours, _) = bytes.as_chunks_mut::<4>();
        for (index, four) in fours.iter_mut().enumerate().take(length.div_ceil(4)) {
            let unit = Unit(units.get(index).load());
            if !unit.belongs(begin) && !planted(Bug::TagNotCompared) {
                return None;
            }
            *four = unit.bytes().to_le_bytes();
        }
        Some(bytes)
    }

    /// The word of a ring at the counter `position`.
    pub(crate) fn ring_word(&self, ring: &RingLocation, position: u64) -> Word {
        assert!(position.is_multiple_of(8) && ring.offset.is_multiple_of(8) && ring.region == 0);
        let slice = self.slice(ring, position, 8);
        // SAFETY: eight aligned bytes of a ring, which do not wrap, as long as self lives.
        unsafe { Word::at(slice.pieces[0].0.cast()) }
    }
}

/// The bytes of a kernel's argument.
pub(crate) fn bytes_of<T: Copy>(value: &T) -> Box<[u8]> {
    bytes_at(std::ptr::from_ref(value).cast(), size_of::<T>())
}

/// `length` bytes from `address` on, of a kernel's argument.
pub(crate) fn bytes_at(address: *const u8, length: usize) -> Box<[u8]> {
    let mut bytes = vec![0; length].into_boxed_slice();
    // SAFETY: `bytes_of` and `KernelArgs::each` name a whole value. Its padding, if any, is
    // copied without being looked at, here and by the driver.
    unsafe { std::ptr::copy_nonoverlapping(address, bytes.as_mut_ptr(), length) };
    bytes
}
