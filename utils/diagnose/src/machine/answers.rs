//! What drivers, libraries and transfers answered: plain data, `answers.json` of a recorded machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// All answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Answers {
    pub(crate) cuda: Cuda,
    pub(crate) rdma: Rdma,
    pub(crate) toolchain: Toolchain,
    pub(crate) proofs: Proofs,
    /// Paths that are there but could not be seen, and why.
    pub(crate) hidden: BTreeMap<String, String>,
}

/// The CUDA driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cuda {
    /// Its version, as `13.0`, once it has opened a device; else why it has not.
    pub(crate) driver: Result<String, String>,
    #[serde(default)]
    pub(crate) devices: Vec<CudaDevice>,
}

impl Default for Cuda {
    fn default() -> Self {
        Self { driver: Err(NOT_ASKED.to_owned()), devices: Vec::new() }
    }
}

const NOT_ASKED: &str = "nobody asked";

/// A device that CUDA shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CudaDevice {
    pub(crate) name: String,
    /// Its place on the PCI bus, as sysfs writes it.
    pub(crate) pci: Option<String>,
    pub(crate) compute_capability: (u32, u32),
    /// By the names of `cuda::ATTRIBUTES`; those that the driver does not know are not there.
    pub(crate) attributes: BTreeMap<String, i32>,
    /// Whether its memory was exported as a dma-buf; the first device alone is asked.
    pub(crate) export: Option<Result<(), String>>,
    /// Whether the CPU could map that dma-buf.
    pub(crate) mapping: Option<Result<(), String>>,
}

/// libibverbs and librdmacm.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rdma {
    /// Whether both load, and have all functions.
    pub(crate) libraries: Result<(), String>,
    /// The devices that verbs open.
    pub(crate) devices: Result<Vec<String>, String>,
}

impl Default for Rdma {
    fn default() -> Self {
        Self { libraries: Err(NOT_ASKED.to_owned()), devices: Err(NOT_ASKED.to_owned()) }
    }
}

/// What makes PTX.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Toolchain {
    /// Whether this very program carries PTX.
    pub(crate) carried: Result<(), String>,
    /// The compiler's version.
    pub(crate) compiler: Result<String, String>,
    /// Whether there is a ptxas.
    pub(crate) ptxas: bool,
}

impl Default for Toolchain {
    fn default() -> Self {
        let not_asked = || NOT_ASKED.to_owned();
        Self { carried: Err(not_asked()), compiler: Err(not_asked()), ptxas: false }
    }
}

/// What transfers on this machine came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Proofs {
    /// The GPU that ran the kernels, and why that one.
    pub(crate) gpu: Option<Result<(String, String), String>>,
    /// One for each transport that should work.
    pub(crate) ways: Vec<Proof>,
    /// What `auto` took, as it would to reach other programs.
    pub(crate) auto: Option<Proof>,
    /// What `auto` took between kernels.
    pub(crate) near: Option<Proof>,
}

/// A transfer between two kernels.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Proof {
    /// How it was to go: one of the names in `proof`.
    pub(crate) way: String,
    pub(crate) outcome: Result<Transfer, String>,
    /// What RDMA devices made of the rings.
    #[serde(default)]
    pub(crate) adapters: Vec<Adapter>,
    /// Why it could not go by RDMA, where that is known.
    #[serde(default)]
    pub(crate) without_rdma: Option<String>,
    /// Where the words lay that kernels poll, and why there.
    #[serde(default)]
    pub(crate) words: Option<String>,
}

/// What went over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transfer {
    /// Bytes that came back and were checked.
    pub(crate) bytes: u64,
    /// The whole of it, in microseconds.
    pub(crate) micros: u64,
    /// Whether the kernel's own socket says that it went by RDMA.
    pub(crate) rdma: bool,
    /// Whether it says that it went straight from kernel to kernel.
    #[serde(default)]
    pub(crate) local: bool,
}

/// What an RDMA device made of the rings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Adapter {
    pub(crate) device: String,
    /// Placements that work, the best first.
    pub(crate) placements: Vec<String>,
    /// Those that do not, and why.
    pub(crate) refused: Vec<(String, String)>,
}
