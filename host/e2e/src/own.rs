//! A peer's ends by our own RDMA streams, as sockets whose calls wait: for suites that need more of
//! them than stock rsocket stands in one process.
//!
//! Each end has a thread, which moves it on as a system would: bytes leave while nobody calls, and
//! an end that was dropped disconnects behind what it has sent.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rsocket_shim::load::Libraries;
use rsocket_shim::protocol::Settings;
use rsocket_shim::stream::{self, Buffer, Buffers, Next, Request, State, StreamError};
use rsocket_shim::verbs::{Access, Device, Domain, HostMemory, Region};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::limits::deadline;
use crate::transport;

/// Bytes of each ring, unless set otherwise.
const RING: u32 = 64 << 10;

/// How long a thread sleeps at most when nothing happens.
const SLEEP: Duration = Duration::from_millis(500);

/// A ring as the CPU knows it.
struct Ring {
    memory: Arc<HostMemory>,
    capacity: u64,
    /// What was written, or read.
    at: u64,
}

impl Ring {
    /// A ring, and what a stream has to know of it.
    fn new(domain: &Domain, capacity: u32, access: Access) -> io::Result<(Self, Buffer)> {
        let memory = HostMemory::allocate(capacity as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = Arc::new(memory);
        let region = Region::register(domain, memory.clone(), access).map_err(io::Error::other)?;
        let buffer = Buffer { region: Arc::new(region), offset: 0, capacity, base: 0 };
        Ok((Self { memory, capacity: capacity.into(), at: 0 }, buffer))
    }

    /// Where the next bytes lie in one piece, at most so many.
    fn piece(&mut self, most: usize) -> (usize, usize) {
        let place = self.at & (self.capacity - 1);
        let length = (most as u64).min(self.capacity - place);
        self.at += length;
        (place as usize, length as usize)
    }
}

/// A stream with its rings.
struct End {
    stream: stream::Stream,
    sends: Ring,
    receives: Ring,
    error: Option<StreamError>,
    /// It shall not disconnect in order.
    cut: bool,
}

impl End {
    /// Moves it on. Whether there may be more to do at once.
    fn turn(&mut self) -> bool {
        if self.error.is_some() {
            return false;
        }
        // Positions that the rings themselves have counted are never refused.
        let _ = self.stream.offer(self.sends.at);
        if self.stream.wants_head() {
            let _ = self.stream.consumed(self.receives.at);
        }
        match self.stream.progress() {
            Ok(next) => next == Next::Again,
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }

    fn failure(&self) -> io::Result<()> {
        let errno = |error: &StreamError| io::Error::from_raw_os_error(error.errno());
        self.error.as_ref().map_or(Ok(()), |error| Err(errno(error)))
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        let unread = (self.stream.arrived() - self.receives.at) as usize;
        if unread == 0 {
            if self.stream.is_peer_done() {
                return Ok(Some(0));
            }
            return self.failure().map(|()| None);
        }
        let (place, length) = self.receives.piece(unread.min(room.len()));
        assert!(self.receives.memory.read(place, &mut room[..length]), "inside the ring");
        self.turn();
        Ok(Some(length))
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        self.failure()?;
        let space = (self.sends.capacity - (self.sends.at - self.stream.sent())) as usize;
        if space == 0 {
            return Ok(None);
        }
        let (place, length) = self.sends.piece(space.min(bytes.len()));
        assert!(self.sends.memory.write(place, &bytes[..length]), "inside the ring");
        self.turn();
        Ok(Some(length))
    }
}

/// What an end shares with its thread.
struct Shared {
    end: Mutex<End>,
    changed: Condvar,
    /// Wakes the thread when the end is dropped.
    waker: OwnedFd,
}

impl Shared {
    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end of a connection, as often as it is cloned.
#[derive(Clone)]
pub struct Own(Arc<Held>);

/// Lets go of an end when the last clone does.
struct Held(Arc<Shared>);

impl Drop for Held {
    fn drop(&mut self) {
        // The thread looks now and then in any case.
        let _ = rustix::io::write(&self.0.waker, &1_u64.to_ne_bytes());
    }
}

fn libraries() -> io::Result<&'static Libraries> {
    Libraries::load().map_err(io::Error::other)
}

fn failed(error: &StreamError) -> io::Error {
    io::Error::from_raw_os_error(error.errno())
}

/// A stream that `make` makes of rings, on the device at an address.
fn end_at(
    local: SocketAddr,
    receives: u32,
    make: impl FnOnce(&Domain, Buffers) -> Result<stream::Stream, StreamError>,
) -> io::Result<End> {
    let device = Device::at(libraries()?, local).map_err(io::Error::other)?;
    let domain = Domain::allocate(&device).map_err(io::Error::other)?;
    let (sends, send) = Ring::new(&domain, RING, Access::Source)?;
    let (receives, receive) = Ring::new(&domain, receives, Access::Target)?;
    let stream = make(&domain, Buffers { send, receive }).map_err(|error| failed(&error))?;
    Ok(End { stream, sends, receives, error: None, cut: false })
}

/// Waits until one of them is readable, at most so long.
fn wait(descriptors: &[&OwnedFd], most: Duration) {
    let mut all: Vec<_> =
        descriptors.iter().map(|descriptor| PollFd::new(*descriptor, PollFlags::IN)).collect();
    let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    // Who is interrupted looks, too.
    let _ = poll(&mut all, Some(&most));
}

impl Own {
    pub(crate) fn connect(peer: SocketAddr) -> io::Result<Self> {
        let end = end_at(transport::home(peer), RING, |domain, buffers| {
            let local = Some(transport::home(peer));
            stream::Stream::connect(domain, local, peer, buffers, Settings::default())
        })?;
        let this = Self::start(end)?;
        this.until(|end| {
            end.failure()?;
            Ok((end.stream.state() == State::Open).then_some(()))
        })?;
        Ok(this)
    }

