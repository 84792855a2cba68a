//! The calls of gdrdrv as it defines them: numbers and structures, asserted. Data only.

use std::mem::offset_of;

/// Read and write, of the driver's type 0xDA, with the size that the number carries (which for most
/// calls is 8, whatever their structure).
const fn code(number: u32, size: u32) -> u32 {
    3 << 30 | size << 16 | 0xDA << 8 | number
}

/// A call's structure.
///
/// # Safety
/// `#[repr(C)]`, as large as what the driver reads and writes for that code.
#[allow(unsafe_code, reason = "an unsafe trait")]
pub(super) unsafe trait Request {
    const CODE: u32;
}

macro_rules! requests {
    ($($(#[$meta:meta])* $name:ident = $code:expr, $size:literal { $($field:ident: $type:ty = $at:literal),* })*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default)]
        #[repr(C)]
        pub(super) struct $name { $(pub(super) $field: $type),* }

        const _: () = assert!(size_of::<$name>() == $size);
        $(const _: () = assert!(offset_of!($name, $field) == $at);)*

        // SAFETY: asserted above.
        #[allow(unsafe_code, reason = "an unsafe trait")]
        unsafe impl Request for $name {
            const CODE: u32 = $code;
        }
    )* };
}

requests! {
    /// Pins pages, before 2.5.
    PinBuffer = code(1, 40), 40 {
        address: u64 = 0, size: u64 = 8, token: u64 = 16, va_space: u32 = 24, padding: u32 = 28,
        handle: u64 = 32
    }
    /// Gives a pin back.
    Unpin = code(2, 8), 8 { handle: u64 = 0 }
    /// Whether the GPU driver has taken the pages back.
    CallbackFlag = code(3, 8), 16 { handle: u64 = 0, flag: u32 = 8, padding: u32 = 12 }
    /// What is mapped, before 2.4.
    Info = code(4, 8), 48 {
        handle: u64 = 0, va: u64 = 8, mapped_size: u64 = 16, page_size: u32 = 24,
        tsc_khz: u32 = 28, cycles: u64 = 32, mapped: u32 = 40, write_combining: u32 = 44
    }
    /// What is mapped.
    InfoV2 = code(5, 8), 48 {
        handle: u64 = 0, va: u64 = 8, mapped_size: u64 = 16, page_size: u32 = 24,
        tsc_khz: u32 = 28, cycles: u64 = 32, mapping_type: u32 = 40, padding: u32 = 44
    }
    /// What the driver is set to.
    Attribute = code(6, 8), 8 { attribute: u32 = 0, value: u32 = 4 }
    /// Pins pages.
    PinV2 = code(7, 32), 32 {
        address: u64 = 0, size: u64 = 8, flags: u32 = 16, padding: u32 = 20, handle: u64 = 24
    }
    /// Says how the pages are to be mapped; 0 is the driver's choice.
    MappingType = code(8, 8), 16 { handle: u64 = 0, kind: u32 = 8, padding: u32 = 12 }
    /// Which driver this is, and which clients it serves.
    GetVersion = code(0xFF, 8), 8 { driver: u32 = 0, minimum_api: u32 = 4 }
}

const _: () = assert!(PinBuffer::CODE == 0xC028_DA01);
const _: () = assert!(Unpin::CODE == 0xC008_DA02);
const _: () = assert!(CallbackFlag::CODE == 0xC008_DA03);
const _: () = assert!(Info::CODE == 0xC008_DA04);
const _: () = assert!(InfoV2::CODE == 0xC008_DA05);
const _: () = assert!(Attribute::CODE == 0xC008_DA06);
const _: () = assert!(PinV2::CODE == 0xC020_DA07);
const _: () = assert!(MappingType::CODE == 0xC008_DA08);
const _: () = assert!(GetVersion::CODE == 0xC008_DAFF);

/// Whether the driver keeps pages until they are unpinned, and reports no free: 1 or 0.
pub(super) const PERSISTENT: u32 = 1;

/// Types of mappings.
pub(super) mod mapping_type {
    pub(in super::super) const NONE: u32 = 0;
    pub(in super::super) const WRITE_COMBINING: u32 = 1;
    pub(in super::super) const CACHED: u32 = 2;
    pub(in super::super) const DEVICE: u32 = 3;
}
