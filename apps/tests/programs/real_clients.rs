//! Programs that nobody here wrote, against the echo server kernel: nc, socat and Python, over
//! IPv4, IPv6 and a UNIX path.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Folder, Guarded, Server, run, skip, unix};
use gpunet_support::pattern;
use gpunet_support::testing::is_long;
use rustix::process::Signal;

/// What a transfer moves: enough to go round each ring hundreds of times.
const SOME: u64 = 16 << 20;
/// The same of one transfer in a long run.
const BULK: u64 = 1 << 30;
/// For the slowest machine that this should run on.
const LIMIT: Duration = Duration::from_secs(40);

const SEED: u64 = 11;
const CHUNK: usize = 1 << 16;

#[derive(Clone, Copy)]
enum Family {
    V4,
    V6,
    Unix,
}

/// A server kernel, and the folder that its path may lie in.
fn served(family: Family) -> (Server, Folder) {
    let folder = Folder::new("test");
    let server = match family {
        Family::V4 => Server::start("gpu", "127.0.0.1:0"),
        Family::V6 => Server::start("gpu", "[::1]:0"),
        Family::Unix => Server::start("gpu", &unix(&folder)),
    };
    (server, folder)
}

fn path(server: &Server) -> &str {
    server.address.strip_prefix("unix:").unwrap()
}

/// Whether a program is here; notes that the test is skipped when not.
fn present(test: &str, program: &str, argument: &str) -> bool {
    let null = Stdio::null;
    let mut command = Command::new(program);
    let tried = command.arg(argument).stdin(null()).stdout(null()).stderr(null()).status();
    if tried.is_err() {
        skip(test, &format!("{program} is not installed"));
    }
    tried.is_ok()
}

/// FNV-1a over words.
struct Checksum(u64);

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Pipes `bytes` through a client to the server and back; the checksums must be equal.
fn assert_echoes(client: &mut Command, server: Server, bytes: u64) {
    let mut child = Guarded::spawn(client.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut stdin = child.0.stdin.take().unwrap();
    let mut stdout = child.0.stdout.take().unwrap();
    let sender = std::thread::spawn(move || {
        let mut sum = Checksum(SEED);
        let mut chunk = vec![0; CHUNK];
        for start in (0..bytes).step_by(CHUNK) {
            pattern::fill_slice(&mut chunk, SEED, start);
            if stdin.write_all(&chunk).is_err() {
                break;
            }
            sum.add(&chunk);
        }
        sum.0
    });
    let receiver = std::thread::spawn(move || {
        let mut sum = Checksum(SEED);
        let mut got = 0;
        let mut chunk = vec![0; CHUNK];
        loop {
            // Whole chunks, so that both checksums see the same words.
            let mut filled = 0;
            while let Ok(n @ 1..) = stdout.read(&mut chunk[filled..]) {
                filled += n;
            }
            if filled == 0 {
                return (got, sum.0);
            }
            sum.add(&chunk[..filled]);
            got += filled as u64;
        }
    });
    let ended = child.wait(LIMIT);
    // Its pipes close with it, and the threads come to their ends.
    drop(child);
    let sent = sender.join().unwrap();
    let (got, received) = receiver.join().unwrap();
    let status = ended.unwrap_or_else(|| panic!("{client:?}: {got} of {bytes} bytes in time"));
    assert!(status.success(), "{client:?} ended with {status}");
    assert_eq!(got, bytes, "bytes that came back through {client:?}");
    assert_eq!(sent, received, "checksums");
    server.end(Signal::INT);
}

fn socat(test: &str, family: Family, bytes: u64) {
    if !present(test, "socat", "-V") {
        return;
    }
    let (server, _folder) = served(family);
    let to = match family {
        Family::V4 => format!("TCP4:{}", server.address),
        Family::V6 => format!("TCP6:{}", server.address),
        Family::Unix => format!("UNIX-CONNECT:{}", path(&server)),
    };
    // -t: wait so long for the rest of the answer once everything was sent.
    assert_echoes(
        Command::new("socat").args(["-t", "300", "-b", "65536", "-", &to]),
        server,
        bytes,
    );
}

fn nc(test: &str, family: Family) {
    if !present(test, "nc", "-h") {
        return;
    }
    let help = run(Command::new("nc").arg("-h"), crate::common::SOON);
    if !(help.stdout + &help.stderr).contains("-N") {
        return skip(test, "this nc cannot end its sending alone (-N): install netcat-openbsd");
    }
    let (server, _folder) = served(family);
    let mut command = Command::new("nc");
    command.arg("-N");
    match family {
        Family::V4 => command.args(["127.0.0.1", &server.port().to_string()]),
        Family::V6 => command.args(["-6", "::1", &server.port().to_string()]),
        Family::Unix => command.args(["-U", path(&server)]),
    };
    assert_echoes(&mut command, server, SOME);
}

const PYTHON: &str = r"
import hashlib, os, socket, sys, threading
family, address, port, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if family == 'unix':
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(address)
else:
    s = socket.create_connection((address, port))
s.settimeout(120)
s.sendall(b'hello')
answer = b''
while len(answer) < 5:
    answer += s.recv(5 - len(answer))
assert answer == b'hello', answer
sent = hashlib.sha256()
def send():
    block = os.urandom(1 << 20)
    for at in range(0, size, len(block)):
        piece = block[:size - at]
        sent.update(piece)
        s.sendall(piece)
    s.shutdown(socket.SHUT_WR)
sender = threading.Thread(target=send)
sender.start()
got, received = 0, hashlib.sha256()
while piece := s.recv(1 << 16):
    received.update(piece)
    got += len(piece)
sender.join()
assert got == size, (got, size)
assert sent.digest() == received.digest()
print('equal')
";

fn python(test: &str, family: Family) {
    if !present(test, "python3", "--version") {
        return;
    }
    let (server, _folder) = served(family);
    let port = match family {
        Family::Unix => 0,
        _ => server.port(),
    };
    let (name, address) = match family {
        Family::V4 => ("ip", "127.0.0.1"),
        Family::V6 => ("ip", "::1"),
        Family::Unix => ("unix", path(&server)),
    };
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON, name, address, &port.to_string(), &SOME.to_string()]);
    let finished = run(&mut command, LIMIT);
    assert_eq!(finished.stdout.trim(), "equal", "{}", finished.stderr);
    server.end(Signal::INT);
}

#[test]
fn socat_is_echoed_over_ipv4() {
    socat("socat_is_echoed_over_ipv4", Family::V4, if is_long() { BULK } else { SOME });
}

#[test]
fn socat_is_echoed_over_ipv6() {
    socat("socat_is_echoed_over_ipv6", Family::V6, SOME);
}

#[test]
fn socat_is_echoed_over_unix() {
    socat("socat_is_echoed_over_unix", Family::Unix, SOME);
}

#[test]
fn nc_is_echoed_over_ipv4() {
    nc("nc_is_echoed_over_ipv4", Family::V4);
}

#[test]
fn nc_is_echoed_over_ipv6() {
    nc("nc_is_echoed_over_ipv6", Family::V6);
}

#[test]
fn nc_is_echoed_over_unix() {
    nc("nc_is_echoed_over_unix", Family::Unix);
}

#[test]
fn python_is_echoed_over_ipv4() {
    python("python_is_echoed_over_ipv4", Family::V4);
}

#[test]
fn python_is_echoed_over_ipv6() {
    python("python_is_echoed_over_ipv6", Family::V6);
}

#[test]
fn python_is_echoed_over_unix() {
    python("python_is_echoed_over_unix", Family::Unix);
}
