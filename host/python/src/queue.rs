//! Queues of stream-ordered operations.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpunet_device::kernel::Memory as Kept;
use gpunet_host::{Condition, Handle, OpError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arguments::{self, Layout, keep};
use crate::error;
use crate::gpu::{Flags, Image, Memory};
use crate::graph::{self, Graph, GraphOfQueue};
use crate::process::{Owned, duration, wait};

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
            unsafe { batch.send_raw(Handle(socket), address, bytes) }.map(drop).map_err(error::net)
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
                .map_err(error::net)
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
        self.with(|batch| batch.wait(&*flags, index, condition, value).map(drop))
            .map_err(error::net)
    }

    /// Writes a word.
    fn write(&self, flags: &Flags, index: usize, value: u64) -> PyResult<()> {
        let flags = flags.flags.get()?;
        self.with(|batch| batch.write(&*flags, index, value).map(drop)).map_err(error::net)
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

/// Operations that are not known to be done, and what they use: a GPU's stream keeps nothing of Python's.
static PENDING: Mutex<Vec<(u32, Arc<dyn Posted>)>> = Mutex::new(Vec::new());

/// What was put on a stream, with what it uses.
pub(crate) trait Posted: Send + Sync {
    /// Whether its operations are done.
    fn is_done(&self) -> bool;
}

/// A post of a batch.
struct Post {
    completions: Arc<gpunet_host::Completions>,
    _kept: Vec<Kept>,
}

impl Posted for Post {
    fn is_done(&self) -> bool {
        self.completions.is_done()
    }
}

impl Posted for GraphOfQueue {
    fn is_done(&self) -> bool {
        Self::is_done(self)
    }
}

/// Keeps what was put on a stream until its operations are done.
pub(crate) fn keep_until_done(posted: Arc<impl Posted + 'static>) {
    let posted: Arc<dyn Posted> = posted;
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    // A graph is launched again and again.
    if !pending.iter().any(|(_, other)| Arc::ptr_eq(other, &posted)) {
        pending.push((std::process::id(), posted));
    }
    drop(pending);
    let done = take_done();
    drop(done);
}

/// Lets go of what is done.
pub(crate) fn sweep(py: Python<'_>) {
    py.detach(|| drop(take_done()));
}

/// Takes out what is done. It is dropped when the lock is free: a graph ends a queue, and that takes time.
fn take_done() -> Vec<(u32, Arc<dyn Posted>)> {
    let process = std::process::id();
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut done, mut left) = (Vec::new(), Vec::new());
    for item in std::mem::take(&mut *pending) {
        if item.0 != process {
            // A fork has left them to the parent.
            std::mem::forget(item);
        } else if item.1.is_done() {
            done.push(item);
        } else {
            left.push(item);
        }
    }
    *pending = left;
    done
}

/// A queue on a stream.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Queue {
    pub(crate) queue: Owned<gpunet_host::StreamQueue>,
}

#[pymethods]
impl Queue {
    /// Puts the operations of a batch on the stream.
    fn post(&self, py: Python<'_>, batch: &Batch) -> PyResult<Completions> {
        let queue = self.queue.get()?;
        let (operations, kept) = batch.snapshot();
        let completions = py.detach(|| queue.post(&operations)).map_err(error::net)?;
        let completions = Arc::new(completions);
        let post = Post { completions: Arc::clone(&completions), _kept: kept };
        py.detach(|| keep_until_done(Arc::new(post)));
        Ok(Completions { completions: Owned::new("post", completions) })
    }

    /// Puts a kernel on the stream.
    fn launch(
        &self,
        py: Python<'_>,
        image: &Image,
        kernel: &str,
        layout: Layout,
        items: &Bound<'_, PyList>,
        objects: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let arguments = arguments::read(items, objects)?;
        let (queue, image, shape) =
            (self.queue.get()?, image.image.get()?, arguments::shape(layout));
        // SAFETY: as `Net::launch` of this module.
        let put = py.detach(|| unsafe { queue.launch_raw(&image, kernel, shape, &arguments) });
        put.map_err(error::net)
    }

    /// A graph of batches and kernels.
    fn graph(&self, py: Python<'_>, steps: &Bound<'_, PyList>) -> PyResult<Graph> {
        graph::make(py, self.queue.get()?.share(), steps)
    }

    /// Tells what is on the stream to stop.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let queue = self.queue.get()?;
        py.detach(|| queue.abort());
        Ok(())
    }

    fn close(&self, py: Python<'_>) {
        self.queue.close(py);
        sweep(py);
    }
}

/// The operations of a post.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Completions {
    completions: Owned<Arc<gpunet_host::Completions>>,
}

#[pymethods]
impl Completions {
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.completions.get()?.len())
    }

    fn done(&self) -> PyResult<bool> {
        Ok(self.completions.get()?.is_done())
    }

    /// How each went: 0, an error number, or nothing while it is not done.
    fn statuses(&self) -> PyResult<Vec<Option<i32>>> {
        let statuses = self.completions.get()?.statuses();
        let number = |outcome: Result<(), gpunet_host::Errno>| outcome.map_or_else(|e| e.0, |()| 0);
        Ok(statuses.into_iter().map(|status| status.map(number)).collect())
    }

    /// Waits until all are done.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let completions = self.completions.get()?;
        let outcome = wait(py, timeout, |piece| match completions.wait(piece) {
            Err(OpError::StillRunning { .. }) => None,
            outcome => Some(outcome),
        })?;
        // Once more, for which one is not done.
        let outcome = outcome.unwrap_or_else(|| match completions.wait(Duration::ZERO) {
            Err(OpError::StillRunning { index, .. }) => {
                let after = duration(timeout.unwrap_or_default()).unwrap_or_default();
                Err(OpError::StillRunning { index, after })
            }
            outcome => outcome,
        });
        outcome.map_err(error::operation)
    }
}
