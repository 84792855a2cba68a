//! What reaches the memory, recorded; and which instructions the processor gets, read from the machine code.

use std::cell::RefCell;
use std::sync::atomic::AtomicU32;

use proptest::prelude::*;

use super::*;

/// An access, by its place and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Store(usize, usize),
    StoreFence,
    LoadFence,
    Load(usize, usize),
}

/// A bus that does what the processor does, and notes it.
#[derive(Default)]
struct Recorder {
    base: usize,
    events: RefCell<Vec<Event>>,
}

impl Recorder {
    fn over(memory: *const u8) -> Self {
        Self { base: memory.addr(), events: RefCell::default() }
    }

    fn note(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }
}

impl Bus for Recorder {
    unsafe fn store<T: Word>(&self, to: *mut T, value: T) {
        assert!(to.is_aligned());
        self.note(Event::Store(to.addr() - self.base, size_of::<T>()));
        // SAFETY: the caller's promise.
        unsafe { Cpu.store(to, value) }
    }

    unsafe fn load<T: Word>(&self, from: *const T) -> T {
        assert!(from.is_aligned());
        self.note(Event::Load(from.addr() - self.base, size_of::<T>()));
        // SAFETY: the caller's promise.
        unsafe { Cpu.load(from) }
    }

    unsafe fn store_line(&self, to: *mut Line, line: Line, caching: Caching) {
        assert_eq!(to.addr() % LINE, 0);
        self.note(Event::Store(to.addr() - self.base, LINE));
        // SAFETY: the caller's promise.
        unsafe { Cpu.store_line(to, line, caching) }
    }

    unsafe fn load_line(&self, from: *const Line, caching: Caching) -> Line {
        assert_eq!(from.addr() % LINE, 0);
        self.note(Event::Load(from.addr() - self.base, LINE));
        // SAFETY: the caller's promise.
        unsafe { Cpu.load_line(from, caching) }
    }

    fn store_fence(&self) {
        self.note(Event::StoreFence);
        Cpu.store_fence();
    }

    fn load_fence(&self) {
        self.note(Event::LoadFence);
        Cpu.load_fence();
    }
}

/// Memory of which a test knows the alignment.
#[repr(align(64))]
struct Memory([u8; 256]);

fn fill(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + 1) as u8).collect()
}

/// Data, then a flag.
fn publish(caching: Caching) -> Vec<Event> {
    let mut memory = Memory([0; 256]);
    let start = memory.0.as_mut_ptr();
    let bus = Recorder::over(start);
    // SAFETY: inside the memory.
    unsafe {
        copy_in(&bus, start.add(64), &fill(20), caching);
        bus.store(start.add(128).cast(), 5_u32);
        store_release(&bus, start.cast(), 1_u64, caching);
    }
    assert_eq!(memory.0[0], 1);
    bus.events.into_inner()
}

#[test]
fn a_fence_stands_between_data_and_flag_on_combining_memory() {
    use Event::{Store, StoreFence};
    let events = publish(Caching::WriteCombining);
    let wanted = [
        Store(64, 16),
        Store(80, 4),
        StoreFence,
        Store(128, 4),
        StoreFence,
        Store(0, 8),
        StoreFence,
    ];
    assert_eq!(events, wanted);
}

#[test]
fn other_memory_needs_no_fence() {
    for caching in [Caching::Cached, Caching::Device] {
        let events = publish(caching);
        assert!(!events.contains(&Event::StoreFence), "{caching}: {events:?}");
    }
}

#[test]
fn a_load_that_acquires_is_fenced_on_combining_memory() {
    let memory = Memory([9; 256]);
    let bus = Recorder::over(memory.0.as_ptr());
    // SAFETY: inside the memory.
    unsafe {
        let flag: u32 = load_acquire(&bus, memory.0.as_ptr().cast(), Caching::WriteCombining);
        assert_eq!(flag, 0x0909_0909);
        bus.load::<u64>(memory.0.as_ptr().add(64).cast());
    }
    let wanted = [Event::Load(0, 4), Event::LoadFence, Event::Load(64, 8)];
    assert_eq!(bus.events.into_inner(), wanted);
}

