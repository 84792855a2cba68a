//! gdrdrv without a GPU: its calls at the boundary of the system, over a memory file that plays the
//! GPU's memory. Faithful to what the driver documents and does, its odd ways included; it counts
//! what was taken and given back, and fails where a test says.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::fs::{File, Metadata};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard};

use super::abi::{
    Attribute, CallbackFlag, GetVersion, Info, InfoV2, MappingType, PERSISTENT, PinBuffer, PinV2,
    Request, Unpin, mapping_type,
};
use super::{GPU_PAGE, PATH_FOR_OPEN};
use crate::memory::{Exported, GpuMemory, Location, MemoryError};
use crate::system::{Errno, Linux, ProcessId, System};

/// Where the GPU's memory begins, and how much there is.
pub(crate) const BASE: u64 = 0x7F00_0000_0000;
pub(crate) const SIZE: u64 = 16 * GPU_PAGE;

/// The process of a test, unless it says otherwise.
pub(crate) const PROCESS: ProcessId = ProcessId::fake(100);
/// One that was forked from it.
pub(crate) const CHILD: ProcessId = ProcessId::fake(101);

/// A place where the fake can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Open,
    Ioctl(u32),
    Mmap,
    MmapOfExport,
}

struct PinState {
    handle: u64,
    first: u64,
    size: u64,
    lead: u64,
    revoked: bool,
    kind: u32,
    mapped: Option<(usize, usize)>,
}

struct FileState {
    opener: ProcessId,
    next_handle: u64,
    /// Newest first, as the driver keeps them.
    pins: Vec<PinState>,
}

/// What the fake does and has seen.
pub(crate) struct State {
    pub(crate) driver: u32,
    pub(crate) minimum_api: u32,
    /// Pages are kept until they are unpinned, and no free is reported.
    pub(crate) persistent: bool,
    /// The owner of memory can distinguish allocations.
    pub(crate) numbers_buffers: bool,
    /// What was freed is allocated again at once, at the same address.
    pub(crate) reuses: bool,
    pub(crate) fail: Option<(Step, Errno)>,
    /// Memory, from an address to an end, that is freed just before a step.
    pub(crate) free_before: Option<(Step, u64, u64)>,
    /// What the info calls say in place of the truth: address, size, type.
    pub(crate) lie: Option<(u64, u64, u32)>,
    pub(crate) process: ProcessId,
    /// Names of the calls that were made.
    pub(crate) log: Vec<&'static str>,
    /// Calls with a handle that was not pinned.
    pub(crate) stale: usize,
    /// Calls of processes that have not opened the device.
    pub(crate) strangers: usize,
    pub(crate) mapped: usize,
    freed: Vec<(u64, u64)>,
    files: BTreeMap<RawFd, FileState>,
    next_file: RawFd,
}

pub(crate) struct Fake {
    memory: File,
    state: Mutex<State>,
}

