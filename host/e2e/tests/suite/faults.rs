//! What goes wrong around a kernel: its calls return, with the right error, in time.
//!
//! Other faults are measured where they are tested: aborts and nets that go in `nets`, time-outs in
//! `waiting`, and in programs of their own proxy threads that panic, kernels that fault, interrupts,
//! descriptors that run out and hosts that cannot be reached.

use std::time::{Duration, Instant};

use gpunet_device::calls::POLLIN;
use gpunet_e2e::faults::{self, CALLS, Row, Waiting};
use gpunet_e2e::{
    Domain, Errno, Folder, Job, Script, SocketAddr, SocketOption, any_port, deadline, eventually,
    flags, is_local, net, net_builder, peer, skip, slowness, soon, timeout,
};

const MS: Duration = Duration::from_millis(1);
const AT_ONCE: Duration = Duration::ZERO;

/// The longest time without a heartbeat, on a usual machine: ten times what a proxy thread is late there.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How long calls wait that nothing else ends.
const LIMIT: Duration = Duration::from_millis(400);

#[test]
fn a_peer_that_resets_ends_each_wait() {
    let name = "faults::a_peer_that_resets_ends_each_wait";
    if !peer::can_reset(name) {
        return;
    }
    let reset = Errno::ECONNRESET;
    faults::measure(name, || {
        let (net, flags) = (net(), flags());
        let (listener, address) = peer::narrow_listener();
        let mut scripts = vec![Script::new(); 5];
        scripts[0].stream(0, address).waits(0).recv(0, 10).errno(reset).returned(0);
        scripts[1].stream(0, address).waits(1).peek(0, 1, 1).errno(reset).returned(1);
        scripts[2].stream(0, address).poll_set(0, 0, POLLIN).waits(2).poll(1, -1, 1).returned(2);
        scripts[2].recv(0, 10).errno(reset);
        scripts[3].stream(0, address).poller().poller_add(0, POLLIN, 1).waits(3);
        scripts[3].poller_wait(1, Duration::ZERO).returned(3).recv(0, 10).errno(reset);
        // The peer does not read, so that a send waits in the end.
        scripts[4].socket(0, Domain::V4).set(0, SocketOption::SystemSendBuffer, 4096);
        scripts[4].connect(0, address).waits(4);
        scripts[4].send_all(0, 64 << 20, u64::from(gpunet_e2e::RING)).errno(reset).returned(4);
        let mut job = Job::blocks(32).flags(&flags);
        for script in &scripts {
            job = job.script(script);
        }
        let started = job.start(&net);
        let streams: Vec<peer::Stream> =
            scripts.iter().map(|_| listener.accept().expect("the kernel connects")).collect();
        let times = faults::times(&started, &flags, scripts.len(), || {
            streams.into_iter().for_each(peer::reset);
        });
        started.finish();
        let ready = format!("ready; then {reset:?}");
        let results = [format!("{reset:?}"), format!("{reset:?}"), ready.clone(), ready];
        let mut rows = Vec::new();
        for (at, call) in
            ["grecv", "Stream::peek", "gpoll", "Poller::wait", "gsend"].into_iter().enumerate()
        {
            let result = results.get(at).unwrap_or(&results[0]).clone();
            let fault = "reset by the peer";
            rows.push(Row { fault, call, result, due: AT_ONCE, elapsed: times[at] });
        }
        rows
    });
}

#[test]
fn nobody_is_there() {
    let (_held, closed) = peer::closed_port();
    // No route leads to a broadcast address, for a stream.
    let nowhere = SocketAddr::v4([255, 255, 255, 255], 9);
    for (fault, address, errno) in [
        ("connection refused", closed, Errno::ECONNREFUSED),
        ("network unreachable", nowhere, Errno::ENETUNREACH),
    ] {
        faults::measure("faults::nobody_is_there", || {
            let net = net();
            let mut script = Script::new();
            script.socket(0, Domain::V4).connect(0, address).errno(errno);
            let finished = Job::blocks(64).script(&script).run(&net);
            vec![Row::of_op(fault, "gconnect", AT_ONCE, &finished, (0, 1))]
        });
    }
}

