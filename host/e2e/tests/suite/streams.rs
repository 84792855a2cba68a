//! Byte streams: every size and alignment, wrap, short reads and writes, kernel to kernel.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use gpunet_device::calls::MSG_WAITALL;
use gpunet_e2e::script::SEED;
use gpunet_e2e::{
    Domain, Flags, Folder, Job, Peer, RING, Script, gpu, is_cuda, net, net_builder, peer, skip,
    transport,
};

/// From one byte to beyond the ring, and every power of two on the way with its neighbours.
fn sizes() -> Vec<u64> {
    let ring = u64::from(RING);
    let mut sizes: Vec<u64> = (1..=64).collect();
    let mut power = 128;
    while power <= ring {
        sizes.extend([power - 1, power, power + 1]);
        power *= 2;
    }
    sizes.extend([2 * ring - 1, 2 * ring, 3 * ring + 7]);
    sizes
}

/// Sends each size and receives it back. What fits no ring twice goes out while it comes back.
fn there_and_back(script: &mut Script, register: u32) -> u64 {
    let mut total = 0;
    for size in sizes() {
        script.send(register, size).recv_all(register, size, size);
        total += size;
    }
    total
}

#[test]
fn messages_of_every_size_arrive_whole() {
    let net = net();
    let mut script = Script::new();
    script.stream(0, peer::echo_server());
    there_and_back(&mut script, 0);
    script.close(0);
    Job::blocks(64).script(&script).run(&net);
}

#[test]
fn messages_arrive_whole_in_each_order_of_threads() {
    for seed in 0..4 {
        let net = gpunet_e2e::seeded_net(seed);
        let mut script = Script::new();
        script.stream(0, peer::echo_server());
        there_and_back(&mut script, 0);
        script.close(0);
        Job::blocks(48).script(&script).script(&script).run(&net);
    }
}

