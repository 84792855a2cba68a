//! A client of gdrdrv, the kernel module of gdrcopy: opens /dev/gdrdrv, pins pages of a GPU, maps
//! them. [`Mapper`](crate::Mapper) calls it; by itself it is for who wants the steps apart.
//!
//! ```text
//!   Driver::open ── version check
//!     └─ pin ── Pin ── map ── Mapped (pages, then the pin: given back in that order, once)
//! ```
//!
//! The driver's ways that this file answers for:
//! - It maps a pin from its first GPU page only, and releases up to 2.4.1 hand the size to the GPU
//!   driver as they got it, which takes whole pages. So a pin is of whole GPU pages, whatever range
//!   was asked for; the caller gets how far into it the range begins.
//! - It takes a handle that it no longer knows for another one. So a handle lives in one [`Pin`],
//!   whose drop is the only place that gives it back; 0 is a handle like others.
//! - In its persistent mode, the default from 2.5 on, it keeps pages until they are unpinned and does
//!   not be notified of a free. So it says whether it does, and [`Mapping`](crate::Mapping) asks elsewhere.
//! - It serves the process that opened it alone, and a child inherits no mapping. So a drop in a
//!   child touches nothing.

#![allow(unsafe_code, reason = "calls of a device, with pointers to structures")]

mod abi;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
pub(crate) mod version;

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::caching::Caching;
use crate::error::{AccessError, Call, Why};
use crate::system::{Errno, File, Pages, ProcessId, System};
pub use version::Version;

use abi::{
    Attribute, CallbackFlag, GetVersion, Info, InfoV2, MappingType, PERSISTENT, PinBuffer, PinV2,
    Request, Unpin, mapping_type,
};

/// The device node.
pub const PATH: &str = "/dev/gdrdrv";
const PATH_FOR_OPEN: &std::ffi::CStr = c"/dev/gdrdrv";

/// Pages of a GPU, as the driver pins them.
pub const GPU_PAGE: u64 = 64 << 10;

/// The open driver. Pins share it; with the last of them it is closed.
pub struct Driver {
    file: File,
    version: Version,
    reports_frees: bool,
}

impl Driver {
    /// Opens the device and agrees on a version.
    ///
    /// # Errors
    /// No device, no permission, or versions that do not fit.
    pub fn open(system: Arc<dyn System>) -> Result<Arc<Self>, Why> {
        let file = File::open(system, PATH_FOR_OPEN).map_err(|errno| match errno.0 {
            libc::ENOENT | libc::ENXIO | libc::ENODEV => Why::NoDevice { path: PATH },
            libc::EACCES | libc::EPERM => Why::NoPermission { path: PATH },
            _ => Why::Refused { call: Call::Open, errno },
        })?;
        let mut version = GetVersion::default();
        call(&file, &mut version).map_err(refused(Call::Version))?;
        let driver = Version::from_word(version.driver);
        let minimum = Version::from_word(version.minimum_api);
        if driver < Version::OLDEST {
            return Err(Why::DriverTooOld { driver });
        }
        if minimum > Version::OURS {
            return Err(Why::ClientTooOld { driver, minimum, ours: Version::OURS });
        }
        let reports_frees = reports_frees(&file, driver);
        Ok(Arc::new(Self { file, version: driver, reports_frees }))
    }

    /// Whether the driver is notified, and reports, that pinned memory was freed. Not in its persistent
    /// mode, nor where it cannot be asked for its mode (2.4).
    #[must_use]
    pub fn reports_frees(&self) -> bool {
        self.reports_frees
    }

