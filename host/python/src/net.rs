//! A net: its sockets, launches, queues and leases.

use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

use gpunet_host::{Handle, LeaseKernel, ListenOptions, SocketAddr};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arguments::{self, Layout};
use crate::error;
use crate::gpu::{Gpu, Image, Stream};
use crate::launch::{Launch, Lease};
use crate::process::{Owned, duration};
use crate::queue::Queue;
use crate::settings;

/// A net.
#[pyclass(frozen, module = "gpunet._gpunet")]
pub(crate) struct Net {
    net: Owned<gpunet_host::Net>,
}

/// A kernel that a lease is for: one of an image, or a function of the driver's.
type LeaseFor = (Option<Py<Image>>, String, usize, Layout);

#[pymethods]
impl Net {
    #[new]
    fn new(py: Python<'_>, gpu: &Gpu, settings: &Bound<'_, PyDict>) -> PyResult<Self> {
        let gpu = gpu.gpu.get()?;
        let builder = settings::apply(gpunet_host::Net::builder(&gpu), settings)?;
        let net = py.detach(|| builder.build()).map_err(error::of)?;
        Ok(Self { net: Owned::slow("net", net) })
    }

    fn is_open(&self) -> bool {
        self.net.is_open()
    }

    /// Stops its kernels, sends what is unsent, ends its threads.
    fn close(&self, py: Python<'_>) {
        self.net.close(py);
    }

    /// Listens at an address; the handle, and the address that it got.
    fn listen<'py>(
        &self,
        py: Python<'py>,
        address: [u64; 14],
        backlog: Option<u32>,
        reuse_port: bool,
        only_v6: Option<bool>,
    ) -> PyResult<(u64, [u64; 14])> {
        let net = self.net.get()?;
        let mut options = ListenOptions::new().reuse_port(reuse_port);
        if let Some(backlog) = backlog {
            options = options.backlog(backlog);
        }
        if let Some(only) = only_v6 {
            options = options.only_v6(only);
        }
        let address = SocketAddr::from_words(&address);
        let (handle, bound) = py.detach(|| net.listen_with(address, options)).map_err(error::of)?;
        Ok((handle.0, bound.to_words()))
    }

    /// Takes a connected or listening socket in; its descriptor is the net's from then on.
    fn hand_over(&self, py: Python<'_>, descriptor: RawFd) -> PyResult<u64> {
        if descriptor < 0 {
            return Err(PyValueError::new_err("hand_over: the socket is closed"));
        }
        // SAFETY: the package has made it for this call, and nobody else closes it.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let net = self.net.get()?;
        Ok(py.detach(|| net.hand_over(socket)).map_err(error::of)?.0)
    }

    /// Takes a socket back: its descriptor, and what no kernel has read.
    fn take_back<'py>(
        &self,
        py: Python<'py>,
        handle: u64,
    ) -> PyResult<(RawFd, Bound<'py, PyBytes>)> {
        let net = self.net.get()?;
        let released = py.detach(|| net.take_back(Handle(handle))).map_err(error::of)?;
        let unread = PyBytes::new(py, &released.unread);
        Ok((released.socket.into_raw_fd(), unread))
    }

    /// Closes a socket, whoever made it.
    fn close_socket(&self, py: Python<'_>, handle: u64) -> PyResult<()> {
        let net = self.net.get()?;
        py.detach(|| net.close(Handle(handle))).map_err(error::of)
    }

    /// What the proxy has done so far, by name.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let net = self.net.get()?;
        let (found, dict) = (net.statistics(), PyDict::new(py));
        macro_rules! numbers {
            ($($name:ident)*) => { $(dict.set_item(stringify!($name), found.$name)?;)* };
        }
        numbers! {
            sockets free_ring_bytes received_bytes sent_bytes received_packets sent_packets requests
            refused_requests denied throttled accepted connected failed violations closed_for_kernels printed
            print_dropped turns sleeps
        }
        dict.set_item("control_memory", found.control_memory.to_string())?;
        Ok(dict)
    }

    /// Every socket, as the proxy sees it.
    fn dump<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let net = self.net.get()?;
        let sockets = py.detach(|| net.dump()).map_err(error::of)?;
        let list = PyList::empty(py);
        for socket in sockets {
            let dict = PyDict::new(py);
            macro_rules! fields {
                ($($name:ident)*) => { $(dict.set_item(stringify!($name), &socket.$name)?;)* };
            }
            fields! {
                handle state local peer launch receive_capacity to_be_read send_capacity to_be_sent received sent
                receive_ended send_ended error
            }
            dict.set_item("transport", format!("{:?}", socket.transport))?;
            list.append(dict)?;
        }
        Ok(list)
    }

    /// Stops all kernels.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let net = self.net.get()?;
        py.detach(|| net.abort());
        Ok(())
    }

    /// Starts a kernel.
    fn launch(
        &self,
        py: Python<'_>,
        image: &Image,
        kernel: &str,
        layout: Layout,
        items: &Bound<'_, PyList>,
        objects: &Bound<'_, PyList>,
    ) -> PyResult<Launch> {
        let arguments = arguments::read(items, objects)?;
        let (net, image, shape) = (self.net.get()?, image.image.get()?, arguments::shape(layout));
        // SAFETY: the package has made the arguments of the kernel's declared types, or of the sizes that
        // its image says, and the launch keeps what they name.
        let launch = py.detach(|| unsafe { net.launch_raw(&image, kernel, shape, &arguments) });
        Ok(Launch { launch: Owned::new("launch", launch.map_err(error::of)?) })
    }

    /// A queue on a stream.
    fn queue(&self, py: Python<'_>, stream: &Stream, timeout: Option<f64>) -> PyResult<Queue> {
        let (net, stream) = (self.net.get()?, stream.stream.get()?);
        let timeout = timeout.map(duration).transpose()?;
        let queue = py.detach(|| net.queue(&stream)).map_err(error::of)?;
        let queue = match timeout {
            Some(timeout) => queue.timeout(timeout),
            None => queue,
        };
        Ok(Queue { queue: Owned::new("queue", queue) })
    }

    /// A lease for kernels that the program puts on streams itself.
    fn lease(
        &self,
        py: Python<'_>,
        streams: Vec<Py<Stream>>,
        kernels: Vec<LeaseFor>,
    ) -> PyResult<Lease> {
        let net = self.net.get()?;
        let streams = streams
            .iter()
            .map(|stream| Ok(stream.get().stream.get()?.clone()))
            .collect::<PyResult<Vec<_>>>()?;
        let images = kernels
            .iter()
            .map(|(image, ..)| image.as_ref().map(|image| image.get().image.get()).transpose())
            .collect::<PyResult<Vec<_>>>()?;
        let named: Vec<_> = kernels
            .iter()
            .zip(&images)
            .map(|((_, kernel, function, layout), image)| {
                let shape = arguments::shape(*layout);
                match image {
                    Some(image) => LeaseKernel::Named { image, kernel, shape },
                    None => LeaseKernel::Function { function: *function, shape },
                }
            })
            .collect();
        // SAFETY: the program launches them on these streams alone, as `gpunet.Net.lease` says.
        let lease = py.detach(|| unsafe { net.lease(&streams, &named) }).map_err(error::of)?;
        Ok(Lease { lease: Owned::new("lease", lease) })
    }
}

/// The name of an error number, as `ETIMEDOUT`; nothing of one that is not known.
#[pyfunction]
pub(crate) fn errno_name(errno: i32) -> Option<&'static str> {
    gpunet_host::Errno(errno).name()
}
