//! Copies between host and GPU memory that wait for no kernel: on a stream of their own, through
//! pinned staging memory, completed by polling.
//!
//! Copies of pageable memory may synchronise implicitly, and a driver's memset may be a kernel
//! that finds no room beside resident ones; copies of pinned memory use the copy engines.

use std::ptr;

use super::driver::{Failed, call};
use super::stream::Lane;

/// Bytes of staging memory.
const STAGING: usize = 1 << 20;
/// CU_MEMHOSTALLOC_PORTABLE.
const PORTABLE: u32 = 1;

#[derive(Debug)]
pub(super) struct Copier {
    lane: Lane,
    staging: *mut u8,
}

// SAFETY: the staging memory belongs to the copier alone, the lane may be used from any thread.
unsafe impl Send for Copier {}

impl Copier {
    /// Needs the context to be current, as all methods do.
    pub(super) fn new() -> Result<Self, Failed> {
        let lane = Lane::new()?;
        let mut staging = ptr::null_mut();
        // SAFETY: writes one pointer.
        match unsafe { call!(cuMemHostAlloc(&mut staging, STAGING, PORTABLE)) } {
            Ok(()) => Ok(Self { lane, staging: staging.cast() }),
            Err(failed) => {
                lane.destroy();
                Err(failed)
            }
        }
    }

    /// Copies from the GPU.
    ///
    /// # Safety
    /// `address` must be GPU memory of at least `into.len()` bytes.
    pub(super) unsafe fn read(&mut self, mut address: u64, into: &mut [u8]) -> Result<(), Failed> {
        for part in into.chunks_mut(STAGING) {
            let (staging, stream) = (self.staging.cast(), self.lane.stream);
            // SAFETY: the caller vouches for the source; the staging memory has STAGING bytes.
            unsafe { call!(cuMemcpyDtoHAsync_v2(staging, address, part.len(), stream)) }?;
            self.lane.finish()?;
            // SAFETY: the copy is done and nobody else has the staging memory.
            unsafe { ptr::copy_nonoverlapping(self.staging, part.as_mut_ptr(), part.len()) };
            address += part.len() as u64;
        }
        Ok(())
    }

    /// Copies to the GPU.
    ///
    /// # Safety
    /// `address` must be GPU memory of at least `from.len()` bytes.
    pub(super) unsafe fn write(&mut self, mut address: u64, from: &[u8]) -> Result<(), Failed> {
        for part in from.chunks(STAGING) {
            // SAFETY: the last copy is done and nobody else has the staging memory.
            unsafe { ptr::copy_nonoverlapping(part.as_ptr(), self.staging, part.len()) };
            // SAFETY: the caller vouches for the target; the staging memory has STAGING bytes.
            unsafe { self.to_gpu(address, part.len()) }?;
            self.lane.finish()?;
            address += part.len() as u64;
        }
        Ok(())
    }

    /// Fills with zeroes.
    ///
    /// # Safety
    /// `address` must be GPU memory of at least `bytes` bytes.
    pub(super) unsafe fn clear(&mut self, address: u64, bytes: usize) -> Result<(), Failed> {
        // SAFETY: the last copy is done and nobody else has the staging memory.
        unsafe { ptr::write_bytes(self.staging, 0, STAGING) };
        for offset in (0..bytes).step_by(STAGING) {
            let part = STAGING.min(bytes - offset);
            // SAFETY: the caller vouches for the target; the staging memory has STAGING bytes.
            unsafe { self.to_gpu(address + offset as u64, part) }?;
        }
        self.lane.finish()
    }

    /// # Safety
    /// As for `write`; at most STAGING bytes.
    unsafe fn to_gpu(&self, address: u64, bytes: usize) -> Result<(), Failed> {
        let (staging, stream) = (self.staging.cast(), self.lane.stream);
        // SAFETY: the caller keeps it.
        unsafe { call!(cuMemcpyHtoDAsync_v2(address, staging, bytes, stream)) }
    }

    /// Gives everything back; no kernel may run.
    pub(super) fn destroy(self) {
        self.lane.destroy();
        // SAFETY: every copy is done; the memory is the copier's own.
        let _ = unsafe { call!(cuMemFreeHost(self.staging.cast())) };
    }
}
