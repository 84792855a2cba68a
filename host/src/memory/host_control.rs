//! The region that the host writes and kernels poll: in host memory, or in GPU memory that the CPU
//! has mapped. `Memory` knows what stands where in it; only the host's side comes here.
//!
//! Nothing is read back from it, since a load from a mapping waits for the bus: a [`ControlWord`] can
//! be written, and that is all. Heartbeats, which the supervisor looks at, are kept beside it
//! as well. Where the processor combines stores it keeps no order among them, release or
//! not: a release has a store fence before it, behind what it publishes, and one after it, which
//! sends it on its way. On other memory that is a branch that is never taken.
//!
//! Why it is so: decision 20 of docs/explanation/decisions.md.

use std::sync::atomic::{AtomicU64, Ordering};

use gpu_usermap::{AccessError, Caching, Mapping};
use gpunet_device::abi::layout::Layout;
use gpunet_device::abi::word::{self, Word};

#[cfg(test)]
use super::model;
use super::placement::{
    ControlMemory, ControlMemoryRefused, ControlMemoryReport, mapped_if_wanted,
};
use crate::error::NetError;
use crate::gpu::{DeviceMemory, Gpu, HostMemory};

/// The region.
pub(crate) struct HostControl {
    first: Word,
    words: usize,
    caching: Caching,
    /// The heartbeats that were written last: the words themselves may not be there to be read.
    beats: Box<[AtomicU64]>,
    report: ControlMemoryReport,
    held: Held,
}

/// What keeps the region where it is. Both give their memory back once no kernel runs.
enum Held {
    Host(HostMemory),
    Gpu(Box<Mapping<DeviceMemory>>),
}

impl HostControl {
    /// As a program wishes.
    pub(crate) fn new(gpu: &Gpu, layout: &Layout, wish: ControlMemory) -> Result<Self, NetError> {
        let bytes = layout.host_control_words() * 8;
        let (held, why) = match mapped_if_wanted(gpu, wish, bytes)? {
            (Some(mapping), why) => (Held::Gpu(Box::new(mapping)), why),
            (None, why) => (Held::Host(gpu.host_memory(bytes)?), why),
        };
        Ok(Self::of(held, layout, why)?)
    }

    fn of(held: Held, layout: &Layout, why: String) -> Result<Self, ControlMemoryRefused> {
        let (start, caching, mapped_by) = match &held {
            Held::Host(memory) => (memory.as_ptr(), Caching::Cached, None),
            Held::Gpu(mapping) => {
                let view = mapping.view().map_err(ControlMemoryRefused::Lost)?;
                // A word must fit there.
                view.place::<u64>(0).map_err(ControlMemoryRefused::Lost)?;
                (view.as_ptr(), mapping.caching(), Some(mapping.backend().to_string()))
            }
        };
        Ok(Self {
            // SAFETY: host memory is page aligned, and a word was just placed in a mapping; `held` keeps both.
            first: unsafe { Word::at(start.cast()) },
            words: layout.host_control_words(),
            caching,
            beats: (0..layout.shards).map(|_| AtomicU64::new(0)).collect(),
            report: ControlMemoryReport { mapped_by, why },
            held,
        })
    }

    /// Where kernels find it.
    pub(crate) fn device_ptr(&self) -> *mut u8 {
        match &self.held {
            Held::Host(memory) => memory.device_ptr(),
            Held::Gpu(mapping) => mapping.memory().device_ptr(),
        }
    }

    /// Where it lies, and why.
    pub(crate) fn report(&self) -> &ControlMemoryReport {
        &self.report
    }

    /// A word of the layout's.
    pub(crate) fn word(&self, at: usize) -> ControlWord {
        self.array::<1>(at).0
    }

    /// Words of the layout's that stand together.
    pub(crate) fn array<const N: usize>(&self, at: usize) -> ControlArray<N> {
        assert!(at + N <= self.words);
        // SAFETY: inside the region, by the check.
        let word = unsafe { self.first.offset(at) };
        ControlArray(ControlWord { word, caching: self.caching })
    }

    /// Writes a shard's heartbeat, which stands in that word.
    pub(crate) fn beat(&self, at: usize, shard: usize, beat: u64) {
        self.word(at).store(beat);
        self.beats[shard].store(beat, Ordering::Relaxed);
    }

    /// The heartbeat that was written last.
    pub(crate) fn last_beat(&self, shard: usize) -> u64 {
        self.beats[shard].load(Ordering::Relaxed)
    }

    /// Keeps what this thread stores later behind what it has stored.
    pub(crate) fn fence(&self) {
        word::release_fence();
        store_fence(self.caching);
    }

    /// Sends on its way what was stored and lingers in the processor.
    pub(crate) fn flush(&self) {
        store_fence(self.caching);
    }

    /// Asks whether the memory is still there.
    pub(crate) fn check(&self) -> Result<(), AccessError> {
        match &self.held {
            Held::Host(_) => Ok(()),
            Held::Gpu(mapping) => mapping.check(),
        }
    }

