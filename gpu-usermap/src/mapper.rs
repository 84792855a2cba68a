//! Chooses how memory is mapped: the backends in order, and why each was passed over.

#![allow(unsafe_code, reason = "an address inside an allocation")]

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::caching::Caching;
use crate::dmabuf;
use crate::error::{MapError, PassedOver, Why};
use crate::gdrdrv::Driver;
use crate::mapping::{Held, Mapping};
use crate::memory::{Allocate, GpuMemory, Location};
use crate::system::{Linux, ProcessId, System};

/// A way to map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The kernel module of gdrcopy.
    Gdrdrv,
    /// The GPU driver's dma-buf. Memory files of an emulated GPU serve as well, if asked for.
    DmaBuf,
    /// Pinned host memory: the bytes lie on the host.
    Host,
    /// Memory of an emulated GPU.
    Emulated,
}

impl Backend {
    /// All, in the order in which they are tried.
    pub const ALL: [Self; 4] = [Self::Gdrdrv, Self::DmaBuf, Self::Host, Self::Emulated];
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gdrdrv => "gdrdrv",
            Self::DmaBuf => "dma-buf",
            Self::Host => "host",
            Self::Emulated => "emulated",
        })
    }
}

/// Which backends may be tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All, in order.
    #[default]
    Auto,
    /// This one.
    Only(Backend),
}

impl Choice {
    fn allows(self, backend: Backend) -> bool {
        self == Self::Auto || self == Self::Only(backend)
    }
}

/// `auto`, or the name of a backend.
impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = || Backend::ALL.into_iter().find(|backend| backend.to_string() == text);
        match text {
            "auto" => Ok(Self::Auto),
            _ => named().map(Self::Only).ok_or_else(|| {
                format!("unknown backend '{text}': use auto, gdrdrv, dma-buf, host or emulated")
            }),
        }
    }
}

/// Makes mappings. It opens the driver with the first one and keeps it open.
pub struct Mapper {
    system: Arc<dyn System>,
    choice: Choice,
    /// The driver that was opened, and by which process: it serves no other.
    driver: Mutex<Option<(ProcessId, Arc<Driver>)>>,
}

impl Default for Mapper {
    fn default() -> Self {
        Self::new()
    }
}

impl Mapper {
    /// With all backends.
    #[must_use]
    pub fn new() -> Self {
        Self::with_system(Arc::new(Linux))
    }

    /// Over other system calls, for tests.
    #[must_use]
    pub fn with_system(system: Arc<dyn System>) -> Self {
        Self { system, choice: Choice::Auto, driver: Mutex::new(None) }
    }

    /// With these backends.
    #[must_use]
    pub fn choice(mut self, choice: Choice) -> Self {
        self.choice = choice;
        self
    }

    /// Maps a range of an allocation.
    ///
    /// # Errors
    /// No such range, or no backend for it, with the reason of each.
    pub fn map<M: GpuMemory>(
        &self,
        memory: M,
        range: Range<usize>,
    ) -> Result<Mapping<M>, MapError> {
        let Range { start, end } = range;
        let len = memory.len();
        if start == end {
            return Err(MapError::Empty);
        }
        if start > end || end > len {
            return Err(MapError::OutOfRange { start, end, len });
        }
        // Before it is mapped, so that a free meanwhile shows. An owner that cannot say is no reason
        // not to map.
        let buffer = memory.buffer_id().unwrap_or(None);
        let mut passed = Vec::new();
        for backend in Backend::ALL {
            match self.try_backend(backend, &memory, start, end - start) {
                Ok(held) => {
                    let made = (backend, Arc::clone(&self.system), passed);
                    return Ok(Mapping::new(memory, held, range, buffer, made));
                }
                Err(why) => passed.push(PassedOver { backend, why }),
            }
        }
        Err(MapError::NoBackend { passed })
    }

    /// Allocates and maps: memory of the GPU where that can be mapped, else pinned host memory.
    ///
    /// # Errors
    /// The GPU gives no memory, or the backend asked for does not work.
    pub fn allocate(
        &self,
        gpu: &(impl Allocate + ?Sized),
        bytes: usize,
    ) -> Result<Mapping<Box<dyn GpuMemory>>, MapError> {
        if bytes == 0 {
            return Err(MapError::Empty);
        }
        let mut passed_on_device = Vec::new();
        if self.choice != Choice::Only(Backend::Host) {
            let memory = gpu.on_device(bytes).map_err(MapError::NoMemory)?;
            match self.map(memory, 0..bytes) {
                Err(MapError::NoBackend { passed }) if self.choice == Choice::Auto => {
                    passed_on_device = passed;
                }
                outcome => return outcome,
            }
        }
        let memory = gpu.on_host(bytes).map_err(MapError::NoMemory)?;
        let mapping = self.map(memory, 0..bytes)?;
        Ok(if passed_on_device.is_empty() { mapping } else { mapping.after(passed_on_device) })
    }

    fn try_backend(
        &self,
        backend: Backend,
        memory: &impl GpuMemory,
        start: usize,
        length: usize,
    ) -> Result<Held, Why> {
        if !self.choice.allows(backend) {
            return Err(Why::NotAsked);
        }
        let location = memory.location();
        match (backend, location) {
            (Backend::Gdrdrv, Location::Device { .. }) => {
                let address = memory
                    .device_address()
                    .checked_add(start as u64)
                    .ok_or(Why::Nonsense { what: "an allocation beyond the address space" })?;
                let pin = self.driver()?.pin(address, length)?;
                pin.map(None).map(Held::Gdrdrv)
            }
            (Backend::DmaBuf, Location::Device { .. }) => {
                dmabuf::Mapped::new(&self.system, memory.export(), start, length)
                    .map(|mapped| Held::DmaBuf(mapped, Caching::WriteCombining))
            }
            (Backend::DmaBuf, Location::Emulated(_)) if self.choice != Choice::Auto => {
                dmabuf::Mapped::new(&self.system, memory.export(), start, length)
                    .map(|mapped| Held::DmaBuf(mapped, Caching::Cached))
            }
            (Backend::Host, Location::Host(first))
            | (Backend::Emulated, Location::Emulated(first)) => {
                // SAFETY: `map` checked the range, and GpuMemory promises that it is valid.
                Ok(Held::Direct(unsafe { first.add(start) }))
            }
            _ => Err(Why::OtherMemory { location: location.name() }),
        }
    }

    /// The driver, opened by this process.
    fn driver(&self) -> Result<Arc<Driver>, Why> {
        let process = self.system.process();
        let mut slot = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some((opener, driver)) if *opener == process => Ok(Arc::clone(driver)),
            _ => {
                let driver = Driver::open(Arc::clone(&self.system))?;
                *slot = Some((process, Arc::clone(&driver)));
                Ok(driver)
            }
        }
    }
}

impl fmt::Debug for Mapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapper").field("choice", &self.choice).finish_non_exhaustive()
    }
}
