//! The archive for programs in C and C++: made, unpacked into an empty folder, and used with CMake, with
//! pkg-config, and as docs/tutorial/cpp.md says.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use common::{Program, SOON, hang_limit};
use gpunet_support::testing::{Step, steps};

/// For builds of programs, and of xtask where it is not there.
const BUILDING: Duration = Duration::from_secs(60);

/// A folder with the archive, made of the libraries that cargo has built with this test.
static ARCHIVE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = common::folder("sdk").join("gpunet/dist");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(common::here()).args(["run", "--quiet", "--package", "xtask", "--"]);
    command.args(["dist", "--sdk", "--built"]).arg(common::built()).arg("--to").arg(&folder);
    let printed = common::run(&mut command, BUILDING);
    println!("{printed}");
    let mut entries = fs::read_dir(&folder).unwrap();
    let archive = entries.next().unwrap().unwrap().path();
    assert!(entries.next().is_none(), "one archive, and nothing else: {printed}");
    archive
});

/// An empty folder with the archive unpacked in it as `sdk`.
fn unpacked(name: &str) -> PathBuf {
    let folder = common::folder(name);
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&*ARCHIVE).arg("-C").arg(&folder);
    common::run(&mut tar, SOON);
    let inside = ARCHIVE.file_name().unwrap().to_str().unwrap().trim_end_matches(".tar.gz");
    fs::rename(folder.join(inside), folder.join("sdk")).unwrap();
    folder
}

/// Whether programs are there; else the test is skipped.
fn all_there(test: &str, programs: &[&str]) -> bool {
    let missing: Vec<_> = programs.iter().filter(|name| common::find(name).is_none()).collect();
    if !missing.is_empty() {
        common::skip(test, &format!("not installed: {missing:?}"));
    }
    missing.is_empty()
}

/// Runs the program `serve` with a server's kernels, for one client.
fn serves(program: &Path, image: &Path, kernel: &str, answer: &str) {
    answers(Command::new(program).arg(image).args([kernel, "emulated"]), answer);
}

/// Runs a server on the emulated GPU that serves until its input ends, for one client.
fn answers(command: &mut Command, answer: &str) {
    let mut server = Program::start(command);
    assert!(server.line().contains("the emulated GPU was asked for"));
    let port: u16 = server.line_with("port ").parse().unwrap();
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(hang_limit(SOON))).unwrap();
    client.write_all(b"through the archive").unwrap();
    let mut got = vec![0; answer.len()];
    client.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), answer);
    drop(client);
    server.send_line("stop");
    server.end();
}

