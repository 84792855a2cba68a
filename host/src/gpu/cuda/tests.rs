//! The CUDA backend on a real GPU, with kernels written in PTX here: what it must do while a
//! kernel runs, and after one has faulted. Ignored where there is none: `cargo test -- --ignored`.

mod images;

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpu_usermap::GpuMemory as _;
use gpunet_device::abi::ABI;

use super::super::{
    Arena, Blame, Gpu, GpuChoice, GpuError, HostMemory, KernelError, LaunchError, LaunchSpec,
    LoadError, MemoryError, Module, Running, WaitOutcome,
};

/// All tests share the device's primary context.
static DEVICE: Mutex<()> = Mutex::new(());

const KERNELS: &str = r"
.visible .entry spin(.param .u64 word) {
    .reg .pred %p; .reg .b64 %a; .reg .b32 %v;
    ld.param.u64 %a, [word];
again:
    ld.acquire.sys.u32 %v, [%a];
    setp.eq.u32 %p, %v, 0;
    @%p bra again;
    ret;
}
.visible .entry begin_and_spin(.param .u64 words) {
    .reg .pred %p; .reg .b64 %a; .reg .b32 %v;
    ld.param.u64 %a, [words];
    red.release.sys.add.u32 [%a+4], 1;
again:
    ld.acquire.sys.u32 %v, [%a];
    setp.eq.u32 %p, %v, 0;
    @%p bra again;
    ret;
}
.visible .entry fill(.param .u64 words, .param .u32 value) {
    .reg .b64 %a, %o; .reg .b32 %v, %t;
    ld.param.u64 %a, [words];
    ld.param.u32 %v, [value];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %o, %t, 4;
    add.u64 %a, %a, %o;
    st.u32 [%a], %v;
    ret;
}
.extern .shared .align 16 .b8 dynamic[];
.visible .entry shared(.param .u32 last) {
    .reg .b64 %a, %o; .reg .b32 %v;
    ld.param.u32 %v, [last];
    mov.u64 %a, dynamic;
    cvt.u64.u32 %o, %v;
    add.u64 %a, %a, %o;
    st.shared.u8 [%a], %v;
    ret;
}
.visible .entry bad_address() {
    .reg .b64 %a; .reg .b32 %v;
    mov.u64 %a, 64;
    mov.u32 %v, 1;
    st.u32 [%a], %v;
    ret;
}
.visible .entry panics() { trap; }
";

fn ptx(abi: &str) -> &'static [u8] {
    let head = ".version 7.0\n.target sm_70\n.address_size 64\n";
    packed(&format!("{head}{abi}{KERNELS}"))
}

fn packed(text: &str) -> &'static [u8] {
    miniz_oxide::deflate::compress_to_vec_zlib(text.as_bytes(), 1).leak()
}

fn module() -> Module {
    static PTX: Mutex<Option<&'static [u8]>> = Mutex::new(None);
    let [a, b, c, d] = ABI;
    let abi = format!(".visible .global .align 4 .u32 GPUNET_ABI[4] = {{{a}, {b}, {c}, {d}}};\n");
    let ptx = *PTX.lock().unwrap().get_or_insert_with(|| ptx(&abi));
    Module { name: "tests", ptx: Ok(ptx) }
}

fn device() -> (MutexGuard<'static, ()>, Gpu) {
    let alone = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    let gpu = Gpu::open(GpuChoice::Cuda { ordinal: 0 }).unwrap();
    gpu.load(&module()).unwrap();
    (alone, gpu)
}

fn start(
    gpu: &Gpu,
    kernel: &str,
    (grid, block, shared_bytes): (u32, u32, u32),
    params: &[&[u8]],
) -> Result<Running, LaunchError> {
    gpu.launch(LaunchSpec {
        module: "tests".into(),
        kernel: kernel.into(),
        grid: grid.into(),
        block: block.into(),
        shared_bytes,
        params: params.iter().map(|bytes| (*bytes).into()).collect(),
        entry: Arc::new(|| unreachable!("no emulated thread here")),
    })
}

