//! Arenas of the emulated GPU: memory files, mapped in a window of addresses of this process.
//!
//! A file that could shrink would kill whoever touches what was its end. So the files are sealed
//! in their size, and one from another process is taken only with those seals. Addresses of the
//! window where nothing is mapped are reserved pages that fault.

#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;

use rustix::fs::{
    MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fcntl_getfl, fstat, fstatfs,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use super::super::backing::Backing;
use super::super::memory::{checked_size, copy_from_shared, copy_to_shared, memory_file};
use super::super::observer::Observer;
use super::super::window::{AddressRange, Reserved, Window};
use super::super::{GpuError, MemoryError};

/// Exponents of the window's size: 256 GiB, and no less than 64 MiB.
const WINDOW_BITS: std::ops::RangeInclusive<u32> = 26..=38;
static WINDOW: Reserved = Reserved::new();

/// Seals that keep a file's size as it is for ever.
const FIXED_SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
/// Seals of a file that cannot be mapped for writing.
const READ_ONLY: SealFlags = SealFlags::WRITE.union(SealFlags::FUTURE_WRITE);

/// Flags of pages that only reserve their addresses.
const NOTHING: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);

pub(super) fn window() -> Result<&'static Window, MemoryError> {
    WINDOW.get(WINDOW_BITS, |bytes| {
        // SAFETY: a new mapping at an address of the system's choice touches no memory in use.
        unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), NOTHING) }
            .map(<*mut _>::cast)
            .map_err(|errno| GpuError::system("mmap", errno).into())
    })
}

/// A memory file mapped in the window.
pub(super) struct Pages {
    range: AddressRange,
    file: OwnedFd,
    observer: Option<&'static dyn Observer>,
}

impl Pages {
    pub(super) fn new(
        bytes: usize,
        observer: Option<&'static dyn Observer>,
    ) -> Result<Self, MemoryError> {
        let bytes = checked_size("GPU memory", bytes)?;
        let file = memory_file("GPU memory", MemfdFlags::ALLOW_SEALING, bytes)?;
        fcntl_add_seals(&file, FIXED_SIZE).map_err(|errno| GpuError::system("fcntl", errno))?;
        Self::map(file, bytes, observer)
    }

    pub(super) fn import(
        file: OwnedFd,
        bytes: usize,
        observer: Option<&'static dyn Observer>,
    ) -> Result<Self, MemoryError> {
        inspect(&file, bytes).map_err(MemoryError::Foreign)?;
        Self::map(file, bytes, observer)
    }

    fn map(
        file: OwnedFd,
        bytes: usize,
        observer: Option<&'static dyn Observer>,
    ) -> Result<Self, MemoryError> {
        let mut range = window()?.allocate(bytes)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the range is a part of the window that nobody else has, so that the pages which
        // are replaced are reserved ones.
        match unsafe { mmap(range.address().cast(), bytes, protection, flags, &file, 0) } {
            Ok(_) => Ok(Self { range, file, observer }),
            Err(errno) => {
                // The system may have taken the reserved pages away before it failed, and put
                // something else there since.
                range.abandon();
                Err(GpuError::system("mmap", errno).into())
            }
        }
    }
}

/// Whether a descriptor from another process is an arena of that size.
fn inspect(file: &OwnedFd, bytes: usize) -> Result<(), String> {
    let failed = |errno: rustix::io::Errno| format!("fcntl: {errno}");
    // Asked first: only memory files have seals, and other calls may wait for a strange file.
    let seals = fcntl_get_seals(file).map_err(|_| "it is no memory file".to_owned())?;
    if !seals.contains(FIXED_SIZE) {
        return Err("its size is not sealed".to_owned());
    }
    let writable = fcntl_getfl(file).map_err(failed)? & OFlags::RWMODE == OFlags::RDWR;
    if !writable || seals.intersects(READ_ONLY) {
        return Err("it cannot be written".to_owned());
    }
    // Huge pages can run out when they are touched, and do not fit everywhere in the window.
    if fstatfs(file).map_err(failed)?.f_type != libc::TMPFS_MAGIC {
        return Err("it has huge pages".to_owned());
    }
    let size = fstat(file).map_err(failed)?.st_size;
    if bytes == 0
        || !bytes.is_multiple_of(rustix::param::page_size())
        || u64::try_from(size) != Ok(bytes as u64)
    {
        return Err(format!("it has {size} bytes, {bytes} were announced"));
    }
    Ok(())
}

impl Backing for Pages {
    fn range(&self) -> &AddressRange {
        &self.range
    }

    fn export(&self) -> Result<OwnedFd, GpuError> {
        self.file.try_clone().map_err(|error| GpuError::system("dup", error))
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), GpuError> {
        let from = self.range.address().wrapping_add(offset);
        if !self.observer.is_some_and(|observer| observer.read(from, into)) {
            // SAFETY: Arena checked the range, the pages are mapped as long as `self` lives, and
            // kernels write what they share by atomic stores (the memory contract).
            unsafe { copy_from_shared(from, into) };
        }
        Ok(())
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<(), GpuError> {
        let to = self.range.address().wrapping_add(offset);
        if !self.observer.is_some_and(|observer| observer.write(to, from)) {
            // SAFETY: as for `read`.
            unsafe { copy_to_shared(from, to) };
        }
        Ok(())
    }

    fn mark(&self, offset: usize, in_use: bool) {
        if let Some(observer) = self.observer {
            observer.mark(self.range.address().wrapping_add(offset), in_use);
        }
    }

    fn allow(&self, ordinal: Option<i32>) -> Result<(), MemoryError> {
        match ordinal {
            None => Ok(()),
            Some(_) => Err(GpuError::Unsupported {
                what: "memory for a CUDA device",
                kind: "emulated",
                remedy: "use GPUs of one kind",
            }
            .into()),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let (address, bytes) = (self.range.address().cast(), self.range.bytes());
        let flags = NOTHING | MapFlags::FIXED;
        // SAFETY: the range is ours, and no kernel touches it any more: those that knew it have
        // ended (the deferred free), or it may be freed all the same (`Arena::allow_free`).
        if let Err(errno) = unsafe { mmap_anonymous(address, bytes, ProtFlags::empty(), flags) } {
            self.range.abandon();
            tracing::warn!(%errno, "an arena was not unmapped");
        }
    }
}
