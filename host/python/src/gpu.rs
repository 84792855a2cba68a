//! A GPU, its memory, its streams and the images that are loaded on it.

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Arc;

use gpunet_device::kernel::Memory as Kept;
use gpunet_host::gpu::{DeviceMemory, EmulatedOptions};
use gpunet_host::{GpuChoice, GpuStream, LoadedImage, RawEntry, RawKernel};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::error;
use crate::objects::keep;
use crate::process::{Owned, wait_in_pieces};

/// An open GPU.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Gpu {
    pub(crate) gpu: Owned<gpunet_host::Gpu>,
}

/// A kernel of numba's: name, address of its entry, sizes of its parameters, what it lives in.
type Function<'py> = (String, usize, Vec<usize>, Bound<'py, PyList>);

#[pymethods]
impl Gpu {
    #[new]
    #[pyo3(signature = (choice, seed=None, workers=None))]
    fn new(
        py: Python<'_>,
        choice: &str,
        seed: Option<u64>,
        workers: Option<usize>,
    ) -> PyResult<Self> {
        let mut choice: GpuChoice = choice.parse().map_err(error::of)?;
        if seed.is_some() || workers.is_some() {
            let GpuChoice::Emulated(options) = &mut choice else {
                let message = "seed and workers are options of the emulated GPU: choice='emulated'";
                return Err(PyValueError::new_err(message));
            };
            let mut given = EmulatedOptions::default();
            (given.seed, given.workers) = (seed, workers);
            *options = given;
        }
        let gpu = py.detach(|| gpunet_host::Gpu::open(choice)).map_err(error::of)?;
        Ok(Self { gpu: Owned::slow("GPU", gpu) })
    }

    /// What it is.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let gpu = self.gpu.get()?;
        let (info, dict) = (gpu.info(), PyDict::new(py));
        dict.set_item("kind", info.kind.to_string())?;
        dict.set_item("name", &info.name)?;
        dict.set_item("multiprocessors", info.multiprocessors)?;
        dict.set_item("driver", &info.driver)?;
        dict.set_item("compute_capability", info.compute_capability)?;
        dict.set_item("max_threads_per_block", info.max_threads_per_block)?;
        dict.set_item("max_shared_bytes", info.max_shared_bytes)?;
        dict.set_item("max_kernels", info.max_kernels)?;
        dict.set_item("reason", &info.reason)?;
        Ok(dict)
    }

    /// Whether it is not closed.
    fn is_open(&self) -> bool {
        self.gpu.is_open()
    }

    fn close(&self, py: Python<'_>) {
        self.gpu.close(py);
    }

    /// Memory of so many bytes, zeroed.
    fn memory(&self, py: Python<'_>, bytes: usize) -> PyResult<Memory> {
        let gpu = self.gpu.get()?;
        let memory = py.detach(|| gpu.device_memory(bytes)).map_err(error::of)?;
        Ok(Memory { memory: Owned::new("buffer", memory), bytes })
    }

    /// Words in host memory that programs, kernels and streams wait for.
    fn flags(&self, py: Python<'_>, count: usize) -> PyResult<Flags> {
        let gpu = self.gpu.get()?;
        let flags = py.detach(|| gpu.flags::<u64>(count)).map_err(error::of)?;
        Ok(Flags { flags: Owned::new("flags", flags) })
    }

    /// Loads PTX, a cubin or a fatbin.
    fn load_bytes(&self, py: Python<'_>, name: &str, bytes: &[u8]) -> PyResult<Image> {
        let image = gpunet_host::Image::bytes(bytes).map_err(error::of)?;
        self.load(py, name, image)
    }

    /// Loads a shared object.
    fn load_object(&self, py: Python<'_>, name: &str, path: PathBuf) -> PyResult<Image> {
        self.load(py, name, gpunet_host::Image::SharedObject(path))
    }

    /// Makes functions of this process kernels.
    fn load_functions(
        &self,
        py: Python<'_>,
        name: &str,
        functions: Vec<Function<'_>>,
    ) -> PyResult<Image> {
        let kernel = |(name, entry, sizes, objects): Function<'_>| {
            if entry == 0 {
                return Err(PyValueError::new_err(format!("kernel '{name}' has no address")));
            }
            let entry = std::ptr::with_exposed_provenance::<c_void>(entry);
            // SAFETY: the package gives addresses of functions that its compiler has made with this type.
            let entry = unsafe { std::mem::transmute::<*const c_void, RawEntry>(entry) };
            let kept: Kept = keep(&objects);
            // SAFETY: the same: they read so many parameters of these sizes, and stay as the objects do.
            Ok(unsafe { RawKernel::new(name, entry, sizes, Some(kept)) })
        };
        let kernels = functions.into_iter().map(kernel).collect::<PyResult<Vec<_>>>()?;
        self.load(py, name, gpunet_host::Image::Functions(kernels))
    }

    /// A new stream, or one that the program has made, by its number.
    #[pyo3(signature = (raw=None))]
    fn stream(&self, py: Python<'_>, raw: Option<usize>) -> PyResult<Stream> {
        let gpu = self.gpu.get()?;
        let stream = py.detach(|| match raw {
            None => gpu.stream(),
            // SAFETY: the program says that it is one, and the package keeps the object that had it.
            Some(raw) => unsafe { gpu.stream_from_raw(raw) },
        });
        Ok(Stream { stream: Owned::new("stream", stream.map_err(error::of)?) })
    }
}

