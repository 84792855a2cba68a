//! A device as the connection manager has opened it.

use std::net::SocketAddr;
use std::ptr::NonNull;
use std::sync::Arc;

use super::channel::{EventChannel, Token};
use super::error::VerbsError;
use super::id::Id;
use super::list::{Transport, name_of};
use crate::load::Libraries;
use crate::sys::types as c;

/// A device that connections can use. Clones are the same device.
#[derive(Clone)]
pub struct Device(Arc<Opened>);

struct Opened {
    libraries: &'static Libraries,
    context: NonNull<c::ibv_context>,
    name: String,
    /// Bound to an address of the device: the connection manager keeps a device that was unplugged
    /// open only as long as an id is on it.
    _anchor: Id,
}

// SAFETY: verbs may be called from any thread, also at once.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Device {
    /// The device that has a local address; the port does not matter.
    ///
    /// All ids with addresses of one device share one context of verbs, also with this.
    pub fn at(libraries: &'static Libraries, local: SocketAddr) -> Result<Self, VerbsError> {
        let mut any_port = local;
        any_port.set_port(0);
        let anchor = Id::create(&EventChannel::open(libraries)?, Token::default())?;
        anchor.bind(any_port).map_err(|error| match error.errno() {
            Some(libc::ENODEV | libc::EADDRNOTAVAIL) => VerbsError::NoDeviceAt(local),
            _ => error,
        })?;
        let context = anchor.context().ok_or(VerbsError::NoDeviceAt(local))?;
        // SAFETY: the anchor keeps the context and its device open.
        let (name, transport) = unsafe {
            let device = context.as_ref().device;
            (name_of(libraries, device), Transport::from((*device).transport_type))
        };
        if transport != Transport::InfiniBand {
            return Err(VerbsError::Transport { name, transport });
        }
        Ok(Self(Arc::new(Opened { libraries, context, name, _anchor: anchor })))
    }

    /// Its name, such as `mlx5_0`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn libraries(&self) -> &'static Libraries {
        self.0.libraries
    }

    pub(super) fn context(&self) -> NonNull<c::ibv_context> {
        self.0.context
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.context() == other.context()
    }
}

impl Eq for Device {}

impl Id {
    /// Whether the id has come to this device.
    #[must_use]
    pub fn is_on(&self, device: &Device) -> bool {
        self.context() == Some(device.context())
    }
}
