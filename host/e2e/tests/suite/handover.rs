//! Sockets that a program hands to kernels and takes back.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use gpunet_e2e::{
    Errno, Folder, Handle, Job, Script, SocketOption, any_port, eventually, flags, is_local,
    is_rdma, net, net_builder, peer, skip, timeout,
};
use gpunet_host::SocketError;

/// Both ends of a TCP connection.
fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("it listens");
    let (far, _) = listener.accept().expect("it connected");
    far.set_read_timeout(Some(timeout())).expect("time-outs can be set");
    (near, far)
}

fn unread(net: &gpunet_host::Net, handle: Handle, bytes: u64) -> bool {
    eventually(|| {
        let dump = net.dump().expect("the proxy answers");
        dump.iter().any(|socket| socket.handle == handle.0 && socket.to_be_read == bytes)
    })
}

#[test]
fn a_stream_is_handed_over_and_taken_back() {
    let net = net();
    let (near, mut far) = tcp_pair();
    let handle = net.hand_over(near).expect("it is taken");
    peer::send(&mut far, 0, 100);
    let mut script = Script::new();
    script.given(0, handle).send(0, 3000).recv_all(0, 40, 40);
    Job::blocks(64).script(&script).run(&net);
    peer::receive(&mut far, 0, 3000);
    assert!(unread(&net, handle, 60));
    let released = net.take_back(handle).expect("it comes back");
    assert_eq!(released.unread, peer::bytes(gpunet_e2e::script::SEED, 40, 60));
    let mut near = TcpStream::from(released.socket);
    near.set_nonblocking(false).expect("it can block");
    near.write_all(b"more").expect("it is open");
    far.write_all(b"most").expect("it is open");
    let mut got = [0; 4];
    far.read_exact(&mut got).expect("it comes");
    assert_eq!(&got, b"more");
    near.read_exact(&mut got).expect("it comes");
    assert_eq!(&got, b"most");
    assert_eq!(net.statistics().sockets, 0);
    // The kernel's handle of it is stale.
    let mut script = Script::new();
    script.given(0, handle).send(0, 1).errno(Errno::EBADF).close(0).errno(Errno::EBADF);
    Job::blocks(64).script(&script).run(&net);
    let again = net.take_back(handle).expect_err("it was taken");
    assert!(matches!(again, SocketError::Call { call: "take_back", errno: Errno::EBADF }));
}

#[test]
fn a_unix_stream_that_kernels_use_one_after_the_other() {
    let net = net();
    let (near, mut far) = UnixStream::pair().expect("a pair");
    let handle = net.hand_over(near).expect("it is taken");
    for turn in 0..4 {
        // A kernel that ends leaves the program's socket open. Each begins its pattern anew.
        let mut script = Script::new();
        script.given(0, handle).send(0, 1500 + turn).recv_all(0, 2000, 999);
        peer::send(&mut far, 0, 2000);
        Job::blocks(64).script(&script).run(&net);
        peer::receive(&mut far, 0, 1500 + turn as usize);
    }
    let released = net.take_back(handle).expect("it comes back");
    assert!(released.unread.is_empty());
    drop(released);
    assert_eq!(peer::receive_rest(&mut far, 0), 0);
}

#[test]
fn what_is_unsent_goes_out_before_a_socket_comes_back() {
    let total = 1 << 20;
    let net = net_builder().ring(total).build().expect("a net");
    let (near, mut far) = UnixStream::pair().expect("a pair");
    let handle = net.hand_over(near).expect("it is taken");
    let mut script = Script::new();
    script.given(0, handle).send(0, total.into());
    Job::blocks(64).script(&script).run(&net);
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        peer::receive(&mut far, 0, total as usize);
        far
    });
    net.take_back(handle).expect("it comes back");
    reader.join().expect("everything came");
}

#[test]
fn listeners_are_handed_over_and_taken_back() {
    let (net, folder) = (net(), Folder::new("listeners"));
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let unix = UnixListener::bind(folder.path("listener")).expect("a path");
    let address = tcp.local_addr().expect("its address");
    let handles = [net.hand_over(tcp), net.hand_over(unix)].map(|h| h.expect("it is taken"));
    let mut script = Script::new();
    for (register, handle) in [(0, handles[0]), (1, handles[1])] {
        script.given(register, handle).accept(register, 2).echo(2, 100).expect(500).close(2);
    }
    let started = Job::blocks(64).script(&script).start(&net);
    let mut stream = peer::connect_by_tcp(address);
    peer::send(&mut stream, 0, 500);
    stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(peer::receive_rest(&mut stream, 0), 500);
    let mut stream = UnixStream::connect(folder.path("listener")).expect("it listens");
    peer::send(&mut stream, 0, 500);
    stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(peer::receive_rest(&mut stream, 0), 500);
    started.finish();
    let [tcp, unix] = handles.map(|handle| net.take_back(handle).expect("it comes back").socket);
    let (tcp, unix) = (TcpListener::from(tcp), UnixListener::from(unix));
    tcp.set_nonblocking(false).and_then(|()| unix.set_nonblocking(false)).expect("they can block");
    let client = std::thread::spawn(move || drop(peer::connect_by_tcp(address)));
    tcp.accept().expect("the program accepts again");
    client.join().expect("it connected");
    let path = folder.path("listener");
    let client = std::thread::spawn(move || drop(UnixStream::connect(path)));
    unix.accept().expect("the program accepts again");
    client.join().expect("it connected");
}

