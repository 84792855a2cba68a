//! Nets that come and go: a program of its own, since descriptors and what the system holds for RDMA
//! are counted, and other tests would change that.

use std::process::Command;
use std::time::Duration;

use gpunet_e2e::{Job, Script, any_port, eventually, is_rdma, net, peer, way};

/// Open descriptors of this process, and the domains, queues, ids and regions of all.
fn held() -> (usize, String) {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("the system lists them").count();
    if !is_rdma() {
        return (descriptors, String::new());
    }
    let shown = Command::new("rdma").args(["resource", "show"]).output().expect("the program rdma");
    (descriptors, String::from_utf8_lossy(&shown.stdout).into_owned())
}

/// A net whose kernel connects, listens, and leaves some connections for the net to close.
fn one_net() {
    let net = net();
    let (listener, address) = net.listen(any_port()).expect("a port");
    let mut script = Script::new();
    script.given(0, listener);
    for register in 1..=4 {
        script.stream(register, peer::echo_server()).send(register, 100);
        script.recv_all(register, 100, 100);
    }
    script.close(1).close(2).accept(0, 5).recv_all(5, 100, 100);
    let started = Job::blocks(32).script(&script).start(&net);
    let mut stream = peer::connect(address);
    peer::send(&mut stream, 0, 100);
    started.finish();
}

#[test]
fn nothing_stays_of_nets_and_their_connections() {
    // What is made once and kept.
    one_net();
    let mut before = held();
    // Ids fade for a while after their connections, and peers take theirs to notice.
    assert!(eventually(Duration::from_secs(10), || {
        let now = held();
        std::thread::sleep(Duration::from_millis(500));
        let settled = now == before;
        before = now;
        settled
    }));
    (0..way::scaled(40)).for_each(|_| one_net());
    let mut after = held();
    let same = eventually(Duration::from_secs(10), || {
        after = held();
        after == before
    });
    assert!(same, "{before:?} became {after:?}");
}
