//! Peers that take the net's slots and do not give them back: others get theirs.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use gpunet_e2e::{
    Job, Script, any_port, deadline, flags, is_local, is_rdma, net_builder, scaled_time, skip,
};

/// Peers that never read. More than there are slots, so that they would take all of them.
const GREEDY: usize = 48;
const SLOTS: u32 = 24;
/// What an honest peer gets.
const ANSWER: u64 = 100;

/// A peer whose system takes next to nothing for it.
fn greedy(address: std::net::SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    socket.connect(&address.into()).expect("it connects");
    socket.into()
}

/// A kernel answers each peer with more than it takes, and closes. What is unsent has far longer than this test to
/// go, but not while others need the slots.
#[test]
fn closed_sockets_of_peers_that_do_not_read_give_way() {
    if is_local() || is_rdma() {
        let test = "shares::closed_sockets_of_peers_that_do_not_read_give_way";
        return skip(test, "about the buffers of system sockets");
    }
    for threads in [1, 2] {
        let linger = 20 * deadline();
        let net = net_builder().sockets(SLOTS).linger(linger).proxy_threads(threads);
        let net = net.build().expect("a net");
        let (listener, address) = net.listen(any_port()).expect("a listener");
        let flags = flags();
        let mut script = Script::new();
        script.given(0, listener);
        for number in 0..GREEDY {
            // Until the system takes no more and the ring is full.
            script.accept(0, 1).send_timeout(1, scaled_time(Duration::from_millis(20)));
            script.send_all(1, 1 << 30, 1 << 18).any().close(1).set_count(0, number as u64 + 1);
        }
        script.accept(0, 1).send(1, ANSWER).close(1);
        let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
        let address = address.to_string().parse().expect("an address of TCP");
        let begin = Instant::now();
        let greedy: Vec<_> = (0..GREEDY).map(|_| greedy(address)).collect();
        let mut honest = TcpStream::connect(address).expect("it connects");
        honest.set_read_timeout(Some(4 * deadline())).expect("a limit");
        let mut answer = Vec::new();
        honest.read_to_end(&mut answer).expect("the honest peer is served");
        assert_eq!(answer.len() as u64, ANSWER);
        println!("{threads} threads: the honest peer was served after {:?}", begin.elapsed());
        started.finish();
        // Who did not read sees that it has not got all.
        let is_cut_off = |mut peer: TcpStream| {
            peer.set_read_timeout(Some(deadline())).expect("a limit");
            let rest = std::io::copy(&mut peer, &mut std::io::sink());
            rest.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
        };
        let cut_off = greedy.into_iter().map(is_cut_off).filter(|cut_off| *cut_off).count();
        // Not all of them: on a busy machine the kernel gives up before a ring is full.
        assert!(cut_off >= GREEDY / 8, "{cut_off} see that something is missing");
    }
}
