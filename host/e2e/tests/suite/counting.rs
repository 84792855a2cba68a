//! Atomics and locks: threads of several blocks count, and no count is lost.

use gpunet_e2e::counting::count;
use gpunet_e2e::{is_cuda, net, seeded_net};
use gpunet_e2e_kernels::counting::{
    ATOMIC, BITS, BY_BLOCKS, BY_FIRST_WARPS, BY_LEADERS, EXCHANGED, HELD, IN_TURN, LARGEST, LOCK,
    LOCKED, NARROW, READ, RW_LOCK, SMALLEST, SYSTEM, TIMED_OUT, WRITTEN, WRITTEN_TOO, WRONG,
};
use gpunet_host::Net;

fn exactly(net: &Net, blocks: u32, threads: u32, rounds: u64) {
    let counted = count(net, blocks, threads, rounds);
    let (words, totals) = (counted.words, counted.totals);
    let all = u64::from(blocks * threads);
    println!("{blocks} blocks of {threads}: {totals:?}");
    assert_eq!(totals[WRONG], 0);
    assert_eq!(u64::from(words[NARROW]), all * rounds);
    for place in [ATOMIC, SYSTEM, LOCKED, EXCHANGED] {
        assert_eq!(totals[place], all * rounds, "total {place}");
    }
    // A quarter of the threads in each round.
    let writers = |round| (0..u64::from(threads)).filter(move |thread| (thread + round) % 4 == 0);
    let written = u64::from(blocks) * (0..rounds).flat_map(writers).count() as u64;
    assert_eq!((totals[WRITTEN], totals[WRITTEN_TOO]), (written, written));
    assert_eq!((totals[SMALLEST], totals[LARGEST]), (1, all));
    assert_eq!(u64::from(totals[BITS].count_ones()), all.min(64));
    assert_eq!(totals[TIMED_OUT], all);
    let in_turn = threads.min(IN_TURN as u32);
    assert_eq!(totals[BY_BLOCKS], u64::from(blocks * in_turn) * rounds);
    let warps = threads.div_ceil(32);
    assert_eq!(totals[BY_LEADERS], u64::from(blocks * (1 + warps)) * rounds);
    assert_eq!(totals[BY_FIRST_WARPS], u64::from(blocks * threads.min(32)) * rounds);
    // The locks are free, and those that were held still are, with nobody waiting.
    assert_eq!((words[LOCK], words[RW_LOCK], words[HELD], words[READ]), (0, 0, 1, 1));
}

#[test]
fn threads_of_several_blocks_lose_no_count() {
    let net = net();
    let rounds = if is_cuda() { 20 } else { 3 };
    for (blocks, threads) in [(1, 1), (1, 32), (4, 100), (8, 64)] {
        exactly(&net, blocks, threads, rounds);
    }
}

#[test]
fn in_any_order_of_threads() {
    for seed in 0..4 {
        exactly(&seeded_net(seed), 3, 40, 2);
    }
}
