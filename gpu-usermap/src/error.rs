//! What can go wrong: with a mapping that is to be made ([`MapError`], and [`Why`] for each
//! backend), and with one that is used ([`AccessError`]). Each message is one line.

use crate::gdrdrv::version::Version;
use crate::{Backend, Errno, MemoryError};

/// No mapping was made, and nothing is left of the attempt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// A range without a byte.
    #[error("a mapping of 0 bytes: ask for at least one")]
    Empty,
    /// A range that the allocation does not have.
    #[error("bytes {start} to {end} of an allocation of {len} bytes: stay inside it")]
    OutOfRange {
        /// Where the range starts.
        start: usize,
        /// Where it ends.
        end: usize,
        /// How large the allocation is.
        len: usize,
    },
    /// The GPU gave no memory to map.
    #[error("no memory to map: {0}")]
    NoMemory(#[source] MemoryError),
    /// Every backend was passed over.
    #[error("this memory cannot be mapped: {}", listed(.passed))]
    NoBackend {
        /// Each backend, and why.
        passed: Vec<PassedOver>,
    },
}

fn listed(passed: &[PassedOver]) -> String {
    let lines: Vec<String> = passed.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

/// A backend that did not make the mapping.
#[derive(Debug, thiserror::Error)]
#[error("{backend}: {why}")]
pub struct PassedOver {
    /// Which.
    pub backend: Backend,
    /// Why not.
    pub why: Why,
}

/// Why a backend was passed over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// The caller wants another one.
    #[error("not asked for")]
    NotAsked,
    /// It maps memory of another kind.
    #[error("not for {location}")]
    OtherMemory {
        /// What the memory is.
        location: &'static str,
    },
    /// There is no device node.
    #[error("no {path}: load the kernel module gdrdrv (gdrcopy's insmod.sh makes the device node)")]
    NoDevice {
        /// Where it should be.
        path: &'static str,
    },
    /// The device node is not for this user.
    #[error("no permission to open {path}: have the administrator give it mode 0666")]
    NoPermission {
        /// The node.
        path: &'static str,
    },
    /// The driver has an older protocol.
    #[error("gdrdrv {driver} is too old: install 2.0 or newer")]
    DriverTooOld {
        /// What it says it is.
        driver: Version,
    },
    /// The driver has a newer protocol.
    #[error("gdrdrv {driver} serves clients from {minimum} on, this one is {ours}: update it")]
    ClientTooOld {
        /// What it says it is.
        driver: Version,
        /// What it wants.
        minimum: Version,
        /// What it gets.
        ours: Version,
    },
    /// A call failed.
    #[error("{call}: {errno}{}", remedy(*.call, *.errno))]
    Refused {
        /// Which call.
        call: Call,
        /// How.
        errno: Errno,
    },
    /// The memory went away before the mapping stood.
    #[error("the memory was freed while it was being mapped: keep it until then")]
    Freed,
    /// The owner of the memory gives no dma-buf.
    #[error("no dma-buf of this memory: {0}")]
    NotExported(#[source] MemoryError),
    /// A driver said what cannot be.
    #[error("the driver's answer makes no sense: {what}")]
    Nonsense {
        /// Which answer.
        what: &'static str,
    },
}

/// A call that a backend makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// Opening the device.
    Open,
    /// Asking for the driver's version.
    Version,
    /// Pinning pages.
    Pin,
    /// Asking for a type of mapping.
    MappingType,
    /// Mapping pinned pages.
    MapPinned,
    /// Asking what was mapped.
    Info,
    /// Mapping a dma-buf.
    MapExport,
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Open => "opening the device",
            Self::Version => "asking for the version",
            Self::Pin => "pinning",
            Self::MappingType => "asking for the type of mapping",
            Self::MapPinned => "mapping the pinned pages",
            Self::Info => "asking what was mapped",
            Self::MapExport => "mapping the dma-buf",
        })
    }
}

/// What to do about it, where that is known.
fn remedy(call: Call, errno: Errno) -> &'static str {
    match (call, errno.0) {
        (Call::MapExport, libc::ENODEV | libc::EOPNOTSUPP | 524) => {
            ": the GPU driver maps none for the CPU; driver API 13.3 or newer does"
        }
        (Call::Open | Call::MapExport, _) => "",
        (_, libc::EACCES) => ": the device was opened by another process, open it in this one",
        (Call::Pin, libc::EINVAL) => ": the range is not memory of a GPU that this process uses",
        (Call::Pin, libc::ENOMEM) => ": the GPU's BAR1 window is full, map less",
        (Call::MappingType, libc::EBUSY) => ": it is mapped already, with another type",
        (Call::MappingType, libc::EOPNOTSUPP) => ": this machine has no such mappings",
        (Call::MapPinned, libc::EAGAIN) => ": the system's page attributes forbid it",
        _ => "",
    }
}

/// A mapping cannot be used like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Outside the mapping.
    #[error("bytes {start} to {end} of a mapping of {len} bytes: stay inside it")]
    OutOfBounds {
        /// Where the access starts.
        start: usize,
        /// Where it ends.
        end: usize,
        /// How large the mapping is.
        len: usize,
    },
    /// A word across its natural boundary.
    #[error("a word of {width} bytes at offset {offset}: its device address must be a multiple")]
    Misaligned {
        /// Where the access starts.
        offset: usize,
        /// How wide it is.
        width: usize,
    },
    /// The driver has taken the memory away: it was freed, or its device was reset.
    #[error("the GPU memory behind the mapping is gone: map again after allocating again")]
    Revoked,
    /// Its pages were replaced, by [`Mapping::abandon`](crate::Mapping::abandon).
    #[error("the mapping was abandoned, and what is stored there reaches no GPU: map again")]
    Abandoned,
    /// A process that was forked after the mapping was made.
    #[error("the mapping was made by another process: map again in this one")]
    OtherProcess,
    /// The driver does not say whether the mapping stands.
    #[error("the driver does not say whether the mapping stands: {0}")]
    Unknown(Errno),
}
