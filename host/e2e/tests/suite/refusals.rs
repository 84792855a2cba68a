//! What is refused, and how: by peers, by the system, for want of memory, for bad arguments.

use std::net::IpAddr;

use gpunet_device::calls::{MSG_NOSIGNAL, SHUT_WR, SOCK_NONBLOCK, SOCK_STREAM};
use gpunet_e2e::{
    Domain, Errno, Folder, Job, RING, Script, SocketAddr, SocketOption, any_port, is_local, net,
    net_builder, peer, scaled, skip, transport,
};

use gpunet_host::{Policy, Rule};

const DATAGRAM: i32 = 2;
const TCP: i32 = 6;
const UDP: i32 = 17;

#[test]
fn a_refused_connect_says_so() {
    let (net, folder) = (net(), Folder::new("refused"));
    let (_held, address) = peer::closed_port();
    std::fs::write(folder.path("file"), "").expect("a file");
    let mut script = Script::new();
    script.stream(0, address).errno(Errno::ECONNREFUSED);
    script.socket(0, Domain::V4).connect(0, address).errno(Errno::ECONNREFUSED);
    script.send(0, 1).between(Errno::ECONNREFUSED.negative(), -1);
    script.recv(0, 1).between(Errno::ECONNREFUSED.negative(), -1).close(0);
    script.socket(0, Domain::Unix).connect(0, folder.address("file"));
    script.errno(Errno::ECONNREFUSED).close(0);
    script.socket(0, Domain::Unix).connect(0, folder.address("nothing"));
    script.errno(Errno(2)).close(0);
    Job::blocks(64).script(&script).run(&net);
    assert_eq!(net.statistics().sockets, 0);
}

#[test]
fn a_refused_socket_can_be_connected_again() {
    let net = net();
    let (_held, closed) = peer::closed_port();
    let mut script = Script::new();
    script.socket(0, Domain::V4).connect(0, closed).errno(Errno::ECONNREFUSED);
    script.connect(0, closed).errno(Errno::ECONNREFUSED);
    script.send(0, 1).between(Errno::ECONNREFUSED.negative(), -1);
    script.connect(0, peer::echo_server()).connect(0, closed).errno(Errno::EISCONN);
    script.send(0, 5000).recv_all(0, 5000, 1000).close(0);
    Job::blocks(64).script(&script).run(&net);
    assert_eq!(net.statistics().sockets, 0);
}

#[test]
fn an_address_in_use_cannot_be_bound() {
    let (net, folder) = (net(), Folder::new("in-use"));
    let home = any_port().to_ip().expect("an IP address");
    let holder = std::net::TcpListener::bind(home).expect("a port");
    let taken: SocketAddr = holder.local_addr().expect("its address").into();
    std::fs::write(folder.path("file"), "").expect("a file");
    let mut script = Script::new();
    script.socket(0, Domain::V4).bind(0, taken).errno(Errno::EADDRINUSE).close(0);
    script.listener(0, taken).errno(Errno::EADDRINUSE);
    script.socket(0, Domain::Unix).bind(0, folder.address("file"));
    script.errno(Errno::EADDRINUSE).close(0);
    script.socket(0, Domain::V4).bind(0, SocketAddr::v4([192, 0, 2, 1], 0));
    script.errno(Errno::EADDRNOTAVAIL).close(0);
    Job::blocks(64).script(&script).run(&net);
    assert!(folder.path("file").exists(), "the file of somebody else stays");
    let refused = net.listen(taken).expect_err("the port is taken");
    assert!(matches!(
        refused,
        gpunet_host::SocketError::Listen { call: "bind" | "listen", errno: Errno::EADDRINUSE, .. }
    ));
}

#[test]
fn a_full_socket_table_refuses_sockets() {
    let net = net_builder().sockets(3).build().expect("a net");
    let mut script = Script::new();
    for register in 0..3 {
        script.socket(register, Domain::V4);
    }
    script.socket(3, Domain::V4).errno(Errno::ENFILE).poller().errno(Errno::ENFILE);
    script.close(1).socket(3, Domain::V6).socket(4, Domain::V4).errno(Errno::ENFILE);
    Job::blocks(32).script(&script).run(&net);
    let (handed, _keep) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let handle = net.hand_over(handed).expect("the kernel's sockets went with it");
    net.take_back(handle).expect("it comes back");
}

#[test]
fn a_closed_socket_makes_room_at_once() {
    let net = net_builder().sockets(1).build().expect("a net");
    let server = peer::echo_server();
    let mut script = Script::new();
    for _ in 0..scaled(100) {
        script.socket(0, Domain::V4).close(0);
        script.stream(0, server).close(0);
    }
    Job::blocks(32).script(&script).run(&net);
}

