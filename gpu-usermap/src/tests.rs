//! The order of the backends, what each says, and views from several threads; over the fake driver
//! and over plain pages.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::gdrdrv::fake::{BASE, Fake, Step};
use crate::{
    AccessError, Allocate, Backend, Caching, Call, Choice, Errno, Exported, GpuMemory, Location,
    MapError, Mapper, MemoryError, Why,
};

/// Zeroed memory of this process, aligned to 8 bytes, that says it is something else.
struct Plain {
    words: Box<[std::sync::atomic::AtomicU64]>,
    emulated: bool,
}

impl Plain {
    fn new(bytes: usize, emulated: bool) -> Self {
        Self { words: (0..bytes.div_ceil(8)).map(|_| 0.into()).collect(), emulated }
    }

    fn start(&self) -> NonNull<u8> {
        NonNull::from(&self.words[0]).cast()
    }
}

// SAFETY: the box keeps its address and is read through atomics alone.
#[allow(unsafe_code, reason = "an unsafe trait")]
unsafe impl GpuMemory for Plain {
    fn device_address(&self) -> u64 {
        self.start().addr().get() as u64
    }
    fn len(&self) -> usize {
        self.words.len() * 8
    }
    fn location(&self) -> Location {
        if self.emulated { Location::Emulated(self.start()) } else { Location::Host(self.start()) }
    }
    fn export(&self) -> Result<Exported, MemoryError> {
        Err("plain memory".into())
    }
    fn driver_read(&self, _: usize, _: &mut [u8]) -> Result<(), MemoryError> {
        Err("plain memory".into())
    }
    fn driver_write(&self, _: usize, _: &[u8]) -> Result<(), MemoryError> {
        Err("plain memory".into())
    }
}

/// A GPU over the fake.
struct Gpu(Arc<Fake>);

impl Allocate for Gpu {
    fn on_device(&self, bytes: usize) -> Result<Box<dyn GpuMemory>, MemoryError> {
        Ok(Box::new(self.0.memory(BASE, bytes)))
    }
    fn on_host(&self, bytes: usize) -> Result<Box<dyn GpuMemory>, MemoryError> {
        Ok(Box::new(Plain::new(bytes, false)))
    }
}

fn mapper(fake: &Arc<Fake>) -> Mapper {
    Mapper::with_system(Arc::clone(fake) as _)
}

#[test]
fn backends_are_tried_in_order_and_say_why_not() {
    let fake = Fake::new();
    let gpu = Gpu(Arc::clone(&fake));
    assert_eq!(mapper(&fake).allocate(&gpu, 4096).unwrap().backend(), Backend::Gdrdrv);

    fake.state().fail = Some((Step::Open, Errno(libc::ENOENT)));
    let mapping = mapper(&fake).allocate(&gpu, 4096).unwrap();
    assert_eq!(mapping.backend(), Backend::DmaBuf);
    assert!(matches!(mapping.passed_over()[0].why, Why::NoDevice { .. }));
    let view = mapping.view().unwrap();
    view.write(100, b"by dma-buf").unwrap();
    let mut back = [0; 10];
    mapping.memory().driver_read(100, &mut back).unwrap();
    assert_eq!(&back, b"by dma-buf");
    assert_eq!(fake.left(), (0, 0, 1));
    drop(mapping);
    assert_eq!(fake.left(), (0, 0, 0));

    // A machine with gdrdrv that pins nothing, and a GPU driver that is too old for the rest.
    fake.state().fail = Some((Step::MmapOfExport, Errno::ENOTSUPP));
    let memory = fake.memory(0x1000_0000_0000, 4096);
    let export = fake.memory(BASE, 4096);
    let refused = mapper(&fake).choice(Choice::Only(Backend::DmaBuf)).map(&export, 0..8);
    let Err(MapError::NoBackend { passed }) = refused else { panic!() };
    let why = passed.into_iter().find(|passed| passed.backend == Backend::DmaBuf).unwrap().why;
    assert!(matches!(why, Why::Refused { call: Call::MapExport, errno: Errno(524) }), "{why}");
    assert!(why.to_string().contains("13.3"), "{why}");
    let Err(MapError::NoBackend { passed }) = mapper(&fake).map(&memory, 0..8) else { panic!() };
    let order: Vec<_> = passed.iter().map(|passed| passed.backend).collect();
    assert_eq!(order, Backend::ALL);
    assert!(matches!(passed[1].why, Why::NotExported(_)));
    assert!(matches!(passed[2].why, Why::OtherMemory { .. }));
}

#[test]
fn a_dma_buf_is_mapped_from_any_byte_on_and_nothing_is_left() {
    let fake = Fake::new();
    let mapper = mapper(&fake).choice(Choice::Only(Backend::DmaBuf));
    // Neither begins nor ends with a page.
    let memory = fake.memory(BASE + 0x300, 100_000);
    let mapping = mapper.map(&memory, 5000..70_001).unwrap();
    assert_eq!((mapping.caching(), mapping.len()), (Caching::WriteCombining, 65_001));
    let bytes: Vec<u8> = (0..65_001).map(|at| (at * 11 + 3) as u8).collect();
    mapping.view().unwrap().write(0, &bytes).unwrap();
    let mut back = vec![0xEE; bytes.len() + 2];
    memory.driver_read(4999, &mut back).unwrap();
    assert!(back[1..=bytes.len()] == bytes && (back[0], back[bytes.len() + 1]) == (0, 0));
    assert_eq!((fake.left(), fake.exported()), ((0, 0, 1), 1));
    drop(mapping);
    assert_eq!((fake.left(), fake.exported()), ((0, 0, 0), 0));

    let why = |address, len| match mapper.map(fake.memory(address, len), 0..len) {
        Err(MapError::NoBackend { mut passed }) => passed.swap_remove(1).why,
        other => panic!("{other:?}"),
    };
    assert!(matches!(why(u64::MAX, usize::MAX), Why::Nonsense { .. }));
    assert!(matches!(why(0x1000, 1), Why::NotExported(_)));
    fake.state().fail = Some((Step::MmapOfExport, Errno(libc::EACCES)));
    let refused = why(BASE, 4096);
    assert!(matches!(refused, Why::Refused { call: Call::MapExport, errno: Errno(libc::EACCES) }));
    assert_eq!((fake.left(), fake.exported()), ((0, 0, 0), 0));
}

