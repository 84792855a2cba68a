//! The GPU driver's own export, mapped: a dma-buf (of an emulated GPU a memory file), whose
//! descriptor is kept as long as the mapping.

#![allow(unsafe_code, reason = "an address inside mapped pages")]

use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Call, Why};
use crate::memory::{Exported, MemoryError};
use crate::system::{Pages, System};

/// A range of a dma-buf. Its fields are dropped in this order: pages first.
#[derive(Debug)]
pub(crate) struct Mapped {
    pages: Pages,
    lead: usize,
    /// Keeps the memory exported.
    _descriptor: OwnedFd,
}

impl Mapped {
    /// Maps `length` bytes from `start` on of the memory that was exported.
    pub(crate) fn new(
        system: &Arc<dyn System>,
        exported: Result<Exported, MemoryError>,
        start: usize,
        length: usize,
    ) -> Result<Self, Why> {
        let Exported { descriptor, offset } = exported.map_err(Why::NotExported)?;
        let beyond = Why::Nonsense { what: "an export beyond all offsets" };
        let page = system.page_size() as u64;
        let Some(first) = offset.checked_add(start as u64) else { return Err(beyond) };
        let lead = (first % page) as usize;
        let span = lead.checked_add(length).and_then(|s| s.checked_next_multiple_of(page as usize));
        let Some(span) = span else { return Err(beyond) };
        let file = descriptor.as_raw_fd();
        let pages = Pages::map(Arc::clone(system), file, span, first - lead as u64)
            .map_err(|errno| Why::Refused { call: Call::MapExport, errno })?;
        Ok(Self { pages, lead, _descriptor: descriptor })
    }

    /// The pages that are mapped.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The first byte of the range.
    pub(crate) fn start(&self) -> NonNull<u8> {
        // SAFETY: the lead is less than a page, and the span has at least one.
        unsafe { self.pages.start().add(self.lead) }
    }
}
