//! A mapping: what the backend made, and the memory that it keeps alive.

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::caching::Caching;
use crate::error::{AccessError, PassedOver};
use crate::memory::GpuMemory;
use crate::system::{Errno, Pages, ProcessId, System};
use crate::view::View;
use crate::{Backend, dmabuf, gdrdrv};

/// What a backend made, which undoes it when dropped.
#[derive(Debug)]
pub(crate) enum Held {
    Gdrdrv(gdrdrv::Mapped),
    DmaBuf(dmabuf::Mapped, Caching),
    Direct(NonNull<u8>),
}

impl Held {
    /// The pages that were mapped; none where the memory itself is the CPU's.
    fn pages(&self) -> Option<&Pages> {
        match self {
            Self::Gdrdrv(mapped) => Some(mapped.pages()),
            Self::DmaBuf(mapped, _) => Some(mapped.pages()),
            Self::Direct(_) => None,
        }
    }

    /// Whether pages stay although their allocation was freed, and no free is reported.
    fn outlives_frees(&self) -> bool {
        match self {
            Self::Gdrdrv(mapped) => !mapped.reports_frees(),
            Self::DmaBuf(..) => true,
            Self::Direct(_) => false,
        }
    }
}

/// A range of GPU memory in the CPU's address space. It holds the memory, or a borrow of it; dropped,
/// it unmaps and unpins before it lets go of that.
///
/// It belongs to the process that made it: a child has to map again.
pub struct Mapping<M: GpuMemory> {
    held: Held,
    range: Range<usize>,
    backend: Backend,
    passed: Vec<PassedOver>,
    system: Arc<dyn System>,
    process: ProcessId,
    /// The allocation that was mapped, where that has to be looked at.
    buffer: Option<u64>,
    /// Last, so that it goes last.
    memory: M,
}

// SAFETY: the pointer in `held` leads to memory that is reached by atomic accesses alone;
// everything else in here may be sent and shared.
#[allow(unsafe_code, reason = "a pointer inside")]
unsafe impl<M: GpuMemory> Send for Mapping<M> {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a pointer inside")]
unsafe impl<M: GpuMemory> Sync for Mapping<M> {}

impl<M: GpuMemory> Mapping<M> {
    pub(crate) fn new(
        memory: M,
        held: Held,
        range: Range<usize>,
        buffer: Option<u64>,
        (backend, system, passed): (Backend, Arc<dyn System>, Vec<PassedOver>),
    ) -> Self {
        let process = system.process();
        let buffer = buffer.filter(|_| held.outlives_frees());
        Self { held, range, backend, passed, system, process, buffer, memory }
    }

    /// With what was tried on other memory before this.
    pub(crate) fn after(mut self, passed: Vec<PassedOver>) -> Self {
        self.passed = passed;
        self
    }

    /// How it was mapped.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// The backends that were tried before, and why they were passed over.
    #[must_use]
    pub fn passed_over(&self) -> &[PassedOver] {
        &self.passed
    }

    /// How the processor treats it.
    #[must_use]
    pub fn caching(&self) -> Caching {
        match &self.held {
            Held::Gdrdrv(mapped) => mapped.caching(),
            Held::DmaBuf(_, caching) => *caching,
            Held::Direct(_) => Caching::Cached,
        }
    }

    /// Where kernels find its first byte.
    #[must_use]
    pub fn device_address(&self) -> u64 {
        self.memory.device_address() + self.range.start as u64
    }

    /// Bytes mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Never: an empty range is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The memory it maps.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Asks whether the memory is still there. By gdrdrv the driver is asked, a system call. In its
    /// persistent mode, and by dma-buf, the pages stay when the allocation is freed, and what is
    /// stored there reaches no kernel: then the owner of the memory is asked which allocation lies
    /// there ([`GpuMemory::buffer_id`]). The other backends reach the memory itself.
    ///
    /// # Errors
    /// It is gone, the mapping was abandoned, or this is another process.
    pub fn check(&self) -> Result<(), AccessError> {
        if self.system.process() != self.process {
            return Err(AccessError::OtherProcess);
        }
        if self.held.pages().is_some_and(Pages::are_covered) {
            return Err(AccessError::Abandoned);
        }
        if let Held::Gdrdrv(mapped) = &self.held {
            mapped.check()?;
        }
        if self.buffer.is_none() || self.memory.buffer_id().is_ok_and(|now| now == self.buffer) {
            Ok(())
        } else {
            Err(AccessError::Revoked)
        }
    }

    /// Whether [`check`](Self::check) would see that the memory was freed: not where pages outlive
    /// their allocation and the owner of the memory cannot say.
    #[must_use]
    pub fn notices_frees(&self) -> bool {
        self.buffer.is_some() || !self.held.outlives_frees()
    }

    /// The bytes, after a [`check`](Self::check). Who keeps a view for long checks now and then: an
    /// access to memory that the driver took away is a SIGBUS, or goes nowhere.
    ///
    /// # Errors
    /// As for `check`.
    pub fn view(&self) -> Result<View<'_>, AccessError> {
        self.check()?;
        let start = match &self.held {
            Held::Gdrdrv(mapped) => mapped.start(),
            Held::DmaBuf(mapped, _) => mapped.start(),
            Held::Direct(start) => *start,
        };
        Ok(View::new(start, self.range.len(), self.caching()))
    }

    /// Puts zeroed pages of this process where the mapping lies, for who has found by
    /// [`check`](Self::check) that its memory is gone and has threads that still store there: from
    /// now on their stores have no effect, and do not end the process. Kernels see none of it, and
    /// there is no new view. Memory of the host or of an emulated GPU, which no mapping had to be
    /// made for, stays as it is.
    ///
    /// # Errors
    /// The system's; EPERM in a process that was forked after the mapping was made, where something
    /// else may lie. The mapping is as it was then.
    pub fn abandon(&self) -> Result<(), Errno> {
        self.held.pages().map_or(Ok(()), Pages::cover)
    }

    /// Unmaps, and gives the memory back to the caller.
    #[must_use]
    pub fn unmap(self) -> M {
        self.memory
    }
}

impl<M: GpuMemory> fmt::Debug for Mapping<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping")
            .field("backend", &self.backend)
            .field("range", &self.range)
            .field("caching", &self.caching())
            .finish_non_exhaustive()
    }
}
