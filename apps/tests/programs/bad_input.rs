//! Bad input: one clear line on standard error, a non-zero exit, nothing left behind.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use crate::common::{Folder, SOON, echo, gpu, program, run, skip, unix};

fn assert_refused(command: &mut Command, expected: &str) {
    let finished = run(command, SOON);
    let (stdout, stderr) = (finished.stdout, finished.stderr);
    assert!(!finished.status.success(), "{command:?} succeeded");
    assert!(finished.status.code().is_some(), "{command:?} was killed: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{command:?}: {stderr}");
    assert!(stderr.starts_with("echo: "), "{stderr}");
    assert!(stderr.contains(expected), "{command:?}: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert!(stdout.is_empty(), "{stdout}");
}

#[test]
fn wrong_options_are_refused_in_one_line() {
    let cases: [(&[&str], &str); 38] = [
        (&["--gpu", "voodoo"], "use auto, cuda, cuda:N or emulated"),
        (&["--gpu", "cuda:x"], "use auto, cuda, cuda:N or emulated"),
        (&["--sizes", "0"], "at least 1 byte"),
        (&["--sizes", "64,,64"], "number of bytes"),
        (&["--sizes", "64,64"], "twice"),
        (&["--sizes", "many"], "number of bytes"),
        (&["--sizes", "99999G"], "at most 1G"),
        (&["--sizes", "99999999999G"], "more than any memory"),
        (&["server", "--on", "gpu", "--listen", "a:1", "--blocks", "0"], "0 is not in 1..="),
        (&["--threads", "0"], "0 is not in 1..=1024"),
        (&["--threads", "1025"], "1025 is not in 1..=1024"),
        (&["--connections", "0"], "0 is not in 1..="),
        (&["--messages", "0"], "0 is not in 1.."),
        (&["--proxy-threads", "0"], "0 is not in 1..="),
        (&["--ring", "1"], "4K to 1G"),
        (&["--timeout", "0"], "seconds"),
        (&["--transport", "pigeon"], "auto, tcp, tcp6, unix, rdma, local"),
        (&["--transport", "tcp", "--placement", "bounce"], "--transport rdma or auto"),
        (&["--transport", "unix", "--address", "127.0.0.1"], "--transport rdma or auto"),
        (&["--address", "here"], "--address"),
        (&["--placement", "moon"], "dma-buf, peer, bounce"),
        (&["server", "--on", "gpu", "--listen", "unix:/x", "--transport", "rdma"], "unix:/x"),
        (&["client", "--on", "cpu", "--connect", "unix:/x", "--transport", "rdma"], "unix:/x"),
        (
            &["client", "--on", "cpu", "--connect", "a:1", "--transport", "unix"],
            "auto, tcp, rdma, local",
        ),
        (&["client", "--on", "cpu", "--connect", "a:1", "--placement", "bounce"], "--on cpu"),
        (&["server", "--on", "cpu", "--listen", "a:1", "--transport", "local"], "--on gpu"),
        (&["client", "--on", "cpu", "--connect", "unix:/x", "--transport", "local"], "--on gpu"),
        (&["--transport", "local", "--placement", "bounce"], "--transport rdma or auto"),
        (&["--transport", "local", "--address", "127.0.0.1"], "--transport rdma or auto"),
        (&["--on", "gpu"], "--on"),
        (&["serve"], "serve"),
        (&["server", "--on", "gpu"], "--listen"),
        (&["server", "--on", "tpu", "--listen", "127.0.0.1:0"], "gpu, cpu"),
        (&["server", "--on", "cpu", "--listen", "127.0.0.1:0", "--threads", "1"], "--on cpu"),
        (&["server", "--on", "cpu", "--listen", "127.0.0.1:0", "--json"], "--json"),
        (&["client", "--on", "cpu", "--connect", "127.0.0.1:1", "--gpu", "auto"], "--on cpu"),
        (&["client", "--on", "cpu", "--connect", "127.0.0.1:0"], "port 0"),
        (&["--json", "server", "--on", "cpu", "--listen", "127.0.0.1:0"], "--json"),
    ];
    for (arguments, expected) in cases {
        assert_refused(&mut echo(arguments), expected);
    }
}

#[test]
fn malformed_addresses_are_refused() {
    for address in ["", "localhost", "127.0.0.1:", "127.0.0.1:99999", "::1:80", "[::1:80", "unix:"]
    {
        for on in ["gpu", "cpu"] {
            assert_refused(&mut echo(&["server", "--on", on, "--listen", address]), "HOST:PORT");
            assert_refused(&mut echo(&["client", "--on", on, "--connect", address]), "HOST:PORT");
        }
    }
    let long = format!("unix:/{}", "x".repeat(200));
    assert_refused(&mut echo(&["server", "--on", "gpu", "--listen", &long]), "107 bytes");
    let unknown = ["server", "--on", "cpu", "--listen", "no-such-host.invalid:7000"];
    assert_refused(&mut echo(&unknown), "cannot resolve");
}

#[test]
fn a_missing_gpu_is_refused() {
    let why = run(&mut echo(&["--gpu", "cuda:77"]), SOON).stderr;
    // The driver's absence, or the device's, depending on the machine.
    assert_refused(&mut echo(&["--gpu", "cuda:77"]), "CUDA");
    assert_refused(
        &mut echo(&["server", "--on", "gpu", "--listen", "127.0.0.1:0", "--gpu", "cuda:77"]),
        "CUDA",
    );
    if why.contains("no CUDA driver") {
        assert_refused(&mut echo(&["--gpu", "cuda"]), "install the NVIDIA driver");
    }
}

#[test]
fn more_than_memory_or_the_gpu_holds_is_refused() {
    let gpu = gpu();
    assert_refused(&mut echo(&["--gpu", &gpu, "--ring", "1G", "--connections", "4096"]), "--ring");
    let many =
        ["--blocks", "65535", "--threads", "1024", "--ring", "4K", "--listen", "127.0.0.1:0"];
    let server = ["server", "--on", "gpu", "--gpu", &gpu];
    assert_refused(&mut echo(&[&server[..], &many].concat()), "blocks");
}

#[test]
fn an_address_in_use_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let folder = Folder::new("test");
    std::fs::write(folder.path("socket"), "in the way").unwrap();
    for on in ["gpu", "cpu"] {
        assert_refused(&mut echo(&["server", "--on", on, "--listen", &taken]), "another port");
        let path = unix(&folder);
        assert_refused(&mut echo(&["server", "--on", on, "--listen", &path]), "remove it");
        let absent = format!("unix:{}/no/socket", folder.root().display());
        assert_refused(&mut echo(&["server", "--on", on, "--listen", &absent]), "make it");
    }
    // What was in the way is still there, and no socket beside it.
    assert_eq!(std::fs::read_to_string(folder.path("socket")).unwrap(), "in the way");
    assert_eq!(std::fs::read_dir(folder.root()).unwrap().count(), 1);
}