#[test]
fn a_listener_by_address_goes_with_the_net() {
    let folder = Folder::new("gone");
    let net = net();
    let (_, address) = net.listen(folder.address("listener")).expect("a path");
    assert_eq!(address, folder.address("listener"));
    assert!(folder.path("listener").exists());
    drop(net);
    assert!(!folder.path("listener").exists());
}

#[test]
fn nothing_comes_back_while_a_kernel_runs() {
    let (net, flags) = (net(), flags());
    let (near, _far) = UnixStream::pair().expect("a pair");
    let handle = net.hand_over(near).expect("it is taken");
    let mut script = Script::new();
    script.set_flag(0).wait_flag(1);
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    let busy = net.take_back(handle).expect_err("a kernel runs");
    assert!(matches!(busy, SocketError::Busy), "{busy}");
    flags.set(1, 1);
    started.finish();
    net.take_back(handle).expect("it comes back");
}

#[test]
fn other_sockets_cannot_be_handed_over() {
    let net = net();
    let refused = |socket: std::os::fd::OwnedFd| net.hand_over(socket).expect_err("no stream");
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    assert!(matches!(
        refused(datagrams.into()),
        SocketError::Call { call: "hand_over", errno: Errno::EPROTONOSUPPORT }
    ));
    let idle = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    assert!(matches!(
        refused(idle.expect("a socket").into()),
        SocketError::Call { errno: Errno::ENOTCONN, .. }
    ));
    let file = std::fs::File::open("/dev/null").expect("it is there");
    assert!(matches!(refused(file.into()), SocketError::Call { errno: Errno(88), .. }));
    let unknown = net.take_back(Handle(12345 << 28)).expect_err("there is none");
    assert!(matches!(unknown, SocketError::Call { errno: Errno::EBADF, .. }));
    let unknown = net.take_back(Handle(u64::MAX)).expect_err("there is none");
    assert!(!matches!(unknown, SocketError::NoAnswer { .. }), "{unknown}");
    assert_eq!(net.statistics().sockets, 0);
}

#[test]
fn a_socket_that_a_kernel_leaves_to_the_program() {
    if is_local() {
        let name = "handover::a_socket_that_a_kernel_leaves_to_the_program";
        return skip(name, "behind a p2p stream is no socket of the system");
    }
    let (net, flags) = (net(), flags());
    let (listener, address) = net.listen(any_port()).expect("a port");
    let mut far = peer::connect(address);
    let mut script = Script::new();
    script.given(0, listener).accept(0, 1).set(1, SocketOption::Detached, 1).send(1, 10);
    script.give_handle(1, 0);
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    let handle = Handle(started.until(&flags, 0));
    started.finish();
    peer::receive(&mut far, 0, 10);
    peer::send(&mut far, 0, 10);
    assert!(unread(&net, handle, 10));
    if is_rdma() {
        let refused = net.take_back(handle).expect_err("the system has no socket for it");
        assert!(matches!(refused, SocketError::Call { errno: Errno::EOPNOTSUPP, .. }), "{refused}");
        return;
    }
    let released = net.take_back(handle).expect("it outlived the kernel");
    peer::check(&released.unread, gpunet_e2e::script::SEED, 0);
    drop(released);
    assert_eq!(peer::receive_rest(&mut far, 0), 0);
}

#[test]
fn a_socket_that_the_program_closes() {
    let (net, flags) = (net(), flags());
    let (near, mut far) = tcp_pair();
    let handle = net.hand_over(near).expect("it is taken");
    let mut script = Script::new();
    script.given(0, handle).send(0, 10).set_flag(0).recv(0, 10).errno(Errno::EBADF);
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    net.close(handle).expect("it is open");
    started.finish();
    // What was sent arrives.
    peer::receive(&mut far, 0, 10);
    assert_eq!(peer::receive_rest(&mut far, 10), 0);
    for gone in [handle, Handle::NONE, Handle(u64::MAX >> 4)] {
        let refused = net.close(gone).expect_err("it is not open");
        assert!(matches!(refused, SocketError::Call { errno: Errno::EBADF, .. }), "{refused}");
    }
    assert!(eventually(|| net.statistics().sockets == 0));
}
