//! The GPU's half of a ping-pong through two words, for `usermap pplat`.

use gpunet_device::{Group, Shared, kernels, simt};

/// Looks between two looks at the clock.
const LOOKS: u32 = 1 << 12;

kernels! {
    /// Answers each number in `ping` with the same one in `answer`: 1, 2, 3 up to `rounds`, as long
    /// as the next one comes within `timeout_ns`.
    pub fn pong(net: Net, ping: Shared<u64>, answer: Shared<u64>, rounds: u64, timeout_ns: u64) {
        if net.block().group().is_leader() {
            for round in 1..=rounds {
                if !arrives(ping, round, timeout_ns) {
                    return;
                }
                answer.set(0, round);
            }
        }
    }
}

/// Whether the word becomes that number in time.
#[inline(always)]
fn arrives(word: Shared<u64>, number: u64, timeout_ns: u64) -> bool {
    let start = simt::now_ns();
    // Counted: ends with the caller's time-out.
    while simt::now_ns().saturating_sub(start) < timeout_ns {
        for _ in 0..LOOKS {
            if word.get(0) == Some(number) {
                return true;
            }
            simt::pause();
        }
    }
    false
}
