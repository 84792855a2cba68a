//! Nets that go several ways, and addresses: which way a socket takes, and that it is the one that it
//! may take.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr as Ip, SocketAddrV6, TcpListener};

use gpunet_e2e::{
    Domain, Job, Script, SocketOption, any_port, any_port_v6, flags, is_cuda, net, net_builder,
    peer, skip, transport,
};
use gpunet_host::{Net, Placement, Placements, TransportChoice};
use rsocket_shim::load::Libraries;
use rsocket_shim::stream::Listener;

use super::has_rdma;

const BY_TCP: i64 = TransportChoice::Tcp as i64;
const BY_RDMA: i64 = TransportChoice::Rdma as i64;

fn auto(placements: Placements) -> Net {
    let builder = net_builder().transport(TransportChoice::Auto);
    builder.placements(placements).build().expect("a net")
}

/// Where the suite connects, as the system knows it.
fn home() -> Ip {
    any_port().to_ip().expect("an IP address")
}

/// Answers so many kernels by TCP, if they come.
fn serve_by_tcp(listener: TcpListener, kernels: usize) {
    std::thread::spawn(move || {
        for stream in listener.incoming().take(kernels).flatten() {
            let mut stream = peer::Stream::Tcp(stream);
            peer::receive(&mut stream, 0, 100);
            peer::send(&mut stream, 0, 100);
        }
    });
}

/// Host memory would do for TCP, too, and is not what the net may use.
#[test]
fn auto_uses_no_placement_that_is_forbidden() {
    if !has_rdma("transports::auto_uses_no_placement_that_is_forbidden") {
        return;
    }
    let (gpu_alone, placed) = match is_cuda() {
        true => (Placements::ALL.without(Placement::Bounce), 1..=2),
        false => (Placements::only(Placement::PeerMemory), 2..=2),
    };
    let net = auto(gpu_alone);
    let tcp = TcpListener::bind(home()).expect("a port");
    let tcp_only = tcp.local_addr().expect("its address").into();
    let mut client = Script::new();
    for _ in 0..2 {
        client.stream(0, peer::echo_server()).get(0, SocketOption::Transport, BY_RDMA);
        client.get(0, SocketOption::Placement, 0).between(*placed.start(), *placed.end());
        client.send_all(0, 20_000, 3000).recv_all(0, 20_000, 3000).close(0);
    }
    // A peer that takes no RDMA gets TCP even so.
    for _ in 0..2 {
        client.stream(0, tcp_only).get(0, SocketOption::Transport, BY_TCP);
        client.send(0, 100).recv_all(0, 100, 100).close(0);
    }
    serve_by_tcp(tcp, 2);
    Job::blocks(32).script(&client).run(&net);
    assert_eq!(net.statistics().sockets, 0);
}

/// A peer that takes both is not asked by RDMA.
#[test]
fn auto_goes_by_tcp_where_no_placement_works() {
    let name = "transports::auto_goes_by_tcp_where_no_placement_works";
    if !has_rdma(name) {
        return;
    }
    if is_cuda() {
        return skip(&format!("rdma::{name}"), "a GPU's memory may be exported");
    }
    let net = auto(Placements::only(Placement::DmaBuf));
    let tcp = TcpListener::bind(home()).expect("a port");
    let at = tcp.local_addr().expect("its address");
    let silent = Listener::bind(Libraries::load().expect("there is RDMA"), at).expect("it is free");
    silent.listen(4).expect("it listens");
    let mut client = Script::new();
    client.stream(0, at.into()).get(0, SocketOption::Transport, BY_TCP);
    client.send(0, 100).recv_all(0, 100, 100).close(0);
    serve_by_tcp(tcp, 1);
    Job::blocks(32).script(&client).run(&net);
    assert!(silent.next().expect("it looks").is_none(), "it was asked");
}

