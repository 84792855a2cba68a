//! The device library, as the build has compiled it: what a kernel's calls are linked with.

use super::Module;

/// The library's PTX, or why there is none.
pub(super) const LIBRARY: Module = include!(concat!(env!("OUT_DIR"), "/gpunet_device.module.rs"));
