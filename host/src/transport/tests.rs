//! Endpoints of a net that has p2p streams, over the system's sockets.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use gpunet_device::abi::option::SocketOption;

use super::linux::Linux;
use super::p2p::P2p;
use super::system::System as _;
use super::*;
use crate::gpu::{EmulatedOptions, Gpu, GpuChoice};

const SIZES: RingSizes = RingSizes { receive: 4096, send: 4096 };

impl Transports {
    /// Streams that are closed at one end alone, and bytes of their memory that are not free.
    pub(crate) fn left_behind(&self) -> (usize, u64) {
        let left = self.available.providers.iter().map(|provider| provider.left_behind());
        left.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}

impl Default for Transports {
    fn default() -> Self {
        Self::new(TransportChoice::Auto, &linux::Linux, Vec::new())
    }
}

fn transports(choice: TransportChoice) -> Transports {
    let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
    let p2p = P2p::new(&Linux, &gpu, 64 << 20).expect("it works");
    Transports::new(choice, &Linux, vec![Arc::new(p2p)])
}

fn at(text: &str) -> SocketAddr {
    text.parse::<std::net::SocketAddr>().expect("an address").into()
}

/// The peer of an endpoint.
fn peer_of(endpoint: &Endpoint) -> Result<SocketAddr, Errno> {
    endpoint.carrier().ok_or(Errno::ENOTCONN)?.peer_addr()
}

/// An address that nobody else has as long as the listener lives.
fn address() -> (std::net::TcpListener, SocketAddr) {
    let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = held.local_addr().expect("it has one").into();
    (held, address)
}

/// A listener at an address, with an option set; its address.
fn listener(
    transports: &Transports,
    address: &SocketAddr,
    option: Option<SocketOption>,
) -> (Endpoint, SocketAddr) {
    let domain = address.domain().expect("an address");
    let mut listener = transports.make(domain).expect("a socket");
    if let Some(option) = option {
        listener.set_option(option, 1).expect("it has it");
    }
    listener.bind(address).expect("it is free");
    listener.listen(16).expect("it is bound");
    let address = listener.local_addr().expect("it has one");
    (listener, address)
}

/// Connects, as far as that goes without the other end.
fn begin(transports: &Transports, peer: &SocketAddr) -> Result<Endpoint, Errno> {
    let mut socket = transports.make(peer.domain().expect("an address"))?;
    socket.region(Some(peer), SIZES)?;
    socket.connect()?;
    Ok(socket)
}

/// What a listener accepts, if anything came.
fn accept(listener: &mut Endpoint) -> Option<Endpoint> {
    listener.region(None, SIZES).expect("nothing has run out");
    listener.accept().expect("nothing waits that was not looked at")
}

/// Both ends of a connection by p2p.
fn connect(transports: &Transports, listener: &mut Endpoint, peer: &SocketAddr) -> [Endpoint; 2] {
    let mut socket = begin(transports, peer).expect("somebody listens");
    assert!(accept(listener).is_none(), "it has to be asked who it is");
    assert_eq!(socket.finish_connect(), Ok(false));
    let accepted = accept(listener).expect("it has offered its memory");
    assert_eq!(socket.finish_connect(), Ok(true));
    assert!(socket.descriptor_changed(), "the timer is gone");
    [socket, accepted]
}

#[test]
fn a_call_waits_for_a_full_queue_and_not_for_ever() {
    let local = transports(TransportChoice::Local);
    let p2p = Arc::clone(&local.available.providers[0]);
    let registry = Linux.registry().expect("a folder");
    let (_held, address) = address();
    let registration = registry.listen(&address, false, false).expect("nobody has it");
    rustix::net::listen(registration.descriptor(), 0).expect("a socket");
    let mut waiting = Vec::new();
    while let Ok(Some(channel)) = registry.call(&address) {
        waiting.push(channel);
    }
    let mut socket = local.make(Domain::V4).expect("a socket");
    assert_eq!(socket.region(Some(&address), SIZES), Ok(RingRegion::Window));
    assert_eq!(socket.connect(), Err(Errno::EAGAIN));
    assert!(!socket.descriptor_changed());
    assert!(socket.descriptor().is_none(), "nothing reports room in the queue");
    assert!(registration.next().expect("it works").is_some());
    assert_eq!(socket.connect(), Ok(false));
    assert!(socket.descriptor().is_some());
    assert!(socket.descriptor_changed(), "there is a descriptor to be watched");
    // The queue is full again, by that call.
    let mut late = local.make(Domain::V4).expect("a socket");
    assert_eq!(late.region(Some(&address), SIZES), Ok(RingRegion::Window));
    assert_eq!(late.connect(), Err(Errno::EAGAIN));
    late.has_waited(p2p.timeout(true).expect("it has one"));
    assert_eq!(late.connect(), Err(Errno::ETIMEDOUT));
    let auto = Transports { choice: TransportChoice::Auto, available: local.available };
    let mut either = auto.make(Domain::V4).expect("a socket");
    assert_eq!(either.region(Some(&address), SIZES), Ok(RingRegion::Window));
    assert_eq!(either.connect(), Err(Errno::EAGAIN));
    either.has_waited(p2p.timeout(false).expect("it has one"));
    assert_eq!(either.connect(), Ok(false));
    assert_eq!(either.starts_anew(), Some(address), "the next candidate wants other rings");
    assert_eq!(either.region(Some(&address), SIZES), Ok(RingRegion::Host));
    assert_eq!(either.connect(), Ok(false), "TCP is tried");
    assert_eq!(either.transports().to_string(), "tcp");
}

#[test]
fn streams_closed_at_both_ends_leave_nothing_behind() {
    let transports = transports(TransportChoice::Local);
    let (mut listener, address) = listener(&transports, &at("127.0.0.1:0"), None);
    assert_eq!(transports.left_behind(), (0, 0));
    let [connected, accepted] = connect(&transports, &mut listener, &address);
    let (_, both) = transports.left_behind();
    assert!(both > 0, "they have memory");
    drop(connected);
    assert_eq!(transports.left_behind(), (1, both), "the other end may write there");
    drop(accepted);
    transports.tidy();
    assert_eq!(transports.left_behind(), (0, 0));
}

#[test]
fn a_p2p_listener_holds_its_port() {
    let transports = transports(TransportChoice::Local);
    let (listener, address) = listener(&transports, &at("127.0.0.1:0"), None);
    let address = address.to_ip().expect("an address of IP");
    // As most servers do it, with the option that lets them start again.
    let error = std::net::TcpListener::bind(address).err();
    assert_eq!(error.map(|error| error.kind()), Some(std::io::ErrorKind::AddrInUse));
    drop(listener);
    std::net::TcpListener::bind(address).expect("it is free");
}

#[test]
fn a_listener_takes_what_comes_by_any_transport() {
    let transports = transports(TransportChoice::Auto);
    let (mut listener, address) = listener(&transports, &at("127.0.0.1:0"), None);
    assert_eq!(listener.transports().to_string(), "p2p and tcp");
    let [connected, accepted] = connect(&transports, &mut listener, &address);
    assert_eq!(connected.transports().all(), [Transport::P2p]);
    assert_eq!(accepted.transports().all(), [Transport::P2p]);
    assert_eq!(peer_of(&connected), Ok(address));
    assert_eq!(peer_of(&accepted), connected.local_addr());
    // That port is held, as that of a stream by TCP is.
    let own = connected.local_addr().expect("it has one").to_ip().expect("an address of IP");
    let other = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let error = other.expect("a socket").bind(&own.into()).err();
    assert_eq!(error.map(|error| error.kind()), Some(std::io::ErrorKind::AddrInUse));
    let by_tcp = std::net::TcpStream::connect(address.to_ip().expect("IP")).expect("it listens");
    let other = accept(&mut listener).expect("the one that came by TCP");
    assert_eq!(other.transports().all(), [Transport::Tcp]);
    assert_eq!(peer_of(&other), Ok(by_tcp.local_addr().expect("it has one").into()));
}

#[test]
fn a_mapped_address_of_ipv4_reaches_listeners_of_ipv4() {
    let transports = transports(TransportChoice::Local);
    for bound in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        let (mut listener, address) = listener(&transports, &at(bound), None);
        let port = address.port();
        let peer = at(&format!("[::ffff:127.0.0.1]:{port}"));
        let [connected, accepted] = connect(&transports, &mut listener, &peer);
        assert_eq!(peer_of(&connected), Ok(peer), "{bound}");
        let ip = |address: SocketAddr| address.to_ip().expect("IP").ip().to_canonical();
        let own = connected.local_addr().expect("it has one");
        let seen = peer_of(&accepted).expect("it has one");
        assert_eq!((ip(own), own.port()), (ip(seen), seen.port()), "{bound}");
        assert_eq!(seen.domain(), address.domain(), "in the words of the listener's family");
    }
    let (_only, address) = listener(&transports, &at("[::]:0"), Some(SocketOption::V6Only));
    let peer = at(&format!("[::ffff:127.0.0.1]:{}", address.port()));
    assert_eq!(begin(&transports, &peer).err(), Some(Errno::ECONNREFUSED));
    let (_v4, address) = listener(&transports, &at("127.0.0.1:0"), None);
    let mut socket = transports.make(Domain::V6).expect("a socket");
    socket.set_option(SocketOption::V6Only, 1).expect("it has it");
    let peer = at(&format!("[::ffff:127.0.0.1]:{}", address.port()));
    assert_eq!(socket.region(Some(&peer), SIZES), Err(Errno::ENETUNREACH), "as the system says it");
}