#[test]
fn a_peer_that_takes_rdma_no_longer_gets_tcp() {
    if !has_rdma("transports::a_peer_that_takes_rdma_no_longer_gets_tcp") {
        return;
    }
    for placements in [Placements::ALL, Placements::only(Placement::Bounce)] {
        let net = auto(placements);
        let first = net_builder().build().expect("a net");
        let (_, address) = first.listen(any_port()).expect("a port");
        let mut client = Script::new();
        client.stream(0, address).get(0, SocketOption::Transport, BY_RDMA).close(0);
        Job::blocks(32).script(&client).run(&net);
        drop(first);
        let tcp = TcpListener::bind(address.to_ip().expect("an IP address")).expect("it is free");
        let mut client = Script::new();
        for _ in 0..2 {
            client.stream(0, address).get(0, SocketOption::Transport, BY_TCP);
            client.send(0, 100).recv_all(0, 100, 100).close(0);
        }
        serve_by_tcp(tcp, 2);
        Job::blocks(32).script(&client).run(&net);
        assert_eq!(net.statistics().sockets, 0);
    }
}

#[test]
fn an_accepted_stream_says_how_it_travels() {
    if !has_rdma("transports::an_accepted_stream_says_how_it_travels") {
        return;
    }
    for net in [net(), auto(Placements::ALL)] {
        let (listener, address) = net.listen(any_port()).expect("a port");
        let mut server = Script::new();
        server.given(0, listener).accept(0, 1).get(1, SocketOption::Transport, BY_RDMA);
        server.recv_all(1, 100, 100).close(1);
        let started = Job::blocks(32).script(&server).start(&net);
        peer::send(&mut peer::connect(address), 0, 100);
        started.finish();
    }
}

/// What is set on a listener after it listens holds for what it accepts from then on.
#[test]
fn streams_inherit_keepalive_from_their_listener() {
    if !has_rdma("transports::streams_inherit_keepalive_from_their_listener") {
        return;
    }
    for net in [net(), auto(Placements::ALL)] {
        let (listener, address) = net.listen(any_port()).expect("a port");
        let mut server = Script::new();
        server.given(0, listener).set(0, SocketOption::KeepAlive, 1);
        server.set(0, SocketOption::KeepAliveIdle, 77).set_flag(0).accept(0, 1);
        server.get(1, SocketOption::KeepAlive, 1).get(1, SocketOption::KeepAliveIdle, 77);
        server.recv_all(1, 100, 100).close(1);
        let flags = flags();
        let started = Job::blocks(32).script(&server).flags(&flags).start(&net);
        started.until(&flags, 0);
        peer::send(&mut peer::connect(address), 0, 100);
        started.finish();
    }
}

/// Leaves the system few ports to choose from.
struct FewPorts(String);

const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

impl FewPorts {
    fn new() -> Self {
        let before = std::fs::read_to_string(RANGE).expect("a range of ports");
        std::fs::write(RANGE, "45000 45063").expect("it may be set");
        Self(before)
    }
}

impl Drop for FewPorts {
    fn drop(&mut self) {
        std::fs::write(RANGE, &self.0).expect("it may be set");
    }
}

/// A stream that goes out by RDMA holds a port, of which the system's sockets know nothing.
#[test]
fn a_port_of_a_stream_is_not_chosen_for_a_listener() {
    let name = "transports::a_port_of_a_stream_is_not_chosen_for_a_listener";
    if !has_rdma(name) {
        return;
    }
    if transport::link().is_none() {
        return skip(
            &format!("rdma::{name}"),
            "GPUNET_LINK does not say that this machine is ours",
        );
    }
    let server = peer::echo_server();
    let _few = FewPorts::new();
    let streams: Vec<_> = (0..12).map(|_| peer::connect(server)).collect();
    let libraries = Libraries::load().expect("there is RDMA");
    for at in [home(), Ip::from((Ipv4Addr::UNSPECIFIED, 0))] {
        for choice in [TransportChoice::Rdma, TransportChoice::Auto].repeat(8) {
            let net = net_builder().transport(choice).build().expect("a net");
            let (_, address) = net.listen(at).expect("a port");
            let address = address.to_ip().expect("an IP address");
            assert!(Listener::bind(libraries, address).is_err(), "nobody listens by RDMA");
            let alone = Listener::bind(libraries, at).expect("a port");
            alone.listen(4).expect("it can be listened at");
        }
    }
    drop(streams);
}

/// A port that is free in both families.
fn free_port() -> u16 {
    let held = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("a port");
    held.local_addr().expect("its address").port()
}

