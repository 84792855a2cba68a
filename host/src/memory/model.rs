//! A processor that combines stores, for tests: what a thread stores to words on a combining mapping
//! lingers here until it makes a store fence. Then it reaches memory one by one, the newest first,
//! and after each a kernel looks. What is published without a fence between data and flag is seen
//! in the wrong order, every time.

use std::cell::RefCell;
use std::rc::Rc;

use gpunet_device::abi::word::Word;

use super::Memory;

thread_local! {
    static PROCESSOR: RefCell<Option<Processor>> = const { RefCell::new(None) };
}

struct Processor {
    lingering: Vec<(Word, u64)>,
    fences: usize,
    kernel: Rc<dyn Fn()>,
}

/// Has this thread's stores combined while `work` runs, and `kernel` look whenever one has reached
/// memory. How many fences there were, and how many stores have not left the processor.
pub(crate) fn combined(kernel: impl Fn() + 'static, work: impl FnOnce()) -> (usize, usize) {
    let processor = Processor { lingering: Vec::new(), fences: 0, kernel: Rc::new(kernel) };
    PROCESSOR.set(Some(processor));
    work();
    let Processor { lingering, fences, .. } = PROCESSOR.take().expect("it was there");
    (fences, lingering.len())
}

/// Takes a store, if stores are combined on this thread.
pub(super) fn keeps(word: Word, value: u64) -> bool {
    PROCESSOR.with_borrow_mut(|processor| {
        let Some(processor) = processor else { return false };
        match processor.lingering.iter_mut().find(|(other, _)| *other == word) {
            Some((_, before)) => *before = value,
            None => processor.lingering.push((word, value)),
        }
        true
    })
}

/// A store fence: all that lingers reaches memory.
pub(super) fn fenced() {
    let leaving = PROCESSOR.with_borrow_mut(|processor| {
        let processor = processor.as_mut()?;
        processor.fences += 1;
        Some((std::mem::take(&mut processor.lingering), Rc::clone(&processor.kernel)))
    });
    let Some((stores, kernel)) = leaving else { return };
    for (word, value) in stores.into_iter().rev() {
        word.store(value);
        kernel();
    }
}

/// What tests and models need of a net's memory.
impl Memory {
    /// Written by the GPU: the number of the request in a slot.
    pub(crate) fn request_sequence(&self, slot: usize) -> Word {
        self.gpu_word(self.layout.request_sequence(slot))
    }

    /// Has a model know a ring.
    #[cfg(feature = "loom")]
    pub(crate) fn model_knows_ring(&self, ring: &gpunet_device::abi::descriptor::RingLocation) {
        use gpunet_device::abi::model;
        let [(address, length), _] = self.slice(ring, 0, ring.capacity as usize).pieces();
        model::knows_words(address.cast(), length / 8);
        model::knows_bytes(address, length);
    }

    /// Has a model know all words there are.
    #[cfg(feature = "loom")]
    pub(crate) fn known_to_the_model(&self) {
        use gpunet_device::abi::model;
        model::knows_words(self.gpu_control.as_ptr().cast(), self.layout.gpu_control_words());
        // One stop word and one heartbeat, and all from the first record on.
        // The emulated GPU finds them where the CPU does.
        let host_control: *mut u64 = self.host_control.device_ptr().cast();
        let first = self.layout.inbox(0);
        for at in [self.layout.stop(0), self.layout.heartbeat(0)] {
            model::knows_words(host_control.wrapping_add(at), 1);
        }
        model::knows_words(
            host_control.wrapping_add(first),
            self.layout.host_control_words() - first,
        );
        model::knows_words(self.records.device_ptr().cast(), self.layout.records_words());
    }
}
