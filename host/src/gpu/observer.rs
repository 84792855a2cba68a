//! Who checks what happens on an emulated GPU. It is passed in with the options
//! ([`EmulatedOptions`](super::EmulatedOptions)); programs have none, and then nobody is asked.

use std::ops::Range;

/// See the module. All calls come from the OS thread that does what they report.
pub(crate) trait Observer: Send + Sync {
    /// These threads have met at a barrier, by their indices in the worker; `whole_block`: they are all of a
    /// block.
    fn met(&self, threads: Range<u32>, whole_block: bool);

    /// The host copies bytes out of GPU memory. False: the GPU is to do so.
    fn read(&self, from: *const u8, into: &mut [u8]) -> bool;

    /// The host copies bytes into GPU memory. False: the GPU is to do so.
    fn write(&self, to: *mut u8, from: &[u8]) -> bool;

    /// What begins there in an arena is in use from now on, with what was written last; or it is free. As
    /// allocators report memory to a sanitizer.
    fn mark(&self, at: *mut u8, in_use: bool);
}
