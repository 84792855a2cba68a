//! The memory contract: what the GPU and the proxy agree on, byte for byte.
//!
//! `docs/memory-contract.md` has one row for each word here. Everything shared is a 64-bit word
//! with one writer, reached through [`word`]; no pointer stands in shared memory.

pub mod address;
pub mod card;
pub mod errno;
pub mod express;
pub mod handle;
pub mod layout;
pub mod message;
#[cfg(feature = "loom")]
pub mod model;
pub mod net;
pub mod option;
pub mod word;

/// Changes with every change of anything in this module.
pub const VERSION: u32 = 6;

/// "gnet", little-endian: the first word of every [`net::Net`].
pub const MAGIC: u32 = u32::from_le_bytes(*b"gnet");

/// What a PTX module and the host compare before the first launch: magic, version, size of the
/// net argument, nothing yet.
pub const ABI: [u32; 4] = [MAGIC, VERSION, size_of::<net::Net>() as u32, 0];

/// [`ABI`] as a PTX module carries it.
#[cfg(target_arch = "nvptx64")]
#[allow(unsafe_code, reason = "an exported name; no_mangle is called unsafe")]
#[unsafe(no_mangle)]
#[used]
pub static GPUNET_ABI: [u32; 4] = ABI;
