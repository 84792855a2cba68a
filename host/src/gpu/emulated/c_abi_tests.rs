//! What kernels in other languages find on the emulated GPU, through the functions of the C ABI.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use gpunet_device::c_abi;
use gpunet_device::simt::emulated::Place;

use super::super::{Dim3, EmulatedOptions, Gpu, GpuChoice, KernelError, LaunchSpec, WaitOutcome};

/// Groups as the C ABI numbers them.
const WARP: u32 = 1;
const BLOCK: u32 = 2;
/// The first word of no net, in calls that do not come so far as to use it; 0 is refused before.
const NO_NET: u64 = 1;

fn run(
    grid: impl Into<Dim3>,
    block: impl Into<Dim3>,
    shared_bytes: u32,
    entry: impl Fn() + Send + Sync + 'static,
) -> Result<(), KernelError> {
    let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).unwrap();
    let running = gpu
        .launch(LaunchSpec {
            module: "tests".into(),
            kernel: "kernel".into(),
            grid: grid.into(),
            block: block.into(),
            shared_bytes,
            params: Vec::new(),
            entry: Arc::new(entry),
        })
        .unwrap();
    match running.wait(Some(gpunet_support::testing::hang_limit(Duration::from_secs(6))))? {
        WaitOutcome::Finished => Ok(()),
        WaitOutcome::TimedOut { .. } => panic!("the kernel hangs"),
    }
}

fn place() -> Place {
    let mut place = Place { thread: [9; 3], block: [9; 3], threads: [9; 3], blocks: [9; 3] };
    // SAFETY: a variable.
    unsafe { c_abi::emulated_position(&raw mut place) };
    place
}

fn at(file: &CStr, line: u32) {
    // SAFETY: a C string.
    unsafe { c_abi::emulated_site(file.as_ptr(), line) };
}

fn lane() -> u32 {
    place().thread[0] % 32
}

#[test]
fn threads_know_their_place_in_three_dimensions() {
    static SEEN: [AtomicU32; 24] = [const { AtomicU32::new(0) }; 24];
    run((2, 1, 2), (3, 2, 1), 0, || {
        let place = place();
        assert_eq!((place.threads, place.blocks), ([3, 2, 1], [2, 1, 2]));
        let [x, y, z] = place.thread;
        let [bx, by, bz] = place.block;
        assert_eq!((z, by), (0, 0));
        SEEN[(((bz * 2 + bx) * 2 + y) * 3 + x) as usize].fetch_add(1, SeqCst);
    })
    .unwrap();
    assert!(SEEN.iter().all(|seen| seen.load(SeqCst) == 1));
}

#[test]
fn shared_variables_are_the_blocks_and_apart_from_one_another() {
    static KEYS: [u8; 2] = [0; 2];
    run(4, 64, 64, || {
        let Place { thread: [rank, ..], block: [block, ..], .. } = place();
        let variable = |key: usize| {
            let key: *const u8 = &raw const KEYS[key];
            c_abi::emulated_shared(key.cast(), 256).cast::<u32>()
        };
        let of_launch = c_abi::emulated_shared(std::ptr::null(), 0).cast::<u32>();
        assert_ne!(variable(0), variable(1));
        assert_ne!(variable(0), of_launch);
        // SAFETY: 64 words, of which each thread writes its own.
        unsafe { variable(0).add(rank as usize).write(block * 100 + rank) };
        if rank == 0 {
            // SAFETY: 16 words, of which one thread writes one.
            unsafe { of_launch.write(block) };
        }
        c_abi::emulated_barrier(BLOCK);
        // SAFETY: as above, and nobody writes any more.
        let (other, first) =
            unsafe { (variable(0).add(63 - rank as usize).read(), of_launch.read()) };
        assert_eq!((other, first), (block * 100 + 63 - rank, block));
    })
    .unwrap();
}

#[test]
fn a_block_copies_bytes_together() {
    static KEY: u8 = 0;
    run(2, 48, 0, || {
        let Place { thread: [rank, ..], .. } = place();
        // Each thread has its own copy of what is copied.
        let from: [u8; 1000] = std::array::from_fn(|at| (at * 3) as u8);
        let to = c_abi::emulated_shared((&raw const KEY).cast(), 1024).cast::<u8>();
        // SAFETY: 1,000 bytes and room for them, which the threads write together; the net is not used.
        assert_eq!(unsafe { c_abi::copy(NO_NET, 0, BLOCK, from.as_ptr(), to, from.len()) }, 0);
        c_abi::emulated_barrier(BLOCK);
        // SAFETY: as many bytes, which nobody writes any more.
        let copied = unsafe { std::slice::from_raw_parts(to, from.len()) };
        assert!(copied == from, "thread {rank}");
    })
    .unwrap();
    let error = run(1, 32, 0, || {
        let to = c_abi::emulated_shared((&raw const KEY).cast(), 1024).cast::<u8>();
        at(c"kernel.cu", 7);
        let length = if lane() == 5 { 9 } else { 10 };
        // SAFETY: as above.
        unsafe { c_abi::copy(NO_NET, 0, BLOCK, b"ten bytes!".as_ptr(), to, length) };
    })
    .unwrap_err();
    assert!(error.to_string().contains("kernel.cu:7"), "{error}");
}

#[test]
fn too_much_shared_memory_is_the_kernels_fault() {
    static KEY: u8 = 0;
    let error = run(1, 1, 0, || {
        c_abi::emulated_shared((&raw const KEY).cast(), 1 << 20);
    })
    .unwrap_err();
    assert!(error.to_string().contains("at most 232448 possible"), "{error}");
}

