//! `sanity`: what a mapping promises, tried out. Each check says in one line what was wrong.

#![expect(unsafe_code, reason = "a check forks")]

use std::fs;
use std::thread::{Scope, ScopedJoinHandle};

use gpu_usermap::{AccessError, Backend, MapError, MemoryError, View, Word};
use gpunet_apps::failure::Failure;
use gpunet_terminal::output::one_line;
use serde_json::json;

use crate::bench::{Bench, Mapped};
use crate::options::SanityOptions;
use crate::report::Report;

/// Bytes of the allocation: not a multiple of anything.
const BYTES: usize = (256 << 10) + 77;

/// What was wrong, if anything was; an error where the check could not be made.
type Outcome = Result<Option<String>, MemoryError>;

/// A check, and how it is named.
type Check = (&'static str, fn(&Subject<'_>) -> Outcome);

const CHECKS: [Check; 9] = [
    ("words of every width", words),
    ("copies at all offsets and sizes", copies),
    ("mixed widths", mixed),
    ("several mappings of one allocation", ranges),
    ("threads", threads),
    ("data before flag", order),
    ("fork", fork),
    ("mistakes are refused", mistakes),
    ("nothing is left after unmapping", leftovers),
];

/// What checks work on.
struct Subject<'a> {
    bench: &'a Bench,
    mapping: &'a Mapped,
    view: View<'a>,
    threads: usize,
}

/// `sanity`.
pub(crate) fn run(options: &SanityOptions) -> Result<Report, Failure> {
    let bench = Bench::open(&options.common)?;
    let mapping = bench.allocate(BYTES)?;
    let mut report = Report::new("sanity", bench.facts(&mapping), &["check", "result", "remark"]);
    for (name, check) in CHECKS {
        let outcome = mapping.view().map_err(Into::into).and_then(|view| {
            let threads = usize::from(options.threads);
            check(&Subject { bench: &bench, mapping: &mapping, view, threads })
        });
        let (result, remark) = match outcome {
            Ok(None) => ("ok", String::new()),
            Ok(Some(wrong)) => ("FAILED", wrong),
            Err(error) => ("FAILED", error.to_string()),
        };
        report.ok &= result == "ok";
        report.row([json!(name), json!(result), json!(one_line(&remark))]);
    }
    Ok(report)
}

/// Bytes that differ from their neighbours, and from one seed to the next.
fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at ^ seed).wrapping_mul(0x9E37_79B1) >> 13) as u8 | 1).collect()
}

fn differs(what: &str, got: &[u8], wanted: &[u8]) -> Option<String> {
    let at = got.iter().zip(wanted).position(|(got, wanted)| got != wanted)?;
    Some(format!("{what}: byte {at} is {:#04x}, not {:#04x}", got[at], wanted[at]))
}

fn words(subject: &Subject<'_>) -> Outcome {
    fn width<T: Word + PartialEq>(subject: &Subject<'_>, value: T, bytes: &[u8]) -> Outcome {
        for at in [0, 64, 4096 - size_of::<T>(), 65536, BYTES - 77 - size_of::<T>()] {
            for release in [false, true] {
                subject.view.write(at, &[0; 8][..size_of::<T>()])?;
                if release {
                    subject.view.store_release(at, value)?;
                } else {
                    subject.view.store(at, value)?;
                    subject.view.flush();
                }
                let mut seen = vec![0; size_of::<T>()];
                subject.mapping.memory().driver_read(at, &mut seen)?;
                if let Some(wrong) = differs("stored", &seen, bytes) {
                    return Ok(Some(format!("offset {at}, {} bytes wide, {wrong}", seen.len())));
                }
                let loaded = subject.view.load::<T>(at)? == value;
                if !loaded || subject.view.load_acquire::<T>(at)? != value {
                    return Ok(Some(format!("offset {at}: {} bytes loaded wrong", seen.len())));
                }
            }
        }
        Ok(None)
    }
    let value = 0x8877_6655_4433_2211_u64;
    let bytes = value.to_ne_bytes();
    let wrong = [
        width(subject, value, &bytes)?,
        width(subject, value as u32, &(value as u32).to_ne_bytes())?,
        width(subject, value as u16, &(value as u16).to_ne_bytes())?,
        width(subject, value as u8, &[value as u8])?,
    ];
    Ok(wrong.into_iter().flatten().next())
}

