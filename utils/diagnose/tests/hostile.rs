//! The machine is not trusted either: files that hold nonsense, hang or never end, and folders without
//! number; a machine that shows nothing; and what must not be shown of one.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use gpunet_support::testing::hang_limit;
use support::{Folder, diagnose, machine, names, text, within};

/// Less than it takes where each file that hangs is waited for, by far.
const IN_TIME: Duration = Duration::from_secs(4);

/// Every file below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let kind = fs::symlink_metadata(&path).expect("it is there");
        if kind.is_dir() {
            files(&path, found);
        } else if kind.is_file() {
            found.push(path);
        }
    }
}

/// A pipe that nobody writes to, in the place of a file.
fn hang(file: &Path) {
    fs::remove_file(file).expect("removed");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, file, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe without a writer");
}

#[test]
fn nonsense_in_files_is_no_panic() {
    let nonsense: &[&[u8]] = &[
        b"",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"18446744073709551616 -1 0x 0xffffffffffffffff 0xffffffffffffffff 0xffffffffffffffff",
        b"0-18446744073709551615,5-1,::::\n\x1b[2J 4: \n: \n,",
        &[0; 5000],
        &[0xff; 5000],
    ];
    for name in names() {
        for (index, bytes) in nonsense.iter().enumerate() {
            let machine = machine(&name);
            let mut all = Vec::new();
            files(machine.root(), &mut all);
            for file in all.iter().filter(|file| !file.ends_with("answers.json")) {
                fs::write(file, bytes).expect("written");
            }
            let output = diagnose(&["--from", &within(&machine, "")]);
            assert!(output.stderr.is_empty(), "{name} {index}: {}", text(&output.stderr));
            assert!(output.status.success(), "{name} {index}");
            let said = text(&output.stdout);
            assert!(said.contains("gpunet runs here") && !said.contains('\u{1b}'), "{said}");
        }
    }
}

/// A file that never answers, as a device that hangs makes one.
#[test]
fn a_file_that_hangs_is_named() {
    let machine = machine("bare-laptop");
    hang(&machine.path("proc/self/limits"));
    let began = Instant::now();
    let output = diagnose(&["--from", &within(&machine, "")]);
    assert!(began.elapsed() < hang_limit(IN_TIME), "{:?}", began.elapsed());
    let said = text(&output.stdout);
    assert!(said.contains("unseen   locked memory          no answer within 2 s"), "{said}");
}

#[test]
fn all_looks_together_end_in_time() {
    let [hung, many_devices] = ["two-sockets-with-acs"; 2].map(machine);
    let mut all = Vec::new();
    files(hung.root(), &mut all);
    all.iter().filter(|file| !file.ends_with("answers.json")).for_each(|file| hang(file));
    for number in 0..20_000 {
        let link = many_devices.path(&format!("sys/bus/pci/devices/{number}.link"));
        fs::write(link, "../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0").expect("written");
    }
    for machine in [&hung, &many_devices] {
        let began = Instant::now();
        let output = diagnose(&["--from", &within(machine, "")]);
        assert!(began.elapsed() < hang_limit(IN_TIME), "{:?}", began.elapsed());
        let said = text(&output.stdout);
        let shown = || said.lines().rev().take(20).collect::<Vec<_>>().join("\n");
        // A fast machine may see all devices within the time there is.
        let gave_up = said.contains("not looked at, since others gave no answer within 6 s");
        assert!(gave_up || std::ptr::eq(machine, &many_devices), "{}", shown());
        assert!(said.contains("gpunet runs here"), "{}", shown());
    }
}

