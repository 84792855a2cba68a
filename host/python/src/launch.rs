//! Kernels that run: launches and leases.

use gpunet_host::Task;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::arguments::{self, Layout};
use crate::error;
use crate::gpu::{Image, Stream};
use crate::process::{Owned, wait};

/// A kernel that was launched.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Launch {
    pub(crate) launch: Owned<gpunet_host::Launch>,
}

#[pymethods]
impl Launch {
    fn kernel(&self) -> PyResult<String> {
        Ok(self.launch.get()?.kernel().to_owned())
    }

    fn number(&self) -> PyResult<u32> {
        Ok(self.launch.get()?.number())
    }

    /// Whether the kernel has ended.
    fn done(&self) -> PyResult<bool> {
        Ok(self.launch.get()?.is_finished())
    }

    /// Waits until it has.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let launch = self.launch.get()?;
        wait(py, timeout, |piece| launch.wait_timeout(piece))
    }

    /// Stops it.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let launch = self.launch.get()?;
        py.detach(|| launch.abort());
        Ok(())
    }
}

/// Streams on which the program runs kernels of a net.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Lease {
    pub(crate) lease: Owned<gpunet_host::Lease>,
}

#[pymethods]
impl Lease {
    /// The net as its kernels take it.
    fn net<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let net = self.lease.get()?.net();
        // SAFETY: two words without padding.
        let bytes: [u8; 16] = unsafe { std::mem::transmute(net) };
        Ok(PyBytes::new(py, &bytes))
    }

    #[allow(clippy::too_many_arguments, reason = "the package's own call")]
    fn launch(
        &self,
        py: Python<'_>,
        stream: &Stream,
        image: &Image,
        kernel: &str,
        layout: Layout,
        items: &Bound<'_, PyList>,
        objects: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let arguments = arguments::read(items, objects)?;
        let (lease, stream, image) = (self.lease.get()?, stream.stream.get()?, image.image.get()?);
        let shape = arguments::shape(layout);
        // SAFETY: as `Net::launch` of this module.
        let put =
            py.detach(|| unsafe { lease.launch_raw(&stream, &image, kernel, shape, &arguments) });
        put.map_err(error::of)
    }

    /// No more kernels use the net.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let lease = self.lease.get()?;
        py.detach(|| lease.close());
        Ok(())
    }

    /// Waits until it has ended.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let lease = self.lease.get()?;
        wait(py, timeout, |piece| lease.wait_timeout(piece))
    }

    fn done(&self) -> PyResult<bool> {
        Ok(self.lease.get()?.is_finished())
    }

    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let lease = self.lease.get()?;
        py.detach(|| lease.abort());
        Ok(())
    }
}
