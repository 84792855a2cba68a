//! The ring itself: peek and consume, reserve and commit, and MSG_PEEK.

use gpunet_device::calls::{MSG_DONTWAIT, MSG_PEEK};
use gpunet_e2e::{ALL, Errno, Job, Peer, RING, Script, Space, is_local, net, peer};

/// Capacity of a ring: with p2p streams it stands for those of both ends.
fn whole() -> u64 {
    u64::from(RING) * if is_local() { 2 } else { 1 }
}

#[test]
fn what_was_peeked_stays_until_consumed() {
    let (net, total) = (net(), 1000);
    let peer = Peer::serve(move |mut stream| {
        peer::send(&mut stream, 0, total);
        peer::receive_rest(&mut stream, 0)
    });
    let mut script = Script::new();
    script.stream(0, peer.address);
    script.peek(0, 1000, 0).expect(1000);
    script.peek(0, 1, 0).expect(1000);
    script.peek(0, 1, 1).expect(1000);
    script.peek(0, 1, 400).expect(999);
    script.recv(0, 99).expect(99);
    script.peek(0, 500, ALL).expect(500);
    script.close(0);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}

#[test]
fn peeks_wrap_around_the_ring() {
    let (net, total) = (net(), 30 * whole());
    let peer = Peer::serve(move |mut stream| peer::send(&mut stream, 0, total as usize));
    let mut script = Script::new();
    script.stream(0, peer.address);
    let mut left = total;
    let mut consume = 1001;
    while left > 0 {
        let least = consume.min(left);
        script.peek(0, least, least);
        left -= least;
        consume = (consume * 7 + 3) % whole() + 1;
    }
    script.peek(0, 1, ALL).expect(0);
    script.peek(0, 1, ALL).expect(0);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}

#[test]
fn fewer_bytes_than_asked_for_come_at_the_end_alone() {
    let net = net();
    let peer = Peer::serve(|mut stream| peer::send(&mut stream, 0, 10));
    let mut script = Script::new();
    script.stream(0, peer.address);
    script.peek(0, 100, 4).expect(10);
    script.peek(0, 100, ALL).expect(6);
    script.peek(0, 100, ALL).expect(0);
    script.peek(0, whole() + 1, ALL).errno(Errno::EMSGSIZE);
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
    script.stream(0, peer.address).peek(0, 300, 0);
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

/// Offsets, lengths and alignments of all kinds, and wraps in all places.
#[test]
fn received_bytes_are_copied_into_any_buffer() {
    let (net, whole) = (net(), whole());
    let mut script = Script::new();
    let (mut total, mut turn) = (0, 0);
    while total < 12 * whole {
        let offset = turn * 37 % 300;
        let length = turn * 211 % (whole - 300) + 1;
        let consume = (offset + length) / 2 + turn % 7;
        let space = if turn % 3 == 0 { Space::Shared } else { Space::Global };
        script.peek_copy(0, offset, length, consume).space(space).at(16 + turn as u32 % 19);
        total += consume;
        turn += 1;
    }
    script.peek_copy(0, 5, 0, 0).expect(0).recv_all(0, 700, 64).close(0);
    for job in [Job::blocks(1), Job::blocks(100), Job::blocks(64), Job::warps(32)] {
        let bytes = (total + whole) as usize;
        let peer = Peer::serve(move |mut stream| {
            // The last of them nobody takes.
            peer::send(&mut stream, 0, bytes);
        });
        let mut each = Script::new();
        each.stream(0, peer.address).append(&script);
        job.script(&each).run(&net);
    }
}

#[test]
fn bytes_are_copied_into_reserved_space() {
    let (net, whole) = (net(), whole());
    for job in [Job::blocks(1), Job::blocks(100), Job::blocks(64), Job::warps(32)] {
        let peer = Peer::serve(|mut stream| peer::receive_rest(&mut stream, 0));
        let mut script = Script::new();
        script.stream(0, peer.address);
        let mut total = 0;
        for turn in 0..40 {
            let length = turn * 307 % (whole - 1) + 1;
            let space = if turn % 3 == 0 { Space::Shared } else { Space::Global };
            script.reserve_copy(0, length, turn * 101 % length).space(space);
            script.at(16 + turn as u32 % 17);
            total += length;
            // From the memory of each thread.
            let length = turn * 31 % 200 + 1;
            script.reserve_copy(0, length, length / 3).space(Space::Local);
            total += length;
        }
        script.close(0);
        job.script(&script).run(&net);
        assert_eq!(peer.result(), total);
    }
}
