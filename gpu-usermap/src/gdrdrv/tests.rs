//! The client against the fake: what it asks, what it makes of every answer, and that nothing is
//! left behind.

use std::sync::Arc;

use super::abi::{GetVersion, Info, InfoV2, MappingType, PinBuffer, PinV2, Request};
use super::fake::{BASE, CHILD, Fake, FakeMemory, SIZE, Step};
use super::{Driver, GPU_PAGE, Version};
use crate::{
    AccessError, Backend, Caching, Call, Choice, Errno, GpuMemory, MapError, Mapper, Mapping, Why,
};

const NOTHING: (usize, usize, usize) = (0, 0, 0);

fn mapper(fake: &Arc<Fake>) -> Mapper {
    Mapper::with_system(Arc::clone(fake) as _).choice(Choice::Only(Backend::Gdrdrv))
}

/// Why gdrdrv was passed over.
fn why<M: GpuMemory>(outcome: Result<Mapping<M>, MapError>) -> Why {
    match outcome {
        Err(MapError::NoBackend { mut passed }) => {
            assert_eq!(passed[0].backend, Backend::Gdrdrv);
            passed.swap_remove(0).why
        }
        other => panic!("{other:?}"),
    }
}

fn errno_of(why: &Why) -> (Call, i32) {
    match why {
        Why::Refused { call, errno } => (*call, errno.0),
        other => panic!("{other:?}"),
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 13 + 5) as u8).collect()
}

