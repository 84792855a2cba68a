//! GPU memory mapped into the CPU: single words and small pieces cross without a call of the
//! driver.
//!
//! ```text
//!   GpuMemory      an allocation, as whoever owns it describes it (a trait)
//!      │  Mapper::map, or Mapper::allocate which may choose where the bytes lie
//!      ▼
//!   Mapping ─┬─ gdrdrv    /dev/gdrdrv pins the pages and maps them (write-combining)
//!            ├─ dma-buf   the GPU driver's own export, mapped (needs a new driver)
//!            ├─ host      pinned host memory that kernels reach: no mapping to make
//!            └─ emulated  memory of an emulated GPU: pages of this process
//!      │  Mapping::view, which asks whether the mapping still stands
//!      ▼
//!   View, Place    bounds-checked words and copies, never a Rust slice
//! ```
//!
//! The crate knows no GPU library. Who owns GPU memory implements [`GpuMemory`] for it, and a
//! [`Mapping`] holds that value, a borrow of it or an [`Arc`](std::sync::Arc): so the memory
//! cannot be freed before its mapping by safe code. What the driver takes away all the same (a
//! device that is reset) is seen by [`Mapping::check`] where the driver says so.
//!
//! # What it costs
//! Writes are posted and combined: tens of nanoseconds for small ones, several GB/s for long ones.
//! Reads wait for the bus, one 16-byte line after another: about a microsecond each and a fraction
//! of a GB/s. Read words, not buffers; the driver's copy is faster from some kilobytes on
//! (`usermap copylat` says where).
//!
//! # Order
//! On a write-combining mapping the processor keeps no order between stores, not even for a release
//! store. [`View::store_release`] and [`Place::store_release`] put the store fence there that it
//! takes, so data and then flag is what a kernel sees.
//!
//! ```
//! use gpu_usermap::{Backend, GpuMemory, Mapper, MemoryError};
//! # use std::ptr::NonNull;
//! # struct Pages(NonNull<u8>, usize);
//! # unsafe impl Send for Pages {}
//! # unsafe impl Sync for Pages {}
//! # unsafe impl GpuMemory for Pages {
//! #     fn device_address(&self) -> u64 { self.0.as_ptr() as u64 }
//! #     fn len(&self) -> usize { self.1 }
//! #     fn location(&self) -> gpu_usermap::Location { gpu_usermap::Location::Emulated(self.0) }
//! #     fn export(&self) -> Result<gpu_usermap::Exported, MemoryError> { Err("no".into()) }
//! #     fn driver_read(&self, _: usize, _: &mut [u8]) -> Result<(), MemoryError> { Ok(()) }
//! #     fn driver_write(&self, _: usize, _: &[u8]) -> Result<(), MemoryError> { Ok(()) }
//! # }
//! # let mut bytes = vec![0_u64; 512];
//! # let memory = Pages(NonNull::new(bytes.as_mut_ptr().cast()).unwrap(), 4096);
//! let mapping = Mapper::new().map(&memory, 0..4096)?;
//! assert_eq!(mapping.backend(), Backend::Emulated);
//! let view = mapping.view()?;
//! view.write(64, b"a request")?;
//! view.store_release(0, 1_u32)?; // a kernel that sees 1 sees the request
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A view does not outlive its mapping, nor a borrowed allocation its memory:
//!
//! ```compile_fail,E0505
//! # fn f<M: gpu_usermap::GpuMemory>(mapping: gpu_usermap::Mapping<M>) {
//! let view = mapping.view().unwrap();
//! drop(mapping);
//! view.store(0, 1_u8).unwrap();
//! # }
//! ```
//!
//! ```compile_fail,E0505
//! # fn f<M: gpu_usermap::GpuMemory>(memory: M) {
//! let mapping = gpu_usermap::Mapper::new().map(&memory, 0..8).unwrap();
//! drop(memory);
//! mapping.view().unwrap();
//! # }
//! ```
//!
//! Why it is so: decision 20 of docs/explanation/decisions.md.

mod bus;
mod caching;
mod dmabuf;
mod error;
pub mod gdrdrv;
mod mapper;
mod mapping;
mod memory;
mod system;
#[cfg(test)]
mod tests;
mod view;

pub use bus::Word;
pub use caching::Caching;
pub use error::{AccessError, Call, MapError, PassedOver, Why};
pub use mapper::{Backend, Choice, Mapper};
pub use mapping::Mapping;
pub use memory::{Allocate, Exported, GpuMemory, Location, MemoryError};
pub use system::{Errno, Linux, Pages, ProcessId, System};
pub use view::{Place, View};
