//! Words that kernels poll, in GPU memory that the CPU has mapped. `GPUNET_CONTROL_MEMORY=gpu` has all suites
//! run so; these are for every run.

use std::time::Duration;

use gpunet_device::calls::POLLIN;
use gpunet_e2e::faults::{self, CALLS, Waiting};
use gpunet_e2e::{
    Domain, Errno, Job, Script, any_port, drop_in_order, eventually, flags, is_cuda, is_local,
    is_rdma, net_builder, peer, timeout,
};
use gpunet_host::{ControlMemory, DownError, LaunchError, Net, NetBuilder, NetError, SocketError};

/// A net with its control memory on the GPU, unless this machine maps none.
fn net(test: &str, shape: impl FnOnce(NetBuilder) -> NetBuilder) -> Option<Net> {
    match shape(net_builder()).control_memory(ControlMemory::Gpu).build() {
        Ok(net) => Some(net),
        Err(NetError::ControlMemory(refused)) if is_cuda() => {
            gpunet_e2e::skip(test, &refused.to_string());
            None
        }
        Err(error) => panic!("a net: {error}"),
    }
}

#[test]
fn what_was_chosen_can_be_seen() {
    let chosen_by = |wish| {
        let net = net_builder().control_memory(wish).build().expect("host memory is always there");
        net.statistics().control_memory
    };
    assert_eq!(chosen_by(ControlMemory::Host).mapped_by, None);
    let chosen = chosen_by(ControlMemory::Auto);
    // On a real GPU either is right, and says why.
    assert!(is_cuda() || chosen.mapped_by.is_none(), "{chosen}");
    assert!(!chosen.why.is_empty() && !chosen.to_string().contains('\n'), "{chosen}");
    if let Some(net) = net("control_memory::what_was_chosen_can_be_seen", |builder| builder) {
        let chosen = net.statistics().control_memory;
        assert_eq!(chosen.why, "GPU memory was asked for");
        assert!(is_cuda() || chosen.mapped_by.as_deref() == Some("emulated"), "{chosen}");
    }
}

#[test]
fn streams_polls_accepts_and_closes() {
    let two_threads = |builder: NetBuilder| builder.proxy_threads(2);
    let Some(net) = net("control_memory::streams_polls_accepts_and_closes", two_threads) else {
        return;
    };
    let server = peer::echo_server();
    let (listener, address) = net.listen(any_port()).expect("a port");
    let mut client = Script::new();
    for register in [0, 1] {
        client.stream(register, server);
        for size in (1..=64).chain([65, 1000, 4096, 5000, 20_000]) {
            client.send(register, size).recv_all(register, size, size);
        }
    }
    client.send(0, 10).poll_set(0, 0, POLLIN).poll(1, 600_000, 1).found(0, POLLIN);
    client.poller().poller_add(1, POLLIN, 7).recv_all(0, 10, 10);
    client.send(1, 10).poller_wait(4, timeout()).expect(1).event(0, 7, POLLIN);
    client.recv_all(1, 10, 10).poller_close().close(0).close(1);
    client.recv(0, 1).errno(Errno::EBADF);
    client.socket(0, Domain::V4).connect(0, peer::closed_port().1).errno(Errno::ECONNREFUSED);
    client.close(0);
    let mut accepting = Script::new();
    accepting.given(0, listener);
    for _ in 0..3 {
        accepting.accept(0, 1).echo(1, 999).expect(3000).close(1);
    }
    let peers = std::thread::spawn(move || {
        for _ in 0..3 {
            let mut stream = peer::connect(address);
            peer::send(&mut stream, 0, 3000);
            stream.shutdown(std::net::Shutdown::Write).expect("it is open");
            assert_eq!(peer::receive_rest(&mut stream, 0), 3000);
        }
    });
    let started = Job::blocks(64).script(&accepting).start(&net);
    Job::blocks(64).script(&client).script(&client).run(&net);
    Job::warps(40).script(&client).run(&net);
    started.finish();
    peers.join().expect("the peers got their bytes back");
    let statistics = net.statistics();
    assert_eq!(statistics.violations, 0, "{statistics:?}");
    // Only sockets of the system's come back, and only their proxy puts messages there.
    if !is_local() && !is_rdma() {
        assert!(statistics.received_packets > 0, "{statistics:?}");
        drop(net.take_back(listener).expect("no kernel runs"));
        assert!(eventually(|| net.statistics().sockets == 0));
    }
}

#[test]
fn an_abort_ends_every_wait() {
    let no_limit = |builder: NetBuilder| builder.timeout(Duration::ZERO);
    let Some(net) = net("control_memory::an_abort_ends_every_wait", no_limit) else { return };
    let (flags, waiting) = (flags(), Waiting::new(Errno::ECANCELED));
    let started = waiting.job(&flags).start(&net);
    faults::times(&started, &flags, CALLS.len(), || net.abort());
    started.finish();
}

#[test]
fn a_net_that_loses_them_is_down() {
    const TEST: &str = "control_memory::a_net_that_loses_them_is_down";
    faults::measure(TEST, || {
        let shape =
            |builder: NetBuilder| builder.timeout(Duration::ZERO).linger(Duration::from_millis(1));
        let Some(net) = net(TEST, shape) else { return Vec::new() };
        let (flags, down) = (flags(), Errno::ENETDOWN);
        let waiting = Waiting::new(down);
        let started = waiting.job(&flags).start(&net);
        let take = || net.inject_loss_of_control_memory();
        let times = faults::times(&started, &flags, CALLS.len(), take);
        started.finish();
        let refused = Job::blocks(32).script(&Script::new()).try_start(&net).err();
        assert!(
            matches!(refused, Some(LaunchError::Down(DownError::ControlMemoryLost(_)))),
            "{refused:?}"
        );
        let refused = net.listen(any_port()).err();
        assert!(
            matches!(refused, Some(SocketError::Down(DownError::ControlMemoryLost(_)))),
            "{refused:?}"
        );
        drop_in_order(net);
        let fault = "control memory on the GPU is taken away";
        Waiting::rows(fault, down, Duration::ZERO, &times)
    });
}
