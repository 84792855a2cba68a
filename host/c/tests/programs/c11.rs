//! Programs in C11.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{self, Program, SOON, hang_limit};

/// A folder with the library and the program of that name, and the echo kernels.
fn world(name: &str) -> (PathBuf, Command) {
    let folder = common::folder(name);
    common::place_library(&folder);
    let program = folder.join(name);
    let source = common::here().join("tests/programs").join(format!("{name}.c"));
    common::compile(&source, &program, &[]);
    let kernels = common::here().join("examples/echo.cu");
    common::compile_kernels(&kernels, &folder.join("echo.so"), &["-fno-exceptions"]);
    (folder, Command::new(program))
}

#[test]
fn a_program_in_c_serves_a_client() {
    let (folder, mut command) = world("server");
    let mut program = Program::start(command.arg(folder.join("echo.so")));
    assert_eq!(program.line_with("gpu "), "the emulated GPU was asked for");
    let address = program.line_with("listening ");
    let mut clients: Vec<TcpStream> =
        (0..2).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let message: Vec<u8> = (0..100_000_u32).map(|at| (at * 7) as u8).collect();
    for client in &mut clients {
        client.set_read_timeout(Some(hang_limit(SOON))).unwrap();
        let mut writer = client.try_clone().unwrap();
        let sent = message.clone();
        let sending = std::thread::spawn(move || writer.write_all(&sent));
        let mut answer = vec![0; message.len()];
        client.read_exact(&mut answer).unwrap();
        sending.join().unwrap().unwrap();
        assert!(answer == message, "other bytes came back");
    }
    program.send_line("stop");
    assert_eq!(program.line_with("received "), "200000");
    let counters: u32 = program.line_with("counters ").parse().unwrap();
    assert!(counters >= 19, "{counters}");
    assert_eq!(program.line_with("dump "), "has the listener");
    assert_eq!(program.line_with("done "), "0");
    program.end();
    // The net has closed the connections.
    assert_eq!(clients[0].read(&mut [0; 1]).unwrap_or(0), 0);
}

#[test]
fn each_mistake_is_one_sentence() {
    let (folder, mut command) = world("errors");
    let wrong = common::wrong_kernels(&folder, &folder.join("echo.so"));
    let text = folder.join("text");
    fs::write(&text, "int main() {}").unwrap();
    // A loader would map what is not there, and the process would die of it.
    let whole = fs::read(folder.join("echo.so")).unwrap();
    let cut_off = folder.join("cut_off.so");
    fs::write(&cut_off, &whole[..2000]).unwrap();
    command.arg(folder.join("echo.so")).args(wrong).args([&text, &cut_off]);
    let printed = common::run(&mut command, SOON);
    let expected = include_str!("errors.txt")
        .replace("@ARCH@", std::env::consts::ARCH)
        .replace("@CUT_OFF@", &cut_off.display().to_string())
        .replace("@WHOLE@", &whole.len().to_string());
    let seen: Vec<&str> = printed.lines().collect();
    for (at, expected) in expected.lines().enumerate() {
        assert_eq!(seen.get(at).copied(), Some(expected), "line {}:\n{printed}", at + 1);
    }
    assert_eq!(seen.len(), expected.lines().count(), "{printed}");
}
