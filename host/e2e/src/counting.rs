//! Runs the kernel whose threads count and lock (`gpunet_e2e_kernels::counting`).

use gpunet_e2e_kernels::counting::{
    Counting, HELD, READ, SMALLEST, TOTALS, WORDS, counting as kernel,
};
use gpunet_host::{Net, Shape, Task};

use crate::limits::deadline;
use crate::memory::buffer;

/// What the threads left in memory; the places have names in [`gpunet_e2e_kernels::counting`].
pub struct Counted {
    /// Locks and narrow counters.
    pub words: Vec<u32>,
    /// Counters.
    pub totals: Vec<u64>,
}

/// Lets all threads count so often.
///
/// # Panics
/// When the launch fails or does not end.
#[must_use]
pub fn count(net: &Net, blocks: u32, threads: u32, rounds: u64) -> Counted {
    let mut words = [0; WORDS];
    // A lock that somebody holds, and one that a reader has.
    (words[HELD], words[READ]) = (1, 1);
    let mut totals = [0; TOTALS];
    totals[SMALLEST] = u64::MAX;
    let (words, totals) = (buffer(net.gpu(), &words), buffer(net.gpu(), &totals));
    let work = Counting::launch_arg(&words, &totals, rounds);
    let launch = net.launch(kernel, Shape::new(blocks, threads), (work,)).expect("it starts");
    launch.wait_timeout(deadline()).expect("it ends");
    Counted {
        words: words.to_vec().expect("its words"),
        totals: totals.to_vec().expect("its totals"),
    }
}
