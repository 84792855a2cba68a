//! Arenas of the emulated GPU, through [`Gpu`]: what is shared, what is refused, what comes back.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use rustix::fs::{ftruncate, memfd_create};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::*;
use crate::gpu::{Arena, EmulatedOptions, Gpu, GpuChoice, LaunchSpec, WaitOutcome};

fn gpu() -> Gpu {
    Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).unwrap()
}

fn page() -> usize {
    rustix::param::page_size()
}

fn bytes(arena: &Arena, offset: usize, count: usize) -> Vec<u8> {
    let mut bytes = vec![0xAA; count];
    arena.read(offset, &mut bytes).unwrap();
    bytes
}

/// A memory file as `Pages` makes them, but for the differences given.
fn file(size: usize, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("test", flags).unwrap();
    ftruncate(&file, size as u64).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

fn refusal(file: OwnedFd, size: usize) -> String {
    match gpu().import_arena(file, size) {
        Err(MemoryError::Foreign(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_arena_is_zeroed_rounded_and_bounded() {
    let gpu = gpu();
    let arena = gpu.arena(page() + 1).unwrap();
    assert_eq!((arena.len(), arena.offset() as usize % page()), (2 * page(), 0));
    let window = gpu.arena_window().unwrap();
    assert!(arena.offset() + arena.len() as u64 <= window.bytes && window.bytes <= 1 << 44);
    assert!(window == self::gpu().arena_window().unwrap());
    assert!(bytes(&arena, 0, arena.len()).iter().all(|byte| *byte == 0));
    arena.write(arena.len() - 3, b"end").unwrap();
    assert_eq!(bytes(&arena, arena.len() - 4, 4), b"\0end");
    arena.write(arena.len(), b"").unwrap();
    for offset in [arena.len() - 2, arena.len(), usize::MAX - 1, usize::MAX] {
        assert!(matches!(arena.write(offset, b"end"), Err(MemoryError::OutOfRange { .. })));
        assert!(matches!(arena.read(offset, &mut [0; 3]), Err(MemoryError::OutOfRange { .. })));
    }
    for size in [0, usize::MAX, isize::MAX as usize, 1 << 60] {
        assert!(matches!(gpu.arena(size), Err(MemoryError::Refused { .. })), "{size}");
    }
    gpu.arenas_work().unwrap();
    arena.allow(&self::gpu()).unwrap();
    assert!(gpu.identity() == self::gpu().identity() && gpu.identity()[0] != b'C');
}

#[test]
fn two_mappings_show_the_same_bytes() {
    let (ours, theirs) = (gpu(), gpu());
    let arena = ours.arena(3 * page()).unwrap();
    arena.write(0, b"before").unwrap();
    let imported = theirs.import_arena(arena.export().unwrap(), arena.len()).unwrap();
    assert_ne!(arena.offset(), imported.offset());
    assert_eq!(bytes(&imported, 0, 6), b"before");
    arena.write(page() + 7, b"from the owner").unwrap();
    assert_eq!(bytes(&imported, page() + 7, 14), b"from the owner");
    imported.write(2 * page(), b"from the other").unwrap();
    assert_eq!(bytes(&arena, 2 * page(), 14), b"from the other");
    // The importer, and a descriptor nobody has mapped, keep the memory.
    let descriptor = imported.export().unwrap();
    drop((arena, ours));
    assert_eq!(bytes(&imported, 0, 6), b"before");
    drop((imported, theirs));
    let again = gpu().import_arena(descriptor, 3 * page()).unwrap();
    assert_eq!(bytes(&again, 2 * page(), 14), b"from the other");
}

#[test]
fn kernels_find_an_arena_by_its_offset() {
    let gpu = gpu();
    let arena = gpu.arena(page()).unwrap();
    let (window, offset) = (gpu.arena_window().unwrap(), arena.offset() as usize);
    let entry = Arc::new(move || {
        let window = window;
        let word = window.base.wrapping_add(offset + 8).cast::<AtomicU32>();
        // SAFETY: inside the arena, which outlives the kernel; others access it atomically.
        unsafe { &*word }.fetch_add(1, SeqCst);
    });
    let spec = LaunchSpec {
        module: "tests".into(),
        kernel: "kernel".into(),
        grid: 2.into(),
        block: 32.into(),
        shared_bytes: 0,
        params: Vec::new(),
        entry,
    };
    let running = gpu.launch(spec).unwrap();
    assert_eq!(
        running.wait(Some(gpunet_support::testing::hang_limit(Duration::from_secs(6)))),
        Ok(WaitOutcome::Finished)
    );
    assert_eq!(bytes(&arena, 8, 4), 64_u32.to_ne_bytes());
}

#[test]
fn what_is_no_sealed_memory_file_of_that_size_is_refused() {
    let size = 2 * page();
    let all = FIXED_SIZE;
    for strange in [
        File::open("/dev/null").unwrap().into(),
        File::open("/dev/zero").unwrap().into(),
        File::open(std::env::current_exe().unwrap()).unwrap().into(),
        UnixStream::pair().unwrap().0.into(),
        rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap(),
    ] {
        assert_eq!(refusal(strange, size), "it is no memory file");
    }
    for seals in [
        SealFlags::empty(),
        SealFlags::SHRINK | SealFlags::GROW,
        SealFlags::SHRINK | SealFlags::SEAL,
        SealFlags::GROW | SealFlags::SEAL,
    ] {
        assert_eq!(refusal(file(size, seals), size), "its size is not sealed");
    }
    let unsealable = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&unsealable, size as u64).unwrap();
    assert_eq!(refusal(unsealable, size), "its size is not sealed");
    for seal in [SealFlags::WRITE, SealFlags::FUTURE_WRITE] {
        assert_eq!(refusal(file(size, all | seal), size), "it cannot be written");
    }
    let writable = file(size, all);
    let path = format!("/proc/self/fd/{}", writable.as_raw_fd());
    let reader = File::open(path).unwrap();
    assert_eq!(refusal(reader.into(), size), "it cannot be written");
    for announced in [0, 1, page(), size - 1, size + 1, 3 * page(), usize::MAX, 1 << 50] {
        assert!(refusal(file(size, all), announced).contains("were announced"), "{announced}");
    }
    assert!(refusal(file(0, all), 0).contains("were announced"));
    assert!(refusal(file(page() / 2, all), page() / 2).contains("were announced"));
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    // Not every system has huge pages.
    if let Ok(huge) = memfd_create("test", flags) {
        ftruncate(&huge, 0).unwrap();
        fcntl_add_seals(&huge, all).unwrap();
        assert_eq!(refusal(huge, size), "it has huge pages");
    } else {
        eprintln!("not run: a file of huge pages");
    }
    drop(gpu().import_arena(writable, size).unwrap());
}

#[test]
fn more_than_the_window_is_refused() {
    let gpu = gpu();
    let size = gpu.arena_window().unwrap().bytes as usize;
    // Such a file takes no memory until it is written.
    let error = gpu.import_arena(file(2 * size, FIXED_SIZE), 2 * size).unwrap_err();
    assert!(matches!(error, MemoryError::WindowFull { asked, left } if asked as u64 > left));
    assert_eq!(error.to_string().lines().count(), 1);
}

/// What the system says of pages: an arena's, and reserved ones.
const RW: Protection = *b"rw-s";
const NONE: Protection = *b"---p";
type Protection = [u8; 4];

fn protection(address: usize) -> Protection {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&address)
    });
    line.unwrap().split(' ').nth(1).unwrap().as_bytes().try_into().unwrap()
}

/// Runs a test in a process of its own: other tests open descriptors and take places beside it.
fn alone(test: &str, body: impl FnOnce()) {
    const ALONE: &str = "GPUNET_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--nocapture", "--exact", &format!("gpu::emulated::arena::tests::{test}")])
        .env(ALONE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn a_dropped_arena_leaves_pages_that_nobody_reaches() {
    alone("a_dropped_arena_leaves_pages_that_nobody_reaches", || {
        let gpu = gpu();
        let first = gpu.arena(page()).unwrap();
        let second = gpu.arena(page()).unwrap();
        let window = gpu.arena_window().unwrap();
        let at = |offset: u64| protection(window.base.addr() + offset as usize);
        let (one, two) = (first.offset(), second.offset());
        assert_eq!((at(one), at(two), at(two + page() as u64)), (RW, RW, NONE));
        drop(first);
        assert_eq!((at(one), at(two), at(window.bytes - 1)), (NONE, RW, NONE));
        drop(second);
        assert_eq!((at(one), at(two)), (NONE, NONE));
    });
}

#[test]
fn a_limit_of_addresses_makes_the_window_smaller() {
    alone("a_limit_of_addresses_makes_the_window_smaller", || {
        let most = Some(4 << 30);
        setrlimit(Resource::As, Rlimit { current: most, maximum: most }).unwrap();
        let window = gpu().arena_window().unwrap();
        // The rest is for other memory of the process.
        assert!((64 << 20..=1 << 30).contains(&window.bytes), "{window:?}");
        gpu().arena(1 << 20).unwrap().write(0, b"works").unwrap();
    });
}

#[test]
fn a_limit_of_file_sizes_is_an_error_that_names_it() {
    alone("a_limit_of_file_sizes_is_an_error_that_names_it", || {
        let gpu = gpu();
        let limit = Rlimit { current: Some(8 << 10), maximum: None };
        setrlimit(Resource::Fsize, limit).unwrap();
        for error in [gpu.arena(1 << 20).map(drop), gpu.host_memory(1 << 20).map(drop)] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("ulimit -f unlimited"), "{error}");
        }
        gpu.arena(page()).unwrap().write(0, b"works").unwrap();
    });
}

