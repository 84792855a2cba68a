//! Thousands of connections open at once, and what each costs in memory.

use std::io::{Read as _, Write as _};
use std::process::Command;

use gpunet_device::calls::{POLLIN, POLLRDHUP};
use gpunet_e2e::{
    Job, RING, Script, any_port, heap, is_rdma, net_builder, peer, process, raise_file_limit, skip,
};
use gpunet_support::testing::share_limits;

const BLOCKS: usize = 2;

/// The environment variable that makes the test serve so many connections and report its memory.
const SERVE: &str = "GPUNET_TEST_SERVE";

/// Counts the heap: resident memory differs from run to run by what the allocator keeps.
#[global_allocator]
static HEAP: heap::Counted = heap::Counted;

/// What a process has while its connections are open.
struct Memory {
    /// Bytes allocated and not freed, and bytes mapped by the net.
    bytes: u64,
    /// Mappings of all kinds.
    mappings: u64,
}

impl Memory {
    const LINE: &str = "memory: ";

    fn now() -> Self {
        let bytes = heap::live() + process::mapped();
        Self { bytes, mappings: process::mapping_count() as u64 }
    }

    /// Of a process of this test that serves so many.
    fn while_serving(connections: usize) -> Self {
        let this = std::env::current_exe().expect("this program");
        let output = share_limits(&mut Command::new(this))
            .args(["--exact", "thousands_of_connections_at_once", "--nocapture"])
            .env(SERVE, connections.to_string())
            .output()
            .expect("it runs again");
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers = text.lines().find_map(|line| {
            let (bytes, mappings) = line.strip_prefix(Self::LINE)?.split_once(' ')?;
            Some(Self { bytes: bytes.parse().ok()?, mappings: mappings.parse().ok()? })
        });
        numbers.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Each number of connections in a process of its own: their memory then differs by what
/// connections take, and by nothing else.
#[test]
fn thousands_of_connections_at_once() {
    if let Some(connections) = std::env::var(SERVE).ok().and_then(|text| text.parse().ok()) {
        let Memory { bytes, mappings } = serve(connections);
        return println!("{}{bytes} {mappings}", Memory::LINE);
    }
    if is_rdma() {
        let name = "thousands_of_connections_at_once";
        return skip(name, "both ends are in this process, with queues of the device for each");
    }
    let (few, many) = (400, 2400);
    let (with_few, with_many) = (Memory::while_serving(few), Memory::while_serving(many));
    let one = with_many.bytes.saturating_sub(with_few.bytes) / (many - few) as u64;
    println!("a connection takes {one} bytes");
    // Rings, then inbox, packet, record and counters (1,296 bytes), then what the proxy keeps.
    let allowed = 2 * u64::from(RING) + 1920;
    // The proxy's tables grow by doubling, and have room to spare at this number; the allocator's pages vary by
    // some 20 bytes a connection from run to run.
    let spare = 96;
    assert!(one <= allowed + spare, "{one} bytes, {allowed} and {spare} allowed");
    assert!(one >= 2 * u64::from(RING), "{one} bytes are too few to be true");
    // What is neither on the heap nor the net's own would be mapped, for each connection.
    let mappings = with_many.mappings.saturating_sub(with_few.mappings);
    assert!(mappings < (many - few) as u64 / 20, "{mappings} more mappings");
}

/// Serves connections that are open at once: the memory of the process while they are.
fn serve(connections: usize) -> Memory {
    raise_file_limit();
    let sockets = connections as u32 + 2 * BLOCKS as u32;
    let net = net_builder().sockets(sockets).build().expect("a net");
    let all_rings = net.statistics().free_ring_bytes;
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
    assert!(gpunet_e2e::eventually(open));
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
    let mut memory = Memory::now();
    // The peers are this test's own.
    memory.bytes -= size_of_val(&*streams) as u64;
    let taken = all_rings - net.statistics().free_ring_bytes;
    let needed = connections as u64 * 2 * u64::from(RING);
    assert!(taken >= needed, "{taken} of {needed} bytes of rings are taken");
    drop(streams);
    let finished = started.finish();
    let place = script.mark() - 1;
    let echoed: i64 = (0..BLOCKS).map(|block| finished.result(block, place)).sum();
    assert_eq!(echoed as usize, 3 * connections * RING as usize);
    memory
}
