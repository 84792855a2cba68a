//! The emulated GPU, through [`Gpu`] and the public device functions.

use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpunet_device::simt::{self, Scope};
use gpunet_device::{Block as WholeBlock, Group, Warp};

use super::super::observer::Observer;
use super::super::{
    Dim3, EmulatedOptions, Gpu, GpuChoice, GpuKind, HostMemory, KernelError, LaunchError,
    LaunchSpec, MemoryError, Running, WaitOutcome,
};
use super::Emulated;
use super::block::{Arrival, Block, Met};
use super::call::{Arguments, Call};
use super::stage::SteppedGpu;

fn gpu(options: EmulatedOptions) -> Gpu {
    Gpu::open(GpuChoice::Emulated(options)).unwrap()
}

fn start(
    gpu: &Gpu,
    grid: impl Into<Dim3>,
    block: impl Into<Dim3>,
    entry: impl Fn() + Send + Sync + 'static,
) -> Result<Running, LaunchError> {
    gpu.launch(LaunchSpec {
        module: "tests".into(),
        kernel: "kernel".into(),
        grid: grid.into(),
        block: block.into(),
        shared_bytes: 256,
        params: Vec::new(),
        entry: Arc::new(entry),
    })
}

fn run(
    gpu: &Gpu,
    grid: impl Into<Dim3>,
    block: impl Into<Dim3>,
    entry: impl Fn() + Send + Sync + 'static,
) -> Result<(), KernelError> {
    let running = start(gpu, grid, block, entry).unwrap();
    match running.wait(Some(gpunet_support::testing::hang_limit(Duration::from_secs(6))))? {
        WaitOutcome::Finished => Ok(()),
        WaitOutcome::TimedOut { .. } => panic!("the kernel hangs"),
    }
}

fn default() -> Gpu {
    gpu(EmulatedOptions::default())
}

#[test]
fn threads_take_turns_when_the_caller_says() {
    let stepped = SteppedGpu::open(EmulatedOptions::seeded(1));
    assert_eq!(stepped.gpu.info().kind, GpuKind::Emulated);
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&order);
    let spec = LaunchSpec {
        module: "tests".into(),
        kernel: "kernel".into(),
        grid: 1.into(),
        block: 2.into(),
        shared_bytes: 0,
        params: Vec::new(),
        entry: Arc::new(move || {
            let thread = simt::position().thread;
            noted.lock().unwrap().push((thread, "before"));
            simt::block_barrier();
            noted.lock().unwrap().push((thread, "behind"));
        }),
    };
    let mut stage = stepped.stage(spec).unwrap();
    assert_eq!(stage.ready, [0, 1]);
    stage.turn(1).unwrap();
    assert_eq!(stage.ready, [0], "the other one waits at the barrier");
    stage.turn(0).unwrap();
    stage.ready.sort_unstable();
    assert_eq!(stage.ready, [0, 1]);
    assert_eq!(*order.lock().unwrap(), [(1, "before"), (0, "before")]);
    stage.turn(1).unwrap();
    stage.turn(0).unwrap();
    assert!(stage.ready.is_empty(), "they have ended");
    assert_eq!(order.lock().unwrap()[2..], [(1, "behind"), (0, "behind")]);
}

/// Notes what is reported to it, and answers the host's reads by itself.
struct Noting(Mutex<Vec<String>>);

impl Noting {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl Observer for Noting {
    fn met(&self, threads: Range<u32>, whole_block: bool) {
        self.note(format!("met {threads:?} {whole_block}"));
    }

    fn read(&self, _: *const u8, into: &mut [u8]) -> bool {
        into.fill(7);
        self.note(format!("read {}", into.len()));
        true
    }

    fn write(&self, _: *mut u8, from: &[u8]) -> bool {
        self.note(format!("write {from:?}"));
        false
    }

    fn mark(&self, _: *mut u8, in_use: bool) {
        self.note(format!("mark {in_use}"));
    }
}

#[test]
fn barriers_and_accesses_of_the_host_are_reported_to_an_observer() {
    static NOTING: Noting = Noting(Mutex::new(Vec::new()));
    let options = EmulatedOptions { observer: Some(&NOTING), ..EmulatedOptions::default() };
    let gpu = gpu(options);
    let (memory, arena) = (gpu.device_memory(4096).unwrap(), gpu.arena(4096).unwrap());
    let mut bytes = [0; 3];
    memory.write(8, &[1]).unwrap();
    memory.read(8, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 3], "the observer's answer");
    arena.write(0, &[2]).unwrap();
    arena.mark(0, true);
    arena.read(0, &mut bytes[..1]).unwrap();
    arena.mark(0, false);
    run(&gpu, 1, 40, || {
        simt::block_barrier();
        simt::warp_barrier();
    })
    .unwrap();
    let noted = NOTING.0.lock().unwrap().clone();
    let host = ["write [1]", "read 3", "write [2]", "mark true", "read 1", "mark false"];
    assert_eq!(noted[..6], host);
    assert_eq!(noted[6], "met 0..40 true");
    // The warps meet in any order.
    let mut warps = noted[7..].to_vec();
    warps.sort();
    assert_eq!(warps, ["met 0..32 false", "met 32..40 false"]);
}