    /// Has stores go nowhere from now on: the memory is gone, and a store there would end the
    /// process.
    pub(crate) fn abandon(&self) {
        if let Held::Gpu(mapping) = &self.held
            && let Err(errno) = mapping.abandon()
        {
            tracing::error!(%errno, "memory that is gone stays mapped");
        }
    }
}

/// A word that the host writes and kernels read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlWord {
    word: Word,
    caching: Caching,
}

impl ControlWord {
    /// Writes, with no order implied. It may linger in the processor until the next release, fence
    /// or flush.
    pub(crate) fn store(self, value: u64) {
        #[cfg(test)]
        if self.caching == Caching::WriteCombining && model::keeps(self.word, value) {
            return;
        }
        self.word.store(value);
    }

    /// Writes after everything this thread did before, and at once.
    pub(crate) fn store_release(self, value: u64) {
        if self.caching != Caching::WriteCombining {
            return self.word.store_release(value);
        }
        word::release_fence();
        store_fence(self.caching);
        self.store(value);
        store_fence(self.caching);
    }
}

/// Words that stand together: a descriptor, a reply, a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlArray<const N: usize>(ControlWord);

impl<const N: usize> ControlArray<N> {
    /// One of them.
    pub(crate) fn get(&self, index: usize) -> ControlWord {
        assert!(index < N);
        // SAFETY: `HostControl::array` checked all N, and index < N.
        ControlWord { word: unsafe { self.0.word.offset(index) }, ..self.0 }
    }

    /// Writes each, in no order: publish them with a release elsewhere.
    pub(crate) fn write(&self, values: &[u64; N]) {
        for (index, value) in values.iter().enumerate() {
            self.get(index).store(*value);
        }
    }
}

/// What was stored before leaves the processor before what is stored after it.
#[inline(always)]
fn store_fence(caching: Caching) {
    caching.store_fence();
    #[cfg(test)]
    if caching == Caching::WriteCombining {
        model::fenced();
    }
}

#[cfg(test)]
mod tests {
    use gpu_usermap::{Backend, Choice, Mapper};

    use super::*;
    use crate::gpu::{EmulatedOptions, GpuChoice};

    impl ControlWord {
        /// What a kernel sees there.
        pub(crate) fn seen(self) -> u64 {
            self.word.load_acquire()
        }
    }

    impl HostControl {
        /// In memory of the emulated GPU whose stores are combined, as far as the proxy knows.
        pub(crate) fn combining(gpu: &Gpu, layout: &Layout) -> Self {
            let control =
                Self::new(gpu, layout, ControlMemory::Gpu).expect("the emulated GPU maps");
            Self { caching: Caching::WriteCombining, ..control }
        }
    }

    impl<const N: usize> ControlArray<N> {
        /// What a kernel sees there.
        pub(crate) fn seen(&self) -> [u64; N] {
            std::array::from_fn(|index| self.get(index).seen())
        }
    }

    const LAYOUT: Layout = Layout { shards: 2, socket_slots: 3, request_slots: 4 };

    /// A mapping beside the memory of the emulated GPU: the CPU has an address of its own.
    fn beside() -> HostControl {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).unwrap();
        let bytes = LAYOUT.host_control_words() * 8;
        let mapper = Mapper::new().choice(Choice::Only(Backend::DmaBuf));
        let mapping = mapper.map(gpu.device_memory(bytes).unwrap(), 0..bytes).unwrap();
        HostControl::of(Held::Gpu(Box::new(mapping)), &LAYOUT, String::new()).unwrap()
    }

    /// What stands in the GPU's memory.
    fn on_the_gpu(control: &HostControl, at: usize) -> u64 {
        let Held::Gpu(mapping) = &control.held else { panic!("it lies in host memory") };
        let mut bytes = [0; 8];
        mapping.memory().read(at * 8, &mut bytes).unwrap();
        u64::from_ne_bytes(bytes)
    }

    #[test]
    fn kernels_find_what_is_written_by_another_address() {
        let control = beside();
        let last = LAYOUT.host_control_words() - 1;
        control.word(last).store_release(7);
        control.array::<4>(16).write(&[1, 2, 3, 4]);
        control.beat(5, 1, 9);
        let seen = [last, 16, 19, 5].map(|at| on_the_gpu(&control, at));
        assert_eq!(seen, [7, 1, 4, 9]);
        assert_eq!((control.last_beat(1), control.last_beat(0)), (9, 0));
        assert_eq!(control.report().mapped_by.as_deref(), Some("dma-buf"));
    }

    #[test]
    fn after_a_loss_stores_go_nowhere() {
        let control = beside();
        control.word(3).store_release(7);
        assert_eq!(control.check(), Ok(()));
        control.abandon();
        control.word(3).store_release(8);
        control.beat(5, 1, 9);
        assert_eq!((on_the_gpu(&control, 3), on_the_gpu(&control, 5)), (7, 0));
        assert_eq!(control.last_beat(1), 9);
    }

    #[test]
    #[should_panic(expected = "at + N <= self.words")]
    fn no_word_lies_outside() {
        beside().array::<2>(LAYOUT.host_control_words() - 1);
    }
}