    /// What the driver says it is.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Pins the pages around a range of GPU memory.
    ///
    /// # Errors
    /// A range that is not the GPU's, or what the driver says.
    pub fn pin(self: &Arc<Self>, address: u64, length: usize) -> Result<Pin, Why> {
        let beyond = || Why::Nonsense { what: "an allocation beyond the address space" };
        let first = address / GPU_PAGE * GPU_PAGE;
        let lead = (address - first) as usize;
        let end = lead.checked_add(length).ok_or_else(beyond)?;
        let size = (end as u64)
            .checked_next_multiple_of(GPU_PAGE)
            .filter(|size| first.checked_add(*size).is_some())
            .ok_or_else(beyond)?;
        // Less than the pin: the neighbours of the range are none of the caller's business.
        let span = end.checked_next_multiple_of(self.file.system.page_size()).ok_or_else(beyond)?;
        if length == 0 {
            return Err(Why::Refused { call: Call::Pin, errno: Errno(libc::EINVAL) });
        }
        let handle = if self.version >= Version::WITH_PIN_V2 {
            let mut pin = PinV2 { address: first, size, ..PinV2::default() };
            call(&self.file, &mut pin).map_err(refused(Call::Pin))?;
            pin.handle
        } else {
            let mut pin = PinBuffer { address: first, size, ..PinBuffer::default() };
            call(&self.file, &mut pin).map_err(refused(Call::Pin))?;
            pin.handle
        };
        let process = self.file.system.process();
        Ok(Pin { driver: Arc::clone(self), handle, first, lead, span, process })
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("version", &self.version).finish()
    }
}

/// Pinned pages, given back when dropped.
pub struct Pin {
    driver: Arc<Driver>,
    handle: u64,
    /// The first pinned byte, a multiple of the GPU's pages.
    first: u64,
    lead: usize,
    /// Bytes to map from there on, in whole pages of the host.
    span: usize,
    process: ProcessId,
}

impl Pin {
    /// Maps the pages, as the driver finds best or with the caching asked for.
    ///
    /// # Errors
    /// What the driver says, an answer that cannot be, or memory that was freed meanwhile; the pin
    /// is given back then.
    pub fn map(self, wanted: Option<Caching>) -> Result<Mapped, Why> {
        match self.try_map(wanted) {
            Ok((pages, caching)) => Ok(Mapped { pages, pin: self, caching }),
            // Each call has its own answer about memory that is gone. This one is the reason.
            Err(_) if self.check() == Err(AccessError::Revoked) => Err(Why::Freed),
            Err(why) => Err(why),
        }
    }

    fn try_map(&self, wanted: Option<Caching>) -> Result<(Pages, Caching), Why> {
        self.ask_for_type(wanted)?;
        let file = &self.driver.file;
        let offset = self
            .handle
            .checked_mul(file.system.page_size() as u64)
            .ok_or(Why::Nonsense { what: "a handle beyond all offsets" })?;
        let pages = Pages::map(Arc::clone(&file.system), file.descriptor, self.span, offset)
            .map_err(refused(Call::MapPinned))?;
        let caching = self.mapped_as()?;
        match wanted {
            Some(wanted) if wanted != caching => {
                Err(refused(Call::MappingType)(Errno(libc::EOPNOTSUPP)))
            }
            _ => Ok((pages, caching)),
        }
    }

    /// Says how the pages are to be mapped, where the driver has a call for it. What it does in the end
    /// shows afterwards.
    fn ask_for_type(&self, wanted: Option<Caching>) -> Result<(), Why> {
        if self.driver.version < Version::WITH_PIN_V2 {
            return Ok(());
        }
        let kind = match wanted {
            None => mapping_type::NONE,
            Some(Caching::WriteCombining) => mapping_type::WRITE_COMBINING,
            Some(Caching::Cached) => mapping_type::CACHED,
            Some(Caching::Device) => mapping_type::DEVICE,
        };
        let mut request = MappingType { handle: self.handle, kind, padding: 0 };
        match call(&self.driver.file, &mut request) {
            Err(errno) if errno.0 != libc::ENOTTY => Err(refused(Call::MappingType)(errno)),
            _ => Ok(()),
        }
    }