#[test]
fn barriers_hold_everyone_back() {
    let gpu = default();
    for threads in [1, 31, 32, 33, 256, 1024] {
        for options in [None, Some(3)] {
            let gpu = options
                .map_or_else(|| gpu.clone(), |seed| self::gpu(EmulatedOptions::seeded(seed)));
            let counts: Arc<Vec<AtomicU32>> = Arc::new((0..3).map(|_| AtomicU32::new(0)).collect());
            let shared = counts.clone();
            run(&gpu, 3, threads, move || {
                let count = &shared[simt::position().block as usize];
                for turn in 1..=4 {
                    count.fetch_add(1, SeqCst);
                    simt::block_barrier();
                    assert_eq!(count.load(SeqCst), turn * simt::position().threads);
                    simt::block_barrier();
                }
            })
            .unwrap();
            assert!(counts.iter().all(|count| count.load(SeqCst) == 4 * threads));
        }
    }
}

#[test]
fn warps_meet_by_themselves() {
    for threads in [1, 31, 32, 33, 70] {
        let counts: Arc<Vec<AtomicU32>> = Arc::new((0..3).map(|_| AtomicU32::new(0)).collect());
        run(&default(), 1, threads, move || {
            let at = simt::position();
            let warp = at.thread / 32;
            let size = (at.threads - warp * 32).min(32);
            // Later warps wait longer: nobody may need them.
            for turn in 1..=3 {
                (0..warp * 5).for_each(|_| simt::pause());
                counts[warp as usize].fetch_add(1, SeqCst);
                simt::warp_barrier();
                assert_eq!(counts[warp as usize].load(SeqCst), turn * size);
                simt::warp_barrier();
            }
        })
        .unwrap();
    }
}

#[test]
fn positions_are_linear() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let list = seen.clone();
    run(&default(), (2, 3), (4, 5, 2), move || {
        let at = simt::position();
        assert_eq!((at.threads, at.blocks), (40, 6));
        list.lock().unwrap().push((at.block, at.thread));
    })
    .unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    let all: Vec<_> = (0..6).flat_map(|block| (0..40).map(move |thread| (block, thread))).collect();
    assert_eq!(seen, all);
}

