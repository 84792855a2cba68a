//! A proxy thread that panics: kernels' waits end, and the net says that it is down.

use std::time::Duration;

use gpunet_e2e::faults::{self, CALLS, Waiting};
use gpunet_e2e::{Domain, Errno, Job, Script, any_port, drop_in_order, flags, net_builder};
use gpunet_host::{DownError, LaunchError, NetError, SocketError, TransportChoice};

#[test]
fn waits_end_and_the_net_is_down() {
    for (threads, fault) in [(1, "a proxy thread panics"), (2, "one of two proxy threads panics")] {
        faults::measure("proxy_panic: waits_end_and_the_net_is_down", || {
            let builder = net_builder().timeout(Duration::ZERO).proxy_threads(threads);
            let builder = builder.linger(Duration::from_millis(1));
            let (net, flags) = (builder.build().expect("a net"), flags());
            let down = Errno::ENETDOWN;
            let mut waiting = Waiting::new(down);
            waiting.scripts[0].socket(1, Domain::V4).errno(down);
            // Another proxy thread, which lives, may have the socket.
            waiting.scripts[0].close(0).between(down.negative(), 0);
            let started = waiting.job(&flags).start(&net);
            let times = faults::times(&started, &flags, CALLS.len(), || net.inject_panic());
            started.finish();
            let refused = Job::blocks(32).script(&Script::new()).try_start(&net).err();
            assert!(matches!(refused, Some(LaunchError::Down(DownError::Panicked))), "{refused:?}");
            let refused = net.listen(any_port()).err();
            assert!(matches!(refused, Some(SocketError::Down(DownError::Panicked))), "{refused:?}");
            let refused = net.dump().err();
            assert!(matches!(refused, Some(SocketError::Down(DownError::Panicked))), "{refused:?}");
            drop_in_order(net);
            Waiting::rows(fault, down, Duration::ZERO, &times)
        });
    }
}

/// Its kernel may still write to the other end's memory, so that the stream is not closed in order.
#[test]
fn the_other_end_of_a_p2p_stream_is_reset() {
    let local = || net_builder().transport(TransportChoice::Local).build();
    let (near, far) = match (local(), local()) {
        (Ok(near), Ok(far)) => (near, far),
        (Err(NetError::Local(reason)), _) => {
            let name = "proxy_panic: the_other_end_of_a_p2p_stream_is_reset";
            return gpunet_e2e::skip(name, &reason);
        }
        (near, far) => panic!("two nets: {:?} {:?}", near.err(), far.err()),
    };
    let (listener, address) = far.listen(any_port()).expect("a port");
    let (mut server, mut client) = (Script::new(), Script::new());
    let flags = flags();
    server.given(0, listener).accept(0, 1).set_flag(1).recv(1, 10);
    // Or what the client's kernel says when it closes.
    server.between(Errno::ENETDOWN.negative(), 0);
    client.stream(0, address).set_flag(0).recv(0, 10).errno(Errno::ECONNRESET).close(0);
    let serving = Job::blocks(32).script(&server).flags(&flags).start(&far);
    let calling = Job::blocks(32).script(&client).flags(&flags).start(&near);
    calling.until(&flags, 0);
    serving.until(&flags, 1);
    far.inject_panic();
    calling.finish();
    serving.finish();
}