fn address(pointer: *mut u8) -> [u8; 8] {
    (pointer as u64).to_le_bytes()
}

fn word(memory: &HostMemory) -> &AtomicU32 {
    // SAFETY: the memory has at least four aligned bytes, which kernels access atomically.
    unsafe { &*memory.as_ptr().cast() }
}

fn spin(gpu: &Gpu, flag: &HostMemory, grid: u32, block: u32) -> Result<Running, LaunchError> {
    start(gpu, "spin", (grid, block, 0), &[&address(flag.device_ptr())])
}

fn finish(running: &Running) -> Result<WaitOutcome, KernelError> {
    running.wait(Some(gpunet_support::testing::hang_limit(Duration::from_secs(2))))
}

fn quickly<R>(what: &str, f: impl FnOnce() -> R) -> R {
    let begin = Instant::now();
    let result = f();
    let took = begin.elapsed();
    eprintln!("{what}: {took:?}");
    assert!(
        took < gpunet_support::testing::hang_limit(Duration::from_millis(200)),
        "{what} waited: {took:?}"
    );
    result
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn nothing_waits_for_a_running_kernel() {
    let (_alone, gpu) = device();
    let flag = gpu.host_memory(4096).unwrap();
    let spinning = spin(&gpu, &flag, 1, 32).unwrap();
    assert!(matches!(
        spinning.wait(Some(Duration::from_millis(20))),
        Ok(WaitOutcome::TimedOut { .. })
    ));
    let memory = quickly("device memory", || gpu.device_memory(5 << 20)).unwrap();
    let mut bytes = vec![1; 5 << 20];
    quickly("read", || memory.read(0, &mut bytes)).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
    let pattern: Vec<u8> = (0..3 << 20).map(|index: u32| (index % 251) as u8).collect();
    quickly("write", || memory.write(77, &pattern)).unwrap();
    let mut back = vec![0; pattern.len()];
    memory.read(77, &mut back).unwrap();
    assert!(back == pattern);
    let fill = quickly("launch", || {
        let params: [&[u8]; 2] = [&address(memory.device_ptr()), &9_u32.to_le_bytes()];
        start(&gpu, "fill", (1, 256, 0), &params)
    })
    .unwrap();
    assert_eq!(quickly("second kernel", || finish(&fill)), Ok(WaitOutcome::Finished));
    let mut four = [0; 4];
    memory.read(255 * 4, &mut four).unwrap();
    assert_eq!(u32::from_le_bytes(four), 9);
    let numbered = || memory.buffer_id().unwrap();
    let first = quickly("number of an allocation", numbered);
    assert!(first.is_some() && first == numbered());
    let large = quickly("large device memory", || gpu.device_memory(1 << 30)).unwrap();
    let other = quickly("host memory", || gpu.host_memory(256 << 20)).unwrap();
    assert_ne!(large.buffer_id().unwrap(), first);
    drop(large);
    quickly("drop of host memory", || drop(other));
    quickly("drop of device memory", || drop(memory));
    let another = quickly("open again", || Gpu::open(GpuChoice::Cuda { ordinal: 0 })).unwrap();
    quickly("load again", || another.load(&module())).unwrap();
    let new = Module { name: "late", ..module() };
    let refused = quickly("late load", || another.load(&new)).unwrap_err();
    assert!(matches!(refused, LoadError::WhileRunning { running: 1, .. }), "{refused}");
    assert!(matches!(spinning.kill(), Err(GpuError::Unsupported { .. })));
    word(&flag).store(1, SeqCst);
    assert_eq!(finish(&spinning), Ok(WaitOutcome::Finished));
    assert_eq!(spinning.poll(), Some(Ok(())));
    gpu.load(&new).unwrap();
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn many_kernels_run_at_once_and_no_more_than_fit() {
    let (_alone, gpu) = device();
    let flag = gpu.host_memory(4096).unwrap();
    let most = gpu.info().max_kernels;
    let params = address(flag.device_ptr());
    let launch = || start(&gpu, "begin_and_spin", (1, 32, 0), &[&params]);
    let running: Vec<_> =
        quickly("as many launches as can be", || (0..most).map(|_| launch().unwrap()).collect());
    // Each begins, although none ends.
    // SAFETY: the second word of the page, which kernels access atomically.
    let begun = unsafe { &*flag.as_ptr().cast::<AtomicU32>().add(1) };
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(begun.load(SeqCst), most * 32, "of {most} kernels of 32 threads");
    let memory = quickly("memory beside them", || gpu.device_memory(1 << 20)).unwrap();
    quickly("a copy beside them", || memory.read(0, &mut [0; 100])).unwrap();
    drop(memory);
    let refused = launch().unwrap_err();
    let LaunchError::TooManyKernels { running: counted, .. } = refused else { panic!("{refused}") };
    assert_eq!(counted, most as usize);
    word(&flag).store(1, SeqCst);
    for running in &running {
        assert_eq!(finish(running), Ok(WaitOutcome::Finished));
    }
    word(&flag).store(0, SeqCst);
    let LaunchError::NotResident { possible, .. } = spin(&gpu, &flag, 1 << 20, 1024).unwrap_err()
    else {
        panic!("a million blocks are resident")
    };
    let most = u32::try_from(possible).unwrap();
    assert!(most >= gpu.info().multiprocessors);
    // As many as were said to fit do run, and then nothing more does.
    let full = spin(&gpu, &flag, most, 1024).unwrap();
    let refused = spin(&gpu, &flag, 1, 1024).unwrap_err();
    assert!(matches!(refused, LaunchError::NotResident { possible: 0, .. }), "{refused}");
    let memory = quickly("device memory beside a full GPU", || gpu.device_memory(1 << 20)).unwrap();
    word(&flag).store(1, SeqCst);
    assert_eq!(finish(&full), Ok(WaitOutcome::Finished));
    drop(memory);
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn bad_launches_are_refused() {
    let (_alone, gpu) = device();
    let flag = gpu.host_memory(4096).unwrap();
    let pointer = address(flag.device_ptr());
    let refused = |kernel, shape, params: &[&[u8]]| start(&gpu, kernel, shape, params).unwrap_err();
    let unknown = refused("nothing", (1, 1, 0), &[]);
    assert!(
        unknown.to_string().contains("bad_address, begin_and_spin, fill, panics, shared, spin"),
        "{unknown}"
    );
    for params in [vec![], vec![&pointer[..4]], vec![&pointer[..], &pointer[..]]] {
        let error = refused("spin", (1, 1, 0), &params);
        assert!(matches!(error, LaunchError::Parameters { .. }), "{error}");
    }
    assert!(matches!(refused("spin", (0, 1, 0), &[&pointer]), LaunchError::Shape(_)));
    let error = refused("spin", (1, 1025, 0), &[&pointer]);
    assert!(matches!(error, LaunchError::Shape(_)), "{error}");
    let most = gpu.info().max_shared_bytes;
    let last = (most - 1).to_le_bytes();
    let error = refused("shared", (1, 1, most + 1), &[&last]);
    assert!(matches!(error, LaunchError::Shape(_)), "{error}");
    let running = start(&gpu, "shared", (1, 1, most), &[&last]).unwrap();
    assert_eq!(finish(&running), Ok(WaitOutcome::Finished));
    assert!(matches!(gpu.device_memory(0), Err(MemoryError::Refused { .. })));
    assert!(matches!(gpu.device_memory(1 << 60), Err(MemoryError::Refused { .. })));
    assert!(matches!(gpu.host_memory(1 << 60), Err(MemoryError::Refused { .. })));
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn bad_modules_are_refused() {
    let (_alone, gpu) = device();
    let refused = |ptx| gpu.load(&Module { name: "bad", ptx }).unwrap_err();
    let error = refused(Err("no compiler was found"));
    assert!(error.to_string().ends_with("no compiler was found"), "{error}");
    let error = refused(Ok(packed("this is no PTX")));
    assert!(matches!(&error, LoadError::Refused(_)), "{error}");
    eprintln!("{error}");
    assert_eq!(error.to_string().lines().count(), 1);
    for abi in ["", ".visible .global .u32 GPUNET_ABI[4] = {1, 2, 3, 4};\n"] {
        let error = refused(Ok(ptx(abi)));
        assert!(matches!(error, LoadError::Version(_)), "{error}");
        eprintln!("{error}");
    }
    let conflict = gpu.load(&Module { name: "tests", ptx: Ok(packed("other")) }).unwrap_err();
    assert!(matches!(conflict, LoadError::Conflict(_)));
    let error = gpu.launch(LaunchSpec {
        module: "absent".into(),
        kernel: "spin".into(),
        grid: 1.into(),
        block: 1.into(),
        shared_bytes: 0,
        params: Vec::new(),
        entry: Arc::new(|| {}),
    });
    assert!(matches!(error, Err(LaunchError::NotLoaded(_))));
}

/// A fault stays with its process, so that each kernel faults in a process of its own.
#[test]
#[ignore = "needs a CUDA GPU"]
fn a_fault_is_reported_and_nothing_hangs() {
    const KERNEL: &str = "GPUNET_TEST_FAULT";
    if let Ok(kernel) = std::env::var(KERNEL) {
        return fault(&kernel);
    }
    // Processes take turns of seconds on a GPU that is full.
    let _alone = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    let test = "gpu::cuda::tests::a_fault_is_reported_and_nothing_hangs";
    for kernel in ["bad_address", "panics"] {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--nocapture", "--exact", test])
            .env(KERNEL, kernel)
            .status()
            .unwrap();
        assert!(status.success(), "{kernel}: {status}");
    }
}

fn fault(kernel: &str) {
    let (_alone, gpu) = device();
    let flag = gpu.host_memory(4096).unwrap();
    let memory = gpu.device_memory(4096).unwrap();
    let arena = gpu.arena(4096).unwrap();
    let exported = arena.export().unwrap();
    let bystander = spin(&gpu, &flag, 1, 32).unwrap();
    let faulty = start(&gpu, kernel, (1, 1, 0), &[]).unwrap();
    let error = finish(&faulty).unwrap_err();
    eprintln!("{error}");
    assert!(matches!(&error, KernelError::Fault { kernel: name, .. } if name == kernel));
    let error = finish(&bystander).unwrap_err();
    eprintln!("{error}");
    assert!(matches!(&error, KernelError::ContextLost { kernel, .. } if kernel == "spin"));
    macro_rules! lost {
        ($outcome:expr) => {
            let error = $outcome.unwrap_err();
            assert!(error.to_string().starts_with("the GPU context is lost"), "{error}");
            assert_eq!((error.blame(), error.to_string().lines().count()), (Blame::Kernel, 1));
        };
    }
    lost!(gpu.host_memory(4096));
    lost!(gpu.device_memory(4096));
    lost!(memory.write(0, &[1]));
    lost!(arena.write(0, &[1]));
    lost!(arena.export());
    lost!(gpu.arena(4096));
    lost!(gpu.import_arena(exported, arena.len()));
    lost!(spin(&gpu, &flag, 1, 32));
    lost!(gpu.load(&Module { name: "late", ..module() }));
    lost!(Gpu::open(GpuChoice::Cuda { ordinal: 0 }));
    quickly("drops after a fault", || drop((flag, memory, arena, bystander, faulty, gpu)));
    lost!(Gpu::open(GpuChoice::Cuda { ordinal: 0 }));
}

/// What a program does that ends without waiting.
#[test]
#[ignore = "needs a CUDA GPU"]
fn handles_dropped_beside_a_running_kernel_leave_it_its_memory() {
    let (_alone, gpu) = device();
    let flag = gpu.host_memory(4096).unwrap();
    let address = flag.as_ptr() as usize;
    let running = spin(&gpu, &flag, 1, 32).unwrap();
    quickly("drop of everything", || drop((running, flag, gpu)));
    // SAFETY: the pages stay mapped, since a kernel that reads them runs.
    let word = unsafe { &*(address as *const AtomicU32) };
    word.store(1, SeqCst);
    // The context was left to the driver, and can be had again.
    let gpu = quickly("open again", || Gpu::open(GpuChoice::Cuda { ordinal: 0 })).unwrap();
    gpu.load(&module()).unwrap();
}

/// The driver's unit, to which arenas are rounded.
const UNIT: usize = 2 << 20;

/// An arena's byte, for kernels.
fn place(gpu: &Gpu, arena: &Arena, offset: usize) -> *mut u8 {
    gpu.arena_window().unwrap().base.wrapping_add(arena.offset() as usize + offset)
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn arenas_wait_for_no_kernel() {
    let (_alone, gpu) = device();
    gpu.arenas_work().unwrap();
    let flag = gpu.host_memory(4096).unwrap();
    let spinning = spin(&gpu, &flag, 1, 32).unwrap();
    let window = quickly("window", || gpu.arena_window()).unwrap();
    eprintln!("{window:?}");
    assert!(window.bytes <= 1 << 44 && window.base.addr().is_multiple_of(UNIT));
    let arena = quickly("arena", || gpu.arena(5 << 20)).unwrap();
    assert_eq!((arena.len(), arena.offset() as usize % UNIT), (3 * UNIT, 0));
    let mut bytes = vec![1; arena.len()];
    quickly("read", || arena.read(0, &mut bytes)).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
    let descriptor = quickly("export", || arena.export()).unwrap();
    let imported = quickly("import", || gpu.import_arena(descriptor, arena.len())).unwrap();
    assert_ne!(arena.offset(), imported.offset());
    let mut five = [0; 5];
    quickly("write", || arena.write(arena.len() - 5, b"there")).unwrap();
    imported.read(arena.len() - 5, &mut five).unwrap();
    assert_eq!(&five, b"there");
    assert!(matches!(arena.write(arena.len() - 4, b"there"), Err(MemoryError::OutOfRange { .. })));
    // A kernel stores through one mapping, the other shows it.
    let params: [&[u8]; 2] = [&address(place(&gpu, &imported, 4096)), &9_u32.to_le_bytes()];
    let fill = start(&gpu, "fill", (1, 256, 0), &params).unwrap();
    assert_eq!(finish(&fill), Ok(WaitOutcome::Finished));
    let mut four = [0; 4];
    arena.read(4096 + 255 * 4, &mut four).unwrap();
    assert_eq!(u32::from_le_bytes(four), 9);
    // A kernel that runs sees what is stored through the other mapping.
    let watched = address(place(&gpu, &imported, 0));
    let watching = start(&gpu, "spin", (1, 32, 0), &[&watched]).unwrap();
    assert!(matches!(
        watching.wait(Some(Duration::from_millis(20))),
        Ok(WaitOutcome::TimedOut { .. })
    ));
    arena.write(0, &1_u32.to_le_bytes()).unwrap();
    assert_eq!(quickly("a watched word", || finish(&watching)), Ok(WaitOutcome::Finished));
    // The memory outlives its owner; addresses are used again once no kernel runs that knew them.
    let (first, second) = (arena.offset(), imported.offset());
    let descriptor = arena.export().unwrap();
    quickly("drop of the owner", || drop(arena));
    imported.read(imported.len() - 5, &mut five).unwrap();
    assert_eq!(&five, b"there");
    // The driver exports what it has made, not what it was given.
    assert!(imported.export().is_err());
    quickly("drop of the last mapping", || drop(imported));
    let again = quickly("import again", || gpu.import_arena(descriptor, 3 * UNIT)).unwrap();
    again.read(again.len() - 5, &mut five).unwrap();
    assert_eq!(&five, b"there");
    assert!(![first, second].contains(&again.offset()));
    assert_eq!(spinning.poll(), None);
    word(&flag).store(1, SeqCst);
    assert_eq!(finish(&spinning), Ok(WaitOutcome::Finished));
    let next = gpu.arena(3 * UNIT).unwrap();
    assert_eq!(next.offset(), first);
    drop((again, next));
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn what_is_no_arena_is_refused() {
    let (_alone, gpu) = device();
    let others: [OwnedFd; 3] = [
        File::open("/dev/null").unwrap().into(),
        UnixStream::pair().unwrap().0.into(),
        gpu.host_memory(UNIT).unwrap().fd().unwrap().try_clone_to_owned().unwrap(),
    ];
    let foreign = |result: Result<Arena, MemoryError>| {
        let error = result.unwrap_err();
        eprintln!("{error}");
        assert!(matches!(error, MemoryError::Foreign(_)), "{error}");
    };
    for other in others {
        foreign(gpu.import_arena(other, UNIT));
    }
    foreign(gpu.import_arena(gpu.device_memory(UNIT).unwrap().export().unwrap(), UNIT));
    let arena = gpu.arena(2 * UNIT).unwrap();
    for size in [0, 1, UNIT + 1, 3 * UNIT, 4 * UNIT, 64 * UNIT, usize::MAX] {
        foreign(gpu.import_arena(arena.export().unwrap(), size));
    }
    // Less than there is does no harm; drivers may refuse it.
    match gpu.import_arena(arena.export().unwrap(), UNIT) {
        Ok(less) => assert_eq!(less.len(), UNIT),
        refused => foreign(refused),
    }
    for size in [0, usize::MAX] {
        assert!(matches!(gpu.arena(size), Err(MemoryError::Refused { .. })));
    }
    // More than any GPU has, and than a small window.
    let beyond = gpu.arena(900 << 30).unwrap_err();
    assert!(
        matches!(beyond, MemoryError::Refused { .. } | MemoryError::WindowFull { .. }),
        "{beyond}"
    );
    let full = gpu.arena(1 << 50).unwrap_err();
    assert!(matches!(full, MemoryError::WindowFull { .. }), "{full}");
    // All places of what was refused have come back.
    let next = gpu.arena(UNIT).unwrap();
    assert_eq!(next.offset(), arena.offset() + arena.len() as u64);
    arena.allow(&gpu).unwrap();
    let emulated = Gpu::open("emulated".parse().unwrap()).unwrap();
    assert!(matches!(arena.allow(&emulated), Err(MemoryError::Gpu(GpuError::Unsupported { .. }))));
    assert_ne!(gpu.identity(), emulated.identity());
    assert!(gpu.identity()[1..].iter().any(|byte| *byte != 0));
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn arenas_leave_nothing_behind() {
    let (_alone, gpu) = device();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let round = |bytes| {
        let arena = gpu.arena(bytes).unwrap();
        let imported = gpu.import_arena(arena.export().unwrap(), arena.len()).unwrap();
        drop((arena, imported));
    };
    // The driver may open something for itself, once.
    round(UNIT);
    let before = descriptors();
    // More than any GPU has, if it stayed.
    (0..320).for_each(|_| round(1 << 30));
    assert_eq!(descriptors(), before);
    // The window outlives the context.
    let (window, identity) = (gpu.arena_window().unwrap(), gpu.identity());
    drop(gpu);
    let gpu = Gpu::open(GpuChoice::Cuda { ordinal: 0 }).unwrap();
    assert_eq!((gpu.arena_window().unwrap(), gpu.identity()), (window, identity));
    let arena = gpu.arena(UNIT).unwrap();
    arena.write(0, b"works").unwrap();
    let mut five = [0; 5];
    arena.read(0, &mut five).unwrap();
    assert_eq!(&five, b"works");
}