fn copies(subject: &Subject<'_>) -> Outcome {
    const OFFSETS: [usize; 15] = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 63, 64, 4095, 4097, 65535];
    const SIZES: [usize; 17] = [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 63, 64, 65, 255, 4097, 65537];
    let memory = subject.mapping.memory();
    for offset in OFFSETS {
        for size in SIZES {
            let bytes = pattern(offset * 31 + size, size);
            // With a byte on either side that stays as it is.
            let clean = vec![0; size + 2];
            let mut around = vec![0xFF; size + 2];
            let framed: Vec<u8> = [&[0], &bytes[..], &[0]].concat();
            memory.driver_write(offset - 1, &clean)?;
            subject.view.write(offset, &bytes)?;
            memory.driver_read(offset - 1, &mut around)?;
            let wrong = differs("written", &around, &framed).or_else(|| {
                let mut back = vec![0; size];
                match subject.view.read(offset, &mut back) {
                    Ok(()) => differs("read back", &back, &bytes),
                    Err(error) => Some(error.to_string()),
                }
            });
            if let Some(wrong) = wrong {
                return Ok(Some(format!("offset {offset}, size {size}, {wrong}")));
            }
            let other = pattern(!offset ^ size, size);
            memory.driver_write(offset, &other)?;
            let mut seen = vec![0; size];
            subject.view.read(offset, &mut seen)?;
            if let Some(wrong) = differs("read", &seen, &other) {
                return Ok(Some(format!("offset {offset}, size {size}, {wrong}")));
            }
        }
    }
    Ok(None)
}

fn mixed(subject: &Subject<'_>) -> Outcome {
    let part = subject.view.part(0..8192)?;
    let mut model = vec![0; 8192];
    part.write(0, &model)?;
    let mut state = 0x1234_5678_9ABC_DEF1_u64;
    for _ in 0..5000 {
        // xorshift: the same steps in every run.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = state as usize % 8184;
        let bytes = state.rotate_left(20).to_ne_bytes();
        let width = match state >> 60 {
            0..=3 => part.store(at, bytes[0]).map(|()| 1)?,
            4..=7 => part.store(at & !1, u16::from_ne_bytes([bytes[0], bytes[1]])).map(|()| 2)?,
            8..=10 => {
                let word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                part.store(at & !3, word).map(|()| 4)?
            }
            11..=13 => part.store(at & !7, u64::from_ne_bytes(bytes)).map(|()| 8)?,
            _ => part.write(at, &bytes[..5]).map(|()| 5)?,
        };
        let at = if width == 5 { at } else { at & !(width - 1) };
        model[at..at + width].copy_from_slice(&bytes[..width]);
    }
    part.flush();
    let mut seen = vec![0; 8192];
    subject.mapping.memory().driver_read(0, &mut seen)?;
    Ok(differs("after 5000 stores", &seen, &model))
}

fn ranges(subject: &Subject<'_>) -> Outcome {
    let memory = subject.mapping.memory();
    for (start, end) in [(0, 1), (4095, 4097), (65_535, 131_073), (100_001, BYTES), (0, BYTES)] {
        let other = subject.bench.mapper.map(memory, start..end)?;
        let bytes = pattern(end, end - start);
        other.view()?.write(0, &bytes)?;
        let mut seen = vec![0; bytes.len()];
        subject.view.read(start, &mut seen)?;
        if let Some(wrong) = differs("seen through another mapping", &seen, &bytes) {
            return Ok(Some(format!("bytes {start} to {end}, {wrong}")));
        }
    }
    Ok(None)
}

fn threads(subject: &Subject<'_>) -> Outcome {
    let room = BYTES / subject.threads;
    let (view, memory) = (subject.view, subject.mapping.memory());
    let work = |thread: usize| -> Result<Option<String>, String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let range = thread * room..(thread + 1) * room;
        let own = view.part(range.clone()).map_err(|error| failed(&error))?;
        let mut seen = vec![0; room.min(4099)];
        for round in 0..20 {
            let bytes = pattern(thread * 100 + round, seen.len());
            own.write(0, &bytes).map_err(|error| failed(&error))?;
            own.read(0, &mut seen).map_err(|error| failed(&error))?;
            if let Some(wrong) = differs("read", &seen, &bytes) {
                return Ok(Some(format!("thread {thread}, round {round}, {wrong}")));
            }
            // Mappings come and go beside it.
            let other = subject.bench.mapper.map(memory, range.clone());
            drop(other.map_err(|error| failed(&error))?);
        }
        Ok(None)
    };
    std::thread::scope(|scope| {
        let work = &work;
        // All begin before the first is waited for.
        let started: Vec<_> =
            (0..subject.threads).map(|thread| start(scope, move || work(thread))).collect();
        for handle in started {
            let outcome = handle?.join().map_err(|_| "a thread panicked")?;
            if let Some(wrong) = outcome? {
                return Ok(Some(wrong));
            }
        }
        Ok(None)
    })
}

/// A thread for a check, if the system gives one.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, MemoryError> {
    let thread = std::thread::Builder::new().spawn_scoped(scope, work);
    thread.map_err(|error| format!("no thread for this check (ulimit -u): {error}").into())
}

