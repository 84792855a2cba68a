//! P2P streams: `--transport local` in one process and between two, what `auto` takes, and what is
//! said where they cannot be had.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{
    Finished, Folder, Guarded, SOON, Server, echo, gpu, hang_limit, program, run, skip, unix,
};
use rustix::process::Signal;
use serde_json::Value;

const LOCAL: [&str; 2] = ["--transport", "local"];

/// All pairings, little of each.
fn small(arguments: &[&str]) -> Finished {
    let mut command = echo(&["--gpu", &gpu(), "--messages", "20"]);
    run(command.args(["--sizes", "64,20K"]).args(arguments), SOON)
}

fn object(finished: &Finished) -> Value {
    assert!(finished.status.success(), "{}", finished.stderr);
    serde_json::from_str(&finished.stdout).unwrap()
}

/// The transport of each pairing.
fn transports(json: &Value) -> Vec<&str> {
    let pairings = json["pairings"].as_array().unwrap().iter();
    pairings.map(|pairing| pairing["transport"].as_str().unwrap()).collect()
}

/// Whether this machine has p2p streams; notes that the test is skipped where it has none.
fn possible(test: &str) -> bool {
    const MARK: &str = "no p2p streams between kernels here";
    let stderr = small(&LOCAL).stderr;
    let refused = stderr.lines().find(|line| line.contains(MARK)).map(str::to_owned);
    if let Some(why) = &refused {
        skip(test, why);
    }
    refused.is_none()
}

fn client(address: &str, arguments: &[&str]) -> Finished {
    let mut command = echo(&["client", "--connect", address, "--sizes", "64,20K", "--json"]);
    run(command.args(["--messages", "20", "--timeout", "20"]).args(arguments), SOON)
}

fn gpu_client(address: &str, transport: &str) -> Finished {
    client(address, &["--on", "gpu", "--gpu", &gpu(), "--transport", transport])
}

fn assert_refused(finished: &Finished, expected: &str) {
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr);
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
    assert!(finished.stdout.is_empty(), "{}", finished.stdout);
}

#[test]
fn kernels_of_one_process_echo_by_p2p_streams() {
    if !possible("kernels_of_one_process_echo_by_p2p_streams") {
        return;
    }
    let many = ["--connections", "3", "--proxy-threads", "2", "--threads", "33"];
    for more in [&[][..], &many, &["--ring", "4K"]] {
        let finished = small(&[&LOCAL, more, &["--json"]].concat());
        let json = object(&finished);
        assert_eq!(json["verified"], true);
        assert_eq!((&json["transport"], transports(&json)), (&"local".into(), vec!["local"]));
        let pairing = &json["pairings"][0];
        assert_eq!((&pairing["client"], &pairing["server"]), (&"gpu".into(), &"gpu".into()));
        assert!(finished.stderr.contains("the CPU has no GPU memory"), "{}", finished.stderr);
        assert!(!finished.stderr.contains("TCP") && json["transport_reason"].is_null());
    }
    let table = small(&LOCAL).stdout;
    let row = table.lines().last().unwrap();
    assert!(row.starts_with("gpu     gpu     local ") && row.ends_with("yes"), "{table}");
}

#[test]
fn auto_takes_p2p_streams_between_kernels_alone() {
    if !possible("auto_takes_p2p_streams_between_kernels_alone") {
        return;
    }
    let finished = small(&["--json"]);
    let json = object(&finished);
    let ways = transports(&json);
    assert!(["tcp4", "rdma"].contains(&ways[1]), "{ways:?}");
    assert_eq!(ways, ["local", ways[1], ways[1], ways[1]]);
    assert_eq!(json["transport"], "mixed");
    let said = finished.stderr.contains("echo: TCP was used for pairings with an end on the CPU: ");
    assert_eq!(said, ways[1] == "tcp4", "{}", finished.stderr);
    assert_eq!(json["transport_reason"].is_string(), said);
    for (asked, name) in [("tcp", "tcp4"), ("unix", "unix")] {
        let json = object(&small(&["--transport", asked, "--json"]));
        assert_eq!(transports(&json), [name; 4]);
    }
}

#[test]
fn kernels_of_two_processes_echo_by_p2p_streams() {
    if !possible("kernels_of_two_processes_echo_by_p2p_streams") {
        return;
    }
    let folder = Folder::new("test");
    for listen in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", &unix(&folder)] {
        let server = Server::start_with("gpu", listen, &LOCAL);
        let address = server.address.replace("0.0.0.0", "127.0.0.1");
        for asked in ["local", "auto"] {
            let json = object(&gpu_client(&address, asked));
            assert_eq!((&json["verified"], &json["transport"]), (&true.into(), &"local".into()));
            assert!(json["transport_reason"].is_null(), "{json}");
        }
        // Others find nobody there.
        assert_refused(&gpu_client(&address, "tcp"), "start a server");
        assert_refused(&client(&address, &["--on", "cpu"]), "start a server");
        server.end(Signal::INT);
    }
    assert!(folder.is_empty());
}

