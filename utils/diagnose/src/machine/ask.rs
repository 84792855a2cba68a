//! Asks the drivers and libraries of this machine, through gpunet itself wherever it asks them too.

use std::time::{Duration, Instant};

use gpunet_builder::{Compiler, Ptxas};
use rsocket_shim::load::{Libraries, LoadError};
use rsocket_shim::verbs;

use super::answers::{Answers, Cuda, Rdma, Toolchain};
use super::bounded::Pending;
use super::cuda;
use super::text::{one_line, without_homes};
use crate::kernels::MODULE;

/// The driver wakes every GPU when it starts, which takes seconds on large machines.
const CUDA: Duration = Duration::from_secs(20);
/// Loading libraries, opening devices.
const RDMA: Duration = Duration::from_secs(5);
/// Compilers are asked for their versions.
const TOOLCHAIN: Duration = Duration::from_secs(5);

/// Everything but transfers.
pub(super) fn all() -> Answers {
    let began = Instant::now();
    let (cuda, rdma, toolchain) =
        (Pending::start(cuda::ask), Pending::start(rdma), Pending::start(toolchain));
    let left = |limit: Duration| limit.saturating_sub(began.elapsed());
    let toolchain = toolchain.wait(left(TOOLCHAIN)).unwrap_or_else(|why| Toolchain {
        carried: carried(),
        compiler: Err(why.to_string()),
        ptxas: false,
    });
    let rdma = rdma.wait(left(RDMA)).unwrap_or_else(|why| Rdma {
        libraries: Err(why.to_string()),
        devices: Err(why.to_string()),
    });
    let cuda = cuda
        .wait(left(CUDA))
        .unwrap_or_else(|why| Cuda { driver: Err(why.to_string()), devices: Vec::new() });
    Answers { cuda, rdma, toolchain, ..Answers::default() }
}

fn rdma() -> Rdma {
    match Libraries::load() {
        Ok(libraries) => {
            let devices = verbs::devices(libraries);
            let devices = devices
                .map(|devices| devices.into_iter().map(|device| device.name).collect())
                .map_err(|error| one_line(&error.to_string()));
            Rdma { libraries: Ok(()), devices }
        }
        Err(error @ (LoadError::NoLibrary { .. } | LoadError::TooOld { .. })) => {
            let why = one_line(&error.to_string());
            Rdma { libraries: Err(why.clone()), devices: Err(why) }
        }
        Err(error) => Rdma { libraries: Ok(()), devices: Err(one_line(&error.to_string())) },
    }
}

fn toolchain() -> Toolchain {
    let compiler = Compiler::find()
        .map(|compiler| compiler.version().to_owned())
        .map_err(|why| without_homes(&one_line(&why.to_string())));
    Toolchain { carried: carried(), compiler, ptxas: Ptxas::find().is_some() }
}

fn carried() -> Result<(), String> {
    MODULE.ptx.map(drop).map_err(|why| without_homes(&one_line(why)))
}
