//! Runs the program on the emulated GPU and talks to it as two clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn clients_get_back_what_they_send() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_{{project-name}}"))
        .args(["emulated", "127.0.0.1:0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(program.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let (_, rest) = line.split_once("listening at ").expect(&line);
    let (address, _) = rest.split_once(';').expect(&line);

    for text in ["hello, kernel".to_owned(), "0123456789".repeat(1000)] {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client.write_all(text.as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, text);
    }

    drop(program.stdin.take());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with(" requests\n"), "{rest}");
    assert!(program.wait().unwrap().success());
}
