//! Memory that kernels and host share ([`HostMemory`]) and memory of the GPU itself
//! ([`DeviceMemory`]).
//!
//! Both belong to a backend ([`Owner`]): it decides when a piece that was dropped is really given
//! back, since a running kernel may still touch it. Neither type ever forms a Rust slice over its
//! bytes: the other side may write them at any time.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use gpunet_device::Errno;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};

use super::fork_guard::ForkGuard;
use super::{GpuError, MemoryError};

/// Pages of a memory file mapped into this process, zeroed, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    mapped: usize,
    pub(super) file: OwnedFd,
}

// SAFETY: a mapping belongs to the process, not to a thread; Mapping itself only holds its bounds.
unsafe impl Send for Mapping {}
// SAFETY: as above, and nothing in Mapping reads or writes the bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// New ones; another process can be given the file.
    pub(super) fn new(what: &'static str, bytes: usize) -> Result<Self, MemoryError> {
        let mapped = checked_size(what, bytes)?;
        let fd = memory_file(what, MemfdFlags::empty(), mapped)?;
        // SAFETY: a new mapping at an address of the system's choice touches no memory in use.
        let start = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            mmap(ptr::null_mut(), mapped, protection, MapFlags::SHARED, &fd, 0)
        }
        .map_err(|errno| GpuError::system("mmap", errno))?;
        let start = NonNull::new(start.cast())
            .ok_or(GpuError::System { call: "mmap", errno: Errno::EFAULT })?;
        Ok(Self { start, mapped, file: fd })
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The size, in whole pages.
    pub(super) fn mapped(&self) -> usize {
        self.mapped
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the pages were mapped by `new`'s callers, and who drops a mapping (an Owner,
        // once no kernel runs) knows of no other user.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
        debug_assert!(result.is_ok());
    }
}

/// A memory file of that size.
pub(super) fn memory_file(
    what: &'static str,
    flags: MemfdFlags,
    bytes: usize,
) -> Result<OwnedFd, MemoryError> {
    // The system kills a process that makes a larger file than it may.
    if let Some(most) = getrlimit(Resource::Fsize).current.filter(|most| *most < bytes as u64) {
        let why = format!("files may have {most} bytes: raise the limit (ulimit -f unlimited)");
        return Err(MemoryError::Refused { what, asked: bytes, why });
    }
    let file = memfd_create("gpunet", flags | MemfdFlags::CLOEXEC)
        .map_err(|errno| GpuError::system("memfd_create", errno))?;
    ftruncate(&file, bytes as u64).map_err(|errno| GpuError::system("ftruncate", errno))?;
    Ok(file)
}

/// Rounds up to pages; refuses nothing at all and more than there is.
pub(super) fn checked_size(what: &'static str, bytes: usize) -> Result<usize, MemoryError> {
    let refused = |why: String| MemoryError::Refused { what, asked: bytes, why };
    if bytes == 0 {
        return Err(refused("the size must not be 0".to_owned()));
    }
    let mapped = bytes
        .checked_next_multiple_of(rustix::param::page_size())
        .filter(|mapped| isize::try_from(*mapped).is_ok())
        .ok_or_else(|| refused("larger than the address space".to_owned()))?;
    // Pages are given on first use: without this check a size beyond memory would succeed here
    // and the process be killed later, with no message.
    match available_memory() {
        Some(available) if mapped as u64 > available => {
            Err(refused(format!("this machine has {available} bytes left")))
        }
        _ => Ok(mapped),
    }
}

/// Bytes that the machine can still give, where it says so.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    let machine = kibibytes.saturating_mul(1024);
    let read = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse().ok()
    };
    match (read("memory.max"), read("memory.current")) {
        (Some(limit), Some(used)) => Some(machine.min(limit.saturating_sub(used))),
        _ => Some(machine),
    }
}

/// The backend's part: it takes memory back and reaches GPU memory.
pub(super) trait Owner: Send + Sync {
    fn take_back(&self, memory: Given);
    fn read(&self, address: *const u8, into: &mut [u8]) -> Result<(), GpuError>;
    fn write(&self, address: *mut u8, from: &[u8]) -> Result<(), GpuError>;
    /// The driver's number of the device; 0 on the emulated GPU, which is the only one.
    fn ordinal(&self) -> i32;
    /// The driver's number of the allocation at an address, which no other ever gets; None on the
    /// emulated GPU, whose memory nobody else can free.
    fn buffer_id(&self, address: *const u8) -> Result<Option<u64>, GpuError>;
    /// A dma-buf of memory that the driver allocated.
    fn export(&self, address: u64, bytes: usize) -> Result<OwnedFd, GpuError>;
}

/// Memory on its way back to the system.
#[derive(Debug)]
pub(super) enum Given {
    /// Pages; `registered` with the CUDA driver or not.
    Pages { pages: Mapping, registered: bool },
    /// An allocation of the CUDA driver.
    Device { address: u64 },
}

/// Host memory that kernels reach by the address [`device_ptr`](Self::device_ptr): pages of a
/// memory file, zeroed.
pub struct HostMemory {
    pages: Option<Mapping>,
    start: *mut u8,
    device: *mut u8,
    bytes: usize,
    registered: bool,
    owner: ForkGuard<Arc<dyn Owner>>,
}