#[test]
fn waitall_fills_the_buffer_or_ends_with_the_stream() {
    let net = net();
    let server = Peer::serve(|mut stream| {
        // Packets, and what is longer than one; the rest and then the end.
        for (position, length) in [(0, 100), (100, 700), (800, 5)] {
            peer::send(&mut stream, position, length);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut script = Script::new();
    script.stream(0, server.address);
    script.recv(0, 800).flags(MSG_WAITALL).between(800, 800);
    script.recv(0, 800).flags(MSG_WAITALL).between(5, 5).close(0);
    for threads in [1, 64] {
        Job::blocks(threads).script(&script).run(&net);
    }
}

#[test]
fn short_messages_are_packets() {
    if gpunet_e2e::is_local() {
        let name = "streams::short_messages_are_packets";
        return gpunet_e2e::skip(name, "nobody counts what kernels write to each other");
    }
    if transport::has_gpu_rings() {
        let name = "streams::short_messages_are_packets";
        return skip(name, "rings in GPU memory are out of the proxy's reach");
    }
    let net = net();
    let mut script = Script::new();
    script.stream(0, peer::echo_server());
    for length in 1..=64 {
        script.send(0, length).recv_all(0, length, 64);
    }
    script.close(0);
    Job::blocks(64).script(&script).run(&net);
    let statistics = net.statistics();
    // All of them come so, since each is taken before the next is sent.
    assert!(statistics.received_packets >= 60, "{statistics:?}");
    // They are sent so, too. On the emulated GPU the ring is ready as soon, and nobody can see
    // which of the two the proxy finds first.
    assert!(!is_cuda() || statistics.sent_packets >= 48, "{statistics:?}");
}

#[test]
fn every_alignment_of_source_and_destination() {
    let net = net();
    let mut script = Script::new();
    script.stream(0, peer::echo_server());
    for source in 0..16 {
        for destination in 0..16 {
            // Odd, so that the place in the ring is another each time.
            let length = 67;
            script.send(0, length).at(16 + source);
            script.recv_all(0, length, length).at(16 + destination);
        }
    }
    script.close(0);
    Job::blocks(32).script(&script).run(&net);
}

#[test]
fn a_receive_touches_its_buffer_alone() {
    let (net, length) = (net(), 100);
    let peer = Peer::serve(move |mut stream| {
        for turn in 0..256 {
            peer::send(&mut stream, turn * length, length as usize);
            let mut go_on = [0];
            stream.read_exact(&mut go_on).expect("the kernel asks for more");
        }
    });
    let mut script = Script::new();
    script.stream(0, peer.address);
    for turn in 0..256 {
        // The buffer is larger than what comes at once: the rest of it must stay as it was.
        script.poll_set(0, 0, gpunet_device::calls::POLLIN).poll(1, 600_000, 1);
        script.peek(0, length, 0);
        script.recv(0, length + turn % 7).at(16 + (turn as u32 * 5) % 16).expect(100);
        script.send(0, 1);
    }
    Job::blocks(96).script(&script).run(&net);
    peer.result();
}

/// Their bytes may come together with the word that the connection is made, and then nothing else
/// comes that would wake anybody.
#[test]
fn peers_may_send_first() {
    let (net, length) = (net(), 100);
    let serve = move |mut stream: peer::Stream| {
        peer::send(&mut stream, 0, length);
        peer::receive(&mut stream, 0, 1);
    };
    // More than are tried in every turn, so that some are tried once.
    let peers: Vec<_> = (0..8).map(|_| Peer::serve(serve)).collect();
    let mut job = Job::blocks(32);
    for peer in &peers {
        let mut script = Script::new();
        for _ in 0..gpunet_e2e::scaled(16) {
            script.stream(0, peer.address).recv_all(0, length as u64, length as u64);
            script.send(0, 1).close(0);
        }
        job = job.script(&script);
    }
    job.run(&net);
}

#[test]
fn bytes_wrap_around_the_ring() {
    let (net, total) = (net(), 40 * u64::from(RING) + 11);
    let mut script = Script::new();
    script.stream(0, peer::echo_server());
    // Pieces that divide no ring: each turn wraps somewhere else.
    for piece in [1000, 1361, 3001, 4095] {
        for _ in 0..total / 4 / piece {
            script.send(0, piece).recv_all(0, piece, 777);
        }
    }
    script.close(0);
    Job::blocks(128).script(&script).run(&net);
}

#[test]
fn a_peer_that_writes_a_few_bytes_at_a_time() {
    let (net, total) = (net(), 6000);
    let peer = Peer::serve(move |mut stream| {
        let all = peer::bytes(SEED, 0, total);
        let (mut at, mut piece) = (0, 1);
        while at < total {
            let end = (at + piece).min(total);
            stream.write_all(&all[at..end]).expect("the peer sends");
            (at, piece) = (end, piece % 97 + 1);
            if piece % 16 == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    });
    let mut script = Script::new();
    script.stream(0, peer.address).recv_all(0, total as u64, 4096).recv(0, 1).expect(0);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}

#[test]
fn a_peer_that_reads_a_few_bytes_at_a_time() {
    let (net, total) = (net(), 3 * u64::from(RING));
    let peer = Peer::serve(move |mut stream| {
        let (mut position, mut piece) = (0, 1);
        loop {
            let mut got = vec![0; piece];
            match stream.read(&mut got).expect("the peer receives") {
                0 => return position,
                bytes => {
                    peer::check(&got[..bytes], SEED, position);
                    position += bytes as u64;
                }
            }
            piece = piece % 61 + 1;
        }
    });
    let mut script = Script::new();
    script.stream(0, peer.address).send(0, total).close(0);
    Job::blocks(64).script(&script).run(&net);
    assert_eq!(peer.result(), total);
}

#[test]
fn several_megabytes_go_each_way_at_once() {
    let (net, total) = (net_builder().ring(64 << 10).build().expect("a net"), 4_000_000);
    let peer = Peer::serve(move |mut stream| {
        let mut other = stream.try_clone().expect("a second handle");
        let sender = std::thread::spawn(move || peer::send(&mut other, 0, total));
        peer::receive(&mut stream, 0, total);
        sender.join().expect("the sender ends well");
    });
    // Two groups share the connection: one sends, the other receives.
    let flags = std::sync::Arc::new(Flags::new(gpu()));
    let (mut sender, mut receiver) = (Script::new(), Script::new());
    sender.stream_with_rings(0, peer.address, 64 << 10).give_handle(0, 0);
    sender.send_all(0, total as u64, 20_000).wait_flag(1).close(0);
    receiver.receive_handle(0, 0).recv_all(0, total as u64, 20_000).set_flag(1);
    Job::blocks(128).script(&sender).script(&receiver).flags(&flags).run(&net);
    peer.result();
}

#[test]
fn the_typed_calls_read_and_write_all() {
    let net = net();
    let mut script = Script::new();
    script.stream(0, peer::echo_server());
    for size in [1, 100, 3000, 9000] {
        script.send_all(0, size, 2048).read_exact(0, size);
    }
    script.shutdown(0, 1).read_exact(0, 10).errno(gpunet_e2e::Errno::ECONNRESET).close(0);
    Job::blocks(64).script(&script).run(&net);
}

#[test]
fn streams_go_over_ipv6_and_a_unix_path() {
    let (net, folder) = (net(), Folder::new("streams"));
    let path = folder.path("echo");
    let local = Peer::serve_unix(&path, |mut stream| {
        let mut piece = vec![0; 4096];
        while let Ok(got @ 1..) = stream.read(&mut piece) {
            stream.write_all(&piece[..got]).expect("the peer sends");
        }
    });
    let mut script = Script::new();
    script.stream(0, peer::echo_server_at(gpunet_e2e::any_port_v6()));
    script.stream(1, local.address);
    for register in [0, 1] {
        there_and_back(&mut script, register);
        script.close(register);
    }
    Job::blocks(64).script(&script).run(&net);
    local.result();
}

#[test]
fn kernel_to_kernel_streams_pass_in_one_net() {
    let net = net();
    let (listener, address) = net.listen(gpunet_e2e::any_port()).expect("a port");
    let mut server = Script::new();
    server.given(0, listener).accept(0, 1).echo(1, 1500).close(1);
    let mut client = Script::new();
    client.stream(0, address);
    there_and_back(&mut client, 0);
    client.close(0);
    // In one launch, and in two.
    Job::blocks(64).script(&server).script(&client).run(&net);
    let started = Job::blocks(32).script(&server).start(&net);
    Job::blocks(96).script(&client).run(&net);
    started.finish();
}

#[test]
fn kernel_to_kernel_streams_pass_between_two_nets() {
    let (near, far) = (net(), net());
    let folder = Folder::new("two-nets");
    let addresses = [folder.address("listener"), gpunet_e2e::any_port()];
    for address in addresses {
        let (listener, address) = far.listen(address).expect("it listens");
        let mut server = Script::new();
        server.given(0, listener).accept(0, 1).echo(1, 700).close(1);
        let mut client = Script::new();
        client.stream(0, address);
        there_and_back(&mut client, 0);
        client.close(0);
        let started = Job::blocks(64).script(&server).start(&far);
        Job::blocks(64).script(&client).run(&near);
        started.finish();
    }
}

#[test]
fn a_listener_that_a_kernel_makes() {
    let (net, folder) = (net(), Folder::new("kernel-listener"));
    let unix = folder.address("listener");
    for (domain, address) in [(Domain::V4, gpunet_e2e::any_port()), (Domain::Unix, unix)] {
        let flags = std::sync::Arc::new(Flags::new(gpu()));
        let mut server = Script::new();
        server.socket(0, domain).bind(0, address).listen(0, 5);
        let name = server.keep_name(0);
        server.set_flag(0).accept(0, 1).echo(1, 1024).close(1).close(0);
        let started = Job::blocks(64).script(&server).flags(&flags).start(&net);
        started.until(&flags, 0);
        let dump = net.dump().expect("the proxy answers");
        let listening = dump.iter().find(|socket| socket.state == "listener").expect("one listens");
        let at = listening.local.clone().expect("its address");
        let echoed = 5000;
        if domain == Domain::Unix {
            let mut stream = peer::connect_unix(&folder.path("listener"));
            peer::send(&mut stream, 0, echoed);
            stream.shutdown(std::net::Shutdown::Write).expect("it is open");
            assert_eq!(peer::receive_rest(&mut stream, 0), echoed as u64);
        } else {
            let at: std::net::SocketAddr = at.parse().expect("an address");
            let mut stream = peer::connect(at.into());
            peer::send(&mut stream, 0, echoed);
            stream.shutdown(std::net::Shutdown::Write).expect("it is open");
            assert_eq!(peer::receive_rest(&mut stream, 0), echoed as u64);
        }
        let finished = started.finish();
        if domain == Domain::V4 {
            assert_eq!(finished.names[0][name].to_string(), at);
        }
    }
    assert!(!folder.path("listener").exists(), "the path goes with the listener");
}
