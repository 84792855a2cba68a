//! Nets that come and go: a program of its own, since descriptors and what the system holds for RDMA
//! are counted, and other tests would change that.

use std::process::Command;
use std::time::Duration;

use gpunet_e2e::{Job, Script, any_port, eventually, is_rdma, net, peer};

/// Open descriptors of this process, and the domains, queues, ids and regions of all.
fn held() -> Vec<usize> {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("the system lists them").count();
    let mut held = vec![descriptors];
    if is_rdma() {
        let show = Command::new("rdma").args(["resource", "show"]).output();
        let shown = String::from_utf8(show.expect("the program rdma").stdout).expect("a text");
        // `0: rxe0: pd 3 cq 4 qp 4 ...`
        held.extend(shown.split_whitespace().filter_map(|word| word.parse::<usize>().ok()));
        assert!(held.len() > 1, "it shows no numbers: {shown}");
    }
    held
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
    let steady = eventually(|| {
        std::thread::sleep(if is_rdma() {
            Duration::from_secs(1)
        } else {
            Duration::from_millis(200)
        });
        let earlier = std::mem::replace(&mut before, held());
        earlier == before
    });
    assert!(steady, "{before:?}");
    (0..gpunet_e2e::scaled(60)).for_each(|_| one_net());
    let mut after = held();
    let gone = eventually(|| {
        after = held();
        after.len() == before.len()
            && after.iter().zip(&before).all(|(after, before)| after <= before)
    });
    assert!(gone, "{before:?} became {after:?}");
}
