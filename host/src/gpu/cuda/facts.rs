//! What a CUDA device can do, asked once when it is opened.

use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUuuid};

use super::super::{GpuError, RemoteWrites};
use super::driver::{self, Failed, call};

/// CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER; larger ones promise more.
const ORDERED_FOR_OWNER: u32 = 100;
/// CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST.
const FLUSH_BY_HOST: u32 = 1;

/// What the device can do.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) driver: String,
    pub(super) compute_capability: (u32, u32),
    pub(super) multiprocessors: u32,
    pub(super) max_threads: u32,
    pub(super) max_shared: u32,
    pub(super) remote_writes: RemoteWrites,
    pub(super) sharing: Sharing,
}

impl Facts {
    pub(super) fn ask(device: CUdevice) -> Result<Self, Failed> {
        use CUdevice_attribute as Attribute;
        let ask = |attribute| -> Result<u32, Failed> {
            let mut value = 0;
            // SAFETY: writes one number.
            unsafe { call!(cuDeviceGetAttribute(&mut value, attribute, device)) }?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let mut name = [0_u8; 256];
        // SAFETY: writes a C string of at most the length given.
        unsafe { call!(cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32, device)) }?;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let mut version = 0;
        // SAFETY: writes one number.
        unsafe { call!(cuDriverGetVersion(&mut version)) }?;
        Ok(Self {
            name: String::from_utf8_lossy(&name[..end]).into_owned(),
            driver: format!("{}.{}", version / 1000, version % 1000 / 10),
            compute_capability: (
                ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: ask(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            max_threads: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            max_shared: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            remote_writes: {
                // A driver that does not know the questions has no answer.
                let ask = |attribute| ask(attribute).unwrap_or(0);
                let ordering = ask(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
                let flush =
                    ask(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
                if ordering >= ORDERED_FOR_OWNER {
                    RemoteWrites::Ordered
                } else if flush & FLUSH_BY_HOST != 0 && driver::has("cuFlushGPUDirectRDMAWrites") {
                    RemoteWrites::AfterFlush
                } else {
                    RemoteWrites::Unknown
                }
            },
            sharing: Sharing::ask(device, ask),
        })
    }
}

/// What arenas call, beyond what every GPU needs.
const SYMBOLS: &[&str] = &[
    "cuDeviceCanAccessPeer",
    "cuDeviceGetUuid",
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemExportToShareableHandle",
    "cuMemGetAllocationPropertiesFromHandle",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
];

/// Whether a device has arenas, and its name among all devices.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    pub(super) possible: Result<(), GpuError>,
    pub(super) uuid: [u8; 16],
}

impl Sharing {
    /// `ask` gives a device's attribute.
    pub(super) fn ask(
        device: i32,
        ask: impl Fn(CUdevice_attribute) -> Result<u32, Failed>,
    ) -> Self {
        use CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED as DESCRIPTORS,
            CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED as MAPPINGS,
        };
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| !driver::has(symbol)) {
            let possible = Err(GpuError::DriverTooOld { symbol });
            return Self { possible, uuid: [0; 16] };
        }
        let unsupported = |what| {
            let remedy = "connect over the network, or update the driver";
            Err(GpuError::Unsupported { what, kind: "CUDA", remedy })
        };
        // A driver that does not know a question cannot do it.
        let has = |attribute| ask(attribute).unwrap_or(0) != 0;
        let mut uuid = CUuuid { bytes: [0; 16] };
        let named = if driver::has("cuDeviceGetUuid_v2") {
            // SAFETY: writes 16 bytes; the driver has the function.
            unsafe { call!(cuDeviceGetUuid_v2(&mut uuid, device)) }
        } else {
            // SAFETY: as above.
            unsafe { call!(cuDeviceGetUuid(&mut uuid, device)) }
        };
        let possible = match (has(MAPPINGS), has(DESCRIPTORS), named) {
            (true, true, Ok(())) => Ok(()),
            (false, ..) => unsupported("choosing the address of GPU memory"),
            (_, false, _) => unsupported("GPU memory for another process"),
            (.., Err(_)) => unsupported("identifying the device by its UUID"),
        };
        Self { possible, uuid: uuid.bytes.map(|byte| byte as u8) }
    }
}