#[test]
fn an_early_end_is_reported() {
    for end_late in [false, true] {
        let error = run(&default(), 2, 40, move || {
            let at = simt::position();
            if (at.block, at.thread) == (1, 7) {
                (0..if end_late { 5 } else { 0 }).for_each(|_| simt::pause());
                return;
            }
            simt::block_barrier();
        })
        .unwrap_err();
        let KernelError::DivergentBarrier {
            block: 1, scope: Scope::Block, waiting, others, ..
        } = &error
        else {
            panic!("{error}")
        };
        assert!(waiting.contains("for the block at") && waiting.contains("tests.rs:"), "{waiting}");
        assert_eq!(others, "thread 7 ended without it");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[test]
fn different_sites_are_reported() {
    let error = run(&default(), 1, 4, || {
        let other_place = || simt::warp_barrier();
        if simt::position().thread == 2 {
            other_place();
        } else {
            simt::warp_barrier();
        }
    })
    .unwrap_err();
    let KernelError::DivergentBarrier { scope: Scope::Warp, waiting, others, .. } = error else {
        panic!("{error}")
    };
    assert!(waiting.starts_with("threads 0-1 wait for the warp at "), "{waiting}");
    assert!(others.starts_with("thread 2 is at "), "{others}");
}

#[test]
fn crossed_scopes_are_a_deadlock() {
    let error = run(&default(), 1, 2, || {
        if simt::position().thread == 0 {
            simt::warp_barrier();
        } else {
            simt::block_barrier();
        }
    })
    .unwrap_err();
    let KernelError::Deadlock { waiting, .. } = error else { panic!("{error}") };
    assert!(waiting.contains("thread 0 waits for the warp"), "{waiting}");
    assert!(waiting.contains("thread 1 waits for the block"), "{waiting}");
}

/// The last warp is not whole, and threads that are ahead bring words to the next barrier while others
/// have yet to take those of the last one.
#[test]
fn words_reach_all_threads_of_a_barrier_and_none_of_the_next() {
    for options in [EmulatedOptions::default(), EmulatedOptions::seeded(7)] {
        run(&gpu(options), 2, 70, || {
            let me = simt::position().thread;
            for turn in 0..50_u64 {
                let odd = turn % 2 == 1;
                assert_eq!(WholeBlock.any(odd && me == 69), odd);
                assert_eq!(Warp.any(!odd && me % 32 == 3), !odd);
                assert!(!Warp.any(false) && !WholeBlock.any(false));
                assert_eq!(WholeBlock.broadcast([turn, me.into()]), [turn, 0]);
                assert_eq!(Warp.broadcast([me.into()]), [u64::from(me / 32 * 32)]);
                assert_eq!(WholeBlock.leader_only(|| [turn + 1]), [turn + 1]);
                // Those of the first warp alone are ahead.
                if me < 32 {
                    assert!(Warp.any(me == 31));
                }
            }
        })
        .unwrap();
    }
}

#[test]
fn calls_must_agree() {
    let numbers = [1, 2];
    let call = |call, at: usize| {
        let arguments = Arguments::new(&numbers[at - 1..at]);
        Arrival::Call(Call { call, arguments, site: Location::caller().into() })
    };
    let block = Block::new("kernel".into(), 5, 3, 0);
    let arrive = |rank, arrival: Arrival| {
        let arrival = Box::leak(Box::new(arrival));
        // SAFETY: it stays for ever.
        unsafe { block.arrive(rank, Scope::Block, arrival, |_| {}) }
    };
    assert_eq!(arrive(0, call("gsend", 1)).unwrap(), Met::Waits);
    assert_eq!(arrive(1, call("gsend", 1)).unwrap(), Met::Waits);
    assert_eq!(arrive(2, call("gsend", 1)).unwrap(), Met::Opens { polled: false });
    assert_eq!(arrive(2, call("gsend", 1)).unwrap(), Met::Waits);
    let error = arrive(1, call("gsend", 2)).unwrap_err();
    let KernelError::DivergentCall { block: 5, first, second, .. } = error else {
        panic!("{error}")
    };
    let here = file!();
    assert!(first.starts_with(&format!("thread 2 is in gsend(1) at {here}:")), "{first}");
    assert!(second.starts_with(&format!("thread 1 is in gsend(2) at {here}:")), "{second}");
    assert!(matches!(arrive(0, call("grecv", 1)), Err(KernelError::DivergentCall { .. })));
}

#[test]
fn a_panic_is_a_fault_and_unwinds_the_others() {
    struct Count(Arc<AtomicU32>);
    impl Drop for Count {
        fn drop(&mut self) {
            // Device calls in destructors must not switch, nor wait for ever.
            simt::block_barrier();
            let until = simt::now_ns() + 1;
            while simt::now_ns() < until {
                simt::pause();
            }
            self.0.fetch_add(1, SeqCst);
        }
    }
    let (made, dropped) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counts = (made.clone(), dropped.clone());
    let error = run(&default(), 4, 64, move || {
        let held = Count(counts.1.clone());
        counts.0.fetch_add(1, SeqCst);
        simt::pause();
        let at = simt::position();
        assert!((at.block, at.thread) != (2, 33), "number {}\nis bad", at.thread);
        loop {
            simt::pause();
            std::hint::black_box(&held);
        }
    })
    .unwrap_err();
    let KernelError::Fault { block: Some(2), thread: Some(33), message, .. } = &error else {
        panic!("{error}")
    };
    assert!(message.contains("number 33 is bad") && message.contains("tests.rs:"), "{message}");
    assert_eq!(made.load(SeqCst), dropped.load(SeqCst));
    assert_eq!(error.to_string().lines().count(), 1);
}

fn order(seed: Option<u64>) -> Vec<(u32, u32)> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let list = order.clone();
    let options = EmulatedOptions { seed, workers: Some(1), ..EmulatedOptions::default() };
    run(&gpu(options), 2, 40, move || {
        let at = simt::position();
        for turn in 0..4 {
            list.lock().unwrap().push((at.block, at.thread));
            if turn % 2 == 0 { simt::pause() } else { simt::block_barrier() }
        }
    })
    .unwrap();
    Arc::try_unwrap(order).unwrap().into_inner().unwrap()
}

#[test]
fn a_seed_repeats_its_order() {
    assert_eq!(order(Some(1)), order(Some(1)));
    assert_ne!(order(Some(1)), order(Some(2)));
    assert_ne!(order(Some(1)), order(None));
    let ranks: Vec<_> =
        order(None)[..80].iter().map(|(block, thread)| block * 40 + thread).collect();
    assert_eq!(ranks, (0..80).collect::<Vec<_>>());
}

#[test]
fn polling_does_not_change_what_a_seed_draws() {
    let order = |turns: u32| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let list = order.clone();
        run(&gpu(EmulatedOptions::seeded(9)), 1, 16, move || {
            if simt::position().thread == 0 {
                (0..turns).for_each(|_| simt::pause());
            }
            simt::block_barrier();
            list.lock().unwrap().push(simt::position().thread);
        })
        .unwrap();
        Arc::try_unwrap(order).unwrap().into_inner().unwrap()
    };
    assert_eq!(order(5), order(500));
}

