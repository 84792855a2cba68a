//! Objects of Python's that kernels and operations use, kept until these are done.

use std::sync::Arc;

use gpunet_device::kernel::Memory as Kept;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Objects of Python's that a kernel uses. They are let go of without the interpreter's lock: PyO3 counts
/// them down when a thread has it next.
#[allow(dead_code, reason = "held")]
struct Objects(Py<PyList>);

/// Keeps a list of objects.
pub(crate) fn keep(objects: &Bound<'_, PyList>) -> Kept {
    Arc::new(Objects(objects.clone().unbind()))
}
