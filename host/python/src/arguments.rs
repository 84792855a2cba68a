//! The arguments of a launch: what the package's Python side has made of them.
//!
//! A list whose items are `bytes` (a parameter's value), an integer (a socket's handle), or a
//! [`Memory`](crate::gpu::Memory) (its address); and a list of objects that the launch keeps.

use gpunet_host::{Handle, RawArguments, Shape};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList};

use crate::gpu::Memory;
use crate::objects::keep;

/// Arguments, as the host crate takes them.
pub(crate) fn read(
    items: &Bound<'_, PyList>,
    objects: &Bound<'_, PyList>,
) -> PyResult<RawArguments> {
    let mut arguments = RawArguments::new();
    for item in items.iter() {
        arguments = if let Ok(bytes) = item.cast::<PyBytes>() {
            arguments.bytes(bytes.as_bytes())
        } else if let Ok(number) = item.cast::<PyInt>() {
            arguments.socket(Handle(number.extract()?))
        } else {
            let memory = item.cast::<Memory>()?.get().memory()?;
            let address = memory.device_ptr().expose_provenance() as u64;
            arguments.value(address).keep(memory)
        };
    }
    if !objects.is_empty() {
        arguments = arguments.keep(keep(objects));
    }
    Ok(arguments)
}

/// Blocks, threads of a block, bytes of shared memory.
pub(crate) type Layout = ((u32, u32, u32), (u32, u32, u32), u32);

/// How a launch is laid out.
pub(crate) fn shape((grid, block, shared): Layout) -> Shape {
    Shape::new(grid, block).shared_memory(shared)
}
