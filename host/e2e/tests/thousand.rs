//! Thousands of connections open at once, and what each costs in memory.

use std::io::{Read as _, Write as _};
use std::process::Command;

use gpunet_device::abi::layout::Layout;
use gpunet_device::calls::{POLLIN, POLLRDHUP};
use gpunet_e2e::{Job, RING, Script, any_port, is_rdma, net_builder, peer, raise_file_limit, skip};

const BLOCKS: usize = 2;

/// The environment variable that makes the test serve so many connections and tell its size.
const SERVE: &str = "GPUNET_TEST_SERVE";

/// Each number of connections in a process of its own: the sizes then differ by what connections
/// take, and by nothing else.
#[test]
fn thousands_of_connections_at_once() {
    if let Some(connections) = std::env::var(SERVE).ok().and_then(|text| text.parse().ok()) {
        println!("resident: {}", serve(connections));
        return;
    }
    if is_rdma() {
        let name = "thousands_of_connections_at_once";
        return skip(name, "both ends are in this process, with queues of the device for each");
    }
    let size = |connections: usize| -> u64 {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "thousands_of_connections_at_once", "--nocapture"])
            .env(SERVE, connections.to_string())
            .output()
            .expect("it runs again");
        let text = String::from_utf8_lossy(&output.stdout);
        let size = text.lines().find_map(|line| line.strip_prefix("resident: ")?.parse().ok());
        size.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
    };
    let (few, many) = (400, 2400);
    let measure = || size(many).saturating_sub(size(few)) / (many - few) as u64;
    let allowed = 2 * u64::from(RING) + 1024;
    // The allocator keeps some of what growing tables have given back.
    let kept = 128;
    let mut one = measure();
    println!("a connection takes {one} bytes");
    if one > allowed + kept {
        // How much it keeps scatters by some dozens of bytes; what connections take does not.
        one = one.min(measure());
        println!("and {one} when measured again");
    }
    assert!(one <= allowed + kept, "{one} bytes, {allowed} allowed, {kept} kept");
    // Both rings of each were full.
    assert!(one >= 2 * u64::from(RING), "{one} bytes are too few to be true");

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

/// Serves connections that are open at once, and tells how large the process was then.
fn serve(connections: usize) -> u64 {
    raise_file_limit();
    let sockets = connections as u32 + 2 * BLOCKS as u32;
    let net = net_builder().sockets(sockets).build().expect("a net");
    let (listener, address) = net.listen(any_port()).expect("a port");
    let each = (connections / BLOCKS) as u64;
    let mut script = Script::new();
    script.given(0, listener).poller().poller_accept(0, 1, each, POLLIN | POLLRDHUP);
    script.poller_serve(each, RING.into()).poller_close();
    let mut job = Job::blocks(32);
    for _ in 0..BLOCKS {
        job = job.script(&script);
    }
    let started = job.start(&net);
    let mut streams: Vec<_> = (0..connections).map(|_| peer::connect(address)).collect();
    let open = || net.statistics().sockets > connections as u64;
    assert!(gpunet_e2e::eventually(gpunet_e2e::PATIENCE, open));
    // All of them are open; each has its rings filled once and is served in turn.
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
    let size = gpunet_e2e::process::resident();
    drop(streams);
    let finished = started.finish();
    let place = script.mark() - 1;
    let echoed: i64 = (0..BLOCKS).map(|block| finished.result(block, place)).sum();
    assert_eq!(echoed as usize, 3 * connections * RING as usize);
    size
}
