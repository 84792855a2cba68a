//! `rstream`: kernels against each other, against the stock tool where it is installed (over TCP,
//! which it also implements), and against peers that do not keep to the rules.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use crate::common::{Guarded, SOON, gpu, program, run, skip};
use gpunet_support::testing::Documented;
use rustix::process::Signal;
use serde_json::Value;

/// The program with arguments.
fn ours(arguments: &[&str]) -> Command {
    let mut command = Command::new(program("rstream"));
    command.args(["--gpu", &gpu(), "--transport", "tcp"]).args(arguments).stdin(Stdio::null());
    command
}

/// A server kernel that runs, and its port.
struct Server {
    child: Guarded,
    port: String,
    words: BufReader<std::process::ChildStderr>,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut command = ours(&["-b", "127.0.0.1", "-p", "0"]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Guarded::spawn(&mut command);
        let mut words = BufReader::new(child.0.stderr.take().unwrap());
        let mut line = String::new();
        words.read_line(&mut line).unwrap();
        let port = line.trim().rsplit_once(':').unwrap_or_else(|| panic!("{line:?}")).1.to_owned();
        Self { child, port, words }
    }

    /// Its status, and all that it said.
    fn end(mut self) -> (Option<i32>, String, String) {
        let status = self.child.wait(SOON).expect("the server did not end");
        let (mut printed, mut words) = (String::new(), String::new());
        self.child.0.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        self.words.read_to_string(&mut words).unwrap();
        (status.code(), printed, words)
    }
}

/// The stock tool over TCP, if it is here.
fn stock(test: &str) -> Option<Command> {
    // A test may not take our own for it.
    let found = ["/usr/bin/rstream", "/usr/local/bin/rstream"];
    let Some(path) = found.into_iter().find(|path| std::path::Path::new(path).exists()) else {
        skip(test, "rstream is not installed: install rdmacm-utils");
        return None;
    };
    let mut command = Command::new(path);
    command.args(["-T", "s"]).stdin(Stdio::null());
    Some(command)
}

const SMALL: [&str; 6] = ["-S", "5000", "-I", "3", "-C", "4"];

#[test]
fn kernels_play_both_ends() {
    for modes in [&["-T", "v"][..], &["-T", "v", "-T", "n"], &["-T", "v", "-T", "a"], &["-T", "b"]]
    {
        let arguments = [&SMALL, modes].concat();
        let server = Server::start(&arguments);
        let client = ["-s", "127.0.0.1", "-p", &server.port, "--json"];
        let finished = run(&mut ours(&[&client, &arguments[..]].concat()), SOON);
        assert!(finished.status.success(), "{}", finished.stderr);
        let json: Value = serde_json::from_str(&finished.stdout).unwrap();
        Documented::of(&["rstream"]).check(&json);
        assert_eq!(json["role"], "client");
        assert_eq!(json["verified"], modes[1] == "v");
        assert_eq!(json["tests"][0]["total_bytes"], 2 * 5000 * 3 * 4);
        let (status, printed, words) = server.end();
        assert_eq!(status, Some(0), "{words}");
        assert!(printed.lines().nth(1).is_some_and(|row| row.starts_with("custom    4.8k")));
    }
}

#[test]
fn the_stock_tool_drives_a_kernel() {
    const TEST: &str = "the_stock_tool_drives_a_kernel";
    for mode in ["b", "n", "a"] {
        let Some(mut client) = stock(TEST) else { return };
        let modes = ["-T", mode, "-T", "v"];
        let server = Server::start(&[&SMALL[..], &modes].concat());
        client.args(["-s", "127.0.0.1", "-p", &server.port]).args(SMALL).args(modes);
        let finished = run(&mut client, SOON);
        assert!(finished.status.success(), "{mode}: {}", finished.stdout);
        let (status, printed, words) = server.end();
        assert_eq!(status, Some(0), "{mode}: {words}");
        // Both ends print the same columns, up to the times.
        let columns =
            |text: &str| text.lines().map(|line| line.get(..42).map(str::to_owned)).collect();
        let (stock, kernel): (Vec<_>, Vec<_>) = (columns(&finished.stdout), columns(&printed));
        assert_eq!(stock, kernel);
    }
}

