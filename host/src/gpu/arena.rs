//! Memory of the GPU that another process, or another net of this one, can be given: arenas. All
//! of a process lie in one window of addresses ([`ArenaWindow`]), so that kernels name a place in
//! any of them by its offset.
//!
//! Making, exporting, importing and dropping an arena wait for no kernel. One that is dropped stays
//! mapped until all launches have ended that ran then ([`deferred_free`]): none of them faults there,
//! or hits the arena that came after. Unless its user knows better ([`Arena::allow_free`]). Its bytes are
//! the other process's concern: it has a mapping of its own.
//!
//! Bytes of an arena belong to both processes. What the other one writes there is not to be
//! trusted, nor that it keeps to any order.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::backing::Backing;
use super::{ArenaWindow, Gpu, GpuError, MemoryError, deferred_free};

impl Gpu {
    /// Whether this GPU has arenas; the reason if not.
    ///
    /// # Errors
    /// A driver or device that cannot share memory between processes.
    pub(crate) fn arenas_work(&self) -> Result<(), GpuError> {
        self.inner.arenas_work()
    }

    /// The window in which all arenas of GPUs of this kind lie; reserved at the first call, the
    /// same for the rest of the process.
    ///
    /// # Errors
    /// A GPU that has no arenas, or no addresses left.
    pub(crate) fn arena_window(&self) -> Result<ArenaWindow, MemoryError> {
        self.inner.arena_window()
    }

    /// New memory of this GPU, zeroed, mapped in the window. The size is rounded up: to 2 MiB on
    /// CUDA, to a page on the emulated GPU.
    ///
    /// # Errors
    /// A size of 0 or beyond memory, a full window, or what the driver says.
    pub(crate) fn arena(&self, bytes: usize) -> Result<Arena, MemoryError> {
        self.inner.arena(bytes)
    }

    /// Memory that another process has exported, mapped in the window. `bytes` is what that
    /// process says of [`Arena::len`]. Neither that nor the descriptor is trusted; a descriptor
    /// that is accepted can never become one whose bytes fault when they are touched.
    ///
    /// On CUDA the driver alone knows the size of what is exported: memory smaller than `bytes` is
    /// refused, of larger memory only `bytes` bytes are mapped.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`]: not exported by a GPU of this kind, of another size, or on a
    /// device that this GPU does not reach. A full window, or what the driver says.
    pub(crate) fn import_arena(
        &self,
        descriptor: OwnedFd,
        bytes: usize,
    ) -> Result<Arena, MemoryError> {
        self.inner.import_arena(descriptor, bytes)
    }

    /// Which GPU this is: two processes of a machine that get the same mean the same device, if it
    /// has arenas at all. The two kinds of GPU never give the same.
    pub(crate) fn identity(&self) -> [u8; 17] {
        self.inner.identity()
    }
}

/// See the module, above all for what a drop means.
pub(crate) struct Arena {
    backing: Arc<dyn Backing>,
    may_free: AtomicBool,
    abandoned: AtomicBool,
}

impl Arena {
    pub(super) fn new(backing: impl Backing + 'static) -> Self {
        let (may_free, abandoned) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { backing: Arc::new(backing), may_free, abandoned }
    }

    /// Where it starts in the window, page aligned.
    pub(crate) fn offset(&self) -> u64 {
        self.backing.range().offset()
    }

    /// The size, rounded up.
    pub(crate) fn len(&self) -> usize {
        self.backing.range().bytes()
    }

    /// A descriptor for [`Gpu::import_arena`] in another process. It shows all of the arena and
    /// nothing else, and keeps the memory alive when the arena is gone.
    ///
    /// # Errors
    /// No descriptor left, or what the driver says: CUDA's exports no memory that was imported.
    pub(crate) fn export(&self) -> Result<OwnedFd, GpuError> {
        self.backing.export()
    }

    /// Lets kernels of another GPU of this process reach the arena too; nothing to do for the one
    /// it was made with.
    ///
    /// # Errors
    /// A GPU without peer access to the memory, or of another kind.
    pub(crate) fn allow(&self, gpu: &Gpu) -> Result<(), MemoryError> {
        self.backing.allow(gpu.inner.cuda_ordinal())
    }

    /// Copies bytes out. Waits for no kernel; one may write them meanwhile: each byte is then old
    /// or new.
    ///
    /// # Errors
    /// Bytes outside the arena, or what the driver says.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        MemoryError::check("bytes", offset, into.len(), self.len())?;
        Ok(self.backing.read(offset, into)?)
    }

    /// Says that kernels may use it as long as they run, whatever becomes of its users.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has said so.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Says that its last user was closed in order, and so long ago that no kernel looks there any
    /// more: it is unmapped when it is dropped, whatever runs.
    pub(crate) fn allow_free(&self) {
        // Relaxed: who drops it last has synchronised with all others.
        self.may_free.store(true, Ordering::Relaxed);
    }

    /// Copies bytes in. Waits for no kernel.
    ///
    /// # Errors
    /// Bytes outside the arena, or what the driver says.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        MemoryError::check("bytes", offset, bytes.len(), self.len())?;
        Ok(self.backing.write(offset, bytes)?)
    }

    /// Says that what begins there is in use from now on, with what was written last, or that it is free:
    /// for who checks accesses ([`Observer`](super::observer::Observer)).
    pub(crate) fn mark(&self, offset: usize, in_use: bool) {
        self.backing.mark(offset, in_use);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if !self.may_free.load(Ordering::Relaxed) {
            deferred_free::keep(Arc::clone(&self.backing));
        }
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("range", self.backing.range()).finish_non_exhaustive()
    }
}
