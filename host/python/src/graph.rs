//! Graphs: kernels and operations that are put on a stream together, again and again.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use gpunet_device::kernel::Memory as Kept;
use gpunet_host::{LoadedImage, RawArguments, Shape, StreamError, StreamQueue, Task};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arguments::{self, Layout};
use crate::batch::Batch;
use crate::error;
use crate::gpu::Image;
use crate::pending::{Posted, keep_until_done, sweep};
use crate::process::{Held, Owned, wait};

/// A graph with the queue that it borrows, and what its operations name.
struct GraphOfQueue {
    graph: ManuallyDrop<gpunet_host::Graph<'static>>,
    _queue: Arc<StreamQueue>,
    /// Of batches; what kernels were given, the graph keeps itself.
    _kept: Vec<Kept>,
}

impl Posted for GraphOfQueue {
    /// Whether the operations of all launches are done.
    fn is_done(&self) -> bool {
        self.graph.is_finished()
    }
}

impl Drop for GraphOfQueue {
    fn drop(&mut self) {
        // SAFETY: once, before the queue that it borrows; nobody has it afterwards.
        unsafe { ManuallyDrop::drop(&mut self.graph) };
    }
}

/// A step, read while the GIL is held.
enum Step {
    Post(gpunet_host::Batch),
    Kernel { image: Held<LoadedImage>, kernel: String, shape: Shape, arguments: RawArguments },
}

/// A kernel: its image, name and layout, the items of its arguments, and what they live in.
type KernelStep<'py> = (Py<Image>, String, Layout, Bound<'py, PyList>, Bound<'py, PyList>);

/// Makes a graph of a list whose items are batches, or kernels with their arguments.
pub(crate) fn make(
    py: Python<'_>,
    queue: Arc<StreamQueue>,
    given: &Bound<'_, PyList>,
) -> PyResult<Graph> {
    let (mut steps, mut kept) = (Vec::new(), Vec::new());
    for item in given.iter() {
        if let Ok(batch) = item.cast::<Batch>() {
            let (operations, names) = batch.get().snapshot();
            steps.push(Step::Post(operations));
            kept.extend(names);
            continue;
        }
        let (image, kernel, layout, items, objects): KernelStep<'_> = item.extract()?;
        let arguments = arguments::read(&items, &objects)?;
        let (image, shape) = (image.get().image.get()?, arguments::shape(layout));
        steps.push(Step::Kernel { image, kernel, shape, arguments });
    }
    let made = py.detach(|| build(queue, &steps, kept)).map_err(error::of)?;
    Ok(Graph { graph: Owned::new("graph", Arc::new(made)) })
}

fn build(
    queue: Arc<StreamQueue>,
    steps: &[Step],
    kept: Vec<Kept>,
) -> Result<GraphOfQueue, StreamError> {
    let graph = queue.graph(|builder| {
        for step in steps {
            match step {
                Step::Post(batch) => builder.post(batch)?,
                Step::Kernel { image, kernel, shape, arguments } => {
                    // SAFETY: as `Net::launch` of this module; the graph keeps what they name.
                    unsafe { builder.launch_raw(image, kernel, *shape, arguments) }?
                }
            };
        }
        Ok(())
    })?;
    // SAFETY: the queue lies behind the Arc, where it stays, and the graph goes before it (`GraphOfQueue`).
    let graph = unsafe {
        std::mem::transmute::<gpunet_host::Graph<'_>, gpunet_host::Graph<'static>>(graph)
    };
    Ok(GraphOfQueue { graph: ManuallyDrop::new(graph), _queue: queue, _kept: kept })
}

/// Kernels and operations that are launched together.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Graph {
    graph: Owned<Arc<GraphOfQueue>>,
}

#[pymethods]
impl Graph {
    /// Puts it on the stream; which of its launches this is, from 1.
    fn launch(&self, py: Python<'_>) -> PyResult<u32> {
        let graph = self.graph.get()?;
        let number = py.detach(|| graph.graph.launch()).map_err(error::of)?;
        let posted = Arc::clone(&*graph);
        py.detach(|| keep_until_done(posted));
        Ok(number)
    }

    /// Waits until the operations of a launch are done.
    #[pyo3(signature = (number, timeout=None))]
    fn wait(&self, py: Python<'_>, number: u32, timeout: Option<f64>) -> PyResult<()> {
        let graph = self.graph.get()?;
        wait(py, timeout, |piece| graph.graph.wait_launch(number, piece))
    }

    /// The number of the last launch, 0 before the first.
    fn last(&self) -> PyResult<u32> {
        Ok(self.graph.get()?.graph.last_launch())
    }

    /// How often each operation has run, and how it went the last time: 0 or an error number.
    fn statuses(&self) -> PyResult<Vec<(u32, i32)>> {
        let statuses = self.graph.get()?.graph.statuses();
        let number = |(runs, outcome): (u32, Result<(), gpunet_host::Errno>)| {
            (runs, outcome.map_or_else(|errno| errno.0, |()| 0))
        };
        Ok(statuses.into_iter().map(number).collect())
    }

    /// Lets go of it and of its queue. What is on the stream still runs, and keeps what it uses.
    fn close(&self, py: Python<'_>) {
        self.graph.close(py);
        sweep(py);
    }
}
