//! A process that may open no more files: a program of its own, since that concerns all of it.

use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use gpunet_e2e::faults::{self, Row};
use gpunet_e2e::{Domain, Errno, Job, Script, any_port, flags, is_rdma, net, peer, skip};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const LIMIT: Duration = Duration::from_millis(400);

/// The next descriptor that the system would give: all before it are taken.
fn next_descriptor() -> u64 {
    let file = std::fs::File::open("/dev/null").expect("there is still one");
    file.as_raw_fd().try_into().expect("descriptors are not negative")
}

#[test]
fn no_more_files() {
    if is_rdma() {
        return skip("no_more_files", "a peer that cannot be accepted by RDMA is refused");
    }
    let unlimited = getrlimit(Resource::Nofile);
    faults::measure("descriptors: no_more_files", || {
        let (net, flags) = (net(), flags());
        let (listener, address) = net.listen(any_port()).expect("a port");
        let mut script = Script::new();
        script.given(0, listener).receive_timeout(0, LIMIT);
        script.set_flag(0).wait_flag(1).socket(1, Domain::V4).errno(Errno::EMFILE);
        let refused = (0, script.mark());
        // A peer is there, and waits in the system's queue.
        script.accept(0, 1).errno(Errno::ETIMEDOUT);
        let waited = (0, script.mark());
        // With room for it, it is accepted.
        script.set_flag(2).receive_timeout(0, 10 * LIMIT).accept(0, 1);
        script.send(1, 10).socket(2, Domain::V4).close(2).close(1);
        let started = Job::blocks(64).script(&script).flags(&flags).start(&net);
        started.until(&flags, 0);
        let stream = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let stream = stream.expect("there is still one");
        let used = Rlimit { current: Some(next_descriptor()), ..unlimited };
        setrlimit(Resource::Nofile, used).expect("a lower limit is always allowed");
        let address = address.to_ip().expect("an IP address");
        stream.connect(&address.into()).expect("the system has a queue");
        flags.set(1, 1);
        started.until(&flags, 2);
        setrlimit(Resource::Nofile, unlimited).expect("it was so before");
        let finished = started.finish();
        assert_eq!(peer::receive_rest(&mut TcpStream::from(stream), 0), 10);
        let fault = "no descriptors are left";
        vec![
            Row::of_op(fault, "gsocket", Duration::ZERO, &finished, refused),
            Row::of_op(fault, "gaccept", LIMIT, &finished, waited),
        ]
    });
}
