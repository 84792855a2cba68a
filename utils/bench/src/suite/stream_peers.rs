//! CPU ends of streams: the peers, which are the same for every server, and the baseline's servers.
//!
//! A peer opens with a header (bytes of the stream, seed of its pattern; 0: no pattern), as the
//! kernels of `gpunet_bench_kernels::streams` expect it. Both directions block in the system's calls.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use gpunet_bench_kernels::streams::HEADER;
use gpunet_support::pattern;

use crate::baseline;

/// Bytes that are read or written at once.
const PIECE: usize = 256 << 10;
/// How long one call may wait.
pub(super) const CALL: Duration = Duration::from_secs(20);

/// Which way the bytes go.
#[derive(Clone, Copy, clap::ValueEnum, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The peer sends.
    In,
    /// The peer receives.
    Out,
}

/// Streams at once: how many, how long, and whether every byte is compared.
#[derive(Clone, Copy)]
pub(crate) struct Streams {
    pub(crate) direction: Direction,
    pub(crate) count: u32,
    pub(crate) bytes: u64,
    pub(crate) checked: bool,
}

/// A CPU server; its threads end with the process.
pub(crate) fn serve(direction: Direction) -> Result<SocketAddr> {
    baseline::serve(match direction {
        Direction::In => receive,
        Direction::Out => send,
    })
}

/// GB/s of all streams together, from the first header to the last byte or answer.
pub(crate) fn transfer(server: SocketAddr, streams: Streams) -> Result<f64> {
    let start_line = Arc::new(Barrier::new(streams.count as usize + 1));
    let peers: Vec<_> = (0..streams.count)
        .map(|index| {
            let start_line = Arc::clone(&start_line);
            std::thread::spawn(move || {
                let stream = TcpStream::connect_timeout(&server, CALL).context("connecting");
                start_line.wait();
                let start = Instant::now();
                peer(stream?, index, streams).map(|()| (start, Instant::now()))
            })
        })
        .collect();
    start_line.wait();
    let mut times = Vec::new();
    for peer in peers {
        times.push(peer.join().map_err(|_| anyhow!("a peer panicked"))??);
    }
    // By the peers' own clocks: this thread may be late to any of it.
    let begun = times.iter().map(|(begun, _)| *begun).min().context("no peer")?;
    let ended = times.iter().map(|(_, ended)| *ended).max().context("no peer")?;
    let bytes = streams.bytes as f64 * f64::from(streams.count);
    Ok(bytes / (ended - begun).as_secs_f64() / 1e9)
}

/// One peer.
fn peer(mut stream: TcpStream, index: u32, streams: Streams) -> Result<()> {
    prepare(&stream)?;
    let seed = if streams.checked { u64::from(index) + 1 } else { 0 };
    let header = [streams.bytes, seed].map(u64::to_le_bytes);
    stream.write_all(header.as_flattened())?;
    let right = match streams.direction {
        Direction::In => {
            send_bytes(&mut stream, streams.bytes, seed)?;
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).context("waiting for the byte count")?;
            u64::from_le_bytes(answer)
        }
        Direction::Out => receive_bytes(&mut stream, seed)?,
    };
    ensure!(right == streams.bytes, "{right} bytes of {} were right", streams.bytes);
    Ok(())
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(CALL))?;
    stream.set_read_timeout(Some(CALL))
}

pub(super) fn read_header(stream: &mut TcpStream) -> std::io::Result<[u64; 2]> {
    prepare(stream)?;
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let (words, _) = header.as_chunks::<8>();
    Ok([words[0], words[1]].map(u64::from_le_bytes))
}

/// The baseline that receives.
fn receive(mut stream: TcpStream) -> std::io::Result<()> {
    let [_, seed] = read_header(&mut stream)?;
    let right = receive_bytes(&mut stream, seed)?;
    stream.write_all(&right.to_le_bytes())
}

/// The baseline that sends.
fn send(mut stream: TcpStream) -> std::io::Result<()> {
    let [bytes, seed] = read_header(&mut stream)?;
    send_bytes(&mut stream, bytes, seed)?;
    stream.read(&mut [0]).map(|_| ())
}

fn send_bytes(stream: &mut TcpStream, bytes: u64, seed: u64) -> std::io::Result<()> {
    let mut piece = vec![0x5A; PIECE];
    let mut sent = 0;
    while sent < bytes {
        let now = (bytes - sent).min(PIECE as u64) as usize;
        if seed != 0 {
            pattern::fill_slice(&mut piece, seed, sent);
        }
        stream.write_all(&piece[..now])?;
        sent += now as u64;
    }
    stream.shutdown(Shutdown::Write)
}

/// Reads to the end; how many bytes were right from the beginning on.
fn receive_bytes(stream: &mut TcpStream, seed: u64) -> std::io::Result<u64> {
    let mut piece = vec![0; PIECE];
    let mut right = 0;
    let mut all_right = true;
    loop {
        let bytes = stream.read(&mut piece)?;
        if bytes == 0 {
            return Ok(right);
        }
        if seed != 0 && all_right {
            all_right = pattern::slice_holds(&piece[..bytes], seed, right);
        }
        right += if all_right { bytes as u64 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_counted_in_both_directions() {
        for direction in [Direction::In, Direction::Out] {
            let server = serve(direction).unwrap();
            for checked in [false, true] {
                let streams = Streams { direction, count: 2, bytes: 700_001, checked };
                assert!(transfer(server, streams).unwrap() > 0.0);
            }
        }
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        std::thread::spawn(move || -> std::io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            let [bytes, seed] = read_header(&mut stream)?;
            send_bytes(&mut stream, bytes, seed + 1)
        });
        let streams = Streams { direction: Direction::Out, count: 1, bytes: 4096, checked: true };
        assert!(transfer(server, streams).unwrap_err().to_string().contains("were right"));
    }
}
