//! Memory that a device may read and write: of the host, and of GPUs in two ways.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::domain::Domain;
use super::error::last_errno;
use crate::sys::types as c;
use crate::work::{Piece, Target};

/// Where memory lies.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// Memory of the host.
    Host {
        /// Where it begins.
        address: u64,
        /// Bytes.
        length: usize,
    },
    /// Memory of another device, such as a GPU, exported as a dma-buf.
    DmaBuf {
        /// The exported buffer.
        buffer: BorrowedFd<'a>,
        /// Where the memory begins in it.
        offset: u64,
        /// What this beginning is called in work, for a GPU its device address.
        address: u64,
        /// Bytes.
        length: usize,
    },
    /// Memory of another device at an address that its peer-memory driver makes known to verbs.
    Peer {
        /// The device address.
        address: u64,
        /// Bytes.
        length: usize,
    },
}

/// Memory that can be registered.
///
/// # Safety
/// [`Memory::place`] always returns the same place, and the memory there stays what it is until
/// the value is dropped. The implementor lets a device and a peer write it at any time: it is
/// never seen through a Rust reference meanwhile.
pub unsafe trait Memory: Send + Sync {
    /// Where it lies.
    fn place(&self) -> Place<'_>;
}

/// How memory is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// The host's.
    Host,
    /// A dma-buf.
    DmaBuf,
    /// A device address, by a peer-memory driver.
    Peer,
}

/// Who may do what with registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The device reads it, to send.
    Source,
    /// The peer writes it.
    Target,
}

/// Why memory was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the RDMA device {device} does not register {length} bytes of {kind} ({}): {}",
    io::Error::from_raw_os_error(*errno),
    self.remedy()
)]
pub struct RegisterError {
    /// How it was to be registered.
    pub kind: MemoryKind,
    /// Bytes.
    pub length: usize,
    /// The device.
    pub device: String,
    /// The system's error number.
    pub errno: i32,
}

/// Registered memory; unregistered, and only then let go, when this is dropped.
pub struct Region {
    registered: NonNull<c::ibv_mr>,
    address: u64,
    length: usize,
    local_key: u32,
    remote_key: u32,
    domain: Domain,
    _memory: Arc<dyn Memory>,
}

// SAFETY: verbs may be called from any thread, and the rest is `Send` and `Sync`.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Registers memory. The region keeps it.
    pub fn register(
        domain: &Domain,
        memory: Arc<dyn Memory>,
        access: Access,
    ) -> Result<Self, RegisterError> {
        let verbs = &domain.device().libraries().verbs;
        let rights = access.rights();
        let (kind, address, length) = match memory.place() {
            Place::Host { address, length } => (MemoryKind::Host, address, length),
            Place::DmaBuf { address, length, .. } => (MemoryKind::DmaBuf, address, length),
            Place::Peer { address, length } => (MemoryKind::Peer, address, length),
        };
        let refused = |errno| RegisterError {
            kind,
            length,
            device: domain.device().name().to_owned(),
            errno,
        };
        let registered = match memory.place() {
            Place::Host { .. } | Place::Peer { .. } => {
                let address = usize::try_from(address).map_err(|_| refused(libc::EFAULT))?;
                // SAFETY: the domain lives. The memory is there as long as `memory`, which is let
                // go after this registration, and stands being written by others.
                unsafe {
                    verbs.ibv_reg_mr(
                        domain.as_ptr(),
                        ptr::with_exposed_provenance_mut(address),
                        length,
                        rights,
                    )
                }
            }
            Place::DmaBuf { buffer, offset, .. } => {
                let Ok(register) = verbs.ibv_reg_dmabuf_mr.as_ref() else {
                    return Err(refused(libc::ENOSYS));
                };
                // SAFETY: as above; the buffer's descriptor is open.
                unsafe {
                    register(domain.as_ptr(), offset, length, address, buffer.as_raw_fd(), rights)
                }
            }
        };
        let registered = NonNull::new(registered).ok_or_else(|| refused(last_errno()))?;
        // SAFETY: a region that was just registered.
        let (local_key, remote_key) =
            unsafe { (registered.as_ref().lkey, registered.as_ref().rkey) };
        let domain = domain.clone();
        Ok(Self { registered, address, length, local_key, remote_key, domain, _memory: memory })
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// A part of it for local work; nothing where it does not lie inside.
    #[must_use]
    pub fn piece(&self, offset: usize, length: u32) -> Option<Piece> {
        let address = self.part(offset, length)?;
        Some(Piece { address, key: self.local_key, length })
    }

    /// A part of it for a peer to write; nothing where it does not lie inside.
    #[must_use]
    pub fn target(&self, offset: usize, length: u32) -> Option<Target> {
        let address = self.part(offset, length)?;
        Some(Target { address, key: self.remote_key, length })
    }

    fn part(&self, offset: usize, length: u32) -> Option<u64> {
        let end = offset.checked_add(usize::try_from(length).ok()?)?;
        if end > self.length {
            return None;
        }
        self.address.checked_add(u64::try_from(offset).ok()?)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // Fails only while memory windows are bound to it, and there are none.
        // SAFETY: registered once, unregistered once; the domain is still there.
        unsafe {
            self.domain.device().libraries().verbs.ibv_dereg_mr(self.registered.as_ptr());
        }
    }
}

