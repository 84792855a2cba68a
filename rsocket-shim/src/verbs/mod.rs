//! What is used of verbs and of the RDMA connection manager, made safe.
//!
//! ```text
//!  EventChannel ── Id ────┬── QueuePair ── CompletionQueue
//!                         │       │              │
//!                  Device (anchor)│       CompletionChannel
//!                         │       │
//!                       Domain ───┴── Region ── Memory
//! ```
//!
//! Nothing blocks: both channels have descriptors to wait on. Each value keeps alive what it is
//! made of, whatever the order in which a program drops them: a queue pair goes before its
//! completion queue and its id, a region before its memory, all before their device. All of them
//! may be moved to another thread.

#![allow(unsafe_code, reason = "calls libibverbs and librdmacm")]

mod address;
mod channel;
mod completion;
mod device;
mod domain;
mod error;
mod event;
mod id;
mod list;
mod queue_pair;
mod region;

pub use channel::{EventChannel, Token};
pub use completion::{CompletionChannel, CompletionQueue};
pub use device::Device;
pub use domain::Domain;
pub use error::VerbsError;
pub use event::{Event, EventKind, Step};
pub use id::{Id, MAX_ACCEPT_DATA, MAX_CONNECT_DATA, MAX_REJECT_DATA};
pub use list::{DeviceInfo, LinkLayer, PortInfo, PortState, Transport, devices};
pub use queue_pair::{Capacity, QueuePair};
pub use region::{Access, HostMemory, Memory, MemoryKind, Place, Region, RegisterError};

pub(crate) use address::SystemAddress;

/// Everything may be made on one thread and used on another.
const _: () = {
    const fn moves<T: Send + 'static>() {}
    moves::<CompletionChannel>();
    moves::<CompletionQueue>();
    moves::<Device>();
    moves::<Domain>();
    moves::<Event>();
    moves::<EventChannel>();
    moves::<HostMemory>();
    moves::<Id>();
    moves::<QueuePair>();
    moves::<Region>();
};