impl Gpu {
    fn load(&self, py: Python<'_>, name: &str, image: gpunet_host::Image) -> PyResult<Image> {
        let gpu = self.gpu.get()?;
        // SAFETY: the program trusts what it loads; it may do anything in this process, as any module of
        // Python's may.
        let image = py.detach(|| unsafe { gpu.load_image(name, image) }).map_err(error::of)?;
        Ok(Image { image: Owned::new("image", image) })
    }
}

/// Kernels that can be launched.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Image {
    pub(crate) image: Owned<LoadedImage>,
}

#[pymethods]
impl Image {
    /// Each kernel with the sizes of its parameters behind the net, where they are known.
    fn kernels(&self) -> PyResult<Vec<(String, Option<Vec<usize>>)>> {
        let image = self.image.get()?;
        let kernel = |name: &str| {
            let sizes = image.parameters(name).map_err(error::of)?;
            let behind = |sizes: &[usize]| {
                // A net in two words, as numba's kernels take it.
                let net = if sizes.starts_with(&[8, 8]) { 2 } else { 1 };
                sizes.iter().skip(net).copied().collect()
            };
            Ok((name.to_owned(), sizes.map(behind)))
        };
        image.kernels().map(kernel).collect()
    }

    /// The driver's handle of a kernel; none on the emulated GPU.
    fn cuda_function(&self, kernel: &str, threads: u32) -> PyResult<Option<usize>> {
        self.image.get()?.cuda_function(kernel, threads).map_err(error::of)
    }
}

/// Memory of a GPU.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Memory {
    memory: Owned<DeviceMemory>,
    bytes: usize,
}

#[pymethods]
impl Memory {
    /// Where it begins, for kernels.
    fn address(&self) -> PyResult<usize> {
        Ok(self.memory()?.device_ptr().expose_provenance())
    }

    /// Copies bytes out.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
        bytes: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let memory = self.memory()?;
        // Before memory is taken for them.
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            let message = format!("bytes {offset} to {offset} + {bytes} of {}", self.bytes);
            return Err(pyo3::exceptions::PyIndexError::new_err(message));
        }
        PyBytes::new_with(py, bytes, |into| {
            py.detach(|| memory.read(offset, into)).map_err(error::of)
        })
    }

    /// Copies bytes in.
    fn write(&self, py: Python<'_>, offset: usize, bytes: &[u8]) -> PyResult<()> {
        let memory = self.memory()?;
        py.detach(|| memory.write(offset, bytes)).map_err(error::of)
    }

    /// Gives the memory back, once kernels that were given it have ended.
    fn close(&self, py: Python<'_>) {
        self.memory.close(py);
    }
}

impl Memory {
    pub(crate) fn memory(&self) -> PyResult<Arc<DeviceMemory>> {
        Ok(self.memory.get()?.share())
    }
}

/// Words that programs, kernels and streams set and wait for.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Flags {
    pub(crate) flags: Owned<gpunet_host::Flags<u64>>,
}

#[pymethods]
impl Flags {
    fn load(&self, index: usize) -> PyResult<u64> {
        Ok(self.flags.get()?.load(self.check(index)?))
    }

    fn store(&self, index: usize, value: u64) -> PyResult<()> {
        self.flags.get()?.store(self.check(index)?, value);
        Ok(())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.flags.get()?.len())
    }
}

impl Flags {
    fn check(&self, index: usize) -> PyResult<usize> {
        let count = self.flags.get()?.len();
        match index < count {
            true => Ok(index),
            false => {
                let message = format!("flag {index} of {count}");
                Err(pyo3::exceptions::PyIndexError::new_err(message))
            }
        }
    }
}

/// A stream: kernels and operations one after the other.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Stream {
    pub(crate) stream: Owned<GpuStream>,
}

#[pymethods]
impl Stream {
    /// Whether all that was put there by gpunet is done.
    fn is_done(&self, py: Python<'_>) -> PyResult<bool> {
        let stream = self.stream.get()?;
        py.detach(|| stream.is_done()).map_err(error::of)
    }

    /// Waits for that.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let stream = self.stream.get()?;
        let done = wait_in_pieces(py, timeout, |piece| match stream.wait(piece) {
            Ok(false) => None,
            ended => Some(ended),
        })?;
        done.unwrap_or(Ok(false)).map_err(error::of)
    }
}