#[test]
fn maps_writes_reads_and_gives_back_in_order() {
    let fake = Fake::new();
    // Neither begins nor ends with a page, of the GPU or of the host.
    let memory = fake.memory(BASE + GPU_PAGE + 0x300, 3 * GPU_PAGE as usize);
    let mapper = mapper(&fake);
    let mapping = mapper.map(&memory, 5000..190_001).unwrap();
    assert_eq!((mapping.backend(), mapping.len()), (Backend::Gdrdrv, 185_001));
    assert_eq!(mapping.caching(), Caching::WriteCombining);
    assert_eq!(mapping.device_address(), BASE + GPU_PAGE + 0x300 + 5000);
    let view = mapping.view().unwrap();
    let bytes = pattern(view.len());
    view.write(0, &bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    memory.driver_read(5000, &mut back).unwrap();
    assert!(back == bytes, "the GPU has other bytes");
    memory.driver_write(5016, b"from the GPU").unwrap();
    let mut twelve = [0; 12];
    view.read(16, &mut twelve).unwrap();
    assert_eq!(&twelve, b"from the GPU");
    // The byte before the range, and the one behind it, are as they were.
    for beside in [4999, 190_001] {
        memory.driver_read(beside, &mut twelve[..1]).unwrap();
        assert_eq!(twelve[0], 0);
    }
    assert_eq!(fake.left(), (1, 1, 1));
    drop(mapping);
    assert_eq!(fake.left(), (1, 0, 0));
    drop(mapper);
    assert_eq!(fake.left(), NOTHING);
    let wanted = [
        "open",
        "version",
        "pin v2",
        "mapping type",
        "mmap",
        "info v2",
        "munmap",
        "unpin",
        "close",
    ];
    assert_eq!(fake.state().log, wanted);
}

#[test]
fn an_older_driver_is_asked_as_it_understands() {
    for (minor, pin, kind, info) in [
        (0, "pin", None, "info"),
        (3, "pin", None, "info"),
        (4, "pin", None, "info v2"),
        (5, "pin v2", Some("mapping type"), "info v2"),
        (9, "pin v2", Some("mapping type"), "info v2"),
    ] {
        let fake = Fake::new();
        fake.state().driver = 2 << 16 | minor;
        let memory = fake.memory(BASE, 4096);
        let mapping = mapper(&fake).map(&memory, 0..4096).unwrap();
        assert_eq!(mapping.caching(), Caching::WriteCombining);
        drop(mapping);
        let made = fake.state().log.clone();
        let wanted: Vec<_> = ["open", "version", pin]
            .into_iter()
            .chain(kind)
            .chain(["mmap", info, "munmap", "unpin", "close"])
            .collect();
        assert_eq!(made, wanted, "2.{minor}");
        assert_eq!(fake.left(), NOTHING);
    }
}

#[test]
fn any_range_is_mapped_by_every_version() {
    let page = GPU_PAGE as usize;
    for minor in [0, 3, 4, 5, 6] {
        let fake = Fake::new();
        fake.state().driver = 2 << 16 | minor;
        let memory = fake.memory(BASE, SIZE as usize);
        let mapper = mapper(&fake);
        for start in [0, 1, 8, 4095, 4096, page - 1, page, page + 1, 3 * page + 4097] {
            for length in [1, 4, 4095, 4096, 4097, page - 1, page, page + 1, 5 * page + 3] {
                let mapping = mapper.map(&memory, start..start + length);
                let mapping = mapping.unwrap_or_else(|error| {
                    panic!("2.{minor}, {length} bytes from {start} on: {error}")
                });
                let view = mapping.view().unwrap();
                view.store(length - 1, 0xA5_u8).unwrap();
                view.flush();
                let mut byte = [0];
                memory.driver_read(start + length - 1, &mut byte).unwrap();
                assert_eq!(byte, [0xA5]);
            }
        }
        drop(mapper);
        assert_eq!(fake.left(), NOTHING);
    }
}

#[test]
fn versions_that_do_not_fit_are_refused() {
    let fake = Fake::new();
    let memory = fake.memory(BASE, 4096);
    fake.state().driver = 1 << 16 | 3;
    let refused = why(mapper(&fake).map(&memory, 0..1));
    assert!(
        matches!(refused, Why::DriverTooOld { driver: Version { major: 1, minor: 3 } }),
        "{refused}"
    );
    fake.state().driver = 3 << 16 | 1;
    fake.state().minimum_api = 3 << 16;
    let refused = why(mapper(&fake).map(&memory, 0..1));
    assert!(
        matches!(refused, Why::ClientTooOld { minimum: Version { major: 3, minor: 0 }, .. }),
        "{refused}"
    );
    assert_eq!(fake.left(), NOTHING);
    // A newer driver that still serves us is taken.
    fake.state().minimum_api = 2 << 16 | 6;
    assert!(mapper(&fake).map(&memory, 0..1).is_ok());
    assert_eq!(fake.left(), NOTHING);
}

#[test]
fn no_device_and_no_permission_have_names() {
    let fake = Fake::new();
    let memory = fake.memory(BASE, 4096);
    let refused = |errno| {
        fake.state().fail = Some((Step::Open, Errno(errno)));
        why(mapper(&fake).map(&memory, 0..1))
    };
    assert!(matches!(refused(libc::ENOENT), Why::NoDevice { .. }));
    assert!(matches!(refused(libc::EACCES), Why::NoPermission { .. }));
    assert_eq!(errno_of(&refused(libc::EMFILE)), (Call::Open, libc::EMFILE));
    assert_eq!(fake.left(), NOTHING);
}

#[test]
fn nothing_leaks_wherever_it_fails() {
    let steps = [
        (6, Step::Ioctl(GetVersion::CODE), Call::Version),
        (6, Step::Ioctl(PinV2::CODE), Call::Pin),
        (6, Step::Ioctl(MappingType::CODE), Call::MappingType),
        (6, Step::Mmap, Call::MapPinned),
        (6, Step::Ioctl(InfoV2::CODE), Call::Info),
        (1, Step::Ioctl(PinBuffer::CODE), Call::Pin),
        (1, Step::Ioctl(Info::CODE), Call::Info),
    ];
    for (minor, step, call) in steps {
        for errno in [libc::EBUSY, libc::EACCES, libc::EINVAL, libc::ENOMEM, libc::EAGAIN] {
            let fake = Fake::new();
            fake.state().driver = 2 << 16 | minor;
            fake.state().fail = Some((step, Errno(errno)));
            let memory = fake.memory(BASE, 1 << 17);
            let mapper = mapper(&fake);
            let refused = why(mapper.map(&memory, 10..70_000));
            assert_eq!(errno_of(&refused), (call, errno), "{step:?}");
            assert!(!refused.to_string().contains('\n'));
            let (files, pins, maps) = fake.left();
            assert_eq!((pins, maps), (0, 0), "{step:?}");
            // The device is kept open for the next attempt, but where it was of no use.
            assert_eq!(files, usize::from(call != Call::Version), "{step:?}");
            // And that attempt succeeds.
            fake.state().fail = None;
            drop(mapper.map(&memory, 10..70_000).unwrap());
            drop(mapper);
            assert_eq!(fake.left(), NOTHING);
            assert_eq!(fake.state().stale, 0);
        }
    }
}

#[test]
fn what_counts_is_the_type_that_was_mapped() {
    // Versions without the call map as they find best, which is write-combining here.
    for minor in [0, 3, 4, 5, 6] {
        let fake = Fake::new();
        fake.state().driver = 2 << 16 | minor;
        let driver = Driver::open(Arc::clone(&fake) as _).unwrap();
        for wanted in [None, Some(Caching::WriteCombining)] {
            let mapped = driver.pin(BASE, 1).unwrap().map(wanted);
            let mapped = mapped.unwrap_or_else(|why| panic!("2.{minor}, {wanted:?}: {why}"));
            assert_eq!(mapped.caching(), Caching::WriteCombining);
        }
        // A driver that says it is newer and has no such call is one of them.
        fake.state().fail = Some((Step::Ioctl(MappingType::CODE), Errno(libc::ENOTTY)));
        assert!(driver.pin(BASE, 1).unwrap().map(Some(Caching::WriteCombining)).is_ok());
        fake.state().fail = None;
        for caching in [Caching::Cached, Caching::Device] {
            let refused = driver.pin(BASE, 1).unwrap().map(Some(caching)).unwrap_err();
            assert_eq!(errno_of(&refused), (Call::MappingType, libc::EOPNOTSUPP), "2.{minor}");
        }
        drop(driver);
        assert_eq!(fake.left(), NOTHING);
    }
}

#[test]
fn answers_that_cannot_be_are_refused() {
    let (good, size) = (BASE + GPU_PAGE, 2 * GPU_PAGE);
    for lie in [(BASE, size, 1), (good, 4096, 1), (good, size, 0), (good, size, 77)] {
        let fake = Fake::new();
        fake.state().lie = Some(lie);
        let memory = fake.memory(good, 2 * GPU_PAGE as usize);
        let refused = why(mapper(&fake).map(&memory, 0..2 * GPU_PAGE as usize));
        assert!(matches!(refused, Why::Nonsense { .. }), "{lie:?}: {refused}");
        assert_eq!(fake.left(), NOTHING, "{lie:?}");
    }
}

#[test]
fn handle_0_is_a_handle() {
    let fake = Fake::new();
    let memory = fake.memory(BASE, 4096);
    let mapper = mapper(&fake);
    for _ in 0..2 {
        let mapping = mapper.map(&memory, 0..4096).unwrap();
        mapping.view().unwrap().store(8, 7_u64).unwrap();
        drop(mapping);
        assert_eq!(fake.left(), (1, 0, 0));
    }
    let unpins = fake.state().log.iter().filter(|call| **call == "unpin").count();
    assert_eq!((unpins, fake.state().stale), (2, 0));
}

#[test]
fn each_pin_is_given_back_once() {
    let fake = Fake::new();
    let memory = fake.memory(BASE, SIZE as usize);
    let mapper = mapper(&fake);
    let mut mappings: Vec<_> = (0..8_usize)
        .map(|at| mapper.map(&memory, at * 100_000..at * 100_000 + 50_000).unwrap())
        .collect();
    // A handle given back twice would take another mapping's pin with it.
    for at in [3, 0, 4, 1] {
        drop(mappings.remove(at));
        for (number, mapping) in mappings.iter().enumerate() {
            let view = mapping.view().unwrap();
            view.store_release(0, number as u8).unwrap();
            assert_eq!(view.load_acquire::<u8>(0), Ok(number as u8));
        }
        assert_eq!(fake.left(), (1, mappings.len(), mappings.len()));
    }
    drop(mappings);
    assert_eq!((fake.left(), fake.state().stale), ((1, 0, 0), 0));
}

#[test]
fn memory_freed_while_mapped_is_noticed() {
    let fake = Fake::new();
    let freed = fake.memory(BASE, 4096);
    let kept = fake.memory(BASE + 4 * GPU_PAGE, 4096);
    let mapper = mapper(&fake);
    let gone = mapper.map(&freed, 0..4096).unwrap();
    let stays = mapper.map(&kept, 0..4096).unwrap();
    assert_eq!(gone.check(), Ok(()));
    fake.free(BASE, 4096);
    assert_eq!(gone.check(), Err(AccessError::Revoked));
    assert_eq!(gone.view().map(|view| view.len()), Err(AccessError::Revoked));
    stays.view().unwrap().store(0, 1_u8).unwrap();
    // What is gone still has to be given back, and cannot be mapped again.
    drop(gone);
    assert_eq!(fake.left(), (1, 1, 1));
    assert_eq!(errno_of(&why(mapper.map(&freed, 0..4096))), (Call::Pin, libc::EINVAL));
    drop(stays);
    assert_eq!(fake.left(), (1, 0, 0));
}

#[test]
fn a_free_that_the_driver_does_not_report_is_noticed() {
    // From 2.5 on gdrdrv says that it keeps pages; 2.4 can be set so, and does not say it.
    let drivers = [4, 5, 6].map(|minor| (Backend::Gdrdrv, minor));
    for (backend, minor) in drivers.into_iter().chain([(Backend::DmaBuf, 6)]) {
        for reuses in [false, true] {
            let fake = Fake::new();
            fake.state().driver = 2 << 16 | minor;
            (fake.state().persistent, fake.state().reuses) = (true, reuses);
            let freed = fake.memory(BASE, 4096);
            let kept = fake.memory(BASE + 4 * GPU_PAGE, 4096);
            let mapper = mapper(&fake).choice(Choice::Only(backend));
            let gone = mapper.map(&freed, 0..4096).unwrap();
            let stays = mapper.map(&kept, 0..4096).unwrap();
            assert!(gone.notices_frees());
            assert_eq!((gone.check(), stays.check()), (Ok(()), Ok(())));
            fake.state().free(BASE, BASE + 4096);
            assert_eq!(gone.check(), Err(AccessError::Revoked), "{backend}, 2.{minor}");
            assert_eq!(gone.view().map(|view| view.len()), Err(AccessError::Revoked));
            assert_eq!(stays.check(), Ok(()));
            drop((gone, stays, mapper));
            assert_eq!(fake.left(), NOTHING);
        }
    }
}

#[test]
fn a_mapping_says_whether_it_notices_frees() {
    for (minor, persistent, numbers_buffers, notices) in [
        (3, false, false, true),
        (4, false, false, false),
        (4, false, true, true),
        (6, false, false, true),
        (6, true, false, false),
        (6, true, true, true),
    ] {
        let fake = Fake::new();
        let mut state = fake.state();
        state.driver = 2 << 16 | minor;
        (state.persistent, state.numbers_buffers) = (persistent, numbers_buffers);
        drop(state);
        let memory = fake.memory(BASE, 4096);
        let mapping = mapper(&fake).map(&memory, 0..4096).unwrap();
        assert_eq!((mapping.notices_frees(), mapping.check()), (notices, Ok(())), "2.{minor}");
    }
}

#[test]
fn memory_freed_while_it_is_being_mapped_is_not_the_drivers_fault() {
    let steps = [
        (6, Step::Ioctl(InfoV2::CODE)),
        (6, Step::Mmap),
        (6, Step::Ioctl(MappingType::CODE)),
        (3, Step::Ioctl(Info::CODE)),
        (3, Step::Mmap),
    ];
    for (minor, step) in steps {
        let fake = Fake::new();
        fake.state().driver = 2 << 16 | minor;
        fake.state().free_before = Some((step, BASE, BASE + 4096));
        let memory = fake.memory(BASE, 4096);
        let refused = why(mapper(&fake).map(&memory, 0..4096));
        assert!(refused.to_string().contains("freed while"), "2.{minor}, {step:?}: {refused}");
        assert_eq!(fake.left(), NOTHING, "2.{minor}, {step:?}");
    }
}

#[test]
fn stores_to_memory_that_is_gone_have_no_effect() {
    let fake = Fake::new();
    let memory = fake.memory(BASE, 4096);
    let mapping = mapper(&fake).map(&memory, 0..4096).unwrap();
    let view = mapping.view().unwrap();
    view.store(8, 7_u64).unwrap();
    // Touching the pages is fatal from here on, and no longer once they are covered.
    fake.free(BASE, 4096);
    mapping.abandon().unwrap();
    assert_eq!(mapping.check(), Err(AccessError::Abandoned));
    view.store(8, 9_u64).unwrap();
    assert_eq!((view.load(8), view.load(0)), (Ok(9_u64), Ok(0_u64)));
    let mut bytes = [0; 8];
    memory.driver_read(8, &mut bytes).unwrap();
    assert_eq!(u64::from_ne_bytes(bytes), 7, "the GPU sees none of it");
    // It is given back as ever.
    drop(mapping);
    assert_eq!(fake.left(), (0, 0, 0));
}

#[test]
fn an_abandoned_mapping_gives_no_view() {
    // The driver still has the memory: nothing but the mapping itself knows.
    for backend in [Backend::Gdrdrv, Backend::DmaBuf] {
        let fake = Fake::new();
        let memory = fake.memory(BASE, 4096);
        let mapper = mapper(&fake).choice(Choice::Only(backend));
        let mapping = mapper.map(&memory, 0..4096).unwrap();
        mapping.abandon().unwrap();
        assert_eq!(mapping.check(), Err(AccessError::Abandoned), "{backend}: stores go nowhere");
        assert!(mapping.view().is_err(), "{backend}");
        mapping.abandon().unwrap();
        drop(mapping);
        let again = mapper.map(&memory, 0..4096).unwrap();
        assert!(again.view().is_ok(), "{backend}: another mapping is as good as ever");
    }
}

#[test]
fn a_child_process_is_refused_and_touches_nothing() {
    let fake = Fake::new();
    let memory = fake.memory(BASE, 4096);
    let mapper = mapper(&fake);
    let mapping = mapper.map(&memory, 0..4096).unwrap();
    fake.state().process = CHILD;
    assert_eq!(mapping.check(), Err(AccessError::OtherProcess));
    assert!(mapping.view().is_err());
    fake.state().log.clear();
    assert_eq!(mapping.abandon(), Err(Errno(libc::EPERM)), "other pages may lie there");
    drop(mapping);
    assert_eq!(fake.state().log, [""; 0], "a child has no mapping to give back");
    assert_eq!(fake.state().strangers, 0, "nor a pin");
    // It opens the device for itself.
    let own = mapper.map(&memory, 0..4096).unwrap();
    assert!(own.view().is_ok());
}

#[test]
fn another_process_descriptor_is_of_no_use() {
    let fake = Fake::new();
    let driver = Driver::open(Arc::clone(&fake) as _).unwrap();
    fake.state().process = CHILD;
    let refused = driver.pin(BASE, 1).unwrap_err();
    assert_eq!(errno_of(&refused), (Call::Pin, libc::EACCES));
    assert!(refused.to_string().contains("another process"));
}

#[test]
fn bad_ranges_are_refused_before_the_driver_is_asked() {
    let fake = Fake::new();
    let memory = fake.memory(BASE, 4096);
    let mapper = mapper(&fake);
    assert!(matches!(mapper.map(&memory, 7..7), Err(MapError::Empty)));
    for range in [0..4097, 4096..4097, 5000..6000, 0..usize::MAX] {
        assert!(matches!(mapper.map(&memory, range), Err(MapError::OutOfRange { len: 4096, .. })));
    }
    #[allow(clippy::reversed_empty_ranges, reason = "bad on purpose")]
    let backwards = mapper.map(&memory, 9..3);
    assert!(matches!(backwards, Err(MapError::OutOfRange { .. })));
    assert_eq!(fake.state().log, [""; 0]);
}

#[test]
fn memory_that_is_not_the_gpus_is_refused() {
    let fake = Fake::new();
    let mapper = mapper(&fake);
    for address in [0x1000, BASE - GPU_PAGE, BASE + SIZE] {
        let memory = fake.memory(address, 4096);
        let refused = why(mapper.map(&memory, 0..4096));
        assert_eq!(errno_of(&refused), (Call::Pin, libc::EINVAL));
        assert!(refused.to_string().contains("not memory of a GPU"), "{refused}");
    }
    for (address, len) in [(u64::MAX - 10, 4096), (u64::MAX, 1), (1 << 63, usize::MAX)] {
        let memory: FakeMemory = fake.memory(address, len);
        let refused = why(mapper.map(&memory, 0..len));
        assert!(matches!(refused, Why::Nonsense { .. }), "{refused}");
    }
    assert_eq!(fake.left(), (1, 0, 0));
}