#[test]
fn kernels_run_at_once() {
    let gpu = default();
    let flag = Arc::new(AtomicBool::new(false));
    let seen = flag.clone();
    let first = start(&gpu, 1, 64, move || {
        while !seen.load(SeqCst) {
            simt::pause();
        }
    })
    .unwrap();
    assert!(matches!(first.wait(Some(Duration::from_millis(5))), Ok(WaitOutcome::TimedOut { .. })));
    assert!(first.poll().is_none() && !first.is_finished());
    run(&gpu, 1, 64, move || flag.store(true, SeqCst)).unwrap();
    assert_eq!(first.wait(None), Ok(WaitOutcome::Finished));
    assert_eq!(first.poll(), Some(Ok(())));
}

#[test]
fn blocks_wait_for_each_other_on_few_workers() {
    for workers in [1, 2] {
        let options = EmulatedOptions { workers: Some(workers), ..EmulatedOptions::default() };
        let arrived = Arc::new(AtomicU32::new(0));
        run(&gpu(options), 300, 8, move || {
            let at = simt::position();
            if at.thread == 0 {
                arrived.fetch_add(1, SeqCst);
                while arrived.load(SeqCst) < at.blocks {
                    simt::pause();
                }
            }
            simt::block_barrier();
        })
        .unwrap();
    }
}

#[test]
fn shared_memory_is_the_blocks_own() {
    run(&default(), 4, 33, || {
        let at = simt::position();
        let words = simt::shared_memory().cast::<u64>();
        assert_eq!((words.len(), words.as_ptr() as usize % 16), (32, 0));
        simt::block_barrier();
        if at.thread == 32 {
            words.set(31, u64::from(at.block));
        }
        simt::block_barrier();
        assert_eq!(words.get(31), Some(u64::from(at.block)));
    })
    .unwrap();
}

#[test]
fn device_memory_is_read_and_written() {
    let memory = default().device_memory(4 * 8).unwrap();
    let mut bytes = [1; 8];
    memory.read(24, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 8]);
    for (offset, len) in [(0, 32), (3, 21), (1, 2), (31, 1), (32, 0)] {
        let bytes: Vec<u8> = (1..=len).collect();
        memory.write(offset, &bytes).unwrap();
        let mut back = vec![0; usize::from(len)];
        memory.read(offset, &mut back).unwrap();
        assert_eq!(back, bytes);
    }
    assert!(matches!(memory.read(25, &mut bytes), Err(MemoryError::OutOfRange { end: 33, .. })));
    assert!(matches!(memory.write(usize::MAX, &bytes), Err(MemoryError::OutOfRange { .. })));
}

