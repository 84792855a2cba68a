//! Queues of stream-ordered operations.

use std::sync::Arc;

use gpunet_device::kernel::Memory as Kept;
use gpunet_host::Task;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arguments::{self, Layout};
use crate::batch::Batch;
use crate::error;
use crate::gpu::Image;
use crate::graph::{self, Graph};
use crate::pending::{Posted, keep_until_done, sweep};
use crate::process::{Owned, wait};

/// A post of a batch.
struct Post {
    completions: Arc<gpunet_host::Completions>,
    _kept: Vec<Kept>,
}

impl Posted for Post {
    fn is_done(&self) -> bool {
        self.completions.is_finished()
    }
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
        let completions = py.detach(|| queue.post(&operations)).map_err(error::of)?;
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
        put.map_err(error::of)
    }

    /// A graph of batches and kernels.
    fn graph(&self, py: Python<'_>, steps: &Bound<'_, PyList>) -> PyResult<Graph> {
        graph::make(py, self.queue.get()?.share(), steps)
    }

    /// Stops what is on the stream.
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

    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        let completions = self.completions.get()?;
        Ok(py.detach(|| completions.is_finished()))
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
        wait(py, timeout, |piece| completions.wait_timeout(piece))
    }
}