    /// Checks what the driver has mapped, and says how.
    fn mapped_as(&self) -> Result<Caching, Why> {
        let file = &self.driver.file;
        let (va, size, kind) = if self.driver.version >= Version::WITH_INFO_V2 {
            let mut info = InfoV2 { handle: self.handle, ..InfoV2::default() };
            call(file, &mut info).map_err(refused(Call::Info))?;
            (info.va, info.mapped_size, info.mapping_type)
        } else {
            let mut info = Info { handle: self.handle, ..Info::default() };
            call(file, &mut info).map_err(refused(Call::Info))?;
            let kind = match (info.mapped, info.write_combining) {
                (0, _) => mapping_type::NONE,
                (_, 0) => mapping_type::CACHED,
                _ => mapping_type::WRITE_COMBINING,
            };
            (info.va, info.mapped_size, kind)
        };
        if va != self.first || size < self.span as u64 {
            return Err(Why::Nonsense { what: "it mapped another range" });
        }
        match kind {
            mapping_type::WRITE_COMBINING => Ok(Caching::WriteCombining),
            mapping_type::CACHED => Ok(Caching::Cached),
            mapping_type::DEVICE => Ok(Caching::Device),
            mapping_type::NONE => Err(Why::Nonsense { what: "it mapped nothing" }),
            _ => Err(Why::Nonsense { what: "an unknown type of mapping" }),
        }
    }

    /// Asks whether the GPU driver has taken the pages back.
    fn check(&self) -> Result<(), AccessError> {
        let mut request = CallbackFlag { handle: self.handle, ..CallbackFlag::default() };
        call(&self.driver.file, &mut request).map_err(AccessError::Unknown)?;
        if request.flag == 0 { Ok(()) } else { Err(AccessError::Revoked) }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // The driver has nothing for another process.
        if self.driver.file.system.process() == self.process {
            let result = call(&self.driver.file, &mut Unpin { handle: self.handle });
            debug_assert!(result.is_ok());
        }
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").field("first", &self.first).field("span", &self.span).finish()
    }
}

/// A pin that is mapped. Its fields are dropped in this order: pages first.
#[derive(Debug)]
pub struct Mapped {
    pages: Pages,
    pin: Pin,
    caching: Caching,
}

impl Mapped {
    /// The first byte of the range that was pinned, rather than of its page.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        // SAFETY: the range lies in the pages: `pin` made the span from the lead on.
        unsafe { self.pages.start().add(self.pin.lead) }
    }

    /// How the processor treats it.
    #[must_use]
    pub fn caching(&self) -> Caching {
        self.caching
    }

    /// Whether [`check`](Self::check) sees a free.
    #[must_use]
    pub fn reports_frees(&self) -> bool {
        self.pin.driver.reports_frees
    }

    /// Asks the driver whether it has taken the memory back.
    ///
    /// # Errors
    /// It has, or does not say.
    pub fn check(&self) -> Result<(), AccessError> {
        self.pin.check()
    }

    /// The pages that are mapped.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Unmaps, and keeps the pin.
    #[must_use]
    pub fn unmap(self) -> Pin {
        self.pin
    }
}

fn reports_frees(file: &File, version: Version) -> bool {
    let mut request = Attribute { attribute: PERSISTENT, value: 0 };
    match version {
        _ if version < Version::WITH_PERSISTENT => true,
        _ if version < Version::WITH_ATTRIBUTES => false,
        _ => call(file, &mut request).is_ok() && request.value == 0,
    }
}

/// Makes a call of the driver.
fn call<R: Request>(file: &File, request: &mut R) -> Result<(), Errno> {
    let argument = ptr::from_mut(request).cast();
    // SAFETY: Request promises that this is the structure of that call.
    unsafe { file.system.ioctl(file.descriptor, R::CODE, argument) }
}

fn refused(call: Call) -> impl Fn(Errno) -> Why {
    move |errno| Why::Refused { call, errno }
}