#[test]
fn a_client_without_a_server_names_the_remedy() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let folder = Folder::new("test");
    for on in ["gpu", "cpu"] {
        assert_refused(&mut echo(&["client", "--on", on, "--connect", &free]), "start a server");
        let path = unix(&folder);
        assert_refused(&mut echo(&["client", "--on", on, "--connect", &path]), "start a server");
    }
}

/// A server that is there and never answers: its queue is full.
#[test]
fn a_client_of_a_silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let connect = |_| TcpStream::connect_timeout(&silent, Duration::from_millis(300)).ok();
    let queue: Vec<_> = (0..10_000).map_while(connect).collect();
    let to = silent.to_string();
    for transport in ["tcp", "auto"] {
        for on in ["gpu", "cpu"] {
            let client = ["client", "--on", on, "--transport", transport, "--connect", &to];
            let mut command = echo(&client);
            assert_refused(command.args(["--timeout", "1"]), "raise --timeout");
        }
        let port = silent.port().to_string();
        let mut command = Command::new(program("rstream"));
        command.args(["-s", "127.0.0.1", "-p", &port, "--transport", transport, "--timeout", "1"]);
        let finished = run(&mut command, SOON);
        assert!(!finished.status.success());
        assert!(finished.stderr.contains("--timeout"), "{}", finished.stderr);
    }
    drop(queue);
}

/// The program under a user without rights: this one, or for root `nobody`.
fn without_rights(folder: &Folder, arguments: &[&str]) -> Command {
    const NOBODY: u32 = 65534;
    if !rustix::process::getuid().is_root() {
        return echo(arguments);
    }
    // Where everybody may run it: the build folder may be closed to others.
    let copy = folder.path("echo");
    if !copy.exists() {
        // By another process: one that another test starts meanwhile would hold a file that is being
        // written here open, and then it cannot be run.
        let finished = run(Command::new("cp").arg(program("echo")).arg(&copy), SOON);
        assert!(finished.status.success(), "{}", finished.stderr);
    }
    let mut command = Command::new(copy);
    command.args(arguments).uid(NOBODY).gid(NOBODY).current_dir("/");
    command
}

#[test]
fn an_address_that_needs_rights_is_refused() {
    let folder = Folder::new("test");
    let closed = folder.path("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555)).unwrap();
    let path = format!("unix:{}", closed.join("socket").display());
    let first_free = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let any_port = first_free.is_ok_and(|text| text.trim() == "0");
    for on in ["gpu", "cpu"] {
        let listen = ["server", "--on", on, "--listen", &path];
        assert_refused(&mut without_rights(&folder, &listen), "that you may write to");
        if !any_port {
            let listen = ["server", "--on", on, "--listen", "127.0.0.1:1"];
            assert_refused(&mut without_rights(&folder, &listen), "for root");
        }
    }
    if any_port {
        skip("an_address_that_needs_rights_is_refused", "every user may listen at any port here");
    }
}

#[test]
fn a_reader_that_has_left_is_no_panic() {
    let mut command = Command::new("sh");
    let program = program("echo");
    let line = format!("{} --help | true; {0} --version >/dev/full", program.display());
    let finished = run(command.args(["-c", &line]), SOON);
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}
