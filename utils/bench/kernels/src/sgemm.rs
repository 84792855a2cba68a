//! Matrix multiplications for the suite `sgemm`: one that computes only, and two that also receive and
//! send, from the same code.
//!
//! Persistent blocks of 256 threads take tiles of 128x128 elements of C by turns. A tile goes through
//! A and B in k-steps of 8: each step's pieces lie in shared memory, those of the next step are on
//! their way from GPU memory meanwhile, and each thread adds to 8x8 sums in registers.
//!
//! ```text
//!   warp        32x64 of the tile: 4 of them down, 2 across
//!   thread      rows 4y..4y+4 and 16 below, columns 4x..4x+4 and 32 to the right (lane = 8y + x)
//!   shared      2 x (8x128 of A, transposed, rows of 132 against bank conflicts; 8x128 of B), messages
//! ```
//!
//! Calls before and after a tile find no sum alive; one in the loop over k finds all 64.

#![allow(unsafe_code, reason = "reads and writes matrices without a check of each access")]

use gpunet_device::calls::{MSG_DONTWAIT, grecv, gsend};
use gpunet_device::{Block, Errno, Group, Handle, Net, Shared, kernel_arg, kernels, simt};

use memory::Stages;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Rows and columns of a tile.
pub const TILE: usize = 128;
/// Elements of k in a step.
pub const STEP: usize = 8;
/// The largest m, n or k.
pub const LARGEST: u64 = 1 << 15;
/// A call in the loop is made in every so many steps.
pub const STEPS_PER_CALL: u32 = 64;
/// Bytes of a message.
pub const MESSAGE: usize = 64;
/// Shared memory of a block.
pub const SHARED_BYTES: usize = SENT_FROM + MESSAGE;

/// Words of a block's report.
pub const REPORT_WORDS: usize = 5;
/// The word with the result: 0 or a negative error number.
pub const RESULT: usize = 0;
/// Nanoseconds of the GPU's clock at the beginning.
pub const BEGIN: usize = 1;
/// And at the end.
pub const END: usize = 2;
/// Bytes sent.
pub const SENT: usize = 3;
/// Bytes received.
pub const RECEIVED: usize = 4;

/// A row of A's piece, which is a column of A, in shared memory.
const A_ROW: usize = TILE + 4;
/// Where B's piece begins behind A's.
const B_PIECE: usize = STEP * A_ROW;
/// Elements of both pieces of a step.
const STAGE: usize = B_PIECE + STEP * TILE;
/// Where messages lie in shared memory, behind the stages.
const RECEIVED_AT: usize = 4 * 2 * STAGE;
const SENT_FROM: usize = RECEIVED_AT + MESSAGE;

kernel_arg! {
    /// C = A B, all by rows. `m` and `n` are multiples of [`TILE`], `k` one of [`STEP`].
    pub struct Product {
        /// m rows of k.
        pub a: Shared<f32>,
        /// k rows of n.
        pub b: Shared<f32>,
        /// m rows of n.
        pub c: Shared<f32>,
        /// Rows of A and C.
        pub m: u64,
        /// Columns of B and C.
        pub n: u64,
        /// Columns of A, rows of B.
        pub k: u64,
    }
}

kernels! {
    /// Multiplies, and calls nothing.
    pub fn sgemm(net: Net, product: Product, reports: Shared<u64>) {
        let _ = net;
        run(&product, reports, NoCalls);
    }

    /// Before each tile receives what is there, up to a message, without waiting for it; behind each
    /// tile sends a message. `connections` has a handle for each block.
    pub fn sgemm_with_calls(
        net: Net,
        product: Product,
        connections: Shared<u64>,
        reports: Shared<u64>,
    ) {
        run(&product, reports, TileCalls::<false> { net, connections, reports });
    }

    /// The same, and also receives in the loop over k, in every [`STEPS_PER_CALL`]th step.
    pub fn sgemm_call_in_loop(
        net: Net,
        product: Product,
        connections: Shared<u64>,
        reports: Shared<u64>,
    ) {
        run(&product, reports, TileCalls::<true> { net, connections, reports });
    }
}

/// What a block does beside its multiplication. All of its threads call; all get the same result.
/// Nothing is kept from call to call: that would take registers from the sums.
trait Calls: Copy {
    /// Whether [`Self::in_loop`] is called at all.
    const IN_LOOP: bool;
    fn before_tile(self) -> Result<(), Errno>;
    fn in_loop(self) -> Result<(), Errno>;
    fn after_tile(self) -> Result<(), Errno>;
}

