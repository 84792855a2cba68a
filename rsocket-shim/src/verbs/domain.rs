//! A protection domain: which memory which queue pairs may use.

use std::ptr::NonNull;
use std::sync::Arc;

use super::device::Device;
use super::error::VerbsError;
use crate::sys::types as c;

/// A protection domain. Clones are the same one.
#[derive(Clone)]
pub struct Domain(Arc<Allocated>);

struct Allocated {
    device: Device,
    domain: NonNull<c::ibv_pd>,
}

// SAFETY: verbs may be called from any thread, also at once.
unsafe impl Send for Allocated {}
// SAFETY: as above.
unsafe impl Sync for Allocated {}

impl Domain {
    /// A new domain of a device.
    pub fn allocate(device: &Device) -> Result<Self, VerbsError> {
        // SAFETY: the device keeps its context open.
        let domain = unsafe { device.libraries().verbs.ibv_alloc_pd(device.context().as_ptr()) };
        let domain = NonNull::new(domain).ok_or_else(|| VerbsError::last("ibv_alloc_pd"))?;
        Ok(Self(Arc::new(Allocated { device: device.clone(), domain })))
    }

    /// The device that it belongs to.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    pub(super) fn as_ptr(&self) -> *mut c::ibv_pd {
        self.0.domain.as_ptr()
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // Fails only for what still uses the domain, and all of that holds it.
        // SAFETY: the last use of the domain; the device is still open.
        unsafe { self.device.libraries().verbs.ibv_dealloc_pd(self.domain.as_ptr()) };
    }
}
