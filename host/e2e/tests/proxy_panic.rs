//! A proxy thread that panics: kernels' waits end, and the net says that it is down.

use std::time::{Duration, Instant};

use gpunet_device::calls::POLLIN;
use gpunet_e2e::{ANY_PORT, Domain, Errno, Job, Script, flags, net_builder, peer};
use gpunet_host::NetError;

#[test]
fn waits_end_and_the_net_is_down() {
    for threads in [1, 2] {
        let builder = net_builder().timeout(Duration::ZERO).proxy_threads(threads);
        let (net, flags) = (builder.build().expect("a net"), flags());
        let down = Errno::ENETDOWN;
        let server = peer::echo_server();
        let mut scripts = vec![Script::new(); 4];
        scripts[0].stream(0, server).set_flag(0).recv(0, 10).errno(down);
        scripts[0].socket(1, Domain::V4).errno(down);
        // Another proxy thread, which lives, may have the socket.
        scripts[0].close(0).between(down.negative(), 0);
        scripts[1].listener(0, ANY_PORT).set_flag(1).accept(0, 1).errno(down);
        scripts[2].stream(0, server).poll_set(0, 0, POLLIN).set_flag(2).poll(1, -1, 0).errno(down);
        scripts[3].poller().set_flag(3).poller_wait(1, Duration::ZERO).errno(down);
        let mut job = Job::blocks(32);
        for script in &scripts {
            job = job.script(script);
        }
        let started = job.flags(&flags).start(&net);
        for flag in 0..scripts.len() {
            started.until(&flags, flag);
        }
        let begin = Instant::now();
        net.inject_panic();
        started.finish();
        assert!(begin.elapsed() < Duration::from_secs(2), "it took {:?}", begin.elapsed());
        let refused = Job::blocks(32).script(&Script::new()).try_start(&net).err();
        assert!(matches!(refused, Some(NetError::Down)), "{refused:?}");
        let refused = net.listen(ANY_PORT).err();
        assert!(matches!(refused, Some(NetError::Down)), "{refused:?}");
        let refused = net.dump().err();
        assert!(matches!(refused, Some(NetError::Down)), "{refused:?}");
        let begin = Instant::now();
        drop(net);
        assert!(begin.elapsed() < Duration::from_secs(7), "it took {:?}", begin.elapsed());
    }
}