#[derive(Clone, Copy)]
struct NoCalls;

impl Calls for NoCalls {
    const IN_LOOP: bool = false;

    #[inline(always)]
    fn before_tile(self) -> Result<(), Errno> {
        Ok(())
    }

    #[inline(always)]
    fn in_loop(self) -> Result<(), Errno> {
        Ok(())
    }

    #[inline(always)]
    fn after_tile(self) -> Result<(), Errno> {
        Ok(())
    }
}

/// Calls on the block's connection, which belongs to the host.
#[derive(Clone, Copy)]
struct TileCalls<const IN_LOOP: bool> {
    net: Net,
    connections: Shared<u64>,
    reports: Shared<u64>,
}

impl<const IN_LOOP: bool> Calls for TileCalls<IN_LOOP> {
    const IN_LOOP: bool = IN_LOOP;

    #[inline(always)]
    fn before_tile(self) -> Result<(), Errno> {
        receive(self.net, self.connections, self.reports)
    }

    #[inline(always)]
    fn in_loop(self) -> Result<(), Errno> {
        receive(self.net, self.connections, self.reports)
    }

    #[inline(always)]
    fn after_tile(self) -> Result<(), Errno> {
        send(self.net, self.connections, self.reports)
    }
}

/// The connection of the calling block.
#[inline(always)]
fn own_connection(connections: Shared<u64>) -> Handle {
    let block = simt::position().block as usize;
    Handle(connections.get(block).unwrap_or(Handle::NONE.0))
}

/// Receives what is there, up to a message. Out of line, as [`send`]: what only the call needs is not
/// kept in registers meanwhile.
#[inline(never)]
fn receive(net: Net, connections: Shared<u64>, reports: Shared<u64>) -> Result<(), Errno> {
    let buffer = simt::shared_memory().slice(RECEIVED_AT, MESSAGE);
    match grecv(net, Block, own_connection(connections), buffer, MSG_DONTWAIT) {
        0 => Err(Errno::ECONNRESET),
        bytes @ 1.. => {
            count(reports, RECEIVED, bytes as u64);
            Ok(())
        }
        error if error == Errno::EAGAIN.negative() => Ok(()),
        error => Err(Errno(-error as i32)),
    }
}

/// Sends a message.
#[inline(never)]
fn send(net: Net, connections: Shared<u64>, reports: Shared<u64>) -> Result<(), Errno> {
    let buffer = simt::shared_memory().slice(SENT_FROM, MESSAGE);
    let sent = Errno::check(gsend(net, Block, own_connection(connections), buffer, 0))?;
    count(reports, SENT, sent);
    Ok(())
}

/// Multiplies and reports.
#[inline(always)]
fn run(product: &Product, reports: Shared<u64>, calls: impl Calls) {
    if Block.is_leader() {
        let begin = simt::now_ns();
        for (index, word) in [(BEGIN, begin), (SENT, 0), (RECEIVED, 0)] {
            own_report(reports).set(index, word);
        }
    }
    let result = multiply(product, calls);
    Block.barrier();
    if Block.is_leader() {
        own_report(reports).set(END, simt::now_ns());
        let result = result.map_or_else(Errno::negative, |()| 0);
        own_report(reports).set(RESULT, result as u64);
    }
}

/// The words of the calling block.
#[inline(always)]
fn own_report(reports: Shared<u64>) -> Shared<u64> {
    reports.slice(simt::position().block as usize * REPORT_WORDS, REPORT_WORDS)
}

/// Adds to a word of the block's report.
#[inline(always)]
fn count(reports: Shared<u64>, index: usize, more: u64) {
    if Block.is_leader() {
        let report = own_report(reports);
        report.set(index, report.get(index).unwrap_or(0) + more);
    }
}

/// The tiles of the calling block.
#[inline(always)]
fn multiply(product: &Product, calls: impl Calls) -> Result<(), Errno> {
    check(product)?;
    let across = product.n as u32 / TILE as u32;
    let all = product.m as u32 / TILE as u32 * across;
    let mut at = simt::position().block;
    while at < all {
        calls.before_tile()?;
        let row = at.checked_div(across).unwrap_or(0);
        tile(product, row, at - row * across, calls)?;
        calls.after_tile()?;
        at += simt::position().blocks;
    }
    Ok(())
}

