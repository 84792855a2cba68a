//! The proof: blocks of a kernel on a net of gpunet send bytes to one another over every transport
//! that should work here, and over the one that `auto` takes.
//!
//! Touches the loopback interface, the address of an RDMA port and one socket file in the folder for
//! temporary files. Every step has a time limit; a net that hangs is left behind.
#![expect(unsafe_code, reason = "gives kernels the address of memory that they write")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr as IpSocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use gpunet_device::{Errno, Shared, SocketAddr};
use gpunet_diagnose_kernels::{Outcome, Work, proof};
use gpunet_host::gpu::{DeviceMemory, EmulatedOptions};
use gpunet_host::{Gpu, GpuChoice, Net, Shape, Task, TransportChoice};

use crate::kernels::MODULE;
use crate::machine::answers::{Adapter, Transfer};
use crate::machine::{Proof, Proofs, one_line, within};

/// Names of the ways.
pub(crate) const TCP4: &str = "TCP over IPv4";
/// The same over IPv6.
pub(crate) const TCP6: &str = "TCP over IPv6";
/// A UNIX-domain socket.
pub(crate) const UNIX: &str = "UNIX socket";
/// rsocket's protocol over RDMA.
pub(crate) const RDMA: &str = "RDMA";
/// Straight from kernel to kernel.
pub(crate) const LOCAL: &str = "local";
/// Whatever gpunet takes to reach other programs when nobody chooses.
pub(crate) const AUTO: &str = "auto";
/// The same between kernels of this machine.
pub(crate) const AUTO_NEAR: &str = "auto between kernels";

/// Opening a GPU and loading kernels: the driver compiles them at its first start.
const OPENING: Duration = Duration::from_secs(60);
/// One transfer, with its net made and dropped.
const TRANSFER: Duration = Duration::from_secs(30);
/// How long one call of a kernel may wait.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a kernel may run.
const RUN: Duration = Duration::from_secs(20);

/// Round trips of a transfer; the first sizes are packets, so one must be larger.
const MESSAGES: u64 = 16;
/// Bytes of each.
const BYTES: u64 = 4 << 10;
/// Capacity of each ring.
const RING: u32 = 16 << 10;

/// Bytes of an outcome: four words.
const OUTCOME: usize = 32;
const _: () = assert!(size_of::<Outcome>() == OUTCOME && align_of::<Outcome>() == 8);

/// Tries everything; RDMA at that address of a device, if there is one.
pub(crate) fn prove(rdma: Option<Ipv4Addr>) -> Proofs {
    let opened = within(OPENING, open).unwrap_or_else(|why| Err(why.to_string()));
    let (gpu, reason) = match opened {
        Ok(opened) => opened,
        Err(why) => return Proofs { gpu: Some(Err(why)), ..Proofs::default() },
    };
    let ip = |ip: IpAddr| Some(SocketAddr::from(IpSocketAddr::new(ip, 0)));
    let path = std::env::temp_dir().join(format!("gpunet-diagnose-{}", std::process::id()));
    let mut ways = vec![
        (TCP4, TransportChoice::Tcp, ip(Ipv4Addr::LOCALHOST.into())),
        (TCP6, TransportChoice::Tcp, ip(Ipv6Addr::LOCALHOST.into())),
        (UNIX, TransportChoice::Tcp, SocketAddr::path(&path)),
        (LOCAL, TransportChoice::Local, ip(Ipv4Addr::LOCALHOST.into())),
    ];
    ways.extend(rdma.map(|address| (RDMA, TransportChoice::Rdma, ip(address.into()))));
    let ways = ways.into_iter().map(|(way, choice, at)| transfer(&gpu, way, choice, at)).collect();
    let address = rdma.unwrap_or(Ipv4Addr::LOCALHOST);
    let auto = transfer(&gpu, AUTO, TransportChoice::Auto, ip(address.into()));
    let near = transfer(&gpu, AUTO_NEAR, TransportChoice::Auto, ip(Ipv4Addr::LOCALHOST.into()));
    let name = one_line(&gpu.info().name);
    Proofs { gpu: Some(Ok((name, reason))), ways, auto: Some(auto), near: Some(near) }
}

/// An error in one line.
fn words(error: impl std::error::Error) -> String {
    one_line(&error.to_string())
}

/// The GPU that programs get, as `auto` chooses: the emulated one where a real one does not take
/// the kernels.
fn open() -> Result<(Gpu, String), String> {
    let gpu = Gpu::open(GpuChoice::Auto).map_err(words)?;
    match gpu.load(&MODULE) {
        Ok(()) => {
            let reason = one_line(&gpu.info().reason);
            Ok((gpu, reason))
        }
        Err(error) => {
            let reason = format!("{} is not used: {}", gpu.info().name, words(error));
            let emulated = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default()));
            let emulated = emulated.map_err(words)?;
            emulated.load(&MODULE).map_err(words)?;
            Ok((emulated, one_line(&reason)))
        }
    }
}

