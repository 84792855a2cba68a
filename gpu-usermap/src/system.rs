//! The system calls of this crate, behind a trait: the real ones, and in tests a driver that is not
//! there. Descriptors and pages are given back here, once.

#![allow(unsafe_code, reason = "system calls")]

mod process;
#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_void};
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};

pub use process::ProcessId;

/// An error number of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Linux' number, internal to the kernel, for what a driver does not support.
    pub const ENOTSUPP: Self = Self(524);

    fn last() -> Self {
        Self(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ENOTSUPP => f.write_str("not supported by the driver (os error 524)"),
            Self(number) => io::Error::from_raw_os_error(number).fmt(f),
        }
    }
}

/// What a mapping asks of the operating system.
pub trait System: Send + Sync {
    /// Opens a device for reading and writing, closed on exec.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &CStr) -> Result<RawFd, Errno>;

    /// Closes what `open` gave.
    fn close(&self, file: RawFd);

    /// A call of the device's own.
    ///
    /// # Errors
    /// The device's.
    ///
    /// # Safety
    /// `argument` points to the structure that the call reads and writes.
    unsafe fn ioctl(&self, file: RawFd, code: u32, argument: *mut c_void) -> Result<(), Errno>;

    /// Maps a file for reading and writing, shared, wherever there is room.
    ///
    /// # Errors
    /// The system's.
    fn mmap(&self, file: RawFd, length: usize, offset: u64) -> Result<NonNull<u8>, Errno>;

    /// Ends a mapping.
    ///
    /// # Errors
    /// The system's.
    ///
    /// # Safety
    /// `mmap` gave it with that length, and nobody uses it any more.
    unsafe fn munmap(&self, start: NonNull<u8>, length: usize) -> Result<(), Errno>;

    /// Puts zeroed pages of this process in the place of a mapping, at one stroke for all threads.
    ///
    /// # Errors
    /// The system's; the mapping is as it was then.
    ///
    /// # Safety
    /// `mmap` gave it with that length, and it was not ended.
    unsafe fn cover(&self, start: NonNull<u8>, length: usize) -> Result<(), Errno>;

    /// The calling process.
    fn process(&self) -> ProcessId;

    /// Bytes of a page.
    fn page_size(&self) -> usize;
}

/// The real one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl System for Linux {
    fn open(&self, path: &CStr) -> Result<RawFd, Errno> {
        // SAFETY: the path is a C string.
        let file = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if file < 0 { Err(Errno::last()) } else { Ok(file) }
    }

    fn close(&self, file: RawFd) {
        // SAFETY: `File` owns the descriptor and closes it once.
        unsafe { libc::close(file) };
    }

    unsafe fn ioctl(&self, file: RawFd, code: u32, argument: *mut c_void) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let result = unsafe { libc::ioctl(file, libc::Ioctl::from(code), argument) };
        if result < 0 { Err(Errno::last()) } else { Ok(()) }
    }

    fn mmap(&self, file: RawFd, length: usize, offset: u64) -> Result<NonNull<u8>, Errno> {
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno(libc::EOVERFLOW))?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the system's choice touches no memory in use.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), length, protection, libc::MAP_SHARED, file, offset)
        };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        NonNull::new(start.cast()).ok_or(Errno(libc::EFAULT))
    }

    unsafe fn munmap(&self, start: NonNull<u8>, length: usize) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let result = unsafe { libc::munmap(start.as_ptr().cast(), length) };
        if result < 0 { Err(Errno::last()) } else { Ok(()) }
    }

    unsafe fn cover(&self, start: NonNull<u8>, length: usize) -> Result<(), Errno> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: replaces a mapping that the caller owns, and nothing else.
        let covered =
            unsafe { libc::mmap(start.as_ptr().cast(), length, protection, flags, -1, 0) };
        if covered == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(()) }
    }

    fn process(&self) -> ProcessId {
        ProcessId::current()
    }

    fn page_size(&self) -> usize {
        // SAFETY: asks for a number.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    }
}

/// An open device, closed when dropped.
pub(crate) struct File {
    pub(crate) system: Arc<dyn System>,
    pub(crate) descriptor: RawFd,
}

impl File {
    pub(crate) fn open(system: Arc<dyn System>, path: &CStr) -> Result<Self, Errno> {
        let descriptor = system.open(path)?;
        Ok(Self { system, descriptor })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.system.close(self.descriptor);
    }
}

/// Mapped pages, unmapped when dropped.
pub struct Pages {
    system: Arc<dyn System>,
    start: NonNull<u8>,
    length: usize,
    process: ProcessId,
    /// Zeroed pages of this process lie there by now.
    covered: AtomicBool,
}

// SAFETY: a mapping belongs to the process, not to a thread; Pages itself only holds its bounds.
unsafe impl Send for Pages {}
// SAFETY: as above, and nothing in Pages reads or writes the bytes.
unsafe impl Sync for Pages {}

impl Pages {
    pub(crate) fn map(
        system: Arc<dyn System>,
        file: RawFd,
        length: usize,
        offset: u64,
    ) -> Result<Self, Errno> {
        let start = system.mmap(file, length, offset)?;
        let process = system.process();
        Ok(Self { system, start, length, process, covered: AtomicBool::new(false) })
    }

    /// The first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Puts zeroed pages in their place.
    pub(crate) fn cover(&self) -> Result<(), Errno> {
        if !self.are_here() {
            return Err(Errno(libc::EPERM));
        }
        // SAFETY: `map` made the mapping with that length, and only the drop ends it.
        unsafe { self.system.cover(self.start, self.length) }?;
        // Pairs with the load in `are_covered`.
        self.covered.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether `cover` has put other pages in their place.
    pub(crate) fn are_covered(&self) -> bool {
        self.covered.load(Ordering::Acquire)
    }

    /// Bytes mapped.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether this is the process that mapped them: one that was forked has not inherited them,
    /// and something else may lie there.
    fn are_here(&self) -> bool {
        self.system.process() == self.process
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.are_here() {
            // SAFETY: `map` made it with that length, and views borrow from the owner of `self`.
            let result = unsafe { self.system.munmap(self.start, self.length) };
            debug_assert!(result.is_ok());
        }
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("start", &self.start).field("length", &self.length).finish()
    }
}