/// Repeats a statement with constants, so that what it indexes are registers.
macro_rules! each {
    ($index:ident in $($value:literal)* => $body:block) => { $({
        const $index: usize = $value;
        $body
    })* };
}

/// Whether the sizes, the addresses and the launch fit.
#[inline(always)]
fn check(product: &Product) -> Result<(), Errno> {
    let Product { a, b, c, m, n, k } = *product;
    let fits = |matrix: Shared<f32>, rows: u64, columns: u64| {
        matrix.as_ptr().addr().is_multiple_of(16) && matrix.len() as u64 >= rows * columns
    };
    let right = m.is_multiple_of(TILE as u64)
        && n.is_multiple_of(TILE as u64)
        && k.is_multiple_of(STEP as u64)
        // So that no product of two of them overflows.
        && m.max(n).max(k) <= LARGEST
        && m.min(n).min(k) > 0
        && fits(a, m, k)
        && fits(b, k, n)
        && fits(c, m, n)
        && simt::position().threads == THREADS
        && simt::shared_memory().len() >= SHARED_BYTES;
    if right { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Where a thread's sums begin in a tile.
#[inline(always)]
const fn own_place(thread: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    (warp / 2 * 32 + lane / 8 * 4, warp % 2 * 64 + lane % 8 * 4)
}

/// Computes one tile of C.
#[inline(always)]
fn tile<C: Calls>(product: &Product, row: u32, column: u32, calls: C) -> Result<(), Errno> {
    // Opaque: what is computed from it is not kept in registers from before the calls.
    let thread = memory::opaque(simt::position().thread) as usize;
    let (n, k) = (product.n as usize, product.k as usize);
    let (row, column) = (row as usize * TILE, column as usize * TILE);
    // What this thread brings of each step: four elements of a row of A, and of a row of B.
    let (a_row, a_column) = (thread / 2, thread % 2 * 4);
    let (b_row, b_column) = (thread / 32, thread % 32 * 4);
    let mut a_from = product.a.as_ptr().wrapping_add((row + a_row) * k + a_column);
    let mut b_from = product.b.as_ptr().wrapping_add(b_row * n + column + b_column);
    let stages = Stages::new();
    let a_to = stages.at(a_column * A_ROW + a_row);
    let b_to = stages.at(B_PIECE + b_row * TILE + b_column);
    // What it multiplies.
    let (own_row, own_column) = own_place(thread);
    let (a_own, b_own) = (stages.at(own_row), stages.at(B_PIECE + own_column));

    // The last step of the tile before is over in all threads.
    Block.barrier();
    // SAFETY: `check` has found that A and B hold these elements, and that they are aligned.
    let mut next = unsafe { (memory::load(a_from), memory::load(b_from)) };
    // SAFETY: inside the first stage, whose elements each have one thread that writes them.
    unsafe { stage(a_to, b_to, next) };
    Block.barrier();

    let mut sums = [[0.0_f32; 8]; 8];
    let steps = (k / STEP) as u32;
    let mut step = 0;
    while step < steps {
        if C::IN_LOOP && step.is_multiple_of(STEPS_PER_CALL) {
            calls.in_loop()?;
        }
        let now = (step % 2) as usize * STAGE;
        step += 1;
        if step < steps {
            a_from = a_from.wrapping_add(STEP);
            b_from = b_from.wrapping_add(STEP * n);
            // SAFETY: as above; the matrices hold another step.
            next = unsafe { (memory::load(a_from), memory::load(b_from)) };
        }
        // Not unrolled: the loads of several columns at once would take more registers than two
        // blocks of a multiprocessor have.
        let (mut a_now, mut b_now) = (a_own.at(now), b_own.at(now));
        for _ in 0..STEP {
            // SAFETY: inside a stage that was written before the barrier, and is not written before
            // the next one.
            let (a, b) = unsafe {
                ((a_now.load::<0>(), a_now.load::<16>()), (b_now.load::<0>(), b_now.load::<32>()))
            };
            add_products(&mut sums, eight(a), eight(b));
            (a_now, b_now) = (a_now.at(A_ROW), b_now.at(TILE));
        }
        if step < steps {
            // SAFETY: inside the other stage, which all threads have read before the last barrier.
            unsafe { stage(a_to.at(STAGE - now), b_to.at(STAGE - now), next) };
            Block.barrier();
        }
    }

    let (own_row, own_column) = own_place(memory::opaque(simt::position().thread) as usize);
    let n = memory::opaque(product.n as u32) as usize;
    let to = product.c.as_ptr().wrapping_add((row + own_row) * n + column + own_column);
    each!(ROW in 0 1 2 3 4 5 6 7 => {
        let to = to.wrapping_add((ROW / 4 * 16 + ROW % 4) * n);
        let [a, b, c, d, e, f, g, h] = sums[ROW];
        // SAFETY: `check` has found that C holds these elements, and that they are aligned; no
        // other thread has them.
        unsafe {
            memory::store(to, (a, b, c, d));
            memory::store(to.wrapping_add(32), (e, f, g, h));
        }
    });
    Ok(())
}

/// Four elements, which one instruction reads or writes. A tuple: an array that is copied as a whole
/// would lie in memory.
type Four = (f32, f32, f32, f32);

/// Writes what a thread brings of a step; A's elements one below the other.
///
/// # Safety
/// Both are valid to write; B's is 16-byte aligned.
#[inline(always)]
unsafe fn stage(a_to: Stages, b_to: Stages, (a, b): (Four, Four)) {
    // SAFETY: the caller's promise.
    unsafe {
        a_to.set::<0>(a.0);
        a_to.set::<A_ROW>(a.1);
        a_to.set::<{ 2 * A_ROW }>(a.2);
        a_to.set::<{ 3 * A_ROW }>(a.3);
        b_to.store(b);
    }
}

#[inline(always)]
const fn eight((low, high): (Four, Four)) -> [f32; 8] {
    [low.0, low.1, low.2, low.3, high.0, high.1, high.2, high.3]
}

/// Adds the products of a column of A and a row of B.
#[inline(always)]
fn add_products(sums: &mut [[f32; 8]; 8], a: [f32; 8], b: [f32; 8]) {
    each!(ROW in 0 1 2 3 4 5 6 7 => {
        each!(COLUMN in 0 1 2 3 4 5 6 7 => {
            sums[ROW][COLUMN] = memory::multiply_add(a[ROW], b[COLUMN], sums[ROW][COLUMN]);
        });
    });
}

/// Accesses that name their kind of memory. The compiler does not know it, and would make generic
/// ones, of which each finds out by itself.
#[cfg(target_arch = "nvptx64")]
mod memory {
    use core::arch::asm;

    use gpunet_device::simt;

    use super::Four;

    unsafe extern "C" {
        #[link_name = "llvm.fma.f32"]
        fn fma(a: f32, b: f32, c: f32) -> f32;
    }

    /// `a * b + c`.
    #[inline(always)]
    pub(super) fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        // SAFETY: computes a number.
        unsafe { fma(a, b, c) }
    }

    /// The same number, of which the compiler knows nothing.
    #[inline(always)]
    pub(super) fn opaque(number: u32) -> u32 {
        let same: u32;
        // SAFETY: copies a register. Not `pure`: it stays where it is.
        unsafe {
            asm!("mov.u32 {}, {};", out(reg32) same, in(reg32) number, options(nostack, nomem));
        }
        same
    }

    /// Reads four elements of a matrix.
    ///
    /// # Safety
    /// `from` is 16-byte aligned, valid to read, and in GPU memory.
    #[inline(always)]
    pub(super) unsafe fn load(from: *const f32) -> Four {
        let (a, b, c, d);
        // SAFETY: the caller's promise.
        unsafe {
            asm!("ld.global.v4.f32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a, out(reg32) b,
                out(reg32) c, out(reg32) d, in(reg64) from, options(nostack, readonly));
        }
        (a, b, c, d)
    }

    /// Writes four elements of a matrix.
    ///
    /// # Safety
    /// `to` is 16-byte aligned, valid to write, and in GPU memory.
    #[inline(always)]
    pub(super) unsafe fn store(to: *mut f32, (a, b, c, d): Four) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("st.global.v4.f32 [{}], {{{}, {}, {}, {}}};", in(reg64) to, in(reg32) a,
                in(reg32) b, in(reg32) c, in(reg32) d, options(nostack));
        }
    }

    /// An address in the block's shared memory.
    #[derive(Clone, Copy)]
    pub(super) struct Stages(u32);

    impl Stages {
        /// Where it begins.
        #[inline(always)]
        pub(super) fn new() -> Self {
            let start: u32;
            // SAFETY: converts an address of shared memory.
            unsafe {
                asm!(
                    "{{ .reg .u64 %here; cvta.to.shared.u64 %here, {}; cvt.u32.u64 {}, %here; }}",
                    in(reg64) simt::shared_memory().as_ptr(), out(reg32) start,
                    options(nostack, nomem, pure));
            }
            Self(start)
        }

        /// So many elements further.
        #[inline(always)]
        pub(super) const fn at(self, elements: usize) -> Self {
            Self(self.0.wrapping_add(4 * elements as u32))
        }

        /// Reads the four elements `BEHIND` so many.
        ///
        /// # Safety
        /// They are inside, 16-byte aligned, and not written meanwhile.
        #[inline(always)]
        pub(super) unsafe fn load<const BEHIND: usize>(self) -> Four {
            let (a, b, c, d);
            // SAFETY: the caller's promise.
            unsafe {
                asm!("ld.shared.v4.f32 {{{}, {}, {}, {}}}, [{}+{}];", out(reg32) a, out(reg32) b,
                    out(reg32) c, out(reg32) d, in(reg32) self.0, const 4 * BEHIND,
                    options(nostack, readonly));
            }
            (a, b, c, d)
        }

        /// Writes the element `BEHIND` so many.
        ///
        /// # Safety
        /// It is inside, and nobody else reads or writes it meanwhile.
        #[inline(always)]
        pub(super) unsafe fn set<const BEHIND: usize>(self, value: f32) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!("st.shared.f32 [{}+{}], {};", in(reg32) self.0, const 4 * BEHIND,
                    in(reg32) value, options(nostack));
            }
        }

        /// Writes four elements.
        ///
        /// # Safety
        /// They are inside, 16-byte aligned, and nobody else reads or writes them meanwhile.
        #[inline(always)]
        pub(super) unsafe fn store(self, (a, b, c, d): Four) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!("st.shared.v4.f32 [{}], {{{}, {}, {}, {}}};", in(reg32) self.0, in(reg32) a,
                    in(reg32) b, in(reg32) c, in(reg32) d, options(nostack));
            }
        }
    }
}

