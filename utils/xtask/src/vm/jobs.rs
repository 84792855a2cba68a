//! The table of what runs in the guest, in the order in which it runs.

/// One job.
pub(crate) struct Job {
    /// Without spaces; also the name of its script in the guest.
    pub(crate) name: &'static str,
    pub(crate) what: What,
    /// In seconds of the guest, which in emulation is much slower than the host.
    pub(crate) limit: u32,
}

/// What a job runs, and how it is judged.
pub(crate) enum What {
    /// A shell script that may use `functions.sh`; passes if its exit status is 0.
    Script(&'static str),
    /// The same, with a program of the workspace at hand.
    Program {
        /// Its package.
        package: &'static str,
        /// Its name, and that of its command in the guest.
        program: &'static str,
        /// The script.
        text: &'static str,
    },
    /// A test program of the workspace; its tests are counted one by one.
    Tests(TestProgram),
}

/// An integration test of a package, built by cargo.
pub(crate) struct TestProgram {
    pub(crate) package: &'static str,
    pub(crate) test: &'static str,
    /// For the program: a filter, `--ignored`, and so on.
    pub(crate) arguments: &'static [&'static str],
    /// Variables of its environment; `functions.sh` has those that it may name.
    pub(crate) environment: &'static str,
}

/// Every job. Each pair of programs has a port of its own: a server does not always leave it
/// promptly. Sizes are small, as the packets' checksums are computed in emulation.
pub(crate) const JOBS: &[Job] = &[
    script(
        "set-up",
        10,
        "set -e
        ibv_devices | grep -q rxe0
        ibv_devinfo -d rxe0 | grep -q PORT_ACTIVE
        rdma link show rxe0/1 | grep 'state ACTIVE'",
    ),
    script(
        "rping",
        30,
        "pair 7101 \"rping -s -a $ADDRESS -p 7101 -C 10\" \"rping -c -a $ADDRESS -p 7101 -C 10\"",
    ),
    script(
        "rping-ipv6",
        30,
        "pair 7102 \"rping -s -a $ADDRESS6 -p 7102 -C 10\" \"rping -c -a $ADDRESS6 -p 7102 -C 10\"",
    ),
    script("rstream-blocking", 40, "stream rstream 7111 -S 4096 -I 10 -C 20 -T b"),
    // A client whose last bytes come together with the end of the connection takes that end (POLLHUP,
    // 16) for an error. The server, which ends well only if all before arrived, is believed.
    script("rstream-async", 40, "CLIENT_MAY=16; stream rstream 7112 -S 4096 -I 10 -C 20 -T a"),
    script("rstream-nonblocking", 40, "stream rstream 7113 -S 4096 -I 10 -C 20 -T n"),
    script("rstream-verify", 40, "stream rstream 7114 -S 65536 -I 2 -C 5 -T v"),
    script("riostream", 40, "stream riostream 7121 -S 4096 -I 10 -C 10 -T b"),
    script(
        "librspreload",
        60,
        "head -c 300000 /dev/urandom >/tmp/sent
        before=$(packets)
        # Of the old kind: newer programs open sockets with flags that the library leaves to TCP.
        nc=\"env LD_PRELOAD=$PRELOAD nc.traditional\"
        pair 7131 \"$nc -l -s $ADDRESS -p 7131\" \"$nc -q 0 $ADDRESS 7131\" \
            </tmp/sent >/tmp/received
        cmp /tmp/sent /tmp/received || exit 1
        sent=$(($(packets) - before))
        echo \"$sent packets of RDMA\"
        [ $sent -gt 300 ]",
    ),
    rdma_tests("verbs", 60),
    rdma_tests("streams", 100),
    // On the emulated GPU, over TCP inside the guest.
    e2e("descriptors", "descriptors", 60, "", &[]),
    e2e("suite-bounce", "suite", 200, "GPUNET_PLACEMENT=bounce $RDMA", &[]),
    e2e("suite-peer", "suite", 200, "GPUNET_PLACEMENT=peer $RDMA", &["streams::", "endings::"]),
    Job {
        name: "diagnose",
        limit: 40,
        what: What::Program {
            package: "gpunet-diagnose",
            program: "diagnose",
            text: "diagnose | tee /tmp/report
            says() { grep -q \"$1\" /tmp/report || { echo \"it does not say: $1\" >&2; exit 1; }; }
            says '^  warning  rxe0 port 1  .* in software on dummy0'
            says '^  ok       RDMA  '
            says '^  ok       auto  .* takes RDMA'
            says '^gpunet runs here: emulated GPU; .*, RDMA; auto takes RDMA'",
        },
    },
];

const fn script(name: &'static str, limit: u32, text: &'static str) -> Job {
    Job { name, limit, what: What::Script(text) }
}

/// Tests of rsocket-shim, which are ignored where there is no RDMA.
const fn rdma_tests(test: &'static str, limit: u32) -> Job {
    let (package, arguments) = ("rsocket-shim", &["--include-ignored"]);
    let tests = TestProgram { package, test, arguments, environment: "" };
    Job { name: test, limit, what: What::Tests(tests) }
}

/// End-to-end tests on the emulated GPU.
const fn e2e(
    name: &'static str,
    test: &'static str,
    limit: u32,
    environment: &'static str,
    arguments: &'static [&'static str],
) -> Job {
    let tests = TestProgram { package: "gpunet-e2e", test, arguments, environment };
    Job { name, limit, what: What::Tests(tests) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_words() {
        let names: BTreeSet<_> = JOBS.iter().map(|job| job.name).collect();
        assert_eq!(names.len(), JOBS.len());
        let of_word = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        assert!(names.iter().all(|name| name.chars().all(of_word)), "{names:?}");
        assert!(!names.contains("list") && !names.contains("functions"));
    }

    #[test]
    fn no_two_jobs_share_a_port() {
        let mut seen = BTreeSet::new();
        for job in JOBS {
            let What::Script(text) = job.what else { continue };
            let words = text.split(|letter: char| !letter.is_ascii_digit());
            let ports: BTreeSet<_> =
                words.filter(|word| word.len() == 4 && word.starts_with("71")).collect();
            assert!(ports.iter().all(|port| seen.insert(*port)), "{}", job.name);
        }
        assert!(seen.len() >= 8, "{seen:?}");
    }

    #[test]
    fn all_limits_together_are_short() {
        assert!(JOBS.iter().all(|job| job.limit > 0));
        assert!(JOBS.iter().map(|job| job.limit).sum::<u32>() < 10 * 60);
    }
}
