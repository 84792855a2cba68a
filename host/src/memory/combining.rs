//! A processor that combines stores, for tests: what a thread stores to words on a combining mapping
//! lingers here until it makes a store fence. Then it reaches memory one by one, the newest first,
//! and after each a kernel looks. What is published without a fence between data and flag is seen
//! in the wrong order, every time.

use std::cell::RefCell;
use std::rc::Rc;

use gpunet_device::abi::word::Word;

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
