//! Recorded machines: each `.tree` file of `trees` is one, and the `.txt` file of the same name is what
//! diagnose says about it. `GPUNET_SNAPSHOTS=write cargo test -p gpunet-diagnose` writes those files anew.

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use std::{env, fs};

use support::{Folder, diagnose, machine, names, text, trees, within};

/// A machine, and the beginnings of lines that must be there whatever else is said.
const MACHINES: &[(&str, &[&str])] = &[
    (
        "bare-laptop",
        &[
            "missing  CUDA ",
            "missing  libraries ",
            "warning  open files ",
            "missing  peer-to-peer in kernel CONFIG_PCI_P2PDMA is off",
            "missing  TCP over IPv6 ",
            "gpunet runs here: emulated GPU; TCP over IPv4, UNIX socket; auto takes TCP",
        ],
    ),
    (
        "both-peer-memory-modules",
        &[
            "warning  peer-memory module     nv_peer_mem and nvidia_peermem are both loaded",
            "> modprobe -r nv_peer_mem",
            "missing  kernel for dma-buf ",
            "missing  peer-to-peer in kernel CONFIG_PCI_P2PDMA is off",
            "warning  locked memory ",
            "missing  /dev/infiniband/uverbs0 does not open: permission denied",
            "unseen   ACS, mlx5_0 ",
        ],
    ),
    (
        "container-without-nodes",
        &[
            "missing  /dev/nvidiactl ",
            "missing  /dev/infiniband/rdma_cm is not there",
            "ok       container              yes (Docker), not as root",
            "unseen   peer-to-peer in kernel ",
        ],
    ),
    (
        "h200-without-nic",
        &[
            "ok       cuda:0 remote writes   ordered",
            "unseen   peer-to-peer in kernel the kernel shows too few of its symbols to know",
            "ok       dma-buf export ",
            "missing  mapping of a dma-buf   mmap says error 524",
            "missing  devices                no RDMA device",
            "ok       BAR1 of GPU            0000:00:06.0: 256 GiB",
            "gpunet runs here: NVIDIA H200; TCP over IPv4, TCP over IPv6, UNIX socket; auto takes TCP",
        ],
    ),
    (
        "mlx5-behind-one-switch",
        &[
            "ok       GPU and mlx5_0         0000:43:00.0 and 0000:44:00.0: behind the same switch",
            "ok       ACS, mlx5_0            off on the way",
            "ok       mlx5_0 port 1          ACTIVE, Ethernet, 100 Gb/sec (4X EDR), driver mlx5_core, 10.1.0.4, RoCE v2, eth2 with MTU 9000",
            "└─ 0000:44:00.0 mlx5_0, x16 16.0 GT/s, ATS off",
            "ok       rings for mlx5_0       dma-buf",
            "ok       auto                   takes RDMA",
        ],
    ),
    (
        "small-bar1",
        &[
            "warning  BAR1 of GPU            0000:01:00.0: 256 MiB",
            "> switch on Above 4G Decoding",
            "missing  cuda:0 GPUDirect RDMA ",
        ],
    ),
    (
        "soft-roce-guest",
        &[
            "warning  rxe0 port 1            ACTIVE, Ethernet, 2.5 Gb/sec (1X SDR), in software on dummy0",
            "missing  dma-buf registration ",
            "ok       auto                   takes RDMA, since the way leads over rxe0",
        ],
    ),
    (
        "two-sockets-with-acs",
        &[
            "warning  GPU and mlx5_0         0000:16:00.0 and 0000:a1:00.0: on different sockets",
            "└─ 0000:a1:00.0 mlx5_0, x16 16.0 GT/s, ATS on",
            "ok       moving dma-bufs        CONFIG_DMABUF_MOVE_NOTIFY is off",
            "warning  ACS, mlx5_0            on in 0000:15:01.0, 0000:a0:03.0",
            "> switch ACS off in the firmware, or as root until the next boot: setpci -s 0000:15:01.0",
            "warning  IOMMU                  translates for 0000:16:00.0, 0000:a1:00.0",
            "warning  link of GPU            0000:16:00.0: x8 of x16",
        ],
    ),
];

#[test]
fn recorded_machines_get_their_verdicts() {
    let write = env::var("GPUNET_SNAPSHOTS").is_ok_and(|value| value == "write");
    for (name, wanted) in MACHINES {
        let output = diagnose(&["--from", &within(&machine(name), "")]);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        for line in *wanted {
            let found = said.lines().any(|said| said.trim_start().starts_with(line));
            assert!(found, "{name}: no line begins with '{line}':\n{said}");
        }
        let snapshot = trees().join(format!("{name}.txt"));
        if write {
            fs::write(&snapshot, &said).expect("the snapshot is written");
        }
        let expected = fs::read_to_string(&snapshot).expect("there is a snapshot");
        assert!(said == expected, "{name}: not as in {}:\n{said}", snapshot.display());
    }
}

#[test]
fn every_tree_is_tried() {
    let known: BTreeSet<_> = MACHINES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(), known);
}