// SAFETY: the pointers are addresses of memory that the process owns; no method dereferences them.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    pub(super) fn new(
        pages: Mapping,
        device: *mut u8,
        bytes: usize,
        registered: bool,
        owner: Arc<dyn Owner>,
    ) -> Self {
        let start = pages.as_ptr();
        let owner = ForkGuard::new(owner);
        Self { pages: Some(pages), start, device, bytes, registered, owner }
    }

    /// Address for the host, page aligned.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// Address for kernels.
    #[must_use]
    pub fn device_ptr(&self) -> *mut u8 {
        self.device
    }

    /// The size asked for. The pages behind it reach up to the next page boundary.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never: memory of size 0 is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether it was made by that backend.
    pub(super) fn is_owned_by<O: Owner>(&self, owner: &Arc<O>) -> bool {
        ptr::addr_eq(Arc::as_ptr(&self.owner), Arc::as_ptr(owner))
    }

    /// Whether this process made it.
    pub(crate) fn is_own(&self) -> bool {
        self.owner.is_own()
    }

    /// The memory file behind the pages, which another process can map.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pages.as_ref().map(|pages| pages.file.as_fd())
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        match self.pages.take() {
            Some(pages) if self.owner.is_own() => {
                self.owner.take_back(Given::Pages { pages, registered: self.registered });
            }
            parents => std::mem::forget(parents),
        }
    }
}

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostMemory")
            .field("start", &self.start)
            .field("bytes", &self.bytes)
            .finish()
    }
}

/// Memory of the GPU, zeroed. The host reaches it only through [`read`](Self::read) and
/// [`write`](Self::write), which do not wait for running kernels.
pub struct DeviceMemory {
    pub(super) given: Option<Given>,
    device: *mut u8,
    pub(super) bytes: usize,
    pub(super) owner: ForkGuard<Arc<dyn Owner>>,
}

// SAFETY: as for HostMemory; reads and writes go through the owner, which is Sync.
unsafe impl Send for DeviceMemory {}
// SAFETY: as above.
unsafe impl Sync for DeviceMemory {}

impl DeviceMemory {
    pub(super) fn new(given: Given, device: *mut u8, bytes: usize, owner: Arc<dyn Owner>) -> Self {
        Self { given: Some(given), device, bytes, owner: ForkGuard::new(owner) }
    }

    /// Address for kernels.
    #[must_use]
    pub fn device_ptr(&self) -> *mut u8 {
        self.device
    }

    /// The size asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never: memory of size 0 is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether it was made by that backend.
    pub(super) fn is_owned_by<O: Owner>(&self, owner: &Arc<O>) -> bool {
        ptr::addr_eq(Arc::as_ptr(&self.owner), Arc::as_ptr(owner))
    }

    /// Copies bytes out. A kernel may write them meanwhile: each byte is then old or new.
    ///
    /// # Errors
    /// Bytes outside the memory, or what the driver says.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        let address = self.at(offset, into.len())?;
        Ok(self.owner.get()?.read(address, into)?)
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// Bytes outside the memory, or what the driver says.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), MemoryError> {
        let address = self.at(offset, from.len())?;
        Ok(self.owner.get()?.write(address, from)?)
    }

    fn at(&self, offset: usize, len: usize) -> Result<*mut u8, MemoryError> {
        MemoryError::check("bytes", offset, len, self.bytes)?;
        Ok(self.device.wrapping_add(offset))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        match self.given.take() {
            Some(given) if self.owner.is_own() => self.owner.take_back(given),
            parents => std::mem::forget(parents),
        }
    }
}

impl std::fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceMemory")
            .field("device", &self.device)
            .field("bytes", &self.bytes)
            .finish()
    }
}

/// Copies bytes that other threads may write at the same time, by relaxed atomic loads.
///
/// # Safety
/// `from` must be valid for reads of `into.len()` bytes, written by others only atomically.
pub(super) unsafe fn copy_from_shared(from: *const u8, into: &mut [u8]) {
    let (head, words) = split(from, into.len());
    let (first, rest) = into.split_at_mut(head);
    let (middle, last) = rest.split_at_mut(words * 8);
    let bytes = |offset: usize, into: &mut [u8]| {
        for (index, byte) in into.iter_mut().enumerate() {
            // SAFETY: inside the range that the caller promises.
            *byte =
                unsafe { &*from.add(offset + index).cast::<AtomicU8>() }.load(Ordering::Relaxed);
        }
    };
    bytes(0, first);
    for (index, word) in middle.chunks_exact_mut(8).enumerate() {
        // SAFETY: inside the range, and `split` made `from + head` a multiple of 8.
        let cell = unsafe { &*from.add(head + index * 8).cast::<AtomicU64>() };
        word.copy_from_slice(&cell.load(Ordering::Relaxed).to_ne_bytes());
    }
    bytes(head + words * 8, last);
}

/// Copies bytes to where other threads may read at the same time, by relaxed atomic stores.
///
/// # Safety
/// `to` must be valid for writes of `from.len()` bytes, accessed by others only atomically.
pub(super) unsafe fn copy_to_shared(from: &[u8], to: *mut u8) {
    let (head, words) = split(to, from.len());
    let (first, rest) = from.split_at(head);
    let (middle, last) = rest.split_at(words * 8);
    let bytes = |offset: usize, from: &[u8]| {
        for (index, byte) in from.iter().enumerate() {
            // SAFETY: inside the range that the caller promises.
            unsafe { &*to.add(offset + index).cast::<AtomicU8>() }.store(*byte, Ordering::Relaxed);
        }
    };
    bytes(0, first);
    for (index, word) in middle.chunks_exact(8).enumerate() {
        // SAFETY: inside the range, and `split` made `to + head` a multiple of 8.
        let cell = unsafe { &*to.add(head + index * 8).cast::<AtomicU64>() };
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        cell.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
    bytes(head + words * 8, last);
}

/// Bytes before the first multiple of 8, and whole words after it.
fn split(start: *const u8, len: usize) -> (usize, usize) {
    let head = (start.addr().wrapping_neg() % 8).min(len);
    (head, (len - head) / 8)
}
