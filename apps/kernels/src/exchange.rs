//! The kernels of `pingpong`: numbers are made, travel to a peer and back, and are checked, round after
//! round. The round stands in GPU memory, so that a graph of these kernels can be launched again.

use core::sync::atomic::Ordering;

use gpunet_device::op::PreparedOps;
use gpunet_device::{Block, Group, Net, Shared, kernel_arg, kernels, simt};

kernel_arg! {
    /// What the kernels of an exchange share.
    pub struct Exchange {
        /// What is sent.
        pub sent: Shared<u32>,
        /// What has come back.
        pub received: Shared<u32>,
        /// The round, numbers that were wrong, blocks that have checked theirs.
        pub state: Shared<u32>,
        /// How long each kernel computes, beside what it makes or checks.
        pub compute_ns: u64,
    }
}

/// Words of the state.
pub const ROUND: usize = 0;
/// Numbers that came back wrong.
pub const WRONG: usize = 1;
/// Blocks that have checked their part of the round.
const CHECKED: usize = 2;
/// How many words there are.
pub const STATE: usize = 3;

kernels! {
    /// Makes the numbers of the round.
    pub fn produce(net: Net, exchange: Exchange) {
        let _ = net;
        make(exchange, round(exchange));
        compute(exchange.compute_ns);
    }

    /// Checks what has come back, and ends the round.
    pub fn consume(net: Net, exchange: Exchange) {
        let block = net.block().group();
        compute(exchange.compute_ns);
        check(exchange, round(exchange));
        block.barrier();
        if !block.is_leader() {
            return;
        }
        let blocks = simt::position().blocks;
        let checked = exchange.state.atomic(CHECKED);
        if checked.is_some_and(|checked| checked.fetch_add(1, Ordering::AcqRel) + 1 == blocks) {
            exchange.state.set(CHECKED, 0);
            exchange.state.set(ROUND, round(exchange).wrapping_add(1));
        }
    }

    /// All of it in one kernel of one block, which runs the operations itself: a send, then a receive.
    pub fn exchange_rounds(net: Net, exchange: Exchange, operations: PreparedOps, rounds: u32) {
        let block = net.block().group();
        for _ in 0..rounds {
            let now = round(exchange);
            make(exchange, now);
            compute(exchange.compute_ns);
            if !moves(net, block, operations) {
                return;
            }
            compute(exchange.compute_ns);
            check(exchange, now);
            block.barrier();
            if block.is_leader() {
                exchange.state.set(ROUND, now.wrapping_add(1));
            }
            block.barrier();
        }
    }

    /// Computes for so long, and nothing else.
    pub fn busy(net: Net, compute_ns: u64) {
        let _ = net;
        compute(compute_ns);
    }
}

/// Whether the numbers went and came back.
#[inline(always)]
fn moves(net: Net, block: Block, operations: PreparedOps) -> bool {
    operations.run(net, block, 0) == 0 && operations.run(net, block, 1) == 0
}

#[inline(always)]
fn round(exchange: Exchange) -> u32 {
    exchange.state.get(ROUND).unwrap_or(0)
}

/// The number at a place in a round.
#[inline(always)]
const fn number(round: u32, index: usize) -> u32 {
    (index as u32 ^ round).wrapping_mul(0x9e37_79b1)
}

/// Calls `each` with the places that are the calling thread's.
#[inline(always)]
fn mine(length: usize, mut each: impl FnMut(usize)) {
    let at = simt::position();
    let (first, all) = (at.block * at.threads + at.thread, at.blocks * at.threads);
    for index in (first as usize..length).step_by(all as usize) {
        each(index);
    }
}

#[inline(always)]
fn make(exchange: Exchange, round: u32) {
    mine(exchange.sent.len(), |index| {
        exchange.sent.set(index, number(round, index));
    });
}

#[inline(always)]
fn check(exchange: Exchange, round: u32) {
    mine(exchange.received.len(), |index| {
        if exchange.received.get(index) != Some(number(round, index))
            && let Some(wrong) = exchange.state.atomic(WRONG)
        {
            wrong.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Multiplies and adds until the time is over.
#[inline(always)]
fn compute(ns: u64) {
    let begin = simt::now_ns();
    let mut value = begin as u32 as f32;
    // Counted: ends with the time.
    while simt::now_ns().saturating_sub(begin) < ns {
        for _ in 0..32 {
            value = value * 1.000_1 + 0.5;
        }
        value = core::hint::black_box(value);
        simt::pause();
    }
}
