//! Asks the drivers and libraries of this machine, through gpunet itself wherever it asks them too.

use std::time::{Duration, Instant};

use gpunet_builder::{Compiler, Ptxas};
use rsocket_shim::load::{Libraries, LoadError};
use rsocket_shim::verbs;

use super::answers::{Answers, Cuda, Rdma, Toolchain};
use super::{bounded, cuda, one_line};
use crate::proof::MODULE;

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
        (bounded::start(cuda::ask), bounded::start(rdma), bounded::start(toolchain));
    let left = |limit: Duration| limit.saturating_sub(began.elapsed());
    let toolchain = match toolchain.and_then(|from| from.recv_timeout(left(TOOLCHAIN)).ok()) {
        Some(toolchain) => toolchain,
        None => Toolchain { carried: carried(), compiler: Err(late(TOOLCHAIN)), ptxas: false },
    };
    let rdma = match rdma.and_then(|from| from.recv_timeout(left(RDMA)).ok()) {
        Some(rdma) => rdma,
        None => Rdma { libraries: Err(late(RDMA)), devices: Err(late(RDMA)) },
    };
    let cuda = match cuda.and_then(|from| from.recv_timeout(left(CUDA)).ok()) {
        Some(cuda) => cuda,
        None => Cuda { driver: Err(late(CUDA)), devices: Vec::new() },
    };
    Answers { cuda, rdma, toolchain, ..Answers::default() }
}

fn late(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs())
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
        .map_err(|why| without_home(&one_line(&why.to_string())));
    Toolchain { carried: carried(), compiler, ptxas: Ptxas::find().is_some() }
}

fn carried() -> Result<(), String> {
    MODULE.ptx.map(drop).map_err(|why| without_home(&one_line(why)))
}

/// A home folder names its owner.
fn without_home(text: &str) -> String {
    match std::env::var("HOME") {
        Ok(home) if home.len() > 1 => text.replace(&home, "~"),
        _ => text.to_owned(),
    }
}
