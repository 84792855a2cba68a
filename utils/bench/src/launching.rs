//! The other baseline: what people do today. A CPU server copies each request to the GPU,
//! launches a kernel, and copies the answer back.

#![allow(unsafe_code, reason = "plain driver calls, without gpunet in between")]

use std::ffi::CStr;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::Result;
use cudarc::driver::{result, sys};
use gpunet_terminal::output::complain;

/// The largest request.
const LARGEST: usize = 64 << 10;

/// The kernel that is launched for each request: every thread copies its share of the bytes.
const ANSWER: &CStr = c"
.version 6.3
.target sm_75
.address_size 64
.visible .entry answer(.param .u64 request, .param .u64 reply, .param .u64 bytes)
{
    .reg .pred %more;
    .reg .u16 %byte;
    .reg .u32 %half;
    .reg .u64 %request, %reply, %bytes, %at, %step, %from, %to;
    ld.param.u64 %request, [request];
    ld.param.u64 %reply, [reply];
    ld.param.u64 %bytes, [bytes];
    mov.u32 %half, %tid.x;
    cvt.u64.u32 %at, %half;
    mov.u32 %half, %ntid.x;
    cvt.u64.u32 %step, %half;
next:
    setp.lt.u64 %more, %at, %bytes;
    @!%more bra done;
    add.u64 %from, %request, %at;
    add.u64 %to, %reply, %at;
    ld.global.u8 %byte, [%from];
    st.global.u8 [%to], %byte;
    add.u64 %at, %at, %step;
    bra next;
done:
    ret;
}
";

/// Serves until the process ends.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let worker = Worker::new()?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = worker.serve(stream) {
                    complain("bench", format!("launch-per-request server: {error}"));
                }
            }
        });
        Ok(Self { address })
    }
}

/// A loaded kernel and its two buffers.
struct Worker {
    context: sys::CUcontext,
    stream: sys::CUstream,
    function: sys::CUfunction,
    request: sys::CUdeviceptr,
    reply: sys::CUdeviceptr,
}

// SAFETY: driver handles may be used from any thread that makes the context current.
unsafe impl Send for Worker {}

impl Worker {
    fn new() -> Result<Self> {
        let device = result::device::get(0)?;
        // SAFETY: the primary context is retained for the process' life; the image is a
        // zero-terminated PTX text; sizes are those of the buffers below.
        unsafe {
            let context = result::primary_ctx::retain(device)?;
            result::ctx::set_current(context)?;
            let module = result::module::load_data(ANSWER.as_ptr().cast())?;
            let function = result::module::get_function(module, c"answer".to_owned())?;
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
            let request = result::malloc_sync(LARGEST)?;
            let reply = result::malloc_sync(LARGEST)?;
            Ok(Self { context, stream, function, request, reply })
        }
    }

    fn serve(&self, mut stream: TcpStream) -> Result<()> {
        // SAFETY: the context lives as long as the process.
        unsafe { result::ctx::set_current(self.context)? };
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut buffer = vec![0; LARGEST];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(bytes) => {
                    self.answer(&mut buffer[..bytes])?;
                    let mut sent = 0;
                    while sent < bytes {
                        match stream.write(&buffer[sent..bytes]) {
                            Ok(more) => sent += more,
                            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                            Err(error) => return Err(error.into()),
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Copies in, launches, copies out, all in order on one stream, and waits once.
    fn answer(&self, bytes: &mut [u8]) -> Result<()> {
        let (mut request, mut reply, mut length) = (self.request, self.reply, bytes.len() as u64);
        let mut parameters =
            [(&raw mut request).cast(), (&raw mut reply).cast(), (&raw mut length).cast()];
        // SAFETY: the buffers hold LARGEST bytes; the parameters are the kernel's, by value; `bytes` is not used before the stream is synchronised.
        unsafe {
            result::memcpy_htod_async(self.request, bytes, self.stream)?;
            result::launch_kernel(
                self.function,
                (1, 1, 1),
                (64, 1, 1),
                0,
                self.stream,
                &mut parameters,
            )?;
            result::memcpy_dtoh_async(bytes, self.reply, self.stream)?;
            result::stream::synchronize(self.stream)?;
        }
        Ok(())
    }
}
