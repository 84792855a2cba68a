//! The table of what runs in the guest, in the order in which it runs.

use crate::context::Scope;

/// One job.
pub(crate) struct Job {
    /// Without spaces; also the name of its script in the guest.
    pub(crate) name: &'static str,
    pub(crate) what: What,
    /// In seconds of the guest, which in emulation is much slower than the host. Soft-RoCE was seen to
    /// keep a program that gave memory back for 50 s.
    pub(crate) limit: u32,
    /// Whether the guest has to have the programs of this project's apps/, in /apps.
    pub(crate) apps: bool,
    /// The smallest run that it is part of.
    pub(crate) from: Scope,
}

impl Job {
    /// The same, left to a release.
    const fn for_release(self) -> Self {
        Self { from: Scope::ShortRelease, ..self }
    }

    /// Whether it is part of a run: a release's short form comes directly after `test`, and does not repeat it.
    pub(crate) fn is_run(&self, scope: Scope) -> bool {
        self.from <= scope && (scope != Scope::ShortRelease || self.from > Scope::Test)
    }

    /// The same, left to a whole release: it takes minutes where the guest is emulated.
    const fn for_whole_release(self) -> Self {
        Self { from: Scope::Release, ..self }
    }
}

/// What a job runs, and how its outcome is checked.
pub(crate) enum What {
    /// A shell script that may use `functions.sh`; passes if its exit status is 0.
    Script(&'static str),
    /// The same, with a program of the workspace at hand.
    Program {
        /// Its package.
        package: &'static str,
        /// What cargo calls it: `bin` or `example`.
        kind: &'static str,
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

/// The limits in the table are those of an emulated guest that has two processors of the host for
/// itself. Beside tests, or on a busy host, it has less (seen: a fifth). They are there for hangs, so there is
/// as much again.
const BUSY: u32 = 10;

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
    script("rstream-blocking", 25, "stream rstream 7111 -S 4096 -I 10 -C 20 -T b"),
    // A client whose last bytes come together with the end of the connection takes that end (POLLHUP,
    // 16) for an error. The server, which ends well only if all before arrived, decides.
    script("rstream-async", 25, "CLIENT_MAY=16; stream rstream 7112 -S 4096 -I 10 -C 20 -T a"),
    script("rstream-nonblocking", 25, "stream rstream 7113 -S 4096 -I 10 -C 20 -T n"),
    script("rstream-verify", 25, "stream rstream 7114 -S 65536 -I 2 -C 5 -T v"),
    script("riostream", 25, "stream riostream 7121 -S 4096 -I 10 -C 10 -T b"),
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
    with_apps(
        "echo-rdma",
        60,
        "set -e
        before=$(packets)
        for placement in bounce peer; do
            /apps/echo --transport rdma --placement $placement --sizes 64,20000 --messages 20 \
                --json --timeout 20 >/tmp/report
            cat /tmp/report
            grep -q \"\\\"transport\\\":\\\"rdma\\\".*\\\"placement\\\":\\\"$placement\" /tmp/report
        done
        # Soft-RoCE knows no dma-buf.
        if /apps/echo --transport rdma --placement dma-buf 2>/tmp/words; then exit 1; fi
        cat /tmp/words
        grep -q 'dma-buf is refused by rxe0' /tmp/words
        [ $(($(packets) - before)) -gt 200 ]",
    ),
    // By itself: between two that have RDMA it is that, for others TCP.
    with_apps(
        "echo-auto",
        60,
        "/apps/echo server --on cpu --listen $ADDRESS:7157 &
        listening 7157 $! || exit 1
        client() {
            /apps/echo client --connect $ADDRESS:7157 --sizes 64 --messages 2 --json $* >/tmp/report
            cat /tmp/report
        }
        client --on gpu && grep '\"transport\":\"rdma\"' /tmp/report || exit 1
        client --on cpu && grep '\"transport\":\"rdma\"' /tmp/report || exit 1
        client --on gpu --transport tcp && grep '\"transport\":\"tcp4\"' /tmp/report || exit 1
        /apps/echo --sizes 64 --messages 2 --json >/tmp/report || exit 1
        grep '\"transport\":\"rdma\"' /tmp/report",
    ),
    with_apps("gpu-rstream-blocking", 40, "against_stock 7141 -S 4096 -I 5 -C 10 -T b"),
    with_apps("gpu-rstream-async", 40, "against_stock 7143 -S 4096 -I 5 -C 10 -T a").for_release(),
    with_apps("gpu-rstream-nonblocking", 40, "against_stock 7145 -S 4096 -I 5 -C 10 -T n").for_release(),
    with_apps("gpu-rstream-verify", 40, "against_stock 7147 -S 65536 -I 2 -C 3 -T v"),
    // The sizes of the tool's own sweep, in turn with either as the server; the sweep's counts are
    // for adapters that are faster than this.
    with_apps(
        "gpu-rstream-sizes",
        200,
        "size=64
        while [ $size -le $((4 << 20)) ]; do
            echo $size and $((size * 3 / 2))
            drives_kernel 7151 -S $size -I 1 -C 1 -T v
            driven_by_kernel 7152 -S $((size * 3 / 2)) -I 1 -C 1 -T v
            size=$((size * 2))
        done",
    )
    .for_release(),
    // Small and odd ones at either end; the queues of the stock one are set by files.
    with_apps(
        "gpu-rstream-buffers",
        60,
        "mkdir -p /etc/rdma/rsocket
        for sizes in '4096 4096 16' '1000000 4096 33' '5000 1000000 384'; do
            set -- $sizes
            echo $3 | tee /etc/rdma/rsocket/sqsize_default >/etc/rdma/rsocket/rqsize_default
            OURS=\"-B $2\" STOCK=\"-B $1\" against_stock 7153 -S 10000 -I 2 -C 5 -T v
        done",
    )
    .for_release(),
    // What other programs make of a kernel: one that wants more than it offers (riostream), a program
    // that knows nothing of RDMA, and the stock library.
    with_apps(
        "gpu-server",
        60,
        "/apps/echo server --on gpu --transport rdma --listen $ADDRESS:7155 &
        server=$!
        listening 7155 $server || exit 1
        timeout 10 riostream -s $ADDRESS -p 7155 -S 4096 -I 2 -C 2 -T b
        status=$?
        echo \"riostream ended with status $status\"
        # It is refused, and does not wait: then it would be ended, by a signal.
        [ $status -ne 0 ] && [ $status -ne 143 ] || exit 1
        head -c 100000 /dev/urandom >/tmp/sent
        before=$(packets)
        LD_PRELOAD=$PRELOAD nc.traditional -q 5 $ADDRESS 7155 </tmp/sent >/tmp/received
        cmp /tmp/sent /tmp/received || exit 1
        sent=$(($(packets) - before))
        echo \"$sent packets of RDMA\"
        [ $sent -gt 100 ] || exit 1
        for place in cpu gpu; do
            /apps/echo client --on $place --transport rdma --connect $ADDRESS:7155 --sizes 64,10000 \
                --messages 3 --timeout 20 --json || exit 1
        done
        kill -INT $server
        wait $server",
    )
    .for_release(),
    // The same the other way: a kernel calls a program that knows nothing of RDMA, and whose output is
    // its input.
    with_apps(
        "gpu-client",
        40,
        "mkfifo /tmp/back
        LD_PRELOAD=$PRELOAD nc.traditional -l -s $ADDRESS -p 7161 <>/tmp/back >&0 &
        listening 7161 $! || exit 1
        before=$(packets)
        /apps/echo client --on gpu --transport rdma --connect $ADDRESS:7161 --sizes 10000 \
            --messages 3 --timeout 20 --json || exit 1
        sent=$(($(packets) - before))
        echo \"$sent packets of RDMA\"
        [ $sent -gt 50 ]",
    ),
    // Fails where ours needs more work than stock rsocket, or the CPU copies a byte of ours.
    Job {
        name: "compare",
        from: Scope::ShortRelease,
        limit: BUSY * 120,
        apps: false,
        what: What::Program {
            package: "rsocket-shim",
            kind: "example",
            program: "compare",
            text: "compare $ADDRESS",
        },
    },
    rdma_tests("verbs", 120),
    rdma_tests("streams", 200),
    // On the emulated GPU, over TCP inside the guest.
    e2e("descriptors", "descriptors", 60, "", &[]),
    // Kernels by RDMA. With stock rsocket at the other end, what its library stands.
    e2e(
        "suite-bounce",
        "suite",
        180,
        "GPUNET_PLACEMENT=bounce GPUNET_PEERS=stock $RDMA",
        &[
            "endings::a_peer",
            "endings::a_kernel",
            "endings::nothing",
            "kernel_to_kernel",
            "rdma::",
        ],
    )
    .for_release(),
    e2e(
        "suite-peer",
        "suite",
        120,
        "GPUNET_PLACEMENT=peer GPUNET_PEERS=stock $RDMA",
        &["endings::a_peer", "endings::nothing", "ring_slices::", "streams::the_typed"],
    ),
    // With our own streams there, everything but p2p streams; and in GPU memory, what is different
    // then.
    e2e(
        "all-bounce",
        "suite",
        600,
        "GPUNET_PLACEMENT=bounce $RDMA",
        &["--skip", "kept::", "--skip", "local::"],
    )
    .for_whole_release(),
    e2e(
        "all-peer",
        "suite",
        400,
        "GPUNET_PLACEMENT=peer $RDMA",
        &[
            "endings::",
            "streams::",
            "ring_slices::",
            "limits::",
            "refusals::",
            "polls::",
            "rdma::",
            // Where rings lie is nothing to these, which take long.
            "--skip",
            "rdma::many_peers_without_rsocket",
            "--skip",
            "rdma::a_peer_that_is_silent",
            "--skip",
            "polls::a_poll_counts_the_sockets_that_are_ready",
        ],
    )
    .for_whole_release(),
    e2e("proxy-panic", "proxy_panic", 90, "$RDMA", &[]),
    e2e("leaks", "leaks", 120, "$RDMA", &[]),
    e2e("kernel-fault", "fault", 60, "$RDMA", &[]).for_whole_release(),
    // A net that goes gives queues of the device back, which takes an emulated one its time.
    e2e("interrupt", "interrupt", 60, "$RDMA", &[]).for_whole_release(),
    e2e("hostile", "hostile", 120, "$RDMA", &[]).for_whole_release(),
    e2e("hostile-words", "hostile_words", 120, "GPUNET_HOSTILE_WORDS=3000 $RDMA", &[])
        .for_whole_release(),
    Job {
        name: "diagnose",
        limit: BUSY * 40,
        apps: false,
        from: Scope::Test,
        what: What::Program {
            package: "gpunet-diagnose",
            kind: "bin",
            program: "diagnose",
            // On a busy host the emulated guest may be too slow for the 15 s that all looks have.
            text: "for attempt in 1 2 3 4 5; do
                diagnose | tee /tmp/report
                grep -q 'not looked at, since others' /tmp/report || break
            done
            says() { grep -q \"$1\" /tmp/report || { echo \"it does not say: $1\" >&2; exit 1; }; }
            says '^  warning  rxe0 port 1  .* in software on dummy0'
            says '^  ok       RDMA  '
            says '^  ok       auto  .* takes RDMA'
            says '^gpunet runs here: emulated GPU; .*, RDMA; auto takes RDMA'",
        },
    },
];

const fn script(name: &'static str, limit: u32, text: &'static str) -> Job {
    Job { name, limit: BUSY * limit, what: What::Script(text), apps: false, from: Scope::Test }
}

/// A script that runs programs of apps/.
const fn with_apps(name: &'static str, limit: u32, text: &'static str) -> Job {
    Job { name, limit: BUSY * limit, what: What::Script(text), apps: true, from: Scope::Test }
}

/// Tests of rsocket-shim, which are ignored where there is no RDMA.
const fn rdma_tests(test: &'static str, limit: u32) -> Job {
    let (package, arguments) = ("rsocket-shim", &["--include-ignored"]);
    let tests = TestProgram { package, test, arguments, environment: "" };
    Job {
        name: test,
        limit: BUSY * limit,
        what: What::Tests(tests),
        apps: false,
        from: Scope::Test,
    }
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
    Job { name, limit: BUSY * limit, what: What::Tests(tests), apps: false, from: Scope::Test }
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
        let sum =
            |scope| JOBS.iter().filter(|job| job.is_run(scope)).map(|job| job.limit).sum::<u32>();
        assert!(sum(Scope::Test) + sum(Scope::ShortRelease) < sum(Scope::Release));
        assert!(sum(Scope::ShortRelease) < BUSY * 40 * 60 && sum(Scope::Release) < BUSY * 60 * 60);
    }
}