fn order(subject: &Subject<'_>) -> Outcome {
    const ROUNDS: u64 = 2000;
    let view = subject.view;
    let (flag, answer) = (view.place::<u64>(0)?, view.place::<u64>(4096)?);
    flag.store_release(0);
    answer.store_release(0);
    let wait = |place: gpu_usermap::Place<'_, u64>, number: u64| {
        let start = std::time::Instant::now();
        while place.load_acquire() < number {
            if start.elapsed().as_secs() >= 10 {
                return Err(format!("no answer in round {number}"));
            }
            std::thread::yield_now();
        }
        Ok(())
    };
    let reader = || -> Result<Option<String>, String> {
        let mut seen = [0; 200];
        for round in 1..=ROUNDS {
            wait(flag, round)?;
            view.read(1000, &mut seen).map_err(|error| error.to_string())?;
            // The writer waits for this, whatever was seen.
            answer.store_release(round);
            if let Some(wrong) = differs("data", &seen, &[round as u8; 200]) {
                return Ok(Some(format!("round {round}, the flag came first, {wrong}")));
            }
        }
        Ok(None)
    };
    std::thread::scope(|scope| {
        let reader = start(scope, reader)?;
        for round in 1..=ROUNDS {
            view.write(1000, &[round as u8; 200])?;
            flag.store_release(round);
            if reader.is_finished() {
                break;
            }
            wait(answer, round)?;
        }
        Ok(reader.join().map_err(|_| "the reader panicked")??)
    })
}

fn fork(subject: &Subject<'_>) -> Outcome {
    // SAFETY: the child makes no call but one that takes no lock and allocates nothing, and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = subject.mapping.check() == Err(AccessError::OtherProcess);
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(if refused { 0 } else { 1 }) };
    }
    if child < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let mut status = 0;
    // SAFETY: the child was just made, and nobody else waits for it.
    if unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(std::io::Error::last_os_error().into());
    }
    if !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != 0 {
        return Ok(Some("a child process was not refused the mapping".to_owned()));
    }
    // And the parent still has it.
    subject.mapping.view()?.store_release(0, 7_u8)?;
    let seen = subject.view.load::<u8>(0)?;
    Ok((seen != 7).then(|| "the parent lost its mapping by the fork".to_owned()))
}

fn mistakes(subject: &Subject<'_>) -> Outcome {
    let (mapper, memory, view) = (&subject.bench.mapper, subject.mapping.memory(), subject.view);
    let outside = |result| matches!(result, Err(AccessError::OutOfBounds { .. }));
    #[allow(clippy::reversed_empty_ranges, reason = "bad on purpose")]
    let backwards = mapper.map(memory, 9..3);
    let refused = [
        ("an empty range", matches!(mapper.map(memory, 5..5), Err(MapError::Empty))),
        (
            "a range beyond the end",
            matches!(mapper.map(memory, 0..BYTES + 1), Err(MapError::OutOfRange { .. })),
        ),
        ("a range backwards", matches!(backwards, Err(MapError::OutOfRange { .. }))),
        ("a store beyond the end", outside(view.store(BYTES, 1_u8))),
        ("a copy across the end", outside(view.write(BYTES - 1, &[1, 2]))),
        ("a copy beyond all addresses", outside(view.read(usize::MAX, &mut [0; 2]))),
        (
            "a word across its boundary",
            matches!(view.store(1, 1_u16), Err(AccessError::Misaligned { .. })),
        ),
    ];
    let wrong = refused.iter().find(|(_, refused)| !refused);
    Ok(wrong.map(|(what, _)| format!("{what} was not refused")))
}

fn leftovers(subject: &Subject<'_>) -> Outcome {
    let count = || -> Result<(usize, usize), MemoryError> {
        let maps = fs::read_to_string("/proc/self/maps")
            .map_err(|error| format!("/proc/self/maps, where this is counted: {error}"))?;
        // The pages of the mapping itself; others come and go with the allocator.
        let ours = ["gdrdrv", "dmabuf", "memfd"];
        let pages = maps.lines().filter(|line| ours.iter().any(|name| line.contains(name))).count();
        Ok((pages, fs::read_dir("/proc/self/fd")?.count()))
    };
    let before = count()?;
    let memory = subject.mapping.memory();
    for start in 0..100 {
        let mapping = subject.bench.mapper.map(memory, start..BYTES)?;
        let held = count()?;
        if matches!(mapping.backend(), Backend::Gdrdrv | Backend::DmaBuf) && held <= before {
            return Ok(Some("a mapping that the system does not show".to_owned()));
        }
        drop(mapping);
    }
    let after = count()?;
    Ok((before != after).then(|| {
        format!("pages and descriptors were {before:?} before 100 mappings, {after:?} after them")
    }))
}
