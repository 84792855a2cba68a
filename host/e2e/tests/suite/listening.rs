//! Listeners that a program makes for kernels: their ports, and the options of `listen_with`.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::time::Duration;

use gpunet_e2e::{
    Errno, Job, Script, SocketAddr, any_port, any_port_v6, eventually, is_local, is_rdma, net,
    peer, skip,
};
use gpunet_host::{ListenOptions, SocketError, Task};

/// Whether it was refused for the port, in words that help.
fn port_is_taken(error: &SocketError, at: SocketAddr) {
    match error {
        SocketError::Listen { address, errno: Errno::EADDRINUSE, .. } => assert_eq!(**address, at),
        other => panic!("another error: {other}"),
    }
    let text = error.to_string();
    assert!(text.contains(&at.to_string()) && text.contains("reuse_port"), "{text}");
}

#[test]
fn a_port_has_one_listener_unless_all_share_it() {
    let (first, second) = (net(), net());
    let (_listener, taken) = first.listen(any_port()).expect("a port");
    let shares = ListenOptions::new().reuse_port(true);
    // Of another net, of the same one, and with an option that the first does not have.
    for net in [&first, &second] {
        port_is_taken(&net.listen(taken).expect_err("it has a listener"), taken);
        port_is_taken(&net.listen_with(taken, shares).expect_err("it does not share"), taken);
    }
    let elsewhere = TcpListener::bind(any_port().to_ip().expect("an address")).expect("a port");
    let taken: SocketAddr = elsewhere.local_addr().expect("its address").into();
    port_is_taken(&first.listen(taken).expect_err("it is the program's"), taken);
    assert_eq!(second.statistics().sockets, 0, "nothing is left behind");
}

#[test]
fn listeners_that_share_a_port_each_get_connections() {
    if is_rdma() {
        return skip("listening::listeners_that_share_a_port", "RDMA shares no ports");
    }
    let nets = [net(), net()];
    let shares = ListenOptions::new().reuse_port(true).backlog(64);
    let (first, address) = nets[0].listen_with(any_port(), shares).expect("a port");
    let (second, also) = nets[1].listen_with(address, shares).expect("the same port");
    assert_eq!(address, also);
    port_is_taken(&nets[0].listen(address).expect_err("it does not share"), address);
    let serve = |net, listener| {
        let mut script = Script::new();
        script.given(0, listener).accept(0, 1).recv_all(1, 10, 10).close(1);
        Job::blocks(32).script(&script).start(net)
    };
    let serving = [serve(&nets[0], first), serve(&nets[1], second)];
    // Whichever the system chooses: with enough of them, both.
    let mut clients = Vec::new();
    let served = || serving.iter().all(|kernel| kernel.launch().is_finished());
    let all = eventually(|| {
        let mut client = peer::connect(address);
        peer::send(&mut client, 0, 10);
        clients.push(client);
        std::thread::sleep(Duration::from_millis(5));
        served() || clients.len() > 200
    });
    assert!(all && served(), "{} clients", clients.len());
    for kernel in serving {
        kernel.finish();
    }
}

#[test]
fn a_listener_of_ipv6_takes_ipv4_or_not() {
    if is_rdma() || is_local() {
        return skip("listening::a_listener_of_ipv6_takes_ipv4_or_not", "peers come by TCP");
    }
    let any = SocketAddr::from(std::net::SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)));
    for only in [false, true] {
        let net = net();
        let options = ListenOptions::new().only_v6(only);
        let (_listener, address) = net.listen_with(any, options).expect("a port");
        let port = address.to_ip().expect("an IP address").port();
        assert!(TcpStream::connect((Ipv6Addr::LOCALHOST, port)).is_ok());
        assert_eq!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok(), !only);
    }
}

#[test]
fn options_that_make_no_sense() {
    let net = net();
    for backlog in [0, 4097, u32::MAX] {
        let refused = net.listen_with(any_port(), ListenOptions::new().backlog(backlog));
        assert!(matches!(refused, Err(SocketError::Backlog(_))), "{refused:?}");
    }
    let refused = net.listen_with(any_port(), ListenOptions::new().only_v6(true));
    assert!(matches!(refused, Err(SocketError::Listen { call: "setsockopt", .. })), "{refused:?}");
    for backlog in [1, 4096] {
        net.listen_with(any_port_v6(), ListenOptions::new().backlog(backlog)).expect("a port");
    }
}
