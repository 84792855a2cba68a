//! Lanes of a warp that are OS threads and pass lines to each other, for tests of what whole warps do on
//! hardware.

use core::cell::RefCell;
use std::sync::{Arc, Barrier, Mutex};

use crate::simt::shape::WARP;

/// What the lanes of a warp share.
pub(crate) struct Exchange {
    lines: Mutex<[[u64; 2]; WARP as usize]>,
    barrier: Barrier,
}

std::thread_local! {
    static LANE: RefCell<Option<(Arc<Exchange>, usize)>> = const { RefCell::new(None) };
}

impl Exchange {
    pub(crate) fn new() -> Arc<Self> {
        let lines = Mutex::new([[0; 2]; WARP as usize]);
        Arc::new(Self { lines, barrier: Barrier::new(WARP as usize) })
    }

    /// Makes the calling OS thread a lane.
    pub(crate) fn join(self: Arc<Self>, lane: u32) {
        LANE.set(Some((self, lane as usize)));
    }
}

pub(crate) fn passes_lines() -> bool {
    LANE.with_borrow(Option::is_some)
}

pub(crate) fn line_of_lane(line: [u64; 2], lane: u32) -> [u64; 2] {
    let (warp, mine) = LANE.with_borrow(Clone::clone).expect("the thread is a lane");
    warp.lines.lock().expect("nobody panics with it")[mine] = line;
    warp.barrier.wait();
    let passed = warp.lines.lock().expect("nobody panics with it")[(lane % WARP) as usize];
    warp.barrier.wait();
    passed
}
