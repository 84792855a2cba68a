//! A host that does not answer at all: a kernel's connect ends when the system gives it up.
//!
//! That takes a network on which nobody is: a network namespace with a pair of virtual interfaces.
//! The test starts itself again inside one, with `unshare` and `ip`; where the system does not
//! permit that it says so and counts as skipped.

use std::process::{Command, Stdio};
use std::time::Duration;

use gpunet_e2e::faults::{self, Row};
use gpunet_e2e::{Domain, Errno, Job, Script, SocketAddr, is_rdma, net, skip};
use gpunet_support::testing::share_limits;

const INSIDE: &str = "GPUNET_UNREACHABLE_INSIDE";
const NAME: &str = "a_host_that_does_not_answer";

/// The system asks three times who has the address, so often.
const ASKS: Duration = Duration::from_millis(200);

/// Makes the network, then runs what follows in it.
const SETUP: &str = "ip link set lo up && ip link add here type veth peer name there \
    && ip link set there up && ip link set here up && ip address add 192.0.2.1/24 dev here \
    && echo 200 >/proc/sys/net/ipv4/neigh/here/retrans_time_ms && exec \"$@\"";

/// This shell command in a network namespace of its own.
fn inside(command: &str) -> Command {
    let mut unshare = Command::new("unshare");
    // As root of its own users, if it is not root already.
    unshare.args(["--map-root-user", "--net", "sh", "-c", command, "sh"]);
    unshare.stdin(Stdio::null());
    unshare
}

#[test]
fn a_host_that_does_not_answer() {
    if is_rdma() {
        return skip(NAME, "the network of its own has no RDMA device");
    }
    let test = format!("unreachable: {NAME}");
    if std::env::var_os(INSIDE).is_some() {
        let nobody = SocketAddr::v4([192, 0, 2, 9], 9);
        faults::measure(&test, || {
            let net = net();
            let mut script = Script::new();
            script.socket(0, Domain::V4).connect(0, nobody).errno(Errno::EHOSTUNREACH);
            let finished = Job::blocks(64).script(&script).run(&net);
            let fault = "host unreachable";
            vec![Row::of_op(fault, "gconnect", 3 * ASKS, &finished, (0, 1))]
        });
        return;
    }
    match inside(SETUP).arg("true").output() {
        Err(error) => return skip(NAME, &format!("no `unshare` here: {error}")),
        Ok(tried) if !tried.status.success() => {
            let said = String::from_utf8_lossy(&tried.stderr);
            let why = said.lines().next().unwrap_or("no reason given");
            return skip(NAME, &format!("no network of its own here: {why}"));
        }
        Ok(_) => {}
    }
    let this = std::env::current_exe().expect("this program");
    let output = share_limits(&mut inside(SETUP))
        .arg(this)
        .args(["--exact", NAME, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("it ran a moment ago");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
}
