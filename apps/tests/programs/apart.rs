//! Server and client as programs of their own, over every transport, and how a server ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::common::{Folder, SOON, Server, echo, gpu, hang_limit, run, unix};
use gpunet_support::testing::Documented;
use rustix::process::Signal;
use serde_json::Value;

fn assert_client_verifies(on: &str, address: &str) {
    let mut command = echo(&["client", "--on", on, "--connect", address]);
    command.args(["--messages", "20", "--sizes", "64,20000", "--json"]);
    if on == "gpu" {
        command.args(["--gpu", &gpu()]);
    }
    let finished = run(&mut command, SOON);
    assert!(finished.status.success(), "{}", finished.stderr);
    let json: Value = serde_json::from_str(&finished.stdout).unwrap();
    Documented::of(&["echo client"]).check(&json);
    assert_eq!(json["verified"], true);
    assert_eq!(json["client"], on);
    assert_eq!(json["gpu"].is_null(), on == "cpu");
    assert_eq!(json["rtt_us"].as_object().unwrap().len(), 2);
}

fn assert_serves(listen: &str) {
    for (server_on, client_on) in [("gpu", "cpu"), ("cpu", "gpu"), ("gpu", "gpu")] {
        let server = Server::start(server_on, listen);
        // Twice: the server goes on when a client has left.
        assert_client_verifies(client_on, &server.address);
        assert_client_verifies(client_on, &server.address);
        server.end(Signal::INT);
    }
}

#[test]
fn server_and_client_connect_over_ipv4() {
    assert_serves("127.0.0.1:0");
}

#[test]
fn server_and_client_connect_over_ipv6() {
    assert_serves("[::1]:0");
}

#[test]
fn server_and_client_connect_by_name() {
    assert_serves("localhost:0");
}

#[test]
fn server_and_client_connect_at_a_path_that_is_gone_afterwards() {
    let folder = Folder::new("test");
    assert_serves(&unix(&folder));
    assert!(folder.is_empty());
}

#[test]
fn a_server_ends_on_sigterm_with_a_connection_open() {
    for on in ["gpu", "cpu"] {
        let server = Server::start(on, "127.0.0.1:0");
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(hang_limit(SOON))).unwrap();
        stream.write_all(b"still here").unwrap();
        let mut answer = [0; 10];
        stream.read_exact(&mut answer).unwrap();
        server.end(Signal::TERM);
    }
}

#[test]
fn a_server_ends_although_a_peer_does_not_read() {
    for on in ["gpu", "cpu"] {
        let folder = Folder::new("test");
        let server = Server::start(on, &unix(&folder));
        let path = server.address.strip_prefix("unix:").unwrap();
        let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        stream.set_write_timeout(Some(hang_limit(Duration::from_millis(50)))).unwrap();
        // Until neither rings nor sockets take any more.
        while stream.write_all(&[7; 1 << 16]).is_ok() {}
        server.end(Signal::INT);
        assert!(folder.is_empty());
    }
}

#[test]
fn a_second_interrupt_ends_a_server_at_once() {
    let mut server = Server::start("gpu", "127.0.0.1:0");
    server.child.signal(Signal::INT);
    server.child.signal(Signal::INT);
    assert!(server.child.wait(SOON).is_some());
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    let folder = Folder::new("test");
    let mut command = echo(&["--transport", "unix", "--messages", "100000000", "--gpu", &gpu()]);
    command.env("TMPDIR", folder.root());
    let null = std::process::Stdio::null;
    let mut child = crate::common::Guarded::spawn(command.stdout(null()).stderr(null()));
    let deadline = Instant::now() + hang_limit(SOON);
    while folder.is_empty() {
        assert!(Instant::now() < deadline, "it did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    child.signal(Signal::INT);
    let status = child.wait(SOON).expect("it did not end");
    assert_eq!(status.code(), Some(130));
    assert!(folder.is_empty());
}

/// A server that does to every message what `spoil` does, in a thread that ends with its client.
fn bad_server(spoil: fn(&mut Vec<u8>)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut buffer = vec![0; 4096];
            while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                let mut answer = buffer[..bytes].to_vec();
                spoil(&mut answer);
                if stream.write_all(&answer).is_err() {
                    break;
                }
            }
        }
    });
    address
}

fn assert_not_verified(spoil: fn(&mut Vec<u8>), expected: &str) {
    let address = bad_server(spoil);
    for on in ["gpu", "cpu"] {
        let mut command = echo(&["client", "--on", on, "--connect", &address]);
        command.args(["--sizes", "1000", "--messages", "5", "--timeout", "1", "--json"]);
        if on == "gpu" {
            command.args(["--gpu", &gpu()]);
        }
        let finished = run(&mut command, SOON);
        assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr);
        let json: Value = serde_json::from_str(&finished.stdout).unwrap();
        assert_eq!(json["verified"], false);
        assert!(json["error"].as_str().unwrap().contains(expected), "{json}");
    }
}

#[test]
fn a_client_notices_one_wrong_bit() {
    let flip_the_last = |answer: &mut Vec<u8>| {
        if let Some(last) = answer.last_mut() {
            *last ^= 1;
        }
    };
    assert_not_verified(flip_the_last, "wrong");
}

#[test]
fn a_client_notices_bytes_that_do_not_come() {
    assert_not_verified(|answer| answer.truncate(answer.len() - 1), "--timeout");
}