#[test]
fn a_kernel_drives_the_stock_tool() {
    const TEST: &str = "a_kernel_drives_the_stock_tool";
    for mode in ["b", "n", "a"] {
        let modes = ["-T", mode, "-T", "v"];
        // Another test may take the port first, and then the tool ends at once.
        for tries_left in (0..5).rev() {
            let Some(mut server) = stock(TEST) else { return };
            // Free until a moment ago; the tool cannot choose one itself.
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let port = port.to_string();
            server.args(["-b", "127.0.0.1", "-p", &port]).args(SMALL).args(modes);
            let mut server = Guarded::spawn(server.stdout(Stdio::null()));
            let client = ["-s", "127.0.0.1", "-p", &port];
            let (finished, early) = loop {
                let finished = run(&mut ours(&[&client[..], &SMALL, &modes].concat()), SOON);
                // It may not listen yet.
                let early = finished.stderr.contains("nobody listens");
                if !early || server.0.try_wait().unwrap().is_some() {
                    break (finished, early);
                }
            };
            if early && tries_left > 0 {
                continue;
            }
            assert!(finished.status.success(), "{mode}: {}", finished.stderr);
            assert!(server.wait(SOON).is_some_and(|status| status.success()), "{mode}");
            break;
        }
    }
}

#[test]
fn wrong_bytes_and_early_ends_are_noticed() {
    let server = Server::start(&["-T", "v", "-S", "100", "-C", "1", "-I", "1"]);
    let mut peer = TcpStream::connect(("127.0.0.1", server.port.parse().unwrap())).unwrap();
    let good: Vec<u8> = (0..116).collect();
    peer.write_all(&good[..115]).unwrap();
    peer.write_all(&[0]).unwrap();
    let (status, _, words) = server.end();
    assert_eq!((status, words.lines().count()), (Some(1), 1), "{words}");
    assert!(words.contains("wrong bytes"), "{words}");

    let server = Server::start(&["-S", "100", "-C", "1", "-I", "1"]);
    let mut peer = TcpStream::connect(("127.0.0.1", server.port.parse().unwrap())).unwrap();
    peer.write_all(&good[..50]).unwrap();
    drop(peer);
    let (status, _, words) = server.end();
    assert_eq!((status, words.lines().count()), (Some(1), 1), "{words}");
    assert!(words.contains("left before the last byte"), "{words}");

    let server = Server::start(&["-S", "100", "-C", "1", "-I", "1", "--timeout", "0.5"]);
    let _silent = TcpStream::connect(("127.0.0.1", server.port.parse().unwrap())).unwrap();
    let (status, _, words) = server.end();
    assert_eq!(status, Some(1), "{words}");
    assert!(words.contains("nothing moved for --timeout"), "{words}");
}

#[test]
fn a_server_without_a_client_ends_when_interrupted() {
    let server = Server::start(&["-T", "n"]);
    server.child.signal(Signal::INT);
    let (status, _, words) = server.end();
    assert_eq!((status, words.as_str()), (Some(130), "rstream: interrupted\n"));
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let cases: [(&[&str], &str); 10] = [
        (&["-S", "0"], "a number of bytes"),
        (&["-S", "many"], "a number of bytes"),
        (&["-S", "all", "-C", "3"], "leave -C and -I out"),
        (&["-I", "0"], "0 is not in 1..="),
        (&["-T", "x"], "b, n, a, v"),
        (&["-T", "b", "-T", "a"], "one of b, n and a"),
        (&["-B", "1"], "4K to 1G"),
        (&["-s", "no-such-host.invalid"], "cannot resolve"),
        (&["-b", "127.0.0.1", "-p", &port], "cannot listen"),
        (&["-s", "127.0.0.1", "-p", &closed], "nobody listens"),
    ];
    for (arguments, expected) in cases {
        let finished = run(&mut ours(arguments), SOON);
        assert!(!finished.status.success(), "{arguments:?}");
        assert!(finished.stderr.starts_with("rstream: "), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
        assert!(finished.stderr.contains(expected), "{arguments:?}: {}", finished.stderr);
    }
}