impl Access {
    fn rights(self) -> i32 {
        let rights = match self {
            // Reading for local work needs no right.
            Self::Source => 0,
            Self::Target => c::IBV_ACCESS_LOCAL_WRITE | c::IBV_ACCESS_REMOTE_WRITE,
        };
        rights as i32
    }
}

impl RegisterError {
    fn remedy(&self) -> &'static str {
        match (self.kind, self.errno) {
            (MemoryKind::DmaBuf, libc::ENOSYS) => {
                "libibverbs lacks ibv_reg_dmabuf_mr, update rdma-core"
            }
            (MemoryKind::DmaBuf, libc::EOPNOTSUPP) => {
                "its driver does not know dma-buf, use peer memory or rings in host memory"
            }
            (MemoryKind::Peer, libc::EFAULT | libc::EINVAL) => {
                "is the kernel module nvidia_peermem loaded? Otherwise use rings in host memory"
            }
            (_, libc::ENOMEM | libc::EAGAIN | libc::EPERM) => {
                "raise the limit of locked memory (ulimit -l), or use smaller buffers"
            }
            _ => "use rings in host memory",
        }
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Host => "host memory",
            Self::DmaBuf => "dma-buf memory",
            Self::Peer => "peer memory",
        })
    }
}

/// Pages of the host's memory, of zeros at first, that a device and a peer may write.
pub struct HostMemory {
    first: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its pages; they are read and written byte by byte through pointers alone.
unsafe impl Send for HostMemory {}
// SAFETY: as above: what others write at the same time is no value of Rust's.
unsafe impl Sync for HostMemory {}

// SAFETY: the pages stay in place until the drop, and no reference into them is ever formed.
unsafe impl Memory for HostMemory {
    fn place(&self) -> Place<'_> {
        let address = self.first.as_ptr().expose_provenance() as u64;
        Place::Host { address, length: self.layout.size() }
    }
}

impl HostMemory {
    const PAGE: usize = 4096;

    /// So many bytes; nothing where there is no memory for them, or none are wanted.
    #[must_use]
    pub fn allocate(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes, Self::PAGE).ok().filter(|_| bytes > 0)?;
        // SAFETY: the layout has a size.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { first, layout })
    }

    /// Copies bytes out; `false` where they do not lie inside.
    #[must_use]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        let inside = self.holds(offset, to.len());
        if inside {
            for (index, byte) in to.iter_mut().enumerate() {
                // SAFETY: inside the pages; volatile, since devices write there too.
                *byte = unsafe { self.first.add(offset + index).read_volatile() };
            }
        }
        inside
    }

    /// Eight bytes at a multiple of eight, read at once; nothing where they do not lie inside.
    #[must_use]
    pub fn read_word(&self, offset: usize) -> Option<u64> {
        let inside = offset.is_multiple_of(8) && self.holds(offset, 8);
        // SAFETY: inside the pages, and aligned as they are; volatile, since devices write there
        // too.
        inside.then(|| unsafe { self.first.add(offset).cast::<u64>().read_volatile() })
    }

    /// Copies bytes in; `false` where they would not lie inside.
    #[must_use]
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        let inside = self.holds(offset, from.len());
        if inside {
            for (index, byte) in from.iter().enumerate() {
                // SAFETY: inside the pages; volatile, since devices read and write there too.
                unsafe { self.first.add(offset + index).write_volatile(*byte) };
            }
        }
        inside
    }

    fn holds(&self, offset: usize, length: usize) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.layout.size())
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.first.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_has_borders() {
        let memory = HostMemory::allocate(5000).unwrap();
        assert!(memory.write(4998, &[1, 2]));
        assert!(!memory.write(4999, &[1, 2]));
        assert!(!memory.write(usize::MAX, &[1, 2]));
        let mut read = [9; 3];
        assert!(memory.read(4997, &mut read));
        assert_eq!(read, [0, 1, 2]);
        assert_eq!(memory.read_word(4992), Some(u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 1, 2])));
        assert_eq!(memory.read_word(4996), None);
        assert_eq!(memory.read_word(5000), None);
        assert!(!memory.read(4998, &mut read));
        assert!(HostMemory::allocate(0).is_none());
        assert!(HostMemory::allocate(usize::MAX).is_none());
    }

    #[test]
    fn refusals_say_what_to_do() {
        let refused = |kind, errno| {
            RegisterError { kind, length: 4096, device: "rxe0".to_owned(), errno }.to_string()
        };
        let line = refused(MemoryKind::DmaBuf, libc::EOPNOTSUPP);
        assert_eq!(
            line,
            "the RDMA device rxe0 does not register 4096 bytes of dma-buf memory (Operation not \
             supported (os error 95)): its driver does not know dma-buf, use peer memory or rings \
             in host memory"
        );
        assert!(refused(MemoryKind::Host, libc::ENOMEM).contains("ulimit -l"));
        assert!(refused(MemoryKind::Peer, libc::EFAULT).contains("nvidia_peermem"));
        assert!(refused(MemoryKind::DmaBuf, libc::ENOSYS).contains("update rdma-core"));
    }
}
