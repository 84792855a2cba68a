//! A thousand connections open at once, and what each costs in memory.

use std::io::{Read as _, Write as _};

use gpunet_device::abi::layout::Layout;
use gpunet_device::calls::{POLLIN, POLLRDHUP};
use gpunet_e2e::{ANY_PORT, Job, RING, Script, net_builder, peer, raise_file_limit};

const CONNECTIONS: usize = 1000;
const BLOCKS: usize = 8;

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its size");
    let number = line.split_whitespace().nth(1).expect("a number");
    number.parse::<u64>().expect("a number") * 1024
}

/// One test, so that nothing else grows in this process while it measures.
#[test]
fn a_thousand_connections_at_once() {
    raise_file_limit();
    let sockets = CONNECTIONS as u32 + 2 * BLOCKS as u32;
    let net = net_builder().sockets(sockets).build().expect("a net");
    let (listener, address) = net.listen(ANY_PORT).expect("a port");
    let each = (CONNECTIONS / BLOCKS) as u64;
    let mut script = Script::new();
    script.given(0, listener).poller().poller_accept(0, 1, each, POLLIN | POLLRDHUP);
    script.poller_serve(each, RING.into()).poller_close();
    let mut job = Job::blocks(64);
    for _ in 0..BLOCKS {
        job = job.script(&script);
    }
    let started = job.start(&net);
    let mut streams = Vec::with_capacity(CONNECTIONS);
    let first = CONNECTIONS / 4;
    let mut sizes = [0; 2];
    for (at, until) in [first, CONNECTIONS].into_iter().enumerate() {
        while streams.len() < until {
            streams.push(peer::connect(address));
        }
        let open = || net.dump().expect("the proxy answers").len() > streams.len();
        assert!(gpunet_e2e::eventually(gpunet_e2e::PATIENCE, open));
        sizes[at] = resident();
    }
    // All of them are open; each has its rings filled once and is served in turn.
    assert!(net.statistics().sockets > CONNECTIONS as u64);
    let message = vec![3; RING as usize];
    for round in 0..3 {
        for stream in &mut streams {
            stream.write_all(&message).expect("the kernel receives");
        }
        let mut back = vec![0; message.len()];
        for (at, stream) in streams.iter_mut().enumerate() {
            stream.read_exact(&mut back).expect("the kernel sends");
            assert_eq!(back, message, "connection {at}, round {round}");
        }
    }
    let filled = resident();
    drop(streams);
    let finished = started.finish();
    let place = script.mark() - 1;
    let echoed: i64 = (0..BLOCKS).map(|block| finished.result(block, place)).sum();
    assert_eq!(echoed as usize, 3 * CONNECTIONS * RING as usize);

    let allowed = 2 * u64::from(RING) + 1024;
    // What came with three quarters of the connections, and with the bytes of all of them.
    let later = (CONNECTIONS - first) as u64;
    let opened = sizes[1].saturating_sub(sizes[0]) / later;
    let used = filled.saturating_sub(sizes[0]) / later;
    println!("a connection took {opened} bytes when opened, {used} when used");
    assert!(opened <= allowed, "{opened} bytes when opened, {allowed} allowed");
    // The first quarter's rings are filled after the first look: a third of a connection more.
    assert!(used <= allowed * 4 / 3, "{used} bytes when used, {allowed} allowed");

    // What is set aside when a net is made, from two nets of different size.
    let set_aside = |sockets: u32| {
        let net = net_builder().sockets(sockets).build().expect("a net");
        let layout = Layout { shards: 1, places: sockets, slots: 64 };
        let words = layout.gpu_words() + layout.cpu_words() + layout.local_words();
        net.statistics().free_ring_bytes + 8 * words as u64
    };
    let one = (set_aside(8192) - set_aside(4096)) / 4096;
    println!("a connection has {one} bytes set aside");
    assert!(one <= allowed, "{one} bytes set aside, {allowed} allowed");
}