/// The policy, too, takes a listener that is IPv6's alone at its word.
#[test]
fn a_listener_of_ipv6_alone_leaves_ipv4_to_others() {
    if !has_rdma("transports::a_listener_of_ipv6_alone_leaves_ipv4_to_others") {
        return;
    }
    let (net, flags, port) = (net(), flags(), free_port());
    let all = Ip::from((Ipv4Addr::UNSPECIFIED, port));
    let all_v6 = Ip::from((Ipv6Addr::UNSPECIFIED, port));
    let mut server = Script::new();
    server.socket(0, Domain::V6).set(0, SocketOption::V6Only, 1);
    server.bind(0, all_v6.into()).listen(0, 4).set_flag(0).wait_flag(1);
    server.socket(1, Domain::V4).bind(1, all.into()).listen(1, 4).set_flag(2);
    server.accept(0, 2).recv_all(2, 100, 100).accept(1, 3).recv_all(3, 100, 100).close(2).close(3);
    let started = Job::blocks(32).script(&server).flags(&flags).start(&net);
    started.until(&flags, 0);
    let to = |mut address: Ip| {
        address.set_port(port);
        address.into()
    };
    assert!(peer::Stream::connect(to(home())).is_err(), "nobody listens there by IPv4");
    flags.set(1, 1);
    started.until(&flags, 2);
    peer::send(&mut peer::connect(to(any_port_v6().to_ip().expect("an IP address"))), 0, 100);
    peer::send(&mut peer::connect(to(home())), 0, 100);
    started.finish();
}

/// As with TCP: a socket of IPv6 has addresses of IPv6.
#[test]
fn a_peer_of_ipv4_has_a_name_of_ipv6_at_such_a_listener() {
    if !has_rdma("transports::a_peer_of_ipv4_has_a_name_of_ipv6_at_such_a_listener") {
        return;
    }
    let (net, flags, port) = (net(), flags(), free_port());
    let Ip::V4(peers) = home() else { panic!("an address of IPv4") };
    let mapped = SocketAddrV6::new(peers.ip().to_ipv6_mapped(), port, 0, 0);
    let mut server = Script::new();
    server.socket(0, Domain::V6).bind(0, Ip::from((Ipv6Addr::UNSPECIFIED, port)).into());
    server.listen(0, 4).set_flag(0).accept(0, 1).socket_name(1, Ip::V6(mapped).into());
    server.recv_all(1, 100, 100).close(1);
    let started = Job::blocks(32).script(&server).flags(&flags).start(&net);
    started.until(&flags, 0);
    peer::send(&mut peer::connect(Ip::from((*peers.ip(), port)).into()), 0, 100);
    started.finish();
}

/// The link's own address, with its scope.
fn link_local(link: &str) -> Option<SocketAddrV6> {
    let listed = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
    listed.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let ip = Ipv6Addr::from(u128::from_str_radix(words.first()?, 16).ok()?);
        let scope = u32::from_str_radix(words.get(1)?, 16).ok()?;
        let found = words.last() == Some(&link) && ip.is_unicast_link_local();
        found.then(|| SocketAddrV6::new(ip, 0, 0, scope))
    })
}

#[test]
fn a_links_own_address_will_do() {
    let name = "transports::a_links_own_address_will_do";
    if !has_rdma(name) {
        return;
    }
    let Some(own) = transport::link().and_then(|link| link_local(&link)) else {
        return skip(&format!("rdma::{name}"), "GPUNET_LINK names no link with such an address");
    };
    let anywhere = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0);
    for choice in [TransportChoice::Rdma, TransportChoice::Auto] {
        for at in [own, anywhere] {
            let server_net = net();
            let net = net_builder().transport(choice).build().expect("a net");
            let (listener, address) = server_net.listen(Ip::V6(at)).expect("a port");
            let mut to = own;
            to.set_port(address.port());
            let mut server = Script::new();
            server.given(0, listener).accept(0, 1).recv_all(1, 100, 100).send(1, 100).close(1);
            let started = Job::blocks(32).script(&server).start(&server_net);
            let mut client = Script::new();
            client.stream(0, Ip::V6(to).into()).get(0, SocketOption::Transport, BY_RDMA);
            client.send(0, 100).recv_all(0, 100, 100).close(0);
            Job::blocks(32).script(&client).run(&net);
            started.finish();
        }
    }
}