#[test]
fn lanes_exchange_values() {
    // Whole warps, and one that is not.
    run(1, 72, 0, || {
        let (lane, rank) = (lane(), place().thread[0]);
        let lanes = if rank < 64 { u32::MAX } else { 0xFF };
        assert_eq!(c_abi::emulated_lanes(), lanes);
        let shuffle =
            |how, by, width| c_abi::emulated_shuffle(lanes, rank.into(), how, by, width) as u32;
        let first = rank - lane;
        assert_eq!(shuffle(0, 5, 32), first + 5);
        assert_eq!(shuffle(1, 1, 32), if lane == 0 { rank } else { rank - 1 });
        assert_eq!(shuffle(2, 1, 8), if lane % 8 == 7 { rank } else { rank + 1 });
        assert_eq!(shuffle(3, 4, 32), rank ^ 4);
        let mut sum = rank;
        for by in [4, 2, 1] {
            sum += c_abi::emulated_shuffle(u32::MAX, sum.into(), 3, by, 8) as u32;
        }
        assert_eq!(sum, (0..8).map(|other| rank / 8 * 8 + other).sum::<u32>());
        let odd = c_abi::emulated_ballot(lanes, i32::from(lane % 2 == 1));
        assert_eq!(odd, 0xAAAA_AAAA & lanes);
        assert_eq!(c_abi::emulated_count(i32::from(rank % 3 == 0)), 24);
        assert_eq!(c_abi::emulated_count(0), 0);
        c_abi::emulated_barrier(WARP);
    })
    .unwrap();
}

#[test]
fn a_mask_that_leaves_lanes_out_is_refused() {
    let error = run(1, 32, 0, || {
        at(c"part.cu", 12);
        c_abi::emulated_ballot(0xFFFF, 1);
    })
    .unwrap_err();
    let said = error.to_string();
    assert!(said.contains("part.cu:12") && said.contains("mask 0xffff:"), "{said}");
}

#[test]
fn reports_name_the_lines_of_the_kernel() {
    let error = run(1, 2, 0, || {
        at(c"kernel.cu", 10 + place().thread[0]);
        c_abi::emulated_barrier(BLOCK);
    })
    .unwrap_err();
    let said = error.to_string();
    assert!(said.contains("thread 0 waits for the block at kernel.cu:10"), "{said}");
    assert!(said.contains("thread 1 is at kernel.cu:11"), "{said}");

    let error = run(1, 2, 0, || {
        at(c"kernel.cu", 20);
        let kind = place().thread[0] as i32;
        // SAFETY: numbers alone; the words of no net, which is not reached.
        unsafe { c_abi::socket(NO_NET, 0, BLOCK, 2, kind, 0) };
    })
    .unwrap_err();
    let said = error.to_string();
    assert!(said.contains("thread 0 is in gsocket(2, 0, 0) at kernel.cu:20"), "{said}");
    assert!(said.contains("thread 1 is in gsocket(2, 1, 0) at kernel.cu:20"), "{said}");
}

#[test]
fn a_call_names_a_net_and_a_group_that_there_are() {
    let said = |net0: u64, group: u32| {
        run(1, 1, 0, move || {
            at(c"kernel.cu", 40);
            // SAFETY: numbers alone; the words of no net, which is not reached.
            unsafe { c_abi::socket(net0, 0, group, 2, 1, 0) };
        })
        .unwrap_err()
        .to_string()
    };
    assert!(said(0, BLOCK).contains("gsocket with a net that is not set, at kernel.cu:40"));
    assert!(said(NO_NET, 3).contains("gsocket by group 3, at kernel.cu:40: 0 is a thread"));
}

#[test]
fn a_place_is_one_calls_alone() {
    let error = run(1, 2, 0, || {
        at(c"kernel.cu", 30);
        c_abi::emulated_barrier(BLOCK);
        if place().thread[0] == 0 {
            c_abi::emulated_barrier(BLOCK);
        }
    })
    .unwrap_err();
    assert!(error.to_string().contains("the block at an unknown place; thread 1"), "{error}");
}

#[test]
fn buffers_to_send_may_be_each_threads_own_and_those_to_receive_not() {
    // The words of no net: the comparison comes first, and threads that agree never come so far here.
    let send = |own: bool| {
        run(1, 2, 0, move || {
            static BYTES: [u8; 2] = [0; 2];
            let (local, rank) = ([0_u8; 2], place().thread[0]);
            let from = if own { local.as_ptr() } else { &raw const BYTES[rank as usize] };
            at(c"send.cu", 1);
            let length = if own { rank as usize } else { 1 };
            // SAFETY: threads do not agree.
            unsafe { c_abi::send(NO_NET, 0, BLOCK, 7, from, length, 0) };
        })
        .unwrap_err()
        .to_string()
    };
    // Only the lengths differ.
    let said = send(true);
    assert!(said.contains("gsend(7, 0, 0, 0)") && said.contains("gsend(7, 0, 1, 0)"), "{said}");
    assert!(send(false).contains("gsend(7, 0x"));
    let error = run(1, 2, 0, || {
        let mut local = [0_u8; 2];
        // SAFETY: threads do not agree.
        unsafe { c_abi::receive(NO_NET, 0, BLOCK, 7, local.as_mut_ptr(), 2, 0) };
    })
    .unwrap_err();
    assert!(error.to_string().contains("grecv(7, 0x"), "{error}");
}

#[test]
fn a_trap_is_a_fault_with_its_message() {
    for (message, expected) in
        [(c"no luck".as_ptr(), "no luck at t.cu:3"), (std::ptr::null(), "a trap at t.cu:3")]
    {
        let message = message.expose_provenance();
        let error = run(1, 1, 0, move || {
            at(c"t.cu", 3);
            // SAFETY: null or a C string.
            unsafe { c_abi::emulated_trap(std::ptr::with_exposed_provenance(message)) };
        })
        .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
