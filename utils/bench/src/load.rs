//! The load: one polling client for round trips, blocking senders for streams. The same for every
//! server, so that only the server differs.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that a sender writes at once.
const PIECE: usize = 256 << 10;

/// Median and 99th percentile.
pub(crate) struct Percentiles {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Percentiles {
    pub(crate) fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        let at = |share: usize| {
            samples.get((samples.len() * share / 100).min(samples.len().saturating_sub(1)))
        };
        let pick = |share| at(share).copied().unwrap_or_default();
        Self { p50: pick(50), p99: pick(99) }
    }
}

/// GB/s.
pub(crate) struct Rate(pub(crate) f64);

impl Rate {
    pub(crate) fn median(mut rates: Vec<f64>) -> Self {
        rates.sort_by(f64::total_cmp);
        Self(rates.get(rates.len() / 2).copied().unwrap_or_default())
    }
}

/// Round trips against an echo server, each checked.
pub(crate) fn round_trips(
    server: SocketAddr,
    bytes: usize,
    messages: usize,
) -> Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(server).context("connecting")?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut message = vec![0_u8; bytes];
    let mut answer = vec![0_u8; bytes];
    let warm_up = messages / 10;
    let mut samples = Vec::with_capacity(messages);
    for turn in 0..warm_up + messages {
        for (at, byte) in message.iter_mut().enumerate() {
            *byte = (turn * 7 + at) as u8;
        }
        let start = Instant::now();
        poll(start, || stream.write(&message), bytes)?;
        let mut got = 0;
        poll(start, || stream.read(&mut answer[got..]).inspect(|more| got += more), bytes)?;
        let took = start.elapsed();
        ensure!(answer == message, "the answer differs from the message");
        if turn >= warm_up {
            samples.push(took);
        }
    }
    Ok(samples)
}

/// Repeats a call that may not be ready until it has moved `bytes`.
fn poll(
    start: Instant,
    mut call: impl FnMut() -> std::io::Result<usize>,
    bytes: usize,
) -> Result<()> {
    let mut moved = 0;
    while moved < bytes {
        match call() {
            Ok(0) => anyhow::bail!("the server closed the connection"),
            Ok(more) => moved += more,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                ensure!(start.elapsed() < TIMEOUT, "no answer within {TIMEOUT:?}");
                std::hint::spin_loop();
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends `bytes` on each of `count` connections at once; GB/s of all together, from the first
/// byte to the last answer.
pub(crate) fn streams(server: SocketAddr, count: u32, bytes: u64) -> Result<f64> {
    let start_line = Arc::new(Barrier::new(count as usize + 1));
    let senders: Vec<_> = (0..count)
        .map(|_| {
            let start_line = Arc::clone(&start_line);
            std::thread::spawn(move || -> Result<()> {
                let stream = TcpStream::connect(server).context("connecting");
                start_line.wait();
                let mut stream = stream?;
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                let piece = vec![0x5A_u8; PIECE];
                let mut left = bytes;
                while left > 0 {
                    let now = left.min(PIECE as u64) as usize;
                    stream.write_all(&piece[..now])?;
                    left -= now as u64;
                }
                stream.shutdown(Shutdown::Write)?;
                let mut answer = [0; 8];
                stream.read_exact(&mut answer).context("waiting for the byte count")?;
                ensure!(u64::from_le_bytes(answer) == bytes, "bytes were lost");
                Ok(())
            })
        })
        .collect();
    start_line.wait();
    let start = Instant::now();
    for sender in senders {
        sender.join().map_err(|_| anyhow::anyhow!("a sender panicked"))??;
    }
    Ok(bytes as f64 * f64::from(count) / start.elapsed().as_secs_f64() / 1e9)
}