#[test]
fn the_archive_has_what_it_says() {
    let sdk = unpacked("contents").join("sdk");
    let files = [
        "lib/libgpunet.so",
        "lib/libgpunet.so.1",
        "lib/libgpunet.a",
        "lib/cmake/gpunet/gpunet-config.cmake",
        "lib/cmake/gpunet/gpunet-config-version.cmake",
        "lib/pkgconfig/gpunet.pc",
        "include/gpunet/gpunet.h",
        "include/gpunet/gpunet.hpp",
        "include/gpunet/host/net.hpp",
        "include/gpunet/gpunet.cuh",
        "include/gpunet/device.h",
        "examples/echo.cu",
        "examples/first.cpp",
        "examples/first.cu",
        "examples/serve.cpp",
        "examples/CMakeLists.txt",
        "cpp.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
    ];
    for file in files {
        assert!(sdk.join(file).is_file(), "the archive has no {file}");
    }
    let described = fs::read_to_string(sdk.join("lib/pkgconfig/gpunet.pc")).unwrap();
    assert!(described.contains(&format!("Version: {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn examples_build_with_cmake() {
    if !all_there("examples_build_with_cmake", &["cmake", "g++"]) {
        return;
    }
    let folder = unpacked("cmake");
    // The examples, and one of them with the library linked in.
    let lists = folder.join("sdk/examples/CMakeLists.txt");
    let linked_in = "add_executable(serve_static serve.cpp)\n\
        target_compile_features(serve_static PRIVATE cxx_std_17)\n\
        target_link_libraries(serve_static PRIVATE gpunet::gpunet_static)\n";
    let text = fs::read_to_string(&lists).unwrap();
    fs::write(&lists, format!("{text}\n{linked_in}")).unwrap();
    let build = folder.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(folder.join("sdk/examples")).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", folder.join("sdk").display()));
    common::run(&mut configure, BUILDING);
    common::run(Command::new("cmake").arg("--build").arg(&build), BUILDING);
    let same = "through the archive";
    serves(&build.join("serve"), &build.join("echo.so"), "echo_server", same);
    serves(&build.join("serve"), &build.join("poll_server.so"), "poll_server", same);
    let loud = same.to_uppercase();
    serves(&build.join("serve"), &build.join("slices.so"), "shout_server", &loud);
    serves(&build.join("serve_static"), &build.join("echo.so"), "echo_server", same);
    let first = build.join("first_kernels.so");
    answers(Command::new(build.join("first")).arg(first).arg("emulated"), same);
    // Another version than the package has is refused.
    let other = folder.join("other");
    fs::create_dir(&other).unwrap();
    let text = "cmake_minimum_required(VERSION 3.18)\nproject(x LANGUAGES CXX)\nfind_package(gpunet 9.0 REQUIRED)\n";
    fs::write(other.join("CMakeLists.txt"), text).unwrap();
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&other).arg("-B").arg(other.join("build"));
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", folder.join("sdk").display()));
    let (status, printed) = common::end(&mut configure, BUILDING);
    assert!(status != Some(0) && printed.contains("9.0"), "{printed}");
}

#[test]
fn an_example_builds_with_pkg_config() {
    if !all_there("an_example_builds_with_pkg_config", &["pkg-config", "g++"]) {
        return;
    }
    let folder = unpacked("pkg-config");
    let commands = "export PKG_CONFIG_PATH=$PWD/sdk/lib/pkgconfig\n\
        g++ -std=c++17 sdk/examples/serve.cpp -o serve $(pkg-config --cflags --libs gpunet) -Wl,-rpath,$PWD/sdk/lib\n\
        g++ -std=c++17 -O2 -fPIC -fno-exceptions -shared $(pkg-config --cflags gpunet) -x c++ \
            sdk/examples/echo.cu -o echo.so\n";
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", commands]).current_dir(&folder);
    common::run(&mut shell, BUILDING);
    serves(&folder.join("serve"), &folder.join("echo.so"), "echo_server", "through the archive");
}

#[test]
fn the_page_is_right() {
    if !all_there("the_page_is_right", &["cmake", "g++", "nc", "pkg-config", "tar"]) {
        return;
    }
    let page = fs::read_to_string(common::here().join("../../docs/tutorial/cpp.md")).unwrap();
    let steps = steps(&page);
    let written = steps.iter().filter(|step| matches!(step, Step::Write(..))).count();
    let printed = steps.iter().filter(|step| matches!(step, Step::Run(_, Some(_)))).count();
    // A page that this test no longer understands would be followed in no time.
    assert_eq!((written, steps.len() - written, printed), (3, 4, 1));
    // Beside the checkout, which has made the archive.
    let folder = ARCHIVE.ancestors().nth(3).unwrap().join("reader");
    fs::create_dir(&folder).unwrap();
    for step in steps {
        match step {
            Step::Write(name, text) => fs::write(folder.join(name), text).unwrap(),
            Step::Run(commands, expected) => {
                let mut shell = Command::new("sh");
                shell.args(["-e", "-c", &commands]).current_dir(&folder);
                let finished = gpunet_support::testing::run(&mut shell, BUILDING);
                assert!(finished.status.success(), "{commands}{}", finished.stderr);
                if let Some(expected) = expected {
                    assert_eq!(finished.stdout, expected, "{commands}");
                }
            }
        }
    }
    assert!(folder.join("server").is_file() && folder.join("shout.so").is_file());
}
