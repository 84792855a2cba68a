//! A proxy thread that panics: kernels' waits end, and the net says that it is down.

use std::time::{Duration, Instant};

use gpunet_e2e::faults::{self, CALLS, Waiting};
use gpunet_e2e::{Domain, Errno, Job, Script, any_port, flags, net_builder};
use gpunet_host::NetError;

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
            assert!(matches!(refused, Some(NetError::Down)), "{refused:?}");
            let refused = net.listen(any_port()).err();
            assert!(matches!(refused, Some(NetError::Down)), "{refused:?}");
            let refused = net.dump().err();
            assert!(matches!(refused, Some(NetError::Down)), "{refused:?}");
            let begin = Instant::now();
            drop(net);
            assert!(begin.elapsed() < Duration::from_secs(7), "it took {:?}", begin.elapsed());
            Waiting::rows(fault, down, Duration::ZERO, &times)
        });
    }
}