#[test]
fn a_copy_out_of_combining_memory_waits_for_what_was_stored_and_loaded() {
    let memory = Memory([9; 256]);
    let bus = Recorder::over(memory.0.as_ptr());
    // SAFETY: inside the memory.
    unsafe {
        copy_out(&bus, memory.0.as_ptr().add(64), &mut [0; 16], Caching::WriteCombining);
    }
    let wanted = [Event::StoreFence, Event::LoadFence, Event::Load(64, 16)];
    assert_eq!(bus.events.into_inner(), wanted);
}

/// The product's own flag store, alone in a function, so that its machine code can be read.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
extern "C" fn flag_on_combining_memory(data: *mut u32, flag: *mut u32) {
    // SAFETY: the test's caller never calls it with bad addresses.
    unsafe {
        Cpu.store(data, 0x1234_5678);
        store_release(&Cpu, flag, 0x0BAD_CAFE, Caching::WriteCombining);
    }
}

/// The same by who stores through an address.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
extern "C" fn flag_by_address(data: *mut u32, flag: *mut u32) {
    // SAFETY: as above.
    unsafe {
        AtomicU32::from_ptr(data).store(0x1234_5678, Ordering::Relaxed);
        Caching::WriteCombining.store_fence();
        AtomicU32::from_ptr(flag).store(0x0BAD_CAFE, Ordering::Release);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[cfg_attr(debug_assertions, ignore = "reads optimised code: cargo test --release")]
fn the_fence_is_in_the_machine_code_between_the_stores() {
    const SFENCE: [u8; 3] = [0x0F, 0xAE, 0xF8];
    let functions: [extern "C" fn(*mut u32, *mut u32); 2] =
        [flag_on_combining_memory, flag_by_address];
    for function in functions {
        let (mut data, mut flag) = (0, 0);
        function(&raw mut data, &raw mut flag);
        assert_eq!((data, flag), (0x1234_5678, 0x0BAD_CAFE));
        let start = function as *const u8;
        // SAFETY: code of this program, whose pages go on for more than that behind any function.
        let code: Vec<u8> = (0..64).map(|at| unsafe { start.add(at).read_volatile() }).collect();
        let find = |wanted: &[u8]| code.windows(wanted.len()).position(|bytes| bytes == wanted);
        let data = find(&0x1234_5678_u32.to_le_bytes()).expect("the data's store");
        let flag = find(&0x0BAD_CAFE_u32.to_le_bytes()).expect("the flag's store");
        let fence = find(&SFENCE).expect("the fence");
        assert!(data < fence && fence < flag, "{code:02x?}");
    }
}

fn any_caching() -> impl Strategy<Value = Caching> {
    prop_oneof![Just(Caching::WriteCombining), Just(Caching::Cached), Just(Caching::Device)]
}

proptest! {
    /// Every byte lands once and in its place, by aligned accesses, and no other is touched.
    #[test]
    fn copies_touch_their_bytes_alone(start in 0..64_usize, len in 0..192_usize, caching in any_caching()) {
        let mut memory = Memory([0xEE; 256]);
        let address = memory.0.as_mut_ptr();
        let bus = Recorder::over(address);
        let bytes = fill(len);
        // SAFETY: inside the memory.
        unsafe { copy_in(&bus, address.add(start), &bytes, caching) };
        let mut wanted = [0xEE; 256];
        wanted[start..start + len].copy_from_slice(&bytes);
        prop_assert_eq!(&memory.0, &wanted);
        let stored: usize = bus.events.borrow().iter().map(|event| match event {
            Event::Store(_, width) => *width,
            _ => 0,
        }).sum();
        prop_assert_eq!(stored, len);
        let mut back = vec![0; len];
        // SAFETY: inside the memory.
        unsafe { copy_out(&bus, memory.0.as_ptr().add(start), &mut back, caching) };
        prop_assert_eq!(back, bytes);
    }
}