impl Fake {
    pub(crate) fn new() -> Arc<Self> {
        // SAFETY: a new descriptor, which nobody else owns.
        let memory = unsafe {
            let file = libc::memfd_create(c"fake-gpu".as_ptr(), libc::MFD_CLOEXEC);
            assert!(file >= 0);
            File::from_raw_fd(file)
        };
        memory.set_len(SIZE).unwrap();
        let state = State {
            driver: 2 << 16 | 6,
            minimum_api: 2 << 16,
            persistent: false,
            numbers_buffers: true,
            reuses: false,
            fail: None,
            free_before: None,
            lie: None,
            process: PROCESS,
            log: Vec::new(),
            stale: 0,
            strangers: 0,
            mapped: 0,
            freed: Vec::new(),
            files: BTreeMap::new(),
            next_file: 1 << 20,
        };
        Arc::new(Self { memory, state: Mutex::new(state) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Descriptors, pins and mappings that were not given back.
    pub(crate) fn left(&self) -> (usize, usize, usize) {
        let state = self.state();
        let pins = state.files.values().map(|file| file.pins.len()).sum();
        (state.files.len(), pins, state.mapped)
    }

    /// Descriptors of its memory that were exported and are open.
    pub(crate) fn exported(&self) -> usize {
        let file = |meta: Metadata| (meta.dev(), meta.ino());
        let ours = self.memory.metadata().map(file).unwrap();
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        // Those of other tests come and go.
        let found = open.filter_map(|entry| std::fs::metadata(entry.path()).map(file).ok());
        found.filter(|found| *found == ours).count() - 1
    }

    /// An allocation; the fake does not care whether they overlap.
    pub(crate) fn memory(self: &Arc<Self>, address: u64, len: usize) -> FakeMemory {
        FakeMemory { fake: Arc::clone(self), address, len }
    }

    /// Frees memory under whoever has pinned it.
    pub(crate) fn free(&self, address: u64, len: u64) {
        let gone = self.state().free(address, address + len);
        assert!(gone > 0, "nobody has mapped that");
    }
}

impl State {
    /// Frees memory; says how many mappings went with it.
    pub(crate) fn free(&mut self, from: u64, to: u64) -> usize {
        self.freed.push((from, to));
        let mut gone = 0;
        for pin in self.files.values_mut().flat_map(|file| &mut file.pins) {
            if pin.first < to && from < pin.first + pin.size {
                gone += usize::from(pin.mapped.is_some());
                if self.persistent {
                    continue;
                }
                pin.revoked = true;
                pin.kind = mapping_type::NONE;
                if let Some((start, length)) = pin.mapped {
                    let start = ptr::with_exposed_provenance_mut(start);
                    // The pages stay reserved, and touching them is fatal.
                    // SAFETY: the mapping is there until munmap.
                    let result = unsafe { libc::mprotect(start, length, libc::PROT_NONE) };
                    assert_eq!(result, 0);
                }
            }
        }
        gone
    }

    /// What happens before a step: a free beside it, a failure.
    fn before(&mut self, step: Step) -> Result<(), Errno> {
        if let Some((_, from, to)) = self.free_before.take_if(|(before, ..)| *before == step) {
            self.free(from, to);
        }
        match self.fail {
            Some((failing, errno)) if failing == step => Err(errno),
            _ => Ok(()),
        }
    }

    fn pin(&mut self, file: RawFd, address: u64, size: u64) -> Result<u64, Errno> {
        let first = address / GPU_PAGE * GPU_PAGE;
        // Releases up to 2.4.1 hand the size on as they got it, and the GPU driver refuses parts of
        // its pages; later ones of 2.4 say the same version and round up.
        let rounds_up = self.driver >= 2 << 16 | 5;
        let end = match address + size {
            end if rounds_up => end.next_multiple_of(GPU_PAGE),
            end if end % GPU_PAGE == 0 => end,
            _ => return Err(Errno(libc::EINVAL)),
        };
        let freed = self.freed.iter().any(|(from, to)| first < *to && *from < end);
        if size == 0 || first < BASE || end > BASE + SIZE || freed {
            return Err(Errno(libc::EINVAL));
        }
        let file = self.files.get_mut(&file).ok_or(Errno(libc::EBADF))?;
        let handle = file.next_handle;
        file.next_handle += (end - first) / Linux.page_size() as u64;
        let pin = PinState {
            handle,
            first,
            size: end - first,
            lead: address - first,
            revoked: false,
            kind: mapping_type::NONE,
            mapped: None,
        };
        file.pins.insert(0, pin);
        Ok(handle)
    }

    /// The pin of a handle; for one that is not there the oldest, as the driver's list has it.
    fn find(&mut self, file: RawFd, handle: u64) -> Result<usize, Errno> {
        let pins = &self.files.get(&file).ok_or(Errno(libc::EBADF))?.pins;
        match pins.iter().position(|pin| pin.handle == handle) {
            Some(at) => Ok(at),
            None => {
                let oldest = pins.len().checked_sub(1).ok_or(Errno(libc::EINVAL));
                self.stale += 1;
                oldest
            }
        }
    }

    fn pin_of(&mut self, file: RawFd, handle: u64) -> Result<&mut PinState, Errno> {
        let at = self.find(file, handle)?;
        self.files.get_mut(&file).map(|file| &mut file.pins[at]).ok_or(Errno(libc::EBADF))
    }

    /// Address, size and type, true or not.
    fn info(&mut self, file: RawFd, handle: u64) -> Result<(u64, u64, u32), Errno> {
        let lie = self.lie;
        let pin = self.pin_of(file, handle)?;
        Ok(lie.unwrap_or((pin.first, pin.size, pin.kind)))
    }
}

/// The structure that a caller passed.
///
/// # Safety
/// It is an `R`, as the code says.
unsafe fn structure<'a, R: Request>(argument: *mut c_void) -> &'a mut R {
    // SAFETY: the caller's promise.
    unsafe { &mut *argument.cast() }
}

impl System for Fake {
    fn open(&self, path: &CStr) -> Result<RawFd, Errno> {
        assert_eq!(path, PATH_FOR_OPEN);
        let mut state = self.state();
        state.log.push("open");
        state.before(Step::Open)?;
        let file = state.next_file;
        state.next_file += 1;
        let opener = state.process;
        state.files.insert(file, FileState { opener, next_handle: 0, pins: Vec::new() });
        Ok(file)
    }

    fn close(&self, file: RawFd) {
        let mut state = self.state();
        state.log.push("close");
        assert!(state.files.remove(&file).is_some(), "closed twice, or never opened");
    }

    unsafe fn ioctl(&self, file: RawFd, code: u32, argument: *mut c_void) -> Result<(), Errno> {
        let mut state = self.state();
        let opener = state.files.get(&file).ok_or(Errno(libc::EBADF))?.opener;
        if opener != state.process {
            state.strangers += 1;
            return Err(Errno(libc::EACCES));
        }
        state.before(Step::Ioctl(code))?;
        let newer_than = |minor: u32| state.driver >= 2 << 16 | minor;
        let (has_info_v2, has_pin_v2) = (newer_than(4), newer_than(5));
        // SAFETY: each code with its structure, as Request promises.
        unsafe {
            match code {
                GetVersion::CODE => {
                    state.log.push("version");
                    let answer: &mut GetVersion = structure(argument);
                    (answer.driver, answer.minimum_api) = (state.driver, state.minimum_api);
                }
                PinBuffer::CODE => {
                    state.log.push("pin");
                    let request: &mut PinBuffer = structure(argument);
                    request.handle = state.pin(file, request.address, request.size)?;
                }
                PinV2::CODE if has_pin_v2 => {
                    state.log.push("pin v2");
                    let request: &mut PinV2 = structure(argument);
                    request.handle = state.pin(file, request.address, request.size)?;
                }
                MappingType::CODE if has_pin_v2 => {
                    state.log.push("mapping type");
                    let request: &mut MappingType = structure(argument);
                    let pin = state.pin_of(file, request.handle)?;
                    match request.kind {
                        _ if pin.mapped.is_some() => return Err(Errno(libc::EBUSY)),
                        mapping_type::NONE | mapping_type::WRITE_COMBINING => {}
                        _ => return Err(Errno(libc::EOPNOTSUPP)),
                    }
                }
                Info::CODE => {
                    state.log.push("info");
                    let answer: &mut Info = structure(argument);
                    let (va, size, kind) = state.info(file, answer.handle)?;
                    (answer.va, answer.mapped_size, answer.page_size) = (va, size, GPU_PAGE as u32);
                    answer.mapped = u32::from(kind != mapping_type::NONE);
                    answer.write_combining = u32::from(kind == mapping_type::WRITE_COMBINING);
                }
                InfoV2::CODE if has_info_v2 => {
                    state.log.push("info v2");
                    let answer: &mut InfoV2 = structure(argument);
                    let (va, size, kind) = state.info(file, answer.handle)?;
                    (answer.va, answer.mapped_size, answer.page_size) = (va, size, GPU_PAGE as u32);
                    answer.mapping_type = kind;
                }
                Attribute::CODE if has_pin_v2 => {
                    let answer: &mut Attribute = structure(argument);
                    if answer.attribute != PERSISTENT {
                        return Err(Errno(libc::EINVAL));
                    }
                    answer.value = u32::from(state.persistent);
                }
                CallbackFlag::CODE => {
                    let answer: &mut CallbackFlag = structure(argument);
                    answer.flag = u32::from(state.pin_of(file, answer.handle)?.revoked);
                }
                Unpin::CODE => {
                    state.log.push("unpin");
                    let request: &mut Unpin = structure(argument);
                    let at = state.find(file, request.handle)?;
                    let pins = &mut state.files.get_mut(&file).ok_or(Errno(libc::EBADF))?.pins;
                    assert!(pins[at].mapped.is_none(), "unpinned while mapped");
                    pins.remove(at);
                }
                _ => return Err(Errno(libc::ENOTTY)),
            }
        }
        Ok(())
    }

    fn mmap(&self, file: RawFd, length: usize, offset: u64) -> Result<NonNull<u8>, Errno> {
        let mut state = self.state();
        let Some(opener) = state.files.get(&file).map(|file| file.opener) else {
            // A real descriptor: an export.
            state.before(Step::MmapOfExport)?;
            let start = Linux.mmap(file, length, offset)?;
            state.mapped += 1;
            return Ok(start);
        };
        state.log.push("mmap");
        if opener != state.process {
            return Err(Errno(libc::EACCES));
        }
        state.before(Step::Mmap)?;
        let page = Linux.page_size() as u64;
        assert_eq!(offset % page, 0);
        let pin = state.pin_of(file, offset / page)?;
        if pin.mapped.is_some() || pin.revoked || pin.lead != 0 || length as u64 > pin.size {
            return Err(Errno(libc::EINVAL));
        }
        let start = Linux.mmap(self.memory.as_raw_fd(), length, pin.first - BASE)?;
        pin.mapped = Some((start.as_ptr().expose_provenance(), length));
        pin.kind = mapping_type::WRITE_COMBINING;
        state.mapped += 1;
        Ok(start)
    }

    unsafe fn munmap(&self, start: NonNull<u8>, length: usize) -> Result<(), Errno> {
        let mut state = self.state();
        state.log.push("munmap");
        let mapped = Some((start.as_ptr().addr(), length));
        for pin in state.files.values_mut().flat_map(|file| &mut file.pins) {
            if pin.mapped == mapped {
                (pin.mapped, pin.kind) = (None, mapping_type::NONE);
            }
        }
        state.mapped -= 1;
        // SAFETY: the caller's promise.
        unsafe { Linux.munmap(start, length) }
    }

    unsafe fn cover(&self, start: NonNull<u8>, length: usize) -> Result<(), Errno> {
        self.state().log.push("cover");
        // SAFETY: the caller's promise.
        unsafe { Linux.cover(start, length) }
    }

    fn process(&self) -> ProcessId {
        self.state().process
    }

    fn page_size(&self) -> usize {
        Linux.page_size()
    }
}

/// An allocation in the fake's memory.
pub(crate) struct FakeMemory {
    fake: Arc<Fake>,
    address: u64,
    len: usize,
}

// SAFETY: nothing but the fake's own calls reaches the memory.
unsafe impl GpuMemory for FakeMemory {
    fn device_address(&self) -> u64 {
        self.address
    }

    fn len(&self) -> usize {
        self.len
    }

    fn location(&self) -> Location {
        Location::Device { ordinal: 0 }
    }

    fn export(&self) -> Result<Exported, MemoryError> {
        let offset = self.address.checked_sub(BASE).ok_or("not memory of this GPU")?;
        let descriptor = OwnedFd::from(self.fake.memory.try_clone()?);
        Ok(Exported { descriptor, offset })
    }

    fn buffer_id(&self) -> Result<Option<u64>, MemoryError> {
        let (start, end) = (self.address, self.address.saturating_add(self.len as u64));
        let state = self.fake.state();
        let frees = state.freed.iter().filter(|(from, to)| start < *to && *from < end).count();
        match frees {
            0 => Ok(state.numbers_buffers.then_some(1)),
            _ if state.reuses => Ok(state.numbers_buffers.then_some(1 + frees as u64)),
            _ => Err("nothing lies there".into()),
        }
    }

    fn driver_read(&self, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        Ok(self.fake.memory.read_exact_at(into, self.address - BASE + offset as u64)?)
    }

    fn driver_write(&self, offset: usize, from: &[u8]) -> Result<(), MemoryError> {
        Ok(self.fake.memory.write_all_at(from, self.address - BASE + offset as u64)?)
    }
}
