//! The command line, and the end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::common::{Guarded, SOON, gpu, run};
use crate::resp::{bulk, request, show};
use crate::server::{Kv, await_requests, eventually, info, kv};

/// One line that begins with the program's name, and a status that is no success.
fn assert_refused(options: &[&str], expected: &str) {
    let finished = run(&mut kv(options), SOON);
    let stderr = finished.stderr;
    assert!(finished.status.code().is_some_and(|code| code != 0), "{options:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{options:?}: {stderr}");
    assert!(stderr.starts_with("kv: ") && stderr.contains(expected), "{options:?}: {stderr}");
    assert!(finished.stdout.is_empty(), "{}", finished.stdout);
}

#[test]
fn wrong_options_are_explained_in_one_line() {
    let cases: [(&[&str], &str); 19] = [
        (&["--gpu", "voodoo"], "use auto, cuda, cuda:N or emulated"),
        (&["--listen", "here"], "--listen"),
        (&["--listen", "127.0.0.1"], "--listen"),
        (&["--blocks", "0"], "0 is not in 1..="),
        (&["--blocks", "4097"], "4097 is not in 1..="),
        (&["--threads", "0"], "0 is not in 1..=1024"),
        (&["--threads", "1025"], "1025 is not in 1..=1024"),
        (&["--proxy-threads", "0"], "0 is not in 1..="),
        (&["--connections", "0"], "0 is not in 1..="),
        (&["--connections", "-1"], "-1"),
        (&["--memory", "0"], "--memory"),
        (&["--memory", "much"], "--memory"),
        (&["--memory", "99999999999G"], "--memory"),
        (&["--memory", "1000000G"], "memory"),
        (&["--ring", "1"], "4K to 1G"),
        (&["--staging", "1K"], "4K to 200K"),
        (&["--idle-timeout", "soon"], "--idle-timeout"),
        (&["--nonsense"], "--nonsense"),
        (&["extra"], "extra"),
    ];
    for (options, expected) in cases {
        let options: Vec<&str> = match options[0] {
            // Given once more, both would be wrong.
            "--gpu" | "--listen" => {
                let mut command = std::process::Command::new(crate::common::program("kv"));
                let finished = run(command.args(options), SOON);
                assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
                assert!(finished.stderr.contains(expected), "{options:?}: {}", finished.stderr);
                continue;
            }
            _ => options.into(),
        };
        assert_refused(&options, expected);
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = std::process::Command::new(crate::common::program("kv"));
    command.args(["--gpu", &crate::common::gpu(), "--listen", &address]);
    let finished = run(&mut command, SOON);
    assert!(!finished.status.success());
    let stderr = finished.stderr;
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let named = stderr.contains(&address) && stderr.to_lowercase().contains("in use");
    assert!(stderr.starts_with("kv: ") && named, "{stderr}");
}

#[test]
fn an_interrupt_lets_clients_have_their_answers() {
    const REQUESTS: usize = 16;
    // All that is asked for is sent long before, unless the server loses some of it.
    let kv = Kv::start(&["--drain", "600"]);
    let large = "x".repeat(1 << 20);
    let mut client = kv.client();
    assert_eq!(client.ask(&["SET", "large", &large]), b"+OK\r\n");
    let mut idle = kv.client();
    assert_eq!(idle.ask(&["PING"]), b"+PONG\r\n");
    let mut half = kv.client();
    half.send(b"*2\r\n$3\r\nGET\r\n$").unwrap();
    // More answers than are sent while nobody reads.
    client.send(&request(&["GET", "large"]).repeat(REQUESTS)).unwrap();
    await_requests(&mut idle, 3);
    eventually("all clients have come", || info(&mut idle, "connected_clients") == 3);
    kv.interrupt();
    std::thread::sleep(Duration::from_millis(300));
    for number in 0..REQUESTS {
        assert!(client.answer() == bulk(large.as_bytes()), "answer {number}");
    }
    for mut client in [client, idle, half] {
        let rest = client.rest().expect("the connection ends");
        assert!(rest.is_empty(), "{}", show(&rest));
    }
    let statistics = kv.ended();
    assert_eq!(statistics.get("accepted"), 3);
    assert_eq!(statistics.get("keys"), 1);
    assert_eq!(statistics.get("closed_failed"), 0);
}

#[test]
fn an_interrupt_does_not_wait_for_a_client_that_never_reads() {
    let kv = Kv::start(&[]);
    let mut client = kv.client();
    assert_eq!(client.ask(&["SET", "large", &"x".repeat(1 << 20)]), b"+OK\r\n");
    client.send(&request(&["GET", "large"]).repeat(50)).unwrap();
    await_requests(&mut kv.client(), 2);
    let statistics = kv.end();
    assert_eq!(statistics.get("closed_failed"), 1);
}

#[test]
fn statistics_count_requests_and_bytes() {
    let kv = Kv::start(&[]);
    assert_eq!(kv.client().ask(&["SET", "key", "value"]), b"+OK\r\n");
    let statistics = kv.end();
    for name in ["requests", "bytes_in", "bytes_out"] {
        assert!(statistics.get(name) > 0, "{name}");
    }
}

#[test]
fn without_json_statistics_are_a_table() {
    let mut command = std::process::Command::new(crate::common::program("kv"));
    command.args(["--gpu", &gpu(), "--listen", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut kv = Guarded::spawn(&mut command);
    let (mut said, mut printed) = (String::new(), String::new());
    BufReader::new(kv.0.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.starts_with("kv: serving at "), "{said}");
    kv.signal(Signal::INT);
    assert!(kv.wait(SOON).expect("kv ends").success());
    kv.0.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    let row = |name: &str| {
        let value = printed.lines().find_map(|line| line.strip_prefix(name));
        value.map(|value| value.trim().to_owned())
    };
    assert_eq!(row("requests").as_deref(), Some("0"), "{printed}");
    assert_eq!(row("bytes out").as_deref(), Some("0"), "{printed}");
}
