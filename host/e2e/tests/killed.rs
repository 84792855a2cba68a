//! P2P streams whose other process is killed: a reset in time, and nothing is left behind.

use std::time::{Duration, Instant};

use gpunet_device::calls::POLLIN;
use gpunet_e2e::child::{self, Child};
use gpunet_e2e::faults::{self, Row};
use gpunet_e2e::{
    Errno, Folder, Job, Script, SocketAddr, any_port, deadline, eventually, flags, is_cuda, long,
    net_builder, process, soon,
};
use gpunet_host::{Net, Task, TransportChoice};

const MS: Duration = Duration::from_millis(1);
/// Endless.
const MUCH: u64 = 1 << 40;

fn local_net() -> Net {
    net_builder().transport(TransportChoice::Local).build().expect("a net")
}

/// What a process has that a killed peer might leave behind: descriptors, shared memory, names.
fn possessions() -> [usize; 3] {
    [process::descriptors(), process::arenas(), child::registered()]
}

/// Waits until the process has no more than it had.
fn has_lost_nothing(before: [usize; 3]) {
    let mut now = possessions();
    let same = eventually(|| {
        now = possessions();
        now.iter().zip(&before).all(|(now, before)| now <= before)
    });
    assert!(same, "descriptors, arenas, names: {now:?}, and {before:?} before");
}

/// What the other process does: `WHAT WAY WHERE`.
fn play(part: &str) {
    let mut words = part.split(' ');
    let mut word = || words.next().expect("a part has three words");
    let (what, way, place) = (word(), word(), word());
    let address = match place.strip_prefix("unix:") {
        Some(path) => SocketAddr::path(path.as_ref()).expect("a path"),
        None => place.parse::<std::net::SocketAddr>().expect("an address").into(),
    };
    let net = local_net();
    let mut script = Script::new();
    if way == "serves" {
        let (listener, _) = net.listen(address).expect("the place is free");
        child::is_ready();
        script.given(0, listener).accept(0, 1);
    } else {
        script.stream(1, address);
    }
    match what {
        "sends" => script.send_all(1, MUCH, 3000),
        "receives" => script.recv_all(1, MUCH, 3000),
        // Six streams in all, on which nothing happens.
        _ => {
            (2..7).for_each(|register| {
                script.stream(register, address);
            });
            script.sleep(60 * 1000 * MS)
        }
    };
    let _ = Job::blocks(64).script(&script).start(&net).end();
}

#[test]
fn a_killed_peer_is_a_reset_each_time() {
    let name = "a_killed_peer_is_a_reset_each_time";
    match child::part().as_deref() {
        None => child::alone(name, "survivor", "k1"),
        Some("survivor") => survive_kills(name, long::count("GPUNET_KILLS", 8, 100)),
        Some(part) => play(part),
    }
}

/// One net and one kernel, which connects to one process after the other.
fn survive_kills(name: &str, rounds: u64) {
    const LISTENS: usize = 0;
    const STREAMS: usize = 1;
    const ENDED: usize = 2;
    let (net, folder) = (local_net(), Folder::new("k1-paths"));
    let flags = flags();
    let (listener, address) = net.listen(any_port()).expect("a port");
    let path = |round: u64| folder.path(&round.to_string());
    let mut script = Script::new();
    script.given(0, listener);
    for round in 1..=rounds {
        if round % 4 < 2 {
            script.accept(0, 1);
        } else {
            let to = SocketAddr::path(&path(round)).expect("a path");
            script.wait_count(LISTENS, round).stream(1, to);
        }
        if round.is_multiple_of(2) {
            script.recv_all(1, 10_000, 3000).set_count(STREAMS, round).recv_all(1, MUCH, 3000);
        } else {
            script.send_all(1, 10_000, 3000).set_count(STREAMS, round).send_all(1, MUCH, 3000);
        }
        script.errno(Errno::ECONNRESET).set_count(ENDED, round).close(1);
    }
    let deadline = deadline() + rounds as u32 * soon();
    let started = Job::blocks(64).script(&script).flags(&flags).deadline(deadline).start(&net);
    let come = |flag: usize, round: u64| {
        let over = || flags.get(flag) >= round || started.launch().is_finished();
        eventually(over) && flags.get(flag) >= round
    };
    let (mut longest, mut before) = (Duration::ZERO, None);
    for round in 1..=rounds {
        let what = if round.is_multiple_of(2) { "sends" } else { "receives" };
        let child = if round % 4 < 2 {
            Child::start(name, &format!("{what} calls {address}"))
        } else {
            let part = format!("{what} serves unix:{}", path(round).display());
            let mut child = Child::start(name, &part);
            child.ready();
            flags.set(LISTENS, round);
            child
        };
        if !come(STREAMS, round) {
            break;
        }
        std::thread::sleep(MS * (round as u32 * 7 % 20));
        let begin = Instant::now();
        child.kill();
        if !come(ENDED, round) {
            break;
        }
        longest = longest.max(begin.elapsed());
        // Each of the four has been met.
        if round == 4 {
            before = Some(possessions());
        }
    }
    started.finish();
    println!("{rounds} processes were killed; the reset took at most {longest:?}");
    assert!(longest < soon(), "it took {longest:?}");
    has_lost_nothing(before.expect("at least four rounds"));
    assert_eq!(net.statistics().failed, rounds);
}

