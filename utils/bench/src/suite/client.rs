//! CPU clients of echo servers by TCP, both polling: the benchmark's own, and a plain C program that
//! shares no code with it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::Latency;

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(60);
/// What the C client may take beside its own limit: it gives up by itself before that.
const C_CLIENT_SPARE: Duration = Duration::from_secs(15);

/// A batch: how many round trips at most, of how many bytes, and how long.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) bytes: usize,
    pub(crate) rounds: usize,
    /// No further round trip begins after that.
    pub(crate) limit: Duration,
}

/// Round trips of the benchmark's own client, every byte checked.
pub(crate) fn round_trips(server: SocketAddr, batch: Batch) -> Result<Latency> {
    rotating(server, batch, 1)
}

/// The same over several connections, which the messages take in turns.
pub(crate) fn rotating(server: SocketAddr, batch: Batch, connections: usize) -> Result<Latency> {
    let connect = |_| -> Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&server, ANSWER).context("connecting")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    };
    let mut streams = (0..connections).map(connect).collect::<Result<Vec<_>>>()?;
    let mut message = vec![0_u8; batch.bytes];
    let mut answer = vec![0_u8; batch.bytes];
    let warm_up = batch.rounds / 10;
    let mut samples = Vec::with_capacity(batch.rounds);
    let begun = Instant::now();
    for round in 0..warm_up + batch.rounds {
        let late = begun.elapsed() > batch.limit;
        if late && !samples.is_empty() {
            break;
        }
        for (at, byte) in message.iter_mut().enumerate() {
            *byte = (round * 7 + at + at / 251) as u8;
        }
        answer.fill(0);
        let took = round_trip(&mut streams[round % connections], &message, &mut answer)?;
        ensure!(answer == message, "the answer differs from the message");
        if late || round >= warm_up {
            samples.push(took.as_nanos() as f64);
        }
    }
    Latency::of(samples)
}

/// Sends and receives in turns, so that no message is too long for what lies between.
fn round_trip(stream: &mut TcpStream, message: &[u8], answer: &mut [u8]) -> Result<Duration> {
    let (mut sent, mut got) = (0, 0);
    let start = Instant::now();
    while got < message.len() {
        if sent < message.len() {
            sent += moved(stream.write(&message[sent..]))?;
        }
        match moved(stream.read(&mut answer[got..]))? {
            0 => {
                ensure!(start.elapsed() < ANSWER, "no answer within {ANSWER:?}");
                std::hint::spin_loop();
            }
            more => got += more,
        }
    }
    Ok(start.elapsed())
}

/// The bytes that a call moved, 0 where it was not ready.
pub(super) fn moved(outcome: std::io::Result<usize>) -> Result<usize> {
    match outcome {
        Ok(0) => bail!("the server closed the connection"),
        Ok(bytes) => Ok(bytes),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(0)
        }
        Err(error) => Err(error.into()),
    }
}

/// The C client: beside this program as in the dist folder, or where the build left it.
pub(crate) struct PollClient(PathBuf);

impl PollClient {
    /// Its file name.
    const NAME: &str = "poll_client";

    /// The one that was asked for, or the one that is found; why there is none.
    pub(crate) fn find(asked: Option<PathBuf>) -> Result<Self, String> {
        if let Some(path) = asked {
            let why = format!("{}: no such file", path.display());
            return if path.is_file() { Ok(Self(path)) } else { Err(why) };
        }
        let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name(Self::NAME));
        let built = option_env!("GPUNET_POLL_CLIENT").map(PathBuf::from);
        let found = beside.into_iter().chain(built).find(|path| path.is_file());
        found.map(Self).ok_or_else(|| match option_env!("GPUNET_POLL_CLIENT") {
            Some(_) => "it is neither beside this program nor where it was built".to_owned(),
            None => "no C compiler was found when this program was built".to_owned(),
        })
    }

    /// Round trips; the program checks every byte.
    pub(crate) fn round_trips(&self, server: SocketAddr, batch: Batch) -> Result<Latency> {
        let mut child = Command::new(&self.0)
            .args([server.ip().to_string(), server.port().to_string()])
            .args([batch.bytes, batch.rounds].map(|number| number.to_string()))
            .arg(batch.limit.as_millis().max(1).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.0.display()))?;
        let deadline = Instant::now() + batch.limit + C_CLIENT_SPARE;
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                bail!("the C client did not end in time");
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the C client failed: {}", said.trim());
        Self::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// Median, quartiles and 99th percentile in nanoseconds, and how many.
    fn parse(line: &str) -> Result<Latency> {
        let numbers: Vec<f64> =
            line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [p50, _, _, p99, _] => Ok(Latency { p50: p50 / 1000.0, p99: p99 / 1000.0 }),
            _ => bail!("the C client printed {line:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clients_measure_an_echo() {
        let server = crate::baseline::EchoServer::start().unwrap();
        let batch = Batch { bytes: 300_000, rounds: 5, limit: Duration::from_secs(5) };
        assert!(round_trips(server.address, batch).unwrap().p50 > 0.0);
        match PollClient::find(None) {
            Ok(client) => {
                assert!(client.round_trips(server.address, batch).unwrap().p50 > 0.0);
            }
            Err(why) => eprintln!("not run: the C client: {why}"),
        }
    }

    #[test]
    fn a_refused_connection_is_an_error() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let batch = Batch { bytes: 64, rounds: 5, limit: Duration::from_secs(1) };
        assert!(round_trips(free, batch).is_err());
        if let Ok(client) = PollClient::find(None) {
            let error = client.round_trips(free, batch).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("connect"), "{error}");
        }
    }
}