#[test]
fn answers_that_hang_or_never_end_are_refused() {
    let scratch = Folder::new("answers");
    let answers = scratch.path("answers.json");
    fs::write(&answers, "").expect("written");
    hang(&answers);
    let began = Instant::now();
    let refused = || {
        let output = diagnose(&["--from", scratch.root().to_str().expect("UTF-8")]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        text(&output.stderr)
    };
    assert!(refused().contains("is no recorded machine: no answer within 2 s"));
    fs::remove_file(&answers).expect("removed");
    std::os::unix::fs::symlink("/dev/zero", &answers).expect("a link");
    assert!(refused().contains("is not what diagnose writes"));
    assert!(began.elapsed() < hang_limit(IN_TIME), "{:?}", began.elapsed());
}

/// Without /proc and /sys nothing is known; that is not to say that nothing is there.
#[test]
fn a_machine_that_shows_nothing_is_unseen() {
    let scratch = Folder::new("nothing");
    fs::write(scratch.path("answers.json"), "{}").expect("written");
    let output = diagnose(&["--from", scratch.root().to_str().expect("UTF-8")]);
    let said = text(&output.stdout);
    for about in ["GPUs on the PCI bus", "kernel driver", "gdrdrv", "devices", "container"] {
        let line = format!("  unseen   {about:<22} ");
        assert!(said.lines().any(|said| said.starts_with(&line)), "{about}: {said}");
    }
    assert!(!said.contains("modprobe"), "{said}");
}

#[test]
fn control_characters_are_removed_from_names() {
    let machine = machine("two-sockets-with-acs");
    let answers = machine.path("answers.json");
    let recorded = fs::read_to_string(&answers).expect("the answers");
    let recorded =
        recorded.replace("Tesla", "\\u001b[2JTesla").replace("emulated GPU", "\\u001b]0;x\\u0007");
    fs::write(&answers, recorded).expect("written");
    let said = text(&diagnose(&["--from", &within(&machine, "")]).stdout);
    assert!(said.contains("GPU [2JTesla"), "{said}");
    assert!(said.lines().all(|line| !line.contains(char::is_control)), "{said}");
}

/// Who compiled the driver and where, addresses of the kernel, names of people.
#[test]
fn a_bundle_has_no_names_of_people() {
    let scratch = Folder::new("names");
    let machine = machine("mlx5-behind-one-switch");
    let version = machine.path("proc/driver/nvidia/version");
    let recorded = fs::read_to_string(&version).expect("the version");
    fs::write(&version, recorded.replace("dvs-builder@U22-I3", "root@carols-workstation"))
        .expect("written");
    let bundle = within(&scratch, "bundle.txt");
    let output = Command::new(env!("CARGO_BIN_EXE_diagnose"))
        .args(["--from", &within(&machine, ""), "--bundle", &bundle])
        .envs([("AWS_SECRET_ACCESS_KEY", "s3cr3t"), ("HTTPS_PROXY", "http://dave:pw@proxy")])
        .envs([("GPUNET_PTXAS", "/home/zelda/bin/ptxas"), ("HOME", "/srv/frank")])
        .env("RUST_LOG", "/srv/frank/log")
        .output()
        .expect("it starts");
    assert!(output.status.success());
    let bundled = fs::read_to_string(bundle).expect("the bundle");
    for name in ["carol", "s3cr3t", "dave", "zelda", "frank", "ffffffff81a40000"] {
        assert!(!bundled.contains(name), "{name} is in the bundle");
    }
    for wanted in ["570.133.20", "/home/~/bin/ptxas", "RUST_LOG=~/log", "pci_p2pdma_distance_many"]
    {
        assert!(bundled.contains(wanted), "{wanted} is not in the bundle");
    }
}

#[test]
fn nothing_is_left_of_a_run() {
    let scratch = Folder::new("left");
    let (runtime, temporary) = (scratch.path("run"), scratch.path("tmp"));
    fs::create_dir(&runtime).and_then(|()| fs::create_dir(&temporary)).expect("folders");
    let output = Command::new(env!("CARGO_BIN_EXE_diagnose"))
        .envs([("XDG_RUNTIME_DIR", &runtime), ("TMPDIR", &temporary)])
        .output()
        .expect("it starts");
    let said = text(&output.stdout);
    if said.contains("gpunet runs here: emulated GPU") {
        assert!(said.contains("ok       local ") && said.contains("ok       UNIX "), "{said}");
    }
    for folder in [runtime, temporary] {
        let left: Vec<_> = fs::read_dir(folder).expect("the folder").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