#[test]
fn connects_without_ring_memory_fail() {
    if is_local() {
        return skip(
            "refusals::connects_without_ring_memory_fail",
            "their rings lie in arenas: see `local`",
        );
    }
    let server = peer::echo_server();
    let net = net_builder().ring_memory(2 * u64::from(RING)).build().expect("a net");
    let before = net.statistics().free_ring_bytes;
    let mut script = Script::new();
    script.stream(0, server).send(0, 100).recv_all(0, 100, 100);
    script.stream(1, server).errno(Errno::ENOBUFS);
    script.listener(1, any_port());
    if transport::has_gpu_rings() {
        // Of host memory, where listeners have theirs, there is as much.
        script.close(1);
    } else {
        script.errno(Errno::ENOBUFS);
    }
    // The one that has its rings goes on, and another follows when it has gone.
    script.send(0, 100).recv_all(0, 100, 100).close(0);
    script.stream(1, server).send(1, 100).recv_all(1, 100, 100).close(1);
    script.stream_with_rings(1, server, 2 * RING).errno(Errno::ENOBUFS);
    Job::blocks(32).script(&script).run(&net);
    assert_eq!(net.statistics().free_ring_bytes, before);
}

#[test]
fn a_connect_without_memory_can_be_tried_again() {
    if is_local() {
        return skip(
            "refusals::a_connect_without_memory_can_be_tried_again",
            "their rings lie in arenas: see `local`",
        );
    }
    let server = peer::echo_server();
    let net = net_builder().ring_memory(2 * u64::from(RING)).build().expect("a net");
    let mut script = Script::new();
    script.stream(0, server).socket(1, Domain::V4);
    script.connect(1, server).errno(Errno::ENOBUFS).close(0);
    script.connect(1, server).send(1, 100).recv_all(1, 100, 100).close(1);
    Job::blocks(32).script(&script).run(&net);
}

#[test]
fn sockets_of_other_kinds_are_refused() {
    let net = net();
    let mut script = Script::new();
    for domain in [0, 3, 99, -1, 65_538] {
        script.socket_of(0, domain, SOCK_STREAM, 0).errno(Errno::EAFNOSUPPORT);
    }
    for (kind, protocol) in [(DATAGRAM, 0), (0, 0), (-1, 0), (SOCK_STREAM, UDP), (SOCK_STREAM, -1)]
    {
        script.socket_of(0, 2, kind, protocol).errno(Errno::EPROTONOSUPPORT);
    }
    script.socket_of(0, 1, SOCK_STREAM, TCP).errno(Errno::EPROTONOSUPPORT);
    script.socket_of(0, 2, SOCK_STREAM, TCP).close(0);
    script.socket_of(0, 2, SOCK_STREAM | SOCK_NONBLOCK, 0);
    script.get(0, SocketOption::NonBlocking, 1).close(0);
    Job::blocks(32).script(&script).run(&net);
}

#[test]
fn bad_addresses_are_refused() {
    let (net, server) = (net(), peer::echo_server());
    let unix = SocketAddr::unix(b"/tmp/x").expect("a path");
    let v6 = SocketAddr::v6([0; 16], 0, 0, 0);
    let unnamed = SocketAddr::unix(b"").expect("the unnamed address");
    let mut script = Script::new();
    script.socket(0, Domain::V4);
    for address in [unix, v6, SocketAddr::NONE] {
        script.bind(0, address).errno(Errno::EAFNOSUPPORT);
        script.connect(0, address).errno(Errno::EAFNOSUPPORT);
    }
    // None of this has harmed the socket.
    script.connect(0, server).send(0, 9).recv_all(0, 9, 9).close(0);
    script.socket(0, Domain::Unix).bind(0, unnamed).errno(Errno::EINVAL);
    script.connect(0, unnamed).errno(Errno::EINVAL).bind(0, any_port()).errno(Errno::EAFNOSUPPORT);
    script.close(0);
    script.stream(0, SocketAddr::NONE).errno(Errno::EAFNOSUPPORT);
    script.listener(0, SocketAddr::NONE).errno(Errno::EAFNOSUPPORT);
    Job::blocks(32).script(&script).run(&net);
    assert_eq!(net.statistics().sockets, 0);
}

#[test]
fn calls_in_the_wrong_state_fail() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    // Neither connected nor listening.
    script.socket(0, Domain::V4);
    script.send(0, 1).errno(Errno::ENOTCONN).recv(0, 1).errno(Errno::ENOTCONN);
    script.peek(0, 1, 1).errno(Errno::ENOTCONN).reserve(0, 1, 1, 1).errno(Errno::ENOTCONN);
    script.accept(0, 1).errno(Errno::EINVAL).shutdown(0, SHUT_WR).errno(Errno::ENOTCONN);
    script.peer_name(0, server).errno(Errno::ENOTCONN);
    script.bind(0, any_port()).bind(0, any_port()).errno(Errno::EINVAL);
    // Connected.
    script.connect(0, server).connect(0, server).errno(Errno::EISCONN);
    script.bind(0, any_port()).errno(Errno::EINVAL).listen(0, 1).errno(Errno::EINVAL);
    script.accept(0, 1).errno(Errno::EINVAL);
    for how in [-1, 3, 1000] {
        script.shutdown(0, how).errno(Errno::EINVAL);
    }
    script.send(0, 9).recv_all(0, 9, 9).close(0);
    Job::blocks(32).script(&script).run(&net);
}

