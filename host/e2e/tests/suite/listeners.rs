//! Listeners with options, ports that are taken, and listeners that a kernel has borrowed.

use std::net::TcpStream;
use std::time::Duration;

use gpunet_device::ListenOptions;
use gpunet_device::calls::POLLIN;
use gpunet_e2e::{
    Errno, Folder, Job, Script, SocketAddr, SocketOption, any_port, at_once, child, eventually,
    is_local, is_rdma, net, peer, scaled_time, skip, timeout,
};
use gpunet_host::Net;

const MS: Duration = Duration::from_millis(1);

const SHARED: ListenOptions =
    ListenOptions { backlog: 16, reuse_port: true, nonblocking: false, only_v6: false };

/// A kernel's listener that stays, and its address.
fn listener(net: &Net, at: SocketAddr, options: ListenOptions) -> SocketAddr {
    let mut script = Script::new();
    script.listener_with(0, at, options).set(0, SocketOption::Detached, 1);
    let name = script.keep_name(0);
    Job::blocks(32).script(&script).run(net).names[0][name]
}

#[test]
fn a_port_that_another_process_listens_at() {
    const NAME: &str = "listeners::a_port_that_another_process_listens_at";
    let net = net();
    if let Some(part) = child::part() {
        let (shares, address) = part.split_once(' ').expect("two words");
        let address =
            SocketAddr::from(address.parse::<std::net::SocketAddr>().expect("an address"));
        let mut script = Script::new();
        // One that does not share is refused in any case.
        script.listener(0, address).errno(Errno::EADDRINUSE);
        script.listener_with(0, address, SHARED);
        if shares == "no" {
            script.errno(Errno::EADDRINUSE);
        } else {
            script.close(0);
        }
        Job::blocks(32).script(&script).run(&net);
        return;
    }
    let alone = listener(&net, any_port(), ListenOptions::default());
    child::alone(NAME, &format!("no {alone}"), "alone");
    if is_rdma() {
        return skip(NAME, "one listener of RDMA has an address");
    }
    let shared = listener(&net, any_port(), SHARED);
    child::alone(NAME, &format!("yes {shared}"), "shared");
}

#[test]
fn a_port_that_another_net_listens_at() {
    let (one, other) = (net(), net());
    let taken = listener(&one, any_port(), ListenOptions::default());
    let mut script = Script::new();
    script.listener(0, taken).errno(Errno::EADDRINUSE);
    script.listener_with(0, taken, SHARED).errno(Errno::EADDRINUSE);
    Job::blocks(64).script(&script).run(&other);
    Job::blocks(64).script(&script).run(&one);
}

#[test]
fn a_nonblocking_listener_does_not_wait() {
    let net = net();
    let mut script = Script::new();
    let options = ListenOptions { nonblocking: true, ..ListenOptions::default() };
    script.listener_with(0, any_port(), options).get(0, SocketOption::NonBlocking, 1);
    script.accept(0, 1).errno(Errno::EAGAIN).takes(at_once());
    let name = script.keep_name(0);
    script.stream_to_kept(2, name).poll_set(0, 0, POLLIN).poll(1, 600_000, 1).accept(0, 1);
    // What it has accepted waits, for as long as the net says.
    script.get(1, SocketOption::NonBlocking, 0);
    script.receive_timeout(1, 50 * MS).recv(1, 10).errno(Errno::ETIMEDOUT);
    script.send(2, 10).receive_timeout(1, timeout()).recv_all(1, 10, 10);
    script.accept(0, 3).errno(Errno::EAGAIN).close(2).close(1).close(0);
    for job in [Job::blocks(64), Job::warps(40), Job::threads(1)] {
        job.script(&script).run(&net);
    }
}

#[test]
fn a_listener_for_ipv6_alone_refuses_ipv4() {
    const NAME: &str = "listeners::a_listener_for_ipv6_alone_refuses_ipv4";
    if is_rdma() || is_local() {
        return skip(NAME, "the peers are the system's");
    }
    let (net, any) = (net(), SocketAddr::v6([0; 16], 0, 0, 0));
    for only_v6 in [true, false] {
        let address = listener(&net, any, ListenOptions { only_v6, ..ListenOptions::default() });
        let old = TcpStream::connect(("127.0.0.1", address.port()));
        assert_eq!(old.is_err(), only_v6, "{old:?}");
        TcpStream::connect(("::1", address.port())).expect("it listens");
    }
    let folder = Folder::new("only-v6");
    let mut script = Script::new();
    let only = ListenOptions { only_v6: true, ..ListenOptions::default() };
    script.listener_with(0, any_port(), only).errno(Errno::ENOPROTOOPT);
    script.listener_with(0, folder.address("path"), only).errno(Errno::EOPNOTSUPP);
    Job::blocks(32).script(&script).run(&net);
    assert!(!folder.path("path").exists());
}

/// Kernels that borrow the program's listener leave it open, whenever they end.
#[test]
fn a_borrowed_listener_stays_open() {
    let net = net();
    let (listener, address) = net.listen(any_port()).expect("a port");
    for _ in 0..2 {
        let mut script = Script::new();
        for _ in 0..2 {
            script.given(0, listener).borrow_accept(0, 1).send(1, 100).recv_all(1, 100, 100);
            script.close(1);
        }
        let job = Job::blocks(64).script(&script).start(&net);
        for _ in 0..2 {
            let mut stream = peer::connect(address);
            peer::receive(&mut stream, 0, 100);
            peer::send(&mut stream, 0, 100);
            assert_eq!(peer::receive_rest(&mut stream, 100), 0);
        }
        job.finish();
    }
    // What the kernel closed may still be disconnecting; the listener stays.
    assert!(eventually(|| net.statistics().sockets == 1), "{:?}", net.statistics());
    let mut script = Script::new();
    script.given(0, listener).receive_timeout(0, scaled_time(10 * MS));
    script.borrow_accept(0, 1).errno(Errno::ETIMEDOUT).close(0);
    Job::blocks(64).script(&script).run(&net);
}
