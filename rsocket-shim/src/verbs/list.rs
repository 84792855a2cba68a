//! The RDMA devices of this machine, for people and for choosing.

use std::ffi::{CStr, c_int};
use std::fmt;

use super::error::{VerbsError, check};
use crate::load::Libraries;
use crate::sys::types as c;

/// A device and its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// What it uses.
    pub transport: Transport,
    /// Its ports, numbered from 1.
    pub ports: Vec<PortInfo>,
}

/// A port of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// From 1.
    pub number: u8,
    /// Whether it can be used.
    pub state: PortState,
    /// What it is plugged into.
    pub link_layer: LinkLayer,
}

/// What a device uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// InfiniBand's transport, which RoCE has too.
    InfiniBand,
    /// RDMA over TCP.
    Iwarp,
    /// Another, by the number that verbs have for it.
    Other(i32),
}

/// Whether a port can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// No link.
    Down,
    /// A link that is not configured yet.
    Initialising,
    /// In use.
    Active,
    /// Another, by the number that verbs have for it.
    Other(u32),
}

/// What a port is plugged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE or iWARP.
    Ethernet,
    /// The device does not say.
    Unknown,
}

/// Every device that can be opened now, in the system's order.
pub fn devices(libraries: &'static Libraries) -> Result<Vec<DeviceInfo>, VerbsError> {
    let list = List::new(libraries)?;
    list.devices().map(|device| describe(libraries, device)).collect()
}

/// The list as the library gives it, freed when dropped.
struct List {
    libraries: &'static Libraries,
    first: *mut *mut c::ibv_device,
    count: usize,
}

impl List {
    fn new(libraries: &'static Libraries) -> Result<Self, VerbsError> {
        let mut count: c_int = 0;
        // SAFETY: writes one int; the list is freed by `Drop`.
        let first = unsafe { libraries.verbs.ibv_get_device_list(&raw mut count) };
        if first.is_null() {
            return Err(VerbsError::last("ibv_get_device_list"));
        }
        Ok(Self { libraries, first, count: usize::try_from(count).unwrap_or(0) })
    }

    fn devices(&self) -> impl Iterator<Item = *mut c::ibv_device> {
        // SAFETY: the list has `count` devices and lives as long as `self`.
        (0..self.count).map(|index| unsafe { *self.first.add(index) })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: freed once; an open device stays usable without the list.
        unsafe { self.libraries.verbs.ibv_free_device_list(self.first) };
    }
}

/// A device, opened to be asked.
struct Open {
    libraries: &'static Libraries,
    context: *mut c::ibv_context,
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once, nothing was made of it.
        unsafe { self.libraries.verbs.ibv_close_device(self.context) };
    }
}

fn describe(
    libraries: &'static Libraries,
    device: *mut c::ibv_device,
) -> Result<DeviceInfo, VerbsError> {
    let verbs = &libraries.verbs;
    // SAFETY: the device is on a list that lives.
    let (name, transport) = unsafe { (name_of(libraries, device), (*device).transport_type) };
    // SAFETY: as above; closed by `Drop`.
    let context = unsafe { verbs.ibv_open_device(device) };
    if context.is_null() {
        return Err(VerbsError::last("ibv_open_device"));
    }
    let open = Open { libraries, context };
    // SAFETY: zeros are valid attributes.
    let mut attributes: c::ibv_device_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the context is open, and the attributes are written.
    let asked = unsafe { verbs.ibv_query_device(open.context, &raw mut attributes) };
    check("ibv_query_device", asked)?;
    let ports = (1..=attributes.phys_port_cnt).map(|number| port(&open, number));
    let ports = ports.collect::<Result<_, _>>()?;
    Ok(DeviceInfo { name, transport: transport.into(), ports })
}

fn port(open: &Open, number: u8) -> Result<PortInfo, VerbsError> {
    // SAFETY: zeros are valid attributes.
    let mut attributes: c::ibv_port_attr = unsafe { std::mem::zeroed() };
    // The exported function writes a shorter structure, the beginning of this one.
    // SAFETY: the context is open, and there is room for more than is written.
    let asked = unsafe {
        open.libraries.verbs.ibv_query_port(open.context, number, (&raw mut attributes).cast())
    };
    check("ibv_query_port", asked)?;
    let link_layer = attributes.link_layer.into();
    Ok(PortInfo { number, state: attributes.state.into(), link_layer })
}

/// # Safety
/// The device is on a list that lives, or open.
pub(super) unsafe fn name_of(libraries: &Libraries, device: *mut c::ibv_device) -> String {
    // SAFETY: the caller's promise.
    let name = unsafe { libraries.verbs.ibv_get_device_name(device) };
    if name.is_null() {
        return "(unnamed)".to_owned();
    }
    // SAFETY: a string inside the device.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

impl From<c::ibv_transport_type> for Transport {
    fn from(number: c::ibv_transport_type) -> Self {
        match number {
            c::IBV_TRANSPORT_IB => Self::InfiniBand,
            c::IBV_TRANSPORT_IWARP => Self::Iwarp,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InfiniBand => to.write_str("InfiniBand"),
            Self::Iwarp => to.write_str("iWARP"),
            Self::Other(number) => write!(to, "transport {number}"),
        }
    }
}

impl From<c::ibv_port_state> for PortState {
    fn from(number: c::ibv_port_state) -> Self {
        match number {
            c::IBV_PORT_DOWN => Self::Down,
            c::IBV_PORT_INIT | c::IBV_PORT_ARMED => Self::Initialising,
            c::IBV_PORT_ACTIVE => Self::Active,
            other => Self::Other(other),
        }
    }
}

impl From<u8> for LinkLayer {
    fn from(number: u8) -> Self {
        match u32::from(number) {
            c::IBV_LINK_LAYER_INFINIBAND => Self::InfiniBand,
            c::IBV_LINK_LAYER_ETHERNET => Self::Ethernet,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_names() {
        assert_eq!(Transport::from(c::IBV_TRANSPORT_IB), Transport::InfiniBand);
        assert_eq!(Transport::from(c::IBV_TRANSPORT_IWARP), Transport::Iwarp);
        assert_eq!(Transport::from(-1), Transport::Other(-1));
        assert_eq!(PortState::from(4), PortState::Active);
        assert_eq!(PortState::from(99), PortState::Other(99));
        assert_eq!(LinkLayer::from(2), LinkLayer::Ethernet);
        assert_eq!(LinkLayer::from(0), LinkLayer::Unknown);
    }

    #[test]
    fn iwarp_is_refused_by_name() {
        let error = VerbsError::Transport { name: "siw0".to_owned(), transport: Transport::Iwarp };
        let line = error.to_string();
        assert!(line.starts_with("the RDMA device siw0 uses iWARP"), "{line}");
    }
}
