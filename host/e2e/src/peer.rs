//! Peers: ordinary sockets of the CPU, with bytes of the same pattern as the kernels'.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use gpunet_device::SocketAddr;
use gpunet_support::pattern;
use gpunet_support::testing::{Folder, skip};

use crate::limits::deadline;
use crate::relay::{self, RelayListener};
use crate::script::SEED;
pub use crate::stream::{Listener, Stream};
use crate::transport::{any_port, has_own_peers, is_local, is_rdma};

/// Bytes of the pattern.
#[must_use]
pub fn bytes(seed: u64, position: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    pattern::fill_slice(&mut bytes, seed, position);
    bytes
}

/// Sends bytes of the pattern from `position` on.
///
/// # Panics
/// When the stream does not take them.
pub fn send(stream: &mut impl Write, position: u64, length: usize) {
    stream.write_all(&bytes(SEED, position, length)).expect("the peer sends");
}

/// Receives bytes of the pattern from `position` on, and checks them.
///
/// # Panics
/// When they do not come, or are others.
pub fn receive(stream: &mut impl Read, position: u64, length: usize) {
    let mut got = vec![0; length];
    stream.read_exact(&mut got).expect("the peer receives");
    check(&got, SEED, position);
}

/// Receives to the end of the stream and checks; how much it was.
///
/// # Panics
/// When the stream fails, or the bytes are not the pattern's.
pub fn receive_rest(stream: &mut impl Read, mut position: u64) -> u64 {
    let begin = position;
    let mut piece = vec![0; 64 << 10];
    loop {
        match stream.read(&mut piece).expect("the peer receives") {
            0 => return position - begin,
            got => {
                check(&piece[..got], SEED, position);
                position += got as u64;
            }
        }
    }
}

/// Checks bytes against the pattern.
///
/// # Panics
/// When one differs.
pub fn check(got: &[u8], seed: u64, position: u64) {
    let wrong = (position..).zip(got).find(|(at, byte)| **byte != pattern::byte(seed, *at));
    if let Some((at, byte)) = wrong {
        panic!("byte {at} is {byte:#x}, not {:#x}", pattern::byte(seed, at));
    }
}

/// Connects to a listener of a kernel.
///
/// # Panics
/// When it does not answer.
#[must_use]
pub fn connect(address: SocketAddr) -> Stream {
    Stream::connect(address).expect("the kernel listens")
}

/// The same at a UNIX path.
///
/// # Panics
/// When it does not answer.
#[must_use]
pub fn connect_unix(path: &Path) -> UnixStream {
    if !is_local() {
        return UnixStream::connect(path).expect("the kernel listens");
    }
    let (mine, near) = UnixStream::pair().expect("a pair");
    let to = SocketAddr::path(path).expect("the path fits an address");
    relay::connect(near, to).expect("the kernel listens");
    mine
}

/// Connects to a listener of the system, whichever way the suites go.
///
/// # Panics
/// When it does not answer.
#[must_use]
pub fn connect_by_tcp(address: std::net::SocketAddr) -> Stream {
    let stream = std::net::TcpStream::connect(address).and_then(Stream::of_tcp);
    stream.expect("it listens")
}

/// Whether peers can [`reset`]; if not, the test was noted as skipped.
#[must_use]
pub fn can_reset(test: &str) -> bool {
    // What it is like when such a peer is killed: see `rdma`, `killed`.
    let reason = match (is_local(), is_rdma() && !has_own_peers()) {
        (true, _) => "p2p streams are reset by processes that die: see `killed`",
        (_, true) => "stock rsocket has no call that resets",
        _ => return true,
    };
    skip(test, reason);
    false
}

/// Has the stream end with a reset.
///
/// # Panics
/// When the system does not let us, and where the peer cannot: stock rsocket, a p2p stream.
pub fn reset(stream: Stream) {
    match stream {
        Stream::Tcp(stream) => reset_tcp(stream),
        Stream::Own(own) => own.cut(),
        Stream::Stock(_) => panic!("stock rsocket cannot reset"),
    }
}