    fn accept(request: Request, receives: u32) -> io::Result<Self> {
        let local = request.local_address().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let end = end_at(local, receives, |domain, buffers| {
            stream::Stream::accept(request, domain, buffers, Settings::default())
        })?;
        Self::start(end)
    }

    fn start(end: End) -> io::Result<Self> {
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let descriptor = end.stream.descriptor().try_clone_to_owned()?;
        let shared = Arc::new(Shared { end: Mutex::new(end), changed: Condvar::new(), waker });
        let held = Arc::new(Held(Arc::clone(&shared)));
        let wanted = Arc::downgrade(&held);
        std::thread::spawn(move || {
            while wanted.strong_count() > 0 {
                let again = shared.end().turn();
                shared.changed.notify_all();
                if !again {
                    wait(&[&descriptor, &shared.waker], SLEEP);
                }
            }
            if shared.end().cut {
                return;
            }
            let over = Instant::now() + deadline();
            while !shared.end().stream.leave() && Instant::now() < over {
                // What it was woken by is still there; what comes now is a matter of moments.
                wait(&[&descriptor], Duration::from_millis(20));
            }
        });
        Ok(Self(held))
    }

    /// Tries until it need not wait.
    fn until<T>(&self, mut act: impl FnMut(&mut End) -> io::Result<Option<T>>) -> io::Result<T> {
        let over = Instant::now() + deadline();
        let mut end = self.0.0.end();
        loop {
            if let Some(done) = act(&mut end)? {
                // It may have received what another clone waits for.
                self.0.0.changed.notify_all();
                return Ok(done);
            }
            let left = over.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let waited = self.0.0.changed.wait_timeout(end, left);
            end = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        self.until(|end| end.receive(room))
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.until(|end| end.send(bytes))
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        if how != Shutdown::Read {
            let mut end = self.0.0.end();
            end.stream.shutdown_send();
            end.turn();
        }
    }

    /// Has it end without a disconnect, once all clones are dropped.
    pub(crate) fn cut(&self) {
        self.0.0.end().cut = true;
    }

    pub(crate) fn peer_address(&self) -> io::Result<SocketAddr> {
        self.0.0.end().stream.peer_address().ok_or(io::ErrorKind::NotConnected.into())
    }
}

/// Accepts what comes, whether or not somebody asks for it, as a system does.
pub struct OwnListener {
    address: SocketAddr,
    accepted: Arc<Mutex<VecDeque<Own>>>,
}

impl OwnListener {
    /// Ends have that many bytes for what arrives, unless set otherwise.
    pub(crate) fn new(local: SocketAddr, receives: Option<u32>, backlog: u32) -> io::Result<Self> {
        let listener =
            stream::Listener::bind(libraries()?, local).map_err(|error| failed(&error))?;
        listener.listen(backlog).map_err(|error| failed(&error))?;
        let address = listener.local_address().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let descriptor = listener.descriptor().try_clone_to_owned()?;
        let accepted = Arc::new(Mutex::new(VecDeque::new()));
        let queue = Arc::downgrade(&accepted);
        std::thread::spawn(move || {
            while let Some(queue) = queue.upgrade() {
                while let Ok(Some(request)) = listener.next() {
                    // One that gives up meanwhile is none; what else breaks shows at the kernel's
                    // end.
                    if let Ok(own) = Own::accept(request, receives.unwrap_or(RING)) {
                        queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(own);
                    }
                }
                drop(queue);
                wait(&[&descriptor], Duration::from_millis(50));
            }
        });
        Ok(Self { address, accepted })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection, if one is there.
    pub(crate) fn accept(&self) -> Option<Own> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