#[test]
fn a_listener_is_no_stream() {
    let net = net();
    let (listener, address) = net.listen(any_port()).expect("a port");
    // A connection waits, so that there is something a wrong call could take.
    let mut waiting = peer::connect(address);
    assert!(gpunet_e2e::eventually(|| net.statistics().accepted == 1));
    let mut script = Script::new();
    script.given(0, listener);
    script.recv(0, 8).errno(Errno::ENOTCONN).peek(0, 1, 1).errno(Errno::ENOTCONN);
    script.send(0, 8).errno(Errno::ENOTCONN).reserve(0, 1, 1, 1).errno(Errno::ENOTCONN);
    script.connect(0, address).errno(Errno::EOPNOTSUPP);
    script.peer_name(0, address).errno(Errno::ENOTCONN);
    script.accept(0, 1).recv_all(1, 10, 10).send(1, 10).close(1);
    peer::send(&mut waiting, 0, 10);
    Job::blocks(32).script(&script).run(&net);
    assert_eq!(peer::receive_rest(&mut waiting, 0), 10);
    assert_eq!(net.statistics().violations, 0);
}

#[test]
fn bad_flags_and_options_are_refused() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    script.stream(0, server);
    for flags in [1, 2, 4, 0x8000_0000] {
        script.send_flags(0, flags).errno(Errno::EINVAL);
    }
    for flags in [1, 4, 0x200, 0x8000_0000] {
        script.recv_flags(0, flags).errno(Errno::EINVAL);
    }
    script.send_flags(0, 0).recv_flags(0, 0);
    // Without a meaning on a GPU, and no mistake.
    script.send_flags(0, MSG_NOSIGNAL).recv_flags(0, MSG_NOSIGNAL);
    for option in [SocketOption::NonBlocking, SocketOption::NoDelay, SocketOption::KeepAlive] {
        script.set(0, option, 2).errno(Errno::EINVAL);
    }
    script.set(0, SocketOption::Detached, 7).errno(Errno::EINVAL);
    script.set(0, SocketOption::ReceiveRing, 8192).errno(Errno::EISCONN);
    script.set(0, SocketOption::SendRing, 8192).errno(Errno::EISCONN);
    script.set(0, SocketOption::Error, 0).errno(Errno::ENOPROTOOPT);
    script.send(0, 9).recv_all(0, 9, 9).close(0);
    script.socket(0, Domain::V4);
    for bytes in [0, (1 << 30) + 1, u64::MAX] {
        script.set(0, SocketOption::ReceiveRing, bytes).errno(Errno::EINVAL);
        script.set(0, SocketOption::SendRing, bytes).errno(Errno::EINVAL);
    }
    script.close(0).socket(0, Domain::Unix);
    script.set(0, SocketOption::NoDelay, 1).errno(Errno::EOPNOTSUPP).close(0);
    Job::blocks(32).script(&script).run(&net);
}

#[test]
fn a_policy_decides_what_kernels_connect_to_and_bind() {
    let (server, folder) = (peer::echo_server(), Folder::new("policy"));
    let home = server.to_ip().expect("it has one");
    let (port, IpAddr::V4(home)) = (home.port(), home.ip()) else { panic!("an IPv4 address") };
    let [net_byte, ..] = home.octets();
    let other = SocketAddr::v4([net_byte, 0, 0, 2], port);
    let rule = |text: String| text.parse::<Rule>().expect("a rule");
    let policy = Policy::open()
        .allow_connect(rule(format!("{net_byte}.0.0.0/8:{port}")))
        .deny_connect(rule(format!("{net_byte}.0.0.2")))
        .allow_bind(rule(format!("{home}:0")))
        .allow_bind(rule(format!("unix:{}/*", folder.path("in").display())));
    std::fs::create_dir(folder.path("in")).expect("a folder");
    let net = net_builder().policy(policy).build().expect("a net");
    let mut script = Script::new();
    // What is allowed works.
    script.stream(0, server).send(0, 100).recv_all(0, 100, 100).close(0);
    script.listener(0, any_port()).close(0);
    script.listener(0, folder.address("in/a")).close(0);
    // The rest does not, and the socket can still be used for what is.
    script.socket(0, Domain::V4);
    for address in
        [other, server.with_port(port.wrapping_add(1)), SocketAddr::v4([192, 0, 2, 1], port)]
    {
        script.connect(0, address).errno(Errno::EACCES);
    }
    script.bind(0, SocketAddr::v4([0, 0, 0, 0], 0)).errno(Errno::EACCES);
    script.bind(0, server.with_port(1)).errno(Errno::EACCES);
    // Listening would bind it to every address.
    script.listen(0, 1).errno(Errno::EACCES);
    script.connect(0, server).send(0, 10).recv_all(0, 10, 10).close(0);
    script.socket(0, Domain::Unix);
    script.bind(0, folder.address("out")).errno(Errno::EACCES);
    script.connect(0, folder.address("in/a")).errno(Errno::EACCES).close(0);
    Job::blocks(32).script(&script).run(&net);
    assert_eq!(net.statistics().denied, 8);
    // The program itself is not asked.
    net.listen(SocketAddr::v4([0, 0, 0, 0], 0)).expect("it may");
}
