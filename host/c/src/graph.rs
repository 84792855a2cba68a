//! Graphs: kernels and operations that are launched together, again and again.

use std::ffi::c_char;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use gpunet_host::{Batch, Graph, LoadedImage, StreamQueue};

use crate::arguments::{Arguments, gpunet_argument, gpunet_shape, shape_of};
use crate::batch::{gpunet_host_batch, locked};
use crate::handle::{self, opaque};
use crate::image::gpunet_host_image;
use crate::status::{Failure, gpunet_status, guard};
use crate::stream::gpunet_host_queue;
use crate::text::{slice, store, text};

/// A graph of kernels and operations.
pub struct gpunet_host_graph(());
opaque!(gpunet_host_graph, 11, GraphOfQueue);

/// A step of a graph: the operations of a batch, or, where `batch` is null, a kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct gpunet_graph_step {
    /// Operations; null: a kernel.
    pub batch: *const gpunet_host_batch,
    /// The kernel's image.
    pub image: *const gpunet_host_image,
    /// The kernel's name.
    pub kernel: *const c_char,
    /// The kernel's shape.
    pub shape: *const gpunet_shape,
    /// The kernel's arguments.
    pub arguments: *const gpunet_argument,
    /// How many.
    pub count: usize,
}

/// A graph with the queue that it borrows.
pub struct GraphOfQueue {
    graph: ManuallyDrop<Graph<'static>>,
    _queue: Arc<StreamQueue>,
}

impl Drop for GraphOfQueue {
    fn drop(&mut self) {
        // SAFETY: once, before the queue that it borrows; nobody has it afterwards.
        unsafe { ManuallyDrop::drop(&mut self.graph) };
    }
}

enum Step {
    Post(Batch),
    Kernel { image: Arc<LoadedImage>, kernel: String, shape: gpunet_host::Shape, at: usize },
}

/// Makes a graph of steps, to be launched on the queue's stream. What its kernels keep is kept until it is
/// freed, and on CUDA until the queue is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_graph_create(
    queue: *const gpunet_host_queue,
    steps: *const gpunet_graph_step,
    count: usize,
    graph: *mut *mut gpunet_host_graph,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    let make = || unsafe {
        let queue = handle::get(queue)?;
        let given = slice(steps, count, "the steps of the graph")?;
        make_graph(queue, given)
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(graph, make) })
}

/// # Safety
/// Steps as `gpunet_graph_step` is documented.
unsafe fn make_graph(
    queue: Arc<StreamQueue>,
    given: &[gpunet_graph_step],
) -> Result<GraphOfQueue, Failure> {
    let (mut steps, mut arguments) = (Vec::new(), Vec::new());
    for step in given {
        if let Some(batch) = handle::optional(step.batch)? {
            steps.push(Step::Post(locked(&batch).clone()));
            continue;
        }
        let image = handle::get(step.image)?;
        // SAFETY: the caller's promise.
        unsafe {
            let kernel = text(step.kernel, "the kernel's name")?.to_owned();
            let shape = shape_of(step.shape)?;
            steps.push(Step::Kernel { image, kernel, shape, at: arguments.len() });
            arguments.push(Arguments::read(step.arguments, step.count)?);
        }
    }
    let made = queue.graph(|builder| {
        for step in &steps {
            match step {
                Step::Post(batch) => builder.post(batch)?,
                Step::Kernel { image, kernel, shape, at } => {
                    // SAFETY: the promise of the caller of `gpunet_graph_create`.
                    unsafe { builder.launch_raw(image, kernel, *shape, &arguments[*at].raw) }?
                }
            };
        }
        Ok(())
    })?;
    // SAFETY: the queue lies behind the Arc, where it stays, and the graph goes before it (`GraphOfQueue`).
    let made = unsafe { std::mem::transmute::<Graph<'_>, Graph<'static>>(made) };
    arguments.into_iter().for_each(Arguments::hand_over);
    Ok(GraphOfQueue { graph: ManuallyDrop::new(made), _queue: queue })
}

/// Puts a graph on its queue's stream; `number` gets which of its launches this is, from 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_graph_launch(
    graph: *const gpunet_host_graph,
    number: *mut u32,
) -> gpunet_status {
    guard(|| {
        let graph = handle::get(graph)?;
        if number.is_null() {
            return Err(Failure::null("the address to store the number at"));
        }
        // SAFETY: the caller's promise.
        unsafe { store(number, graph.graph.launch()?) }
    })
}

/// Waits until all operations of a launch are done, at most so long; how the first went that failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_graph_wait(
    graph: *const gpunet_host_graph,
    number: u32,
    timeout_ns: u64,
) -> gpunet_status {
    guard(|| Ok(handle::get(graph)?.graph.wait_launch(number, Duration::from_nanos(timeout_ns))?))
}

/// Frees a graph. What is on the stream still runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_graph_free(graph: *mut gpunet_host_graph) -> gpunet_status {
    guard(|| handle::free(graph))
}