/// The same on the emulated GPU.
#[cfg(not(target_arch = "nvptx64"))]
mod memory {
    use gpunet_device::simt;

    use super::Four;

    #[inline(always)]
    pub(super) fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }

    #[inline(always)]
    pub(super) const fn opaque(number: u32) -> u32 {
        number
    }

    /// # Safety
    /// `from` is aligned and valid to read.
    #[inline(always)]
    pub(super) unsafe fn load(from: *const f32) -> Four {
        // SAFETY: the caller's promise.
        let [a, b, c, d] = unsafe { from.cast::<[f32; 4]>().read() };
        (a, b, c, d)
    }

    /// # Safety
    /// `to` is aligned and valid to write.
    #[inline(always)]
    pub(super) unsafe fn store(to: *mut f32, (a, b, c, d): Four) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; 4]>().write([a, b, c, d]) };
    }

    #[derive(Clone, Copy)]
    pub(super) struct Stages(*mut f32);

    impl Stages {
        #[inline(always)]
        pub(super) fn new() -> Self {
            Self(simt::shared_memory().as_ptr().cast())
        }

        #[inline(always)]
        pub(super) fn at(self, elements: usize) -> Self {
            Self(self.0.wrapping_add(elements))
        }

        /// # Safety
        /// They are inside, and not written meanwhile.
        #[inline(always)]
        pub(super) unsafe fn load<const BEHIND: usize>(self) -> Four {
            // SAFETY: the caller's promise.
            unsafe { load(self.0.wrapping_add(BEHIND)) }
        }

        /// # Safety
        /// It is inside, and nobody else reads or writes it meanwhile.
        #[inline(always)]
        pub(super) unsafe fn set<const BEHIND: usize>(self, value: f32) {
            // SAFETY: the caller's promise.
            unsafe { self.0.wrapping_add(BEHIND).write(value) };
        }

        /// # Safety
        /// They are inside, and nobody else reads or writes them meanwhile.
        #[inline(always)]
        pub(super) unsafe fn store(self, values: Four) {
            // SAFETY: the caller's promise.
            unsafe { store(self.0, values) };
        }
    }
}