/// The same of a socket of the system's, whichever way the suites go.
///
/// # Panics
/// When the system does not let us.
pub fn reset_tcp(stream: TcpStream) {
    let socket = socket2::Socket::from(stream);
    socket.set_linger(Some(Duration::ZERO)).expect("linger can be set");
}

/// Has the peer vanish without closing: whatever reaches the stream is dropped, and nothing is said
/// about it, until it is dropped. Why, when the system cannot do so.
///
/// # Errors
/// A system without filters for sockets.
pub fn vanish(stream: &Stream) -> io::Result<()> {
    let Stream::Tcp(stream) = stream else {
        return Err(io::Error::other("RDMA passes the system's filters by"));
    };
    if is_local() {
        return Err(io::Error::other("nothing is sent on the way of a p2p stream"));
    }
    // BPF_RET with 0: keep no byte of any packet.
    let drop_all = socket2::SockFilter::new(0x06, 0, 0, 0);
    socket2::SockRef::from(stream).attach_filter(&[drop_all])
}

/// A UNIX listener, and sockets that keep its queue full as long as they live.
///
/// # Panics
/// When the system does not let us.
#[must_use]
pub fn full_unix_listener(path: &Path) -> (socket2::Socket, Vec<socket2::Socket>) {
    let address = socket2::SockAddr::unix(path).expect("a path");
    let listener = socket(socket2::Domain::UNIX);
    listener.bind(&address).and_then(|()| listener.listen(0)).expect("it listens");
    (listener, fillers(&address))
}

fn socket(domain: socket2::Domain) -> socket2::Socket {
    socket2::Socket::new(domain, socket2::Type::STREAM, None).expect("a socket")
}

/// Sockets that fill the queue of a listener without a backlog. Those that fit connect; the others are refused
/// for the time being (UNIX) or hang (TCP), and both is as it should be.
fn fillers(address: &socket2::SockAddr) -> Vec<socket2::Socket> {
    let filler = |_| {
        let filler = socket(address.domain());
        filler.set_nonblocking(true).expect("it can be non-blocking");
        let _ = filler.connect(address);
        filler
    };
    (0..4).map(filler).collect()
}

/// Sends everything back.
fn echo(stream: &mut (impl Read + Write)) -> io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    loop {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            got => stream.write_all(&piece[..got])?,
        }
    }
}

/// A listener whose connections take few bytes until they are read.
///
/// # Panics
/// When the system does not let us.
#[must_use]
pub fn narrow_listener() -> (Listener, SocketAddr) {
    let listener = Listener::bind_with(any_port(), Some(4096), 8).expect("it listens");
    let address = listener.address();
    (listener, address)
}

/// What keeps a black hole as it is.
pub enum Held {
    /// A listener, and what fills its queue.
    Tcp(Listener, Vec<socket2::Socket>),
    /// A listener that nobody looks at. One of stock rsocket accepts by itself.
    Rdma(rsocket_shim::stream::Listener),
    /// A net that has no room for what it might accept.
    Local(gpunet_host::Net),
}

/// An address at which a connect neither succeeds nor fails: a listener whose queue is full or, by
/// RDMA, which does not answer. It stays so as long as what comes with it lives.
///
/// # Panics
/// When the system does not let us.
#[must_use]
pub fn black_hole() -> (Held, SocketAddr) {
    if is_rdma() {
        let libraries = rsocket_shim::load::Libraries::load().expect("there is RDMA");
        let any = any_port().to_ip().expect("an IP address");
        let listener = rsocket_shim::stream::Listener::bind(libraries, any).expect("a port");
        listener.listen(64).expect("it listens");
        let address = listener.local_address().expect("its address").into();
        return (Held::Rdma(listener), address);
    }
    if is_local() {
        let (net, address) = relay::full_listener();
        return (Held::Local(net), address);
    }
    let listener = Listener::bind_with(any_port(), None, 0).expect("it listens");
    let address = listener.address();
    let ip = address.to_ip().expect("an IP address");
    (Held::Tcp(listener, fillers(&ip.into())), address)
}

