//! Batches: operations that are put together now, and posted or made part of a graph later.

use std::sync::{Mutex, PoisonError};

use gpunet_device::kernel::Memory as Kept;
use gpunet_host::{Condition, Handle};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::error;
use crate::gpu::{Flags, Memory};
use crate::objects::keep;
use crate::process::duration;

/// Operations that are put together now and posted later.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Batch {
    batch: Mutex<gpunet_host::Batch>,
    /// What its operations name.
    kept: Mutex<Vec<Kept>>,
}

#[pymethods]
impl Batch {
    #[new]
    #[pyo3(signature = (timeout=None))]
    fn new(timeout: Option<f64>) -> PyResult<Self> {
        let mut batch = gpunet_host::Batch::new();
        if let Some(timeout) = timeout {
            batch = batch.timeout(duration(timeout)?);
        }
        Ok(Self { batch: Mutex::new(batch), kept: Mutex::default() })
    }

    fn __len__(&self) -> usize {
        self.with(|batch| batch.len())
    }

    /// Sends bytes at an address, which the objects keep.
    fn send(
        &self,
        socket: u64,
        address: usize,
        bytes: usize,
        objects: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let address = std::ptr::with_exposed_provenance(address);
        let kept = named(objects)?;
        let put = self.with(|batch| {
            // SAFETY: the package takes address and length from the object, which every post keeps.
            unsafe { batch.send_raw(Handle(socket), address, bytes) }.map(drop).map_err(error::of)
        });
        put.inspect(|()| self.keep(kept))
    }

    /// Fills bytes at an address.
    fn receive(
        &self,
        socket: u64,
        address: usize,
        bytes: usize,
        objects: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let address = std::ptr::with_exposed_provenance_mut(address);
        let kept = named(objects)?;
        let put = self.with(|batch| {
            // SAFETY: as in `send`.
            unsafe { batch.receive_raw(Handle(socket), address, bytes) }
                .map(drop)
                .map_err(error::of)
        });
        put.inspect(|()| self.keep(kept))
    }

    /// Waits for a word.
    fn wait(&self, flags: &Flags, index: usize, condition: &str, value: u64) -> PyResult<()> {
        let condition = match condition {
            ">=" => Condition::GreaterOrEqual,
            "==" => Condition::Equal,
            "&" => Condition::And,
            "nor" => Condition::Nor,
            other => {
                let message = format!("unknown condition '{other}': use '>=', '==', '&' or 'nor'");
                return Err(PyValueError::new_err(message));
            }
        };
        let flags = flags.flags.get()?;
        self.with(|batch| batch.wait(&*flags, index, condition, value).map(drop)).map_err(error::of)
    }

    /// Writes a word.
    fn write(&self, flags: &Flags, index: usize, value: u64) -> PyResult<()> {
        let flags = flags.flags.get()?;
        self.with(|batch| batch.write(&*flags, index, value).map(drop)).map_err(error::of)
    }
}

impl Batch {
    fn with<R>(&self, run: impl FnOnce(&mut gpunet_host::Batch) -> R) -> R {
        run(&mut self.batch.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its operations as they are now, and what they name.
    pub(crate) fn snapshot(&self) -> (gpunet_host::Batch, Vec<Kept>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.with(|batch| batch.clone()), kept)
    }

    fn keep(&self, named: Vec<Kept>) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).extend(named);
    }
}

/// What keeps the memory of an operation: the objects, and memory of a buffer itself, which the program may close
/// before the batch is posted.
fn named(objects: &Bound<'_, PyList>) -> PyResult<Vec<Kept>> {
    let mut kept = vec![keep(objects)];
    for object in objects.iter() {
        if let Ok(memory) = object.cast::<Memory>() {
            kept.push(memory.get().memory()?);
        }
    }
    Ok(kept)
}
