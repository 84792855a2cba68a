//! The ring itself: look and consume, reserve and commit, and peeking.

use gpunet_device::calls::{MSG_DONTWAIT, MSG_PEEK};
use gpunet_e2e::{ALL, Errno, Job, Peer, RING, Script, is_local, net, peer};

/// Capacity of a ring: with direct streams it stands for those of both ends.
fn whole() -> u64 {
    u64::from(RING) * if is_local() { 2 } else { 1 }
}

#[test]
fn what_is_looked_at_stays_until_consumed() {
    let (net, total) = (net(), 1000);
    let peer = Peer::serve(move |mut stream| {
        peer::send(&mut stream, 0, total);
        peer::receive_rest(&mut stream, 0)
    });
    let mut script = Script::new();
    script.stream(0, peer.address);
    script.look(0, 1000, 0).expect(1000);
    script.look(0, 1, 0).expect(1000);
    script.look(0, 1, 1).expect(1000);
    script.look(0, 1, 400).expect(999);
    script.recv(0, 99).expect(99);
    script.look(0, 500, ALL).expect(500);
    script.close(0);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}

#[test]
fn looks_wrap_around_the_ring() {
    let (net, total) = (net(), 30 * whole());
    let peer = Peer::serve(move |mut stream| peer::send(&mut stream, 0, total as usize));
    let mut script = Script::new();
    script.stream(0, peer.address);
    let mut left = total;
    let mut consume = 1001;
    while left > 0 {
        let least = consume.min(left);
        script.look(0, least, least);
        left -= least;
        consume = (consume * 7 + 3) % whole() + 1;
    }
    script.look(0, 1, ALL).expect(0);
    script.look(0, 1, ALL).expect(0);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}

#[test]
fn fewer_bytes_than_asked_for_come_at_the_end_alone() {
    let net = net();
    let peer = Peer::serve(|mut stream| peer::send(&mut stream, 0, 10));
    let mut script = Script::new();
    script.stream(0, peer.address);
    script.look(0, 100, 4).expect(10);
    script.look(0, 100, ALL).expect(6);
    script.look(0, 100, ALL).expect(0);
    script.look(0, whole() + 1, ALL).errno(Errno::EMSGSIZE);
    Job::blocks(32).script(&script).run(&net);
    peer.result();
}

#[test]
fn what_is_reserved_goes_out_when_committed() {
    let net = net();
    let peer = Peer::serve(|mut stream| peer::receive_rest(&mut stream, 0));
    let mut script = Script::new();
    script.stream(0, peer.address);
    script.reserve(0, 10, 100, 0).expect(100);
    script.reserve(0, 10, 100, 7).expect(100);
    script.reserve(0, 1, 1, 1).expect(1);
    script.reserve(0, whole(), ALL, whole()).expect(whole() as i64);
    script.reserve(0, whole() + 1, ALL, 1).errno(Errno::EMSGSIZE);
    script.send(0, 50).reserve(0, 20, 20, ALL).expect(20);
    script.close(0);
    Job::blocks(64).script(&script).run(&net);
    assert_eq!(peer.result(), 7 + 1 + whole() + 50 + 20);
}

#[test]
fn reserved_space_wraps_around_the_ring() {
    let (net, turns) = (net(), 60);
    let peer = Peer::serve(|mut stream| peer::receive_rest(&mut stream, 0));
    let mut script = Script::new();
    script.stream(0, peer.address);
    let mut total = 0;
    for turn in 0..turns {
        let bytes = 2500 + turn * 17;
        script.reserve(0, bytes, bytes, ALL).expect(bytes as i64);
        total += bytes;
    }
    script.close(0);
    Job::warps(32).script(&script).run(&net);
    assert_eq!(peer.result(), total);
}

#[test]
fn peeking_leaves_the_bytes() {
    let net = net();
    let peer = Peer::serve(|mut stream| {
        peer::send(&mut stream, 0, 300);
        peer::receive_rest(&mut stream, 0)
    });
    let mut script = Script::new();
    script.stream(0, peer.address).look(0, 300, 0);
    script.recv(0, 100).flags(MSG_PEEK).expect(100);
    script.recv(0, 1000).flags(MSG_PEEK | MSG_DONTWAIT).expect(300);
    script.recv(0, 100).expect(100);
    script.recv(0, 1000).flags(MSG_PEEK).expect(200);
    script.recv(0, 1000).expect(200);
    script.recv(0, 10).flags(MSG_PEEK | MSG_DONTWAIT).errno(Errno::EAGAIN);
    script.close(0);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}

#[test]
fn a_reserve_of_nothing_gives_the_side_back() {
    let net = net();
    let peer = Peer::serve(|mut stream| peer::receive_rest(&mut stream, 0));
    let mut script = Script::new();
    script.stream(0, peer.address);
    script.reserve(0, 0, 0, 0).expect(0);
    script.send(0, 100);
    script.reserve(0, 0, 0, 0).expect(0);
    script.close(0);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}