#[test]
fn a_backlog_that_is_full() {
    let folder = Folder::new("backlog");
    let _unix = peer::full_unix_listener(&folder.path("full"));
    let (_held, tcp) = peer::black_hole();
    for (fault, domain, address) in [
        ("the peer's backlog is full (TCP)", Domain::V4, tcp),
        ("the peer's backlog is full (UNIX)", Domain::Unix, folder.address("full")),
    ] {
        if is_local() && domain == Domain::Unix {
            skip("faults::a_backlog_that_is_full (UNIX)", "the queue is that of a system socket");
            continue;
        }
        faults::measure("faults::a_backlog_that_is_full", || {
            let net = net();
            let mut script = Script::new();
            script.socket(0, domain).send_timeout(0, LIMIT);
            script.connect(0, address).errno(Errno::ETIMEDOUT);
            let wait = (0, script.mark());
            script.close(0);
            let finished = Job::blocks(64).script(&script).run(&net);
            vec![Row::of_op(fault, "gconnect", LIMIT, &finished, wait)]
        });
    }
}

#[test]
fn a_connect_waits_until_a_backlog_has_room() {
    if is_local() {
        let name = "faults::a_connect_waits_until_a_backlog_has_room";
        return skip(name, "the queue is that of a system socket");
    }
    let (net, folder, flags) = (net(), Folder::new("drained"), flags());
    let (listener, _fillers) = peer::full_unix_listener(&folder.path("full"));
    let mut script = Script::new();
    script.socket(0, Domain::Unix).waits(0).connect(0, folder.address("full")).returned(0);
    script.close(0);
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    let times = faults::times(&started, &flags, 1, || {
        // Whoever has a place in the queue is served.
        listener.set_nonblocking(true).expect("it can be");
        while listener.accept().is_ok() {}
    });
    started.finish();
    assert!(times[0] < soon(), "it took {:?}", times[0]);
}

#[test]
fn a_table_that_is_full() {
    faults::measure("faults::a_table_that_is_full", || {
        let net = net_builder().sockets(2).build().expect("a net");
        let (listener, address) = net.listen(any_port()).expect("a port");
        let flags = flags();
        let mut script = Script::new();
        script.given(0, listener).receive_timeout(0, LIMIT).socket(1, Domain::V4);
        script.set_flag(0).wait_flag(1).socket(2, Domain::V4).errno(Errno::ENFILE);
        let refused = (0, script.mark());
        // A peer waits in the system's queue until there is room.
        script.accept(0, 2).errno(Errno::ETIMEDOUT);
        let waited = (0, script.mark());
        script.close(1).accept(0, 2).close(2);
        let started = Job::blocks(64).script(&script).flags(&flags).start(&net);
        started.until(&flags, 0);
        // By itself: with RDMA there is no system that connects it until the net does.
        let connected = std::thread::spawn(move || peer::connect(address));
        flags.set(1, 1);
        let finished = started.finish();
        drop(connected.join().expect("it is accepted in the end"));
        let fault = "the net's table is full";
        vec![
            Row::of_op(fault, "gsocket", AT_ONCE, &finished, refused),
            Row::of_op(fault, "gaccept", LIMIT, &finished, waited),
        ]
    });
    if is_local() {
        return skip(
            "faults::a_table_that_is_full (rings)",
            "their rings lie in arenas: see `local`",
        );
    }
    faults::measure("faults::a_table_that_is_full", || {
        let ring = u64::from(gpunet_e2e::RING);
        let net = net_builder().ring_memory(2 * ring).build().expect("a net");
        let mut script = Script::new();
        script.stream(0, peer::echo_server()).socket(1, Domain::V4);
        script.connect(1, peer::echo_server()).errno(Errno::ENOBUFS);
        let refused = (0, script.mark());
        let finished = Job::blocks(64).script(&script).run(&net);
        vec![Row::of_op("no ring memory is left", "gconnect", AT_ONCE, &finished, refused)]
    });
}

/// A kernel that is connected to a peer which then vanishes, and the row for its receive.
fn vanishing(
    fault: &'static str,
    options: &[(SocketOption, u64)],
    sends: bool,
    due: Duration,
) -> Row {
    let (net, flags) = (net(), flags());
    let listener = peer::Listener::bind(any_port()).expect("a port");
    let address = listener.address();
    let mut script = Script::new();
    script.socket(0, Domain::V4).connect(0, address);
    for (option, value) in options {
        script.set(0, *option, *value);
    }
    script.send(0, 10).set_flag(2).wait_flag(1);
    if sends {
        script.send(0, 10);
    }
    script.waits(0).recv(0, 10).errno(Errno::ETIMEDOUT).returned(0);
    script.send(0, 10).errno(Errno::ETIMEDOUT).close(0);
    let started = Job::blocks(64).script(&script).flags(&flags).start(&net);
    let mut stream = listener.accept().expect("the kernel connects");
    peer::receive(&mut stream, 0, 10);
    started.until(&flags, 2);
    peer::vanish(&stream).expect("the system did so a moment ago");
    let watch = faults::watch(started.launch(), &flags, 1);
    flags.set(1, 1);
    let elapsed = watch()[0];
    started.finish();
    Row::new(fault, "grecv", Errno::ETIMEDOUT, due, elapsed)
}