#[test]
fn this_machine_is_diagnosed_in_time_and_recorded_whole() {
    let scratch = Folder::new("live");
    let (folder, bundle) = (within(&scratch, "tree"), within(&scratch, "bundle.txt"));
    let began = Instant::now();
    let output = diagnose(&["--record", &folder, "--bundle", &bundle]);
    let took = began.elapsed();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    // With a GPU, the driver may compile the kernels first.
    if said.contains("gpunet runs here: emulated GPU") {
        assert!(took < gpunet_support::testing::hang_limit(Duration::from_secs(3)), "{took:?}");
    }
    let again = diagnose(&["--from", &folder]);
    assert_eq!(text(&again.stdout), said, "the recording says something else");
    let bundle = fs::read_to_string(bundle).expect("the bundle");
    assert!(
        bundle.contains("==== report\ngpunet diagnose") && bundle.contains("== /proc/self/limits")
    );
    let occupied = diagnose(&["--record", &folder]);
    assert!(text(&occupied.stderr).contains("is not empty"), "{}", text(&occupied.stderr));
}

#[test]
fn json_says_the_same() {
    let machine = machine("mlx5-behind-one-switch");
    let output = diagnose(&["--json", "--from", &within(&machine, "")]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    gpunet_support::testing::Documented::of(&["diagnose"]).check(&report);
    assert_eq!(report["runs"], true);
    let groups = report["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 9);
    let lines = groups.iter().flat_map(|group| group["lines"].as_array().expect("lines"));
    let ok = lines.filter(|line| line["verdict"] == "ok").count();
    assert_eq!(report["counts"]["ok"], ok);
}

#[test]
fn a_bundle_has_no_addresses() {
    let scratch = Folder::new("bundle");
    let file = within(&scratch, "bundle.txt");
    let machine = machine("mlx5-behind-one-switch");
    let output = diagnose(&["--from", &within(&machine, ""), "--bundle", &file]);
    assert!(text(&output.stdout).contains("10.1.0.4"));
    let bundle = fs::read_to_string(file).expect("the bundle");
    for address in ["10.1.0.4", "0a01:0004"] {
        assert!(!bundle.contains(address), "{address}");
    }
    assert!(bundle.contains("mlx5_0 port 1"));
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    for (arguments, status) in
        [(["--from", "/nowhere"], 1), (["--nonsense", "x"], 2), (["--from", "/dev"], 1)]
    {
        let output = diagnose(&arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.starts_with("diagnose: ") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_machine_on_which_kernels_cannot_connect_fails() {
    let scratch = Folder::new("failing");
    let answers = [
        ("{}", "whether gpunet runs here was not tried"),
        (
            r#"{"proofs": {"gpu": {"Err": "no memory"}}}"#,
            "gpunet does not run here: there is no GPU",
        ),
        (
            r#"{"proofs": {"gpu": {"Ok": ["emulated GPU", ""]}, "ways": [
                {"way": "TCP over IPv4", "outcome": {"Err": "bind failed"}},
                {"way": "UNIX socket", "outcome": {"Ok": {"bytes": 1, "micros": 1, "rdma": false}}}
            ]}}"#,
            "gpunet does not run here: kernels on emulated GPU cannot connect by TCP",
        ),
    ];
    for (answers, said) in answers {
        fs::write(within(&scratch, "answers.json"), answers).expect("written");
        let output = diagnose(&["--from", &within(&scratch, "")]);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(text(&output.stdout).lines().any(|line| line.starts_with(said)), "{said}");
    }
}

#[test]
fn what_auto_takes_between_kernels_is_said_apart() {
    let scratch = Folder::new("near");
    let cases = [
        (
            r#"{"Ok": {"bytes": 65536, "micros": 1, "rdma": false, "local": true}}"#,
            "  ok       auto between kernels   takes local",
            "; auto takes TCP, and local between kernels",
        ),
        (
            r#"{"Ok": {"bytes": 65536, "micros": 1, "rdma": false}}"#,
            "  warning  auto between kernels   takes TCP, since local cannot be used here",
            "; auto takes TCP",
        ),
    ];
    for (near, line, summary) in cases {
        let by_tcp = r#"{"Ok": {"bytes": 1, "micros": 1, "rdma": false}}"#;
        let answers = format!(
            r#"{{"proofs": {{"gpu": {{"Ok": ["emulated GPU", ""]}}, "ways": [
                {{"way": "TCP over IPv4", "outcome": {by_tcp}}},
                {{"way": "local", "outcome": {{"Err": "the folder is another's"}}}}
            ], "auto": {{"way": "auto", "outcome": {by_tcp}}},
               "near": {{"way": "auto between kernels", "outcome": {near}}} }} }}"#
        );
        fs::write(within(&scratch, "answers.json"), answers).expect("written");
        let output = diagnose(&["--from", &within(&scratch, "")]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let has = |beginning: &str| said.lines().any(|line| line.starts_with(beginning));
        assert!(has(line) && has("  missing  local                  the folder"), "{said}");
        assert!(has("  ok       auto                   takes TCP"), "{said}");
        assert!(said.lines().any(|line| line.ends_with(summary)), "{said}");
    }
}