#[test]
fn host_memory_is_the_last_resort_of_an_allocation() {
    let fake = Fake::new();
    let gpu = Gpu(Arc::clone(&fake));
    fake.state().driver = 1 << 16;
    fake.state().fail = Some((Step::MmapOfExport, Errno::ENOTSUPP));
    let mapping = mapper(&fake).allocate(&gpu, 4096).unwrap();
    assert_eq!((mapping.backend(), mapping.caching()), (Backend::Host, Caching::Cached));
    let reasons: Vec<_> = mapping.passed_over().iter().map(|passed| &passed.why).collect();
    assert!(matches!(reasons[0], Why::DriverTooOld { .. }), "{reasons:?}");
    assert!(matches!(reasons[1], Why::Refused { errno: Errno::ENOTSUPP, .. }), "{reasons:?}");
    assert_eq!(fake.left(), (0, 0, 0));
    // Asked for one that does not work, it does not take another.
    for backend in [Backend::Gdrdrv, Backend::DmaBuf, Backend::Emulated] {
        let refused = mapper(&fake).choice(Choice::Only(backend)).allocate(&gpu, 4096);
        assert!(matches!(refused, Err(MapError::NoBackend { .. })), "{backend}");
    }
    let host = mapper(&fake).choice(Choice::Only(Backend::Host)).allocate(&gpu, 4096).unwrap();
    assert_eq!(host.backend(), Backend::Host);
    assert!(matches!(mapper(&fake).allocate(&gpu, 0), Err(MapError::Empty)));
}

#[test]
fn views_check_bounds_and_alignment() {
    let memory = Plain::new(64, true);
    let mapping = Mapper::new().map(&memory, 8..48).unwrap();
    assert_eq!(mapping.backend(), Backend::Emulated);
    let view = mapping.view().unwrap();
    let outside = |start, end| AccessError::OutOfBounds { start, end, len: 40 };
    assert_eq!(view.store(36, 1_u64), Err(outside(36, 44)));
    assert_eq!(view.load::<u8>(40), Err(outside(40, 41)));
    assert_eq!(view.load::<u8>(usize::MAX), Err(outside(usize::MAX, usize::MAX)));
    assert_eq!(view.write(39, b"ab"), Err(outside(39, 41)));
    assert_eq!(view.read(usize::MAX, &mut [0; 2]), Err(outside(usize::MAX, usize::MAX)));
    assert_eq!(view.load::<u32>(2), Err(AccessError::Misaligned { offset: 2, width: 4 }));
    assert_eq!(view.store_release(7, 1_u16), Err(AccessError::Misaligned { offset: 7, width: 2 }));
    view.write(40, b"").unwrap();
    let part = view.part(8..16).unwrap();
    assert_eq!((part.len(), part.load::<u8>(8).is_err()), (8, true));
    assert!(view.part(0..41).is_err() && view.part(41..41).is_err());
    #[allow(clippy::reversed_empty_ranges, reason = "bad on purpose")]
    let backwards = view.part(9..3);
    assert!(backwards.is_err());

    part.store(0, 0x0102_0304_0506_0708_u64).unwrap();
    assert_eq!(part.load::<u32>(4), Ok(0x0102_0304));
    assert_eq!(part.load::<u16>(2), Ok(0x0506));
    assert_eq!(view.load_acquire::<u8>(8), Ok(8));
    assert_eq!(memory.words[2].load(std::sync::atomic::Ordering::Relaxed), 0x0102_0304_0506_0708);
}

#[test]
fn threads_share_a_mapping() {
    let fake = Fake::new();
    let memory = Arc::new(fake.memory(BASE, 1 << 16));
    let mapper = mapper(&fake);
    let mapping = mapper.map(Arc::clone(&memory), 0..1 << 16).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            let (mapping, mapper, memory) = (&mapping, &mapper, &memory);
            scope.spawn(move || {
                let view = mapping.view().unwrap().part(thread << 13..(thread + 1) << 13).unwrap();
                for round in 0..50_u8 {
                    view.write(1, &[round; 1000]).unwrap();
                    let mut back = [0; 1000];
                    view.read(1, &mut back).unwrap();
                    assert_eq!(back, [round; 1000]);
                    // Mappings come and go beside it.
                    drop(mapper.map(memory, 0..4096).unwrap());
                }
            });
        }
    });
    assert_eq!((fake.left(), fake.state().stale), ((1, 1, 1), 0));
    drop(mapping.unmap());
    assert_eq!(fake.left(), (1, 0, 0));
}

#[test]
fn choices_have_names() {
    for backend in Backend::ALL {
        assert_eq!(backend.to_string().parse(), Ok(Choice::Only(backend)));
    }
    assert_eq!("auto".parse(), Ok(Choice::Auto));
    assert!("rdma".parse::<Choice>().unwrap_err().contains("use auto, gdrdrv"));
}