#[test]
fn a_killed_peer_ends_each_wait() {
    let name = "a_killed_peer_ends_each_wait";
    match child::part().as_deref() {
        None => child::alone(name, "survivor", "k2"),
        Some("survivor") => survive_waits(name),
        Some(part) => play(part),
    }
}

fn survive_waits(name: &str) {
    let (net, flags) = (local_net(), flags());
    let (listener, address) = net.listen(any_port()).expect("a port");
    let reset = Errno::ECONNRESET;
    let calls = ["grecv", "Stream::peek", "gpoll", "Poller::wait", "gsend"];
    let mut scripts = vec![Script::new(); calls.len() + 1];
    for script in &mut scripts {
        script.given(0, listener).accept(0, 1);
    }
    scripts[0].waits(0).recv(1, 10).errno(reset).returned(0).recv(1, 10).errno(reset);
    scripts[1].waits(1).peek(1, 1, 1).errno(reset).returned(1);
    scripts[2].poll_set(0, 1, POLLIN).waits(2).poll(1, -1, 1).returned(2).recv(1, 10).errno(reset);
    scripts[3].poller().poller_add(1, POLLIN, 1).waits(3).poller_wait(1, Duration::ZERO);
    scripts[3].returned(3).recv(1, 10).errno(reset);
    scripts[4].waits(4).send_all(1, MUCH, 3000).errno(reset).returned(4);
    // One that has room sends now and then, and gets the error although it need not wait.
    scripts[5].send(1, 10).waits(5).wait_flag(20).returned(5);
    scripts[5].send(1, 10).any().send(1, 10).errno(reset);
    let [reset, broken] = [reset, Errno::EPIPE].map(Errno::negative);
    for script in &mut scripts {
        script.send(1, 10).between(reset, broken).close(1);
    }
    let mut job = Job::blocks(32).flags(&flags);
    for script in &scripts {
        job = job.script(script);
    }
    let started = job.start(&net);
    let child = Child::start(name, &format!("waits calls {address}"));
    let times = faults::times(&started, &flags, scripts.len(), || {
        child.kill();
        // The one that need not wait sends when its stream has failed.
        assert!(eventually(|| net.statistics().failed == calls.len() as u64 + 1));
        flags.set(20, 1);
    });
    started.finish();
    for (call, elapsed) in calls.into_iter().zip(times) {
        let (fault, due) = ("the peer's process is killed", Duration::ZERO);
        let row = Row::new(fault, call, Errno::ECONNRESET, due, elapsed);
        faults::note(&format!("killed: {name}"), &row);
    }
}

#[test]
fn a_peer_killed_at_any_moment() {
    let name = "a_peer_killed_at_any_moment";
    match child::part().as_deref() {
        None => child::alone(name, "survivor", "k3"),
        Some("survivor") => survive_any_moment(name, long::count("GPUNET_KILLS", 8, 100)),
        Some(part) => play(part),
    }
}

/// Kills at times that are drawn: before, while and after the two connect.
fn survive_any_moment(name: &str, rounds: u64) {
    let net = local_net();
    let (listener, address) = net.listen(any_port()).expect("a port");
    let part = format!("sends calls {address}");
    // One that is served and then killed: how long it took until it was.
    let one = || {
        let flags = flags();
        let mut script = Script::new();
        script.given(0, listener).receive_timeout(0, gpunet_e2e::timeout());
        script.accept(0, 1).recv_all(1, 1000, 1000).set_flag(0);
        script.recv_all(1, MUCH, 3000).errno(Errno::ECONNRESET).close(1);
        let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
        let begin = Instant::now();
        let child = Child::start(name, &part);
        started.until(&flags, 0);
        let elapsed = begin.elapsed();
        child.kill();
        started.finish();
        elapsed
    };
    let whole = one();
    let before = possessions();
    for round in 0..rounds as u32 {
        // What it has begun here goes with it: nobody accepts it.
        Child::start(name, &part).kill_after(whole * (round * 37 % 100) / 80);
    }
    // Those that came through wait to be accepted, and have been reset.
    let mut clear = Script::new();
    clear.given(0, listener).receive_timeout(0, 200 * MS);
    for _ in 0..=rounds {
        clear.accept(0, 1).any().recv_all(1, MUCH, 3000).any().close(1).any();
    }
    let limit = deadline() + rounds as u32 * soon();
    Job::blocks(32).script(&clear).deadline(limit).run(&net);
    one();
    has_lost_nothing(before);
    if !is_cuda() {
        assert_eq!(net.statistics().violations, 0);
    }
}