#[test]
fn a_peer_that_vanishes_without_closing() {
    let name = "faults::a_peer_that_vanishes_without_closing";
    let probe = peer::connect(peer::echo_server());
    if let Err(error) = peer::vanish(&probe) {
        return skip(name, &format!("packets cannot be dropped here: {error}"));
    }
    // Long enough that the 400 ms which Linux takes beside it are no fifth.
    let timeout = 3000 * MS;
    let user = [(SocketOption::UserTimeout, timeout.as_millis() as u64)];
    let alive = [
        (SocketOption::KeepAliveIdle, 1),
        (SocketOption::KeepAliveInterval, 1),
        (SocketOption::KeepAliveCount, 1),
        (SocketOption::KeepAlive, 1),
    ];
    // One second without a heartbeat, and one for an answer that does not come.
    let cases = [
        ("the peer vanishes, UserTimeout", &user[..], true, timeout),
        ("the peer vanishes, KeepAlive", &alive[..], false, 2000 * MS),
    ];
    for (fault, options, sends, due) in cases {
        faults::measure(name, || vec![vanishing(fault, options, sends, due)]);
    }
}

#[test]
fn a_proxy_thread_that_hangs() {
    let (down, timeout) = (Errno::ENETDOWN, HEARTBEAT * slowness().min(4));
    let stall = 3 * timeout;
    // Seen by the net's supervisor; or, if that is stopped as well, by the kernels themselves.
    for (threads, stuck, alone, fault) in [
        (1, 0, false, "the proxy thread hangs"),
        (2, 1, false, "one of two proxy threads hangs"),
        (1, 0, true, "proxy and supervisor hang"),
    ] {
        faults::measure("faults::a_proxy_thread_that_hangs", || {
            let builder =
                net_builder().timeout(Duration::ZERO).heartbeat_timeout(timeout).linger(MS);
            let net = builder.proxy_threads(threads).build().expect("a net");
            if alone {
                net.inject_blindness();
            }
            let flags = flags();
            let mut waiting = Waiting::new(down);
            let ask = CALLS.len();
            let mut asking = Script::new();
            asking.waits(ask).wait_flag(ask + 1).socket(0, Domain::V4).errno(down).returned(ask);
            if threads == 1 {
                waiting.scripts.push(asking);
            }
            let count = waiting.scripts.len();
            let started = waiting.job(&flags).start(&net);
            let times = faults::times(&started, &flags, count, || {
                net.inject_stall(stuck, stall);
                // A moment later, so that the thread does not answer before it hangs.
                std::thread::sleep(5 * MS);
                flags.set(ask + 1, 1);
            });
            started.finish();
            // Once the thread goes on, so does the net.
            for _ in 0..2 {
                // Who answers twice has beaten in between.
                assert!(eventually(|| net.dump().is_ok()), "it goes on");
            }
            let mut script = Script::new();
            script.stream(0, peer::echo_server()).send(0, 10).recv_all(0, 10, 10).close(0);
            Job::blocks(32).script(&script).run(&net);
            assert_eq!(net.statistics().sockets, 0);
            let mut rows = Waiting::rows(fault, down, timeout, &times);
            if let Some(time) = times.get(ask) {
                rows.push(Row::new(fault, "gsocket", down, timeout, *time));
            }
            rows
        });
    }
}

#[test]
fn a_proxy_thread_that_hangs_for_good() {
    let (fault, due) = ("the proxy thread hangs for good", 7000 * MS);
    faults::measure("faults::a_proxy_thread_that_hangs_for_good", || {
        let net = net();
        net.inject_stall(0, deadline());
        let begin = Instant::now();
        // The thread is left behind.
        drop(net);
        let (elapsed, result) = (begin.elapsed(), "the thread is left behind".to_owned());
        vec![Row { fault, call: "drop(net)", result, due, elapsed }]
    });
}

#[test]
fn rows_that_are_late_or_early_are_seen() {
    let is_in_time = |due, elapsed| Row::new("", "", Errno::EIO, due, elapsed).is_in_time();
    let second = 1000 * MS;
    assert!(is_in_time(AT_ONCE, AT_ONCE) && !is_in_time(AT_ONCE, timeout()));
    assert!(is_in_time(second, second) && !is_in_time(second, timeout()));
    assert!(!is_in_time(second, second / 2 - MS));
}