#[test]
fn launches_that_cannot_be_are_refused() {
    let gpu = default();
    let refused = |grid: Dim3, block: Dim3| start(&gpu, grid, block, || {}).unwrap_err();
    let shape = |grid: Dim3, block: Dim3| match refused(grid, block) {
        LaunchError::Shape(why) => why,
        other => panic!("{other}"),
    };
    assert!(shape(0.into(), 1.into()).contains("must not be zero"));
    assert!(shape(1.into(), (4, 0).into()).contains("must not be zero"));
    assert!(shape(1.into(), 1025.into()).contains("1025 threads a block, at most 1024"));
    assert!(shape(1.into(), (u32::MAX, u32::MAX, u32::MAX).into()).contains("at most 1024"));
    assert!(matches!(
        refused(2049.into(), 1.into()),
        LaunchError::NotResident { asked: 2049, possible: 2048, .. }
    ));
    assert!(matches!(
        refused(25.into(), 1024.into()),
        LaunchError::NotResident { asked: 25, possible: 24, .. }
    ));
    let spec = LaunchSpec {
        module: "tests".into(),
        kernel: "kernel".into(),
        grid: 1.into(),
        block: 1.into(),
        shared_bytes: (227 << 10) + 1,
        params: Vec::new(),
        entry: Arc::new(|| {}),
    };
    assert!(matches!(gpu.launch(spec), Err(LaunchError::Shape(_))));
    // Beside a kernel that takes half, half is left; a refused launch leaves nothing behind.
    let running = start(&gpu, 1024, 1, || {
        loop {
            simt::pause();
        }
    })
    .unwrap();
    assert!(matches!(
        refused(1025.into(), 1.into()),
        LaunchError::NotResident { possible: 1024, .. }
    ));
    running.kill().unwrap();
    assert_eq!(running.wait(None), Err(KernelError::Killed { kernel: "kernel".to_owned() }));
    run(&gpu, 2048, 1, || {}).unwrap();
}

#[test]
fn memory_of_impossible_sizes_is_refused() {
    let gpu = default();
    for bytes in [0, usize::MAX, usize::MAX / 2, 1 << 60] {
        for error in [gpu.host_memory(bytes).unwrap_err(), gpu.device_memory(bytes).unwrap_err()] {
            assert!(matches!(error, MemoryError::Refused { .. }), "{error}");
        }
    }
    let memory = gpu.host_memory(5000).unwrap();
    assert_eq!((memory.len(), memory.as_ptr() as usize % 4096), (5000, 0));
    assert!(memory.fd().is_some());
}

#[test]
fn memory_outlives_the_kernels_that_may_touch_it() {
    let gpu = default();
    let memory = gpu.host_memory(4096).unwrap();
    let address = memory.device_ptr() as usize;
    let running = start(&gpu, 1, 1, move || {
        loop {
            // SAFETY: the pages stay mapped until this kernel has ended.
            unsafe { &*(address as *const AtomicU64) }.fetch_add(1, SeqCst);
            simt::pause();
        }
    })
    .unwrap();
    // By the file behind the pages: another test may get the same address.
    let file = rustix::fs::fstat(memory.fd().unwrap()).unwrap().st_ino.to_string();
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| line.split_whitespace().nth(4) == Some(&*file))
    };
    drop(memory);
    std::thread::sleep(Duration::from_millis(2));
    assert!(mapped());
    running.kill().unwrap();
    assert!(running.wait(None).is_err());
    assert!(!mapped());
}

#[test]
fn the_last_handle_ends_the_kernels() {
    let alive = Arc::new(());
    let watched = alive.clone();
    let gpu = default();
    let memory: HostMemory = gpu.host_memory(64).unwrap();
    let running = start(&gpu, 2, 33, move || {
        std::hint::black_box(&watched);
        loop {
            simt::pause();
        }
    })
    .unwrap();
    drop((running, gpu));
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(Arc::strong_count(&alive), 2, "memory keeps the GPU and its kernels");
    drop(memory);
    let deadline = Instant::now() + gpunet_support::testing::hang_limit(Duration::from_secs(1));
    while Arc::strong_count(&alive) > 1 {
        assert!(Instant::now() < deadline, "the kernel still runs");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_virtual_clock_is_read() {
    let time = Arc::new(AtomicU64::new(7));
    let now = time.clone();
    let options = EmulatedOptions {
        clock: Some(Arc::new(move || now.fetch_add(1, SeqCst))),
        ..EmulatedOptions::default()
    };
    run(&gpu(options), 1, 1, || assert_eq!((simt::now_ns(), simt::now_ns()), (7, 8))).unwrap();
    run(&default(), 1, 1, || assert!(simt::now_ns() <= simt::now_ns())).unwrap();
}

/// A polling leader must not cost a switch for each waiting thread.
#[test]
fn waiting_threads_take_no_turns() {
    let emulated = Emulated::open(EmulatedOptions::default(), "for a test");
    let machine = emulated.keeper.machine.clone();
    let gpu = Gpu::of(Arc::new(emulated));
    run(&gpu, 1, 1024, || {
        if simt::position().thread == 0 {
            (0..1000).for_each(|_| simt::pause());
        }
        simt::block_barrier();
    })
    .unwrap();
    // Each thread starts, the leader pauses, each but the last to arrive goes on.
    assert_eq!(machine.turns.load(SeqCst), 1024 + 1000 + 1023);
}
