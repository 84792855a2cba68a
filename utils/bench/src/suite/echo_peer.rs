//! A peer of many connections: one thread that sends back what comes, and counts it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long one write may take.
const WRITE: Duration = Duration::from_secs(5);
/// How often the thread looks whether it shall end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// After this it ends by itself.
const LONGEST: Duration = Duration::from_secs(900);
/// Bytes that are read at once.
const PIECE: usize = 4 << 10;

/// The thread; it ends with this, or when all connections have.
pub(crate) struct EchoPeer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    bytes: AtomicU64,
}

impl EchoPeer {
    /// Starts it with so many connections; their other ends.
    pub(crate) fn start(connections: usize) -> Result<(Self, Vec<TcpStream>)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..connections {
            theirs.push(TcpStream::connect(address).context("connecting")?);
            let stream = listener.accept()?.0;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(WRITE))?;
            ours.push(stream);
        }
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("echo peer".to_owned())
            .spawn(move || echo(ours, &of_thread))?;
        Ok((Self { shared, thread: Some(thread) }, theirs))
    }

    /// Waits until so many bytes have come in all; more are an error.
    pub(crate) fn wait_for_bytes(&self, wanted: u64, timeout: Duration) -> Result<()> {
        let begun = Instant::now();
        loop {
            let bytes = self.shared.bytes.load(Ordering::Acquire);
            ensure!(bytes <= wanted, "{bytes} bytes came, {wanted} were sent");
            if bytes == wanted {
                return Ok(());
            }
            ensure!(begun.elapsed() < timeout, "{bytes} bytes of {wanted} came in {timeout:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for EchoPeer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It has printed its error.
            let _ = thread.join();
        }
    }
}

fn echo(mut streams: Vec<TcpStream>, shared: &Shared) {
    let begun = Instant::now();
    let mut piece = [0; PIECE];
    while !streams.is_empty() && !shared.stop.load(Ordering::Acquire) && begun.elapsed() < LONGEST {
        let mut polled: Vec<PollFd<'_>> =
            streams.iter().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
        if poll(&mut polled, Some(&LOOK)).is_err() {
            // Interrupted, and nothing is known of any.
            continue;
        }
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        streams.retain_mut(|stream| {
            !ready.next().unwrap_or(false) || echo_once(stream, &mut piece, shared)
        });
    }
}

/// Sends back what is there; whether there may be more.
fn echo_once(stream: &mut TcpStream, piece: &mut [u8], shared: &Shared) -> bool {
    match stream.read(piece) {
        Ok(0) | Err(_) => false,
        Ok(bytes) => {
            shared.bytes.fetch_add(bytes as u64, Ordering::AcqRel);
            stream.write_all(&piece[..bytes]).is_ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_comes_back_and_is_counted() {
        let (peer, mut streams) = EchoPeer::start(3).unwrap();
        for stream in &mut streams {
            stream.set_read_timeout(Some(gpunet_support::testing::hang_limit(WRITE))).unwrap();
            stream.write_all(b"there and back").unwrap();
            let mut answer = [0; 14];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"there and back");
        }
        peer.wait_for_bytes(3 * 14, gpunet_support::testing::hang_limit(WRITE)).unwrap();
        assert!(peer.wait_for_bytes(41, WRITE).is_err());
    }

    #[test]
    fn it_ends_when_it_is_dropped() {
        let (peer, streams) = EchoPeer::start(2).unwrap();
        let begun = Instant::now();
        drop(peer);
        assert!(begun.elapsed() < gpunet_support::testing::hang_limit(WRITE));
        drop(streams);
    }
}