#[test]
fn nothing_is_lost_in_many_rounds() {
    alone("nothing_is_lost_in_many_rounds", || {
        let gpu = gpu();
        gpu.arena_window().unwrap();
        let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
        let mappings = || fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        let before = (descriptors(), mappings());
        for round in 0..1000 {
            let first = gpu.arena((round % 5 + 1) * page()).unwrap();
            let second = gpu.import_arena(first.export().unwrap(), first.len()).unwrap();
            let third = gpu.arena(page()).unwrap();
            assert_eq!((first.offset(), second.offset()), (0, first.len() as u64));
            second.write(0, b"x").unwrap();
            refusal(first.export().unwrap(), first.len() + page());
            if round % 2 == 0 {
                drop((first, third, second));
            } else {
                drop((second, first, third));
            }
        }
        let after = (descriptors(), mappings());
        assert_eq!(before.0, after.0);
        // The heap may have grown by a mapping or two.
        assert!(after.1 <= before.1 + 2, "{before:?} {after:?}");
    });
}

#[test]
fn a_kernel_that_runs_keeps_a_dropped_arena() {
    alone("a_kernel_that_runs_keeps_a_dropped_arena", || {
        let gpu = gpu();
        let kept = gpu.arena(page()).unwrap();
        let (window, offset) = (gpu.arena_window().unwrap(), kept.offset());
        let gate = Arc::new(AtomicU32::new(0));
        let (opened, at) = (Arc::clone(&gate), offset as usize);
        let entry = Arc::new(move || {
            let window = window;
            while opened.load(SeqCst) == 0 {
                gpunet_device::simt::pause();
            }
            let word = window.base.wrapping_add(at).cast::<AtomicU32>();
            // SAFETY: inside an arena that is mapped as long as this kernel runs.
            unsafe { &*word }.fetch_add(1, SeqCst);
        });
        let spec = LaunchSpec {
            module: "tests".into(),
            kernel: "kernel".into(),
            grid: 1.into(),
            block: 1.into(),
            shared_bytes: 0,
            params: Vec::new(),
            entry,
        };
        // By another GPU: all of a process share the window.
        let running = self::gpu().launch(spec).unwrap();
        drop(kept);
        assert_eq!(protection(window.base.addr() + at), RW);
        let next = gpu.arena(page()).unwrap();
        assert_ne!(next.offset(), offset);
        gate.store(1, SeqCst);
        assert_eq!(
            running.wait(Some(gpunet_support::testing::hang_limit(Duration::from_secs(6)))),
            Ok(WaitOutcome::Finished)
        );
        assert_eq!(protection(window.base.addr() + at), NONE);
        assert_eq!(gpu.arena(page()).unwrap().offset(), offset);
    });
}