/// A port at which nobody listens, as long as the socket lives.
///
/// # Panics
/// When the system does not let us.
#[must_use]
pub fn closed_port() -> (socket2::Socket, SocketAddr) {
    let socket = socket(socket2::Domain::IPV4);
    let any = any_port().to_ip().expect("an IP address");
    socket.bind(&any.into()).expect("a port");
    let address = socket.local_addr().expect("its address").as_socket().expect("an IP address");
    (socket, address.into())
}

/// A peer with a thread of its own, which serves one connection after the other.
pub struct Peer<T> {
    /// Where it listens.
    pub address: SocketAddr,
    results: mpsc::Receiver<T>,
    /// It serves as long as this is held.
    _wanted: Arc<()>,
    /// Of one at a UNIX path that is reached by the relay: its listener there, and where the relay
    /// finds it. Here and not in the thread, which waits for ever.
    _near: Option<(RelayListener, Folder)>,
}

impl<T: Send + 'static> Peer<T> {
    /// Serves each connection with `serve`.
    pub fn serve(serve: impl FnMut(Stream) -> T + Send + 'static) -> Self {
        Self::serve_at(any_port(), serve)
    }

    /// Serves each connection with `serve`, at that address.
    ///
    /// # Panics
    /// When the address cannot be had.
    pub fn serve_at(at: SocketAddr, mut serve: impl FnMut(Stream) -> T + Send + 'static) -> Self {
        let listener = Listener::bind(at).expect("a port");
        let address = listener.address();
        let (to, results) = mpsc::channel();
        let wanted = Arc::new(());
        let still = Arc::downgrade(&wanted);
        std::thread::spawn(move || {
            while let Ok(stream) = listener.accept_while(|| still.strong_count() > 0) {
                if to.send(serve(stream)).is_err() {
                    return;
                }
            }
        });
        Self { address, results, _wanted: wanted, _near: None }
    }

    /// Serves each connection with `serve`, at a UNIX path.
    ///
    /// # Panics
    /// When the path cannot be had.
    pub fn serve_unix(at: &Path, mut serve: impl FnMut(UnixStream) -> T + Send + 'static) -> Self {
        let address = SocketAddr::path(at).expect("the path fits an address");
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let near = is_local().then(|| Folder::new(&format!("near-{number}")));
        let own = near.as_ref().map(|folder| folder.path("near"));
        let listener = UnixListener::bind(own.as_deref().unwrap_or(at)).expect("the path is free");
        let near = near.map(|folder| {
            let listening = relay::listen(address, folder.address("near"), false);
            (listening.expect("the path is free"), folder)
        });
        let (to, results) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(deadline())).expect("time-outs can be set");
                if to.send(serve(stream)).is_err() {
                    return;
                }
            }
        });
        Self { address, results, _wanted: Arc::new(()), _near: near }
    }

    /// What serving the next connection came to.
    ///
    /// # Panics
    /// When the peer panicked or takes too long.
    pub fn result(&self) -> T {
        self.results.recv_timeout(deadline()).expect("the peer ends well")
    }
}

/// Echoes on every connection, each in a thread of its own. One for all tests.
#[must_use]
pub fn echo_server() -> SocketAddr {
    static SERVER: OnceLock<SocketAddr> = OnceLock::new();
    *SERVER.get_or_init(|| echo_server_at(any_port()))
}

/// The same at that address.
///
/// # Panics
/// When the address cannot be had.
#[must_use]
pub fn echo_server_at(at: SocketAddr) -> SocketAddr {
    let listener = Listener::bind(at).expect("a port");
    let address = listener.address();
    std::thread::spawn(move || {
        loop {
            if let Ok(mut stream) = listener.accept_while(|| true) {
                // What breaks here shows at the kernel's end.
                std::thread::spawn(move || echo(&mut stream));
            }
        }
    });
    address
}
