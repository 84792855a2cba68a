//! The memory contract: what the GPU and the proxy agree on, byte for byte.
//!
//! `docs/reference/memory-contract.md` has one row for each word here. Everything shared is a 64-bit word,
//! reached through [`word`]; those that two processors share have one writer, and no pointer stands in
//! them. Records, which only the GPU touches, hold addresses and locks.

pub mod address;
pub mod bits;
pub mod call;
pub mod descriptor;
pub mod errno;
pub mod handle;
pub mod layout;
pub mod message;
#[cfg(feature = "loom")]
pub mod model;
pub mod net;
pub mod option;
pub(crate) mod ring;
pub mod word;

/// Changes with every change of anything in this module, and of the functions of the device library.
pub const VERSION: u32 = 11;

/// "gnet", little-endian: the first word of every [`net::Net`].
pub const MAGIC: u32 = u32::from_le_bytes(*b"gnet");

/// What images of kernels, that of the device library and the host compare before they are linked:
/// magic, version, size of the net argument, nothing yet.
pub const ABI: [u32; 4] = [MAGIC, VERSION, size_of::<net::Net>() as u32, 0];

/// [`ABI`] as an image of kernels carries it.
#[cfg(all(target_arch = "nvptx64", not(feature = "library")))]
#[allow(unsafe_code, reason = "an exported name; no_mangle is called unsafe")]
#[unsafe(no_mangle)]
#[used]
pub static GPUNET_ABI: [u32; 4] = ABI;

/// [`ABI`] as the image of the device library carries it.
#[cfg(all(target_arch = "nvptx64", feature = "library"))]
#[allow(unsafe_code, reason = "an exported name; no_mangle is called unsafe")]
#[unsafe(no_mangle)]
#[used]
pub static GPUNET_LIBRARY_ABI: [u32; 4] = ABI;