fn transfer(gpu: &Gpu, way: &str, choice: TransportChoice, at: Option<SocketAddr>) -> Proof {
    let gpu = gpu.clone();
    let no_proof = |why: String| Proof {
        way: way.to_owned(),
        outcome: Err(why),
        adapters: Vec::new(),
        without_rdma: None,
        words: None,
    };
    let Some(at) = at else {
        return no_proof("the folder for temporary files has too long a name".to_owned());
    };
    let name = way.to_owned();
    // Between kernels `auto` goes straight. A net that limits bytes does not, and so takes the way that
    // it would to any other program.
    let mut policy = gpunet_host::Policy::open();
    if way == AUTO {
        policy = policy.max_in_flight(1 << 30);
    }
    let tried = within(TRANSFER, move || {
        let net = match Net::builder(&gpu)
            .sockets(8)
            .ring(RING)
            .timeout(TIMEOUT)
            .linger(Duration::from_secs(1))
            .transport(choice)
            .policy(policy)
            .build()
        {
            Ok(net) => net,
            Err(error) => {
                let outcome = Err(words(error));
                let adapters = Vec::new();
                return Proof { way: name, outcome, adapters, without_rdma: None, words: None };
            }
        };
        let outcome = echo(&gpu, &net, at);
        let adapters = net.rdma_adapters().into_iter().map(|adapter| Adapter {
            device: adapter.device,
            placements: adapter.placements.into_iter().map(str::to_owned).collect(),
            refused: adapter
                .refused
                .into_iter()
                .map(|(placement, why)| (placement.to_owned(), one_line(&why)))
                .collect(),
        });
        let adapters = adapters.collect();
        let without_rdma = net.without_rdma().map(one_line);
        let words = Some(one_line(&net.statistics().control_memory.to_string()));
        Proof { way: name, outcome, adapters, without_rdma, words }
    });
    tried.unwrap_or_else(|why| no_proof(why.to_string()))
}

/// A socket file that goes when the transfer has.
struct SocketFile(Option<PathBuf>);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Not there: the listener failed before it made one, or the net has removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// An echo server in one block of a kernel and a client in another, which checks every byte.
fn echo(gpu: &Gpu, net: &Net, at: SocketAddr) -> Result<Transfer, String> {
    let (listener, server_at) = net.listen(at).map_err(words)?;
    let _file = SocketFile(at.to_path());
    let memory = gpu.device_memory(OUTCOME).map_err(words)?;
    let work = Work { server: server_at, messages: MESSAGES, bytes: BYTES };
    let shape = Shape::new(2, 32).shared_memory(2 * BYTES as u32);
    let kernel = net.launch(proof, shape, (listener, work, place(&memory))).map_err(words)?;
    if let Err(error) = kernel.wait_timeout(RUN) {
        // Dropping the net waits for it, within bounds.
        kernel.abort();
        return Err(words(error));
    }
    check(&memory)
}

/// Where the client's block puts its outcome.
fn place(memory: &DeviceMemory) -> Shared<Outcome> {
    // SAFETY: the memory is, aligned to a page, one zeroed outcome, and any bits make one.
    // A kernel that still runs keeps the memory (gpunet-host gives dropped memory back once no
    // kernel runs), and the host reads through `DeviceMemory` after the launch has ended.
    unsafe { Shared::from_raw(memory.device_ptr().cast(), 1) }
}

/// What the client's block says.
fn check(memory: &DeviceMemory) -> Result<Transfer, String> {
    let mut bytes = [0; OUTCOME];
    memory.read(0, &mut bytes).map_err(words)?;
    let (words, _) = bytes.as_chunks::<8>();
    let word = |index: usize| words.get(index).map_or(0, |word| u64::from_le_bytes(*word));
    let (result, verified, elapsed_ns, transport) =
        (word(0).cast_signed(), word(1), word(2), word(3));
    if result != 0 {
        let errno = Errno(i32::try_from(result.saturating_neg()).unwrap_or(Errno::EIO.0));
        return Err(format!("the client's kernel got {errno}"));
    }
    if verified != MESSAGES * BYTES {
        return Err(format!("{verified} of {} bytes came back", MESSAGES * BYTES));
    }
    let rdma = transport == TransportChoice::Rdma as u64;
    let local = transport == TransportChoice::Local as u64;
    Ok(Transfer { bytes: verified, micros: elapsed_ns / 1000, rdma, local })
}