#[test]
fn a_server_on_auto_takes_kernels_and_others() {
    if !possible("a_server_on_auto_takes_kernels_and_others") {
        return;
    }
    let folder = Folder::new("test");
    for (listen, far) in [("127.0.0.1:0", "tcp4"), (unix(&folder).as_str(), "unix")] {
        let server = Server::start("gpu", listen);
        for asked in ["local", "auto"] {
            assert_eq!(object(&gpu_client(&server.address, asked))["transport"], "local");
        }
        assert_eq!(object(&gpu_client(&server.address, "tcp"))["transport"], far);
        let by_cpu = client(&server.address, &["--on", "cpu", "--transport", "tcp"]);
        assert_eq!(object(&by_cpu)["transport"], far);
        server.end(Signal::INT);
    }
}

#[test]
fn rstream_goes_by_p2p_streams_too() {
    if !possible("rstream_goes_by_p2p_streams_too") {
        return;
    }
    let same = ["--gpu", &gpu(), "-S", "5000", "-I", "3", "-C", "4", "-T", "v", "--json"];
    for asked in ["local", "auto"] {
        let ours = |more: &[&str]| {
            let mut command = Command::new(program("rstream"));
            command.args(same).args(["--transport", asked]).args(more).stdin(Stdio::null());
            command
        };
        let mut server = ours(&["-b", "127.0.0.1", "-p", "0"]);
        let mut server = Guarded::spawn(server.stdout(Stdio::null()).stderr(Stdio::piped()));
        let mut words = BufReader::new(server.0.stderr.take().unwrap());
        let mut line = String::new();
        words.read_line(&mut line).unwrap();
        let port = line.trim().rsplit_once(':').unwrap_or_else(|| panic!("{line:?}")).1;
        let json = object(&run(&mut ours(&["-s", "127.0.0.1", "-p", port]), SOON));
        assert_eq!((&json["verified"], &json["transport"]), (&true.into(), &"local".into()));
        assert!(json["transport_reason"].is_null(), "{json}");
        assert!(server.wait(SOON).expect("the server did not end").success());
    }
}

#[test]
fn a_server_without_kernels_refuses_p2p_streams() {
    if !possible("a_server_without_kernels_refuses_p2p_streams") {
        return;
    }
    // One on the CPU is none for p2p streams.
    let server = Server::start("cpu", "127.0.0.1:0");
    let folder = Folder::new("test");
    for address in [&server.address, &unix(&folder)] {
        assert_refused(&gpu_client(address, "local"), "--on gpu --transport local");
    }
    assert_refused(&gpu_client("192.0.2.1:7", "local"), "Network is unreachable");
    server.end(Signal::INT);
}

#[test]
fn a_stopped_server_is_reported_as_not_answering() {
    if !possible("a_stopped_server_is_reported_as_not_answering") {
        return;
    }
    let server = Server::start_with("gpu", "127.0.0.1:0", &LOCAL);
    server.child.signal(Signal::STOP);
    let finished = gpu_client(&server.address, "local");
    server.child.signal(Signal::CONT);
    assert_refused(&finished, "its server does not answer");
    server.end(Signal::INT);
}

#[test]
fn a_server_killed_on_the_way_resets_its_client() {
    if !possible("a_server_killed_on_the_way_resets_its_client") {
        return;
    }
    // Where the client is not there yet, it is refused.
    let mut errors = Vec::new();
    let (mut after, longest) = (Duration::from_millis(500), hang_limit(SOON));
    while after < longest {
        let server = Server::start_with("gpu", "127.0.0.1:0", &LOCAL);
        let mut command = echo(&["client", "--on", "gpu", "--gpu", &gpu(), "--json"]);
        command.args(LOCAL).args(["--connect", &server.address, "--messages", "100000000"]);
        let killed = std::thread::spawn(move || {
            std::thread::sleep(after);
            server.child.signal(Signal::KILL);
        });
        let finished = run(&mut command, SOON);
        killed.join().unwrap();
        assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr);
        let json: Value = serde_json::from_str(&finished.stdout).unwrap();
        assert_eq!((&json["verified"], &json["transport"]), (&false.into(), &"local".into()));
        errors.push(json["error"].as_str().unwrap().to_owned());
        if errors.last().unwrap().contains("ECONNRESET") {
            return;
        }
        after *= 2;
    }
    panic!("no connection was reset: {errors:?}");
}

#[test]
fn a_folder_that_others_may_use_is_left_alone() {
    let folder = Folder::new("test");
    let runtime = folder.path("gpunet");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::set_permissions(&runtime, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = echo(&["--gpu", "emulated", "--sizes", "64", "--messages", "3", "--json"]);
    command.args(LOCAL).env("XDG_RUNTIME_DIR", folder.root());
    // The one in the folder for temporary files is taken.
    assert_eq!(object(&run(&mut command, SOON))["transport"], "local");
    assert!(std::fs::read_dir(&runtime).unwrap().next().is_none());
}

#[test]
fn gpus_of_two_kinds_have_no_p2p_streams() {
    const TEST: &str = "gpus_of_two_kinds_have_no_p2p_streams";
    if !possible(TEST) {
        return;
    }
    if object(&small(&["--transport", "tcp", "--json"]))["gpu"] == "emulated" {
        return skip(TEST, "there is one kind of GPU here: the emulated");
    }
    let mut command = echo(&["server", "--on", "gpu", "--gpu", "emulated"]);
    command.args(["--listen", "127.0.0.1:0"]).stderr(Stdio::null()).stdout(Stdio::piped());
    let mut server = Guarded::spawn(&mut command);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap();
    assert_refused(&gpu_client(address, "local"), "give both ends the same --gpu");
    assert_ne!(object(&gpu_client(address, "auto"))["transport"], "local");
}
