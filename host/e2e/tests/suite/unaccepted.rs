//! Peers that no kernel has accepted, and what they leave to others.

use std::time::Duration;

use gpunet_e2e::{
    Domain, Errno, Job, Script, any_port, eventually, flags, is_local, net_builder, peer,
    raise_file_limit, scaled_time, skip,
};

/// More than the net has room for.
const SILENT: usize = 300;

#[test]
fn silent_peers_take_no_more_than_their_listeners_share() {
    if is_local() {
        let name = "unaccepted::silent_peers_take_no_more_than_their_listeners_share";
        return skip(name, "kernels that are not accepted time out: see the next test");
    }
    raise_file_limit();
    let net = net_builder().sockets(256).build().expect("a net");
    let (quiet, quiet_address) = net.listen(any_port()).expect("a port");
    let (busy, busy_address) = net.listen(any_port()).expect("a port");
    let mut silent: Vec<_> = (0..SILENT).map(|_| peer::connect(quiet_address)).collect();
    assert!(eventually(|| net.statistics().accepted >= 16));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(net.statistics().accepted, 16, "the rest waits in the system's queue");

    // A kernel's own sockets, and the peers of another listener, find room.
    let server = peer::echo_server();
    let mut script = Script::new();
    for register in 1..=40 {
        script.socket(register, Domain::V4);
    }
    script.stream(41, server).send(41, 100).recv_all(41, 100, 100).close(41);
    script.given(0, busy).accept(0, 42).send(42, 100).close(42);
    let started = Job::blocks(32).script(&script).start(&net);
    let mut stream = peer::connect(busy_address);
    peer::receive(&mut stream, 0, 100);
    started.finish();

    // And each silent peer is served once somebody accepts it.
    let mut script = Script::new();
    script.given(0, quiet);
    for _ in 0..SILENT {
        script.accept(0, 1).send(1, 10).close(1);
    }
    let started = Job::blocks(32).script(&script).start(&net);
    for stream in &mut silent {
        peer::receive(stream, 0, 10);
    }
    started.finish();
    assert_eq!(net.statistics().accepted, SILENT as u64 + 1);
}

#[test]
fn kernels_beyond_a_listeners_share_time_out() {
    if !is_local() {
        let name = "unaccepted::kernels_beyond_a_listeners_share_time_out";
        return skip(name, "other peers wait in the system's queue");
    }
    let net = net_builder().sockets(64).unaccepted(3).build().expect("a net");
    let (_quiet, quiet_address) = net.listen(any_port()).expect("a port");
    let (busy, busy_address) = net.listen(any_port()).expect("a port");
    let callers = net_builder().build().expect("a net");
    let mut script = Script::new();
    for register in 1..=3 {
        script.stream(register, quiet_address);
    }
    script.socket(4, Domain::V4).send_timeout(4, scaled_time(Duration::from_millis(500)));
    script.connect(4, quiet_address).errno(Errno::ETIMEDOUT);
    // The other listener is as before, and so is the kernel that was not accepted.
    script.stream(5, busy_address).recv_all(5, 100, 100).close(5);
    let calling = Job::blocks(32).script(&script).start(&callers);
    let mut script = Script::new();
    script.given(0, busy).accept(0, 1).send(1, 100).close(1);
    Job::blocks(32).script(&script).start(&net).finish();
    calling.finish();
    assert_eq!(net.statistics().accepted, 4);
}

#[test]
fn a_listener_may_have_another_share() {
    let net = net_builder().unaccepted(3).build().expect("a net");
    let (_listener, address) = net.listen(any_port()).expect("a port");
    let _peers: Vec<_> = (0..8).map(|_| peer::connect(address)).collect();
    assert!(eventually(|| net.statistics().accepted >= 3));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(net.statistics().accepted, 3);
    assert!(net_builder().unaccepted(0).build().is_err());
}

#[test]
fn reserved_sockets_are_for_kernels() {
    let net = net_builder().sockets(10).reserved(6).build().expect("a net");
    let (listener, address) = net.listen(any_port()).expect("a port");
    let mut script = Script::new();
    script.given(0, listener);
    for register in 1..=9 {
        script.accept(0, register);
    }
    script.set_flag(0).wait_flag(1);
    for register in 10..15 {
        script.socket(register, Domain::V4);
    }
    script.socket(15, Domain::V4).errno(Errno::ENFILE);
    let flags = flags();
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    let _peers: Vec<_> = (0..20).map(|_| peer::connect(address)).collect();
    started.until(&flags, 0);
    std::thread::sleep(Duration::from_millis(50));
    // The listener, those that were accepted, and one that waits; five are left, however many come.
    assert_eq!(net.statistics().sockets, 11);
    flags.set(1, 1);
    started.finish();
}
