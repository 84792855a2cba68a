//! Words that kernels without gpunet notify each other by: a block stores a number once it is done, another one,
//! or the CPU, waits for it.

use gpunet_device::abi::word::Word;
use gpunet_device::{Block, Group, Shared, simt};

/// Polls of a flag between two looks at the clock.
const POLLS: u32 = 1 << 12;

/// A word of memory that blocks and the CPU share.
#[inline(always)]
#[allow(unsafe_code, reason = "names a word of the buffer")]
pub(crate) fn word_at(words: Shared<u64>, index: usize) -> Word {
    // SAFETY: inside the buffer, whose words are aligned and initialised.
    unsafe { Word::at(words.slice(index, 1).as_ptr()) }
}

/// Notifies the other block that all threads are done; pairs with the acquire load in [`arrives`].
#[inline(always)]
pub(crate) fn publish(flag: Word, round: u64) {
    Block.barrier();
    if Block.is_leader() {
        flag.store_release(round);
    }
}

/// Whether the flag reaches that number in time; the same for all threads.
#[inline(always)]
pub(crate) fn arrives(flag: Word, round: u64, timeout_ns: u64) -> bool {
    let late = Block.is_leader() && !leader_sees(flag, round, timeout_ns);
    !Block.any(late)
}

#[inline(always)]
fn leader_sees(flag: Word, round: u64, timeout_ns: u64) -> bool {
    let start = simt::now_ns();
    // Counted: ends with the timeout.
    while simt::now_ns().saturating_sub(start) < timeout_ns {
        for _ in 0..POLLS {
            // A later one, too: the CPU ends an exchange so.
            if flag.load_acquire() >= round {
                return true;
            }
            simt::pause();
        }
    }
    false
}