#[test]
fn listeners_that_share_a_port_all_get_p2p_streams() {
    let transports = transports(TransportChoice::Local);
    let share = Some(SocketOption::ReusePort);
    let (mut first, address) = listener(&transports, &at("127.0.0.1:0"), share);
    let (mut second, _) = listener(&transports, &address, share);
    let mut sockets = Vec::new();
    for _ in 0..16 {
        sockets.push(begin(&transports, &address).expect("two listen"));
    }
    let mut taken = [0, 0];
    for _ in 0..100 {
        for (listener, taken) in [&mut first, &mut second].into_iter().zip(&mut taken) {
            listener.region(None, SIZES).expect("nothing has run out");
            *taken += i32::from(matches!(listener.accept(), Ok(Some(_))));
        }
        sockets.retain_mut(|socket| socket.finish_connect() == Ok(false));
    }
    assert!(sockets.is_empty(), "all are connected");
    assert!(taken[0] > 1 && taken[1] > 1, "{taken:?}");
    let mut alone = transports.make(Domain::V4).expect("a socket");
    assert_eq!(alone.bind(&address), Err(Errno::EADDRINUSE), "that one does not share");
}

#[test]
fn a_socket_whose_connect_failed_can_be_connected() {
    let transports = Transports::default();
    let (held, refusing) = address();
    drop(held);
    let mut socket = transports.make(Domain::V4).expect("a socket");
    let mut connect = |to: &SocketAddr| {
        socket.region(Some(to), SIZES)?;
        let mut done = socket.connect()?;
        let end = std::time::Instant::now()
            + gpunet_support::testing::hang_limit(std::time::Duration::from_secs(1));
        while !done && std::time::Instant::now() < end {
            done = socket.finish_connect()?;
        }
        Ok(done)
    };
    for _ in 0..3 {
        assert_eq!(connect(&refusing), Err(Errno::ECONNREFUSED));
    }
    let (_held, listening) = address();
    assert_eq!(connect(&listening), Ok(true));
    assert_eq!(peer_of(&socket), Ok(listening));
}

#[test]
fn calls_that_a_state_does_not_have() {
    let transports = Transports::default();
    let mut socket = transports.make(Domain::V4).expect("a socket");
    assert_eq!(socket.accept().err(), Some(Errno::EINVAL));
    assert_eq!(peer_of(&socket), Err(Errno::ENOTCONN));
    assert_eq!(socket.shutdown(Direction::Send), Err(Errno::ENOTCONN));
    assert_eq!(socket.region(None, SIZES), Err(Errno::EINVAL));
    let (mut listener, address) = listener(&transports, &at("127.0.0.1:0"), None);
    assert!(listener.descriptor().is_some_and(|descriptor| descriptor.as_raw_fd() > 2));
    assert_eq!(listener.listen(1), Err(Errno::EINVAL));
    assert_eq!(listener.bind(&address), Err(Errno::EINVAL));
    assert_eq!(listener.region(Some(&address), SIZES), Err(Errno::EISCONN));
    assert_eq!(listener.connect(), Err(Errno::EISCONN));
    assert_eq!(peer_of(&listener), Err(Errno::ENOTCONN));
}
