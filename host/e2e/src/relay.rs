//! Peers of p2p streams: programs cannot be their other end, so a kernel of a net of its own
//! stands in between and passes on what comes (`gpunet_e2e_kernels::relay`).
//!
//! A peer that connects has one end of a system socket, the relay the other; a peer that listens is
//! called by the relay for each stream that a kernel connects. The kernel runs only while there is
//! something to pass on.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use gpunet_device::calls::PollFd;
use gpunet_device::{Handle, SocketAddr};
use gpunet_e2e_kernels::relay::{
    ADDRESS, CALL, CLOSE, COUNT, FAILURE, FIRST_JOB, HANDLE, JOB_WORDS, KIND, LISTEN, LISTENING,
    NARROW, PIECE, Pair, RESULT, Relay as Work, relay as kernel,
};
use gpunet_host::{Launch, Net, Shape, SocketError, Task, TransportChoice};
use gpunet_support::testing::hang_limit;

use crate::limits::eventually;
use crate::memory::Flags;
use crate::nets::{RING, gpu};
use crate::transport::any_port;

/// Calls and listeners that it has at a time.
const JOBS: usize = 256;
/// Streams that it has at a time.
const PAIRS: usize = 512;
/// How long a call is waited for: one that takes longer waits in the listener's queue, which a
/// system's connect would not wait for either. With a reserve: one that fails usually does so in a few
/// milliseconds.
const GRACE: Duration = Duration::from_millis(30);

/// The relay of this process.
struct Relay {
    net: Net,
    queue: Arc<Flags>,
    used: Mutex<[Use; JOBS]>,
}

/// Who needs a slot in the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Nobody,
    Somebody,
    /// Nobody once the kernel is done with it.
    Kernel,
}

/// A listener whose streams come by the relay. It goes with this.
pub struct RelayListener {
    slot: usize,
    /// Where kernels connect to.
    pub address: SocketAddr,
}

static RELAY: OnceLock<Relay> = OnceLock::new();

/// What the last socket that failed said, as a result of a call: for a test that fails.
pub(crate) fn last_failure() -> Option<i64> {
    let error = RELAY.get()?.queue.get(FAILURE) as i64;
    (error != 0).then_some(error)
}

fn relay() -> &'static Relay {
    RELAY.get_or_init(|| {
        let builder = Net::builder(gpu()).sockets(4 * PAIRS as u32).ring(RING);
        let net = builder.transport(TransportChoice::Local).build().expect("a net for the relay");
        let queue = Arc::new(Flags::many(gpu(), FIRST_JOB + JOBS * JOB_WORDS));
        std::thread::spawn(|| relay().keep_running());
        Relay { net, queue, used: Mutex::new([Use::Nobody; JOBS]) }
    })
}

impl Relay {
    fn used(&self) -> MutexGuard<'_, [Use; JOBS]> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn word(slot: usize, word: usize) -> usize {
        FIRST_JOB + slot * JOB_WORDS + word
    }

    fn get(&self, slot: usize, word: usize) -> u64 {
        self.queue.get(Self::word(slot, word))
    }

    fn set(&self, slot: usize, word: usize, value: u64) {
        self.queue.set(Self::word(slot, word), value);
    }

    /// Has the kernel do something; where that stands in the queue.
    fn charge(&self, kind: u64, handle: Handle, address: SocketAddr, narrow: bool) -> usize {
        let mut used = self.used();
        for slot in 0..JOBS {
            let over = self.get(slot, KIND) == 0 && self.get(slot, RESULT) != 0;
            if used[slot] == Use::Kernel && over {
                used[slot] = Use::Nobody;
            }
        }
        let free = used.iter().position(|now| *now == Use::Nobody);
        let slot = free.expect("the relay has enough slots");
        used[slot] = Use::Somebody;
        self.set(slot, HANDLE, handle.0);
        self.set(slot, RESULT, 0);
        self.set(slot, NARROW, narrow.into());
        for (at, word) in address.to_words().into_iter().enumerate() {
            self.set(slot, ADDRESS + at, word);
        }
        self.set(slot, KIND, kind);
        self.queue.set(COUNT, self.queue.get(COUNT).max(slot as u64 + 1));
        slot
    }

    /// Launches the kernel whenever there is something for it.
    fn keep_running(&self) -> ! {
        let gpu = self.net.gpu();
        let pairs = gpu.buffer::<Pair>(PAIRS).expect("GPU memory");
        let buffers = gpu.buffer::<u8>(2 * PAIRS * PIECE).expect("GPU memory");
        let poll = gpu.buffer::<PollFd>(1).expect("GPU memory");
        let (mut running, mut accepted) = (None::<Launch>, 0);
        loop {
            std::thread::sleep(Duration::from_micros(500));
            if running.as_ref().is_some_and(|launch| !launch.is_finished()) {
                continue;
            }
            let asked = [CALL, LISTEN, CLOSE];
            let job = (0..JOBS).any(|slot| asked.contains(&self.get(slot, KIND)));
            let now = self.net.statistics().accepted;
            if !job && now == accepted {
                continue;
            }
            accepted = now;
            let work = Work::launch_arg(self.queue.shared(), &pairs, &buffers, &poll);
            let launched = self.net.launch(kernel, Shape::new(1, 32), (work,));
            running = Some(launched.expect("the relay launches"));
        }
    }
}

fn failed(error: SocketError) -> io::Error {
    match error {
        SocketError::Call { errno, .. } | SocketError::Listen { errno, .. } => {
            io::Error::from_raw_os_error(errno.0)
        }
        other => io::Error::other(other),
    }
}

/// Connects one end of a system socket to the listener of a kernel.
///
/// # Errors
/// As the kernel's connect.
pub fn connect(near: impl Into<OwnedFd>, to: SocketAddr) -> io::Result<()> {
    let relay = relay();
    let near = relay.net.hand_over(near).map_err(failed)?;
    let slot = relay.charge(CALL, near, to, false);
    let begin = Instant::now();
    let mut result = 0;
    while result == 0 && begin.elapsed() < hang_limit(GRACE) {
        std::thread::sleep(Duration::from_micros(200));
        result = relay.get(slot, RESULT) as i64;
    }
    relay.used()[slot] = if result == 0 { Use::Kernel } else { Use::Nobody };
    match result {
        0.. => Ok(()),
        errno => Err(io::Error::from_raw_os_error(-errno as i32)),
    }
}

/// Has kernels that connect to an address connected to a listener of the system; `narrow`: with
/// small buffers on the way.
///
/// # Errors
/// As the net's `listen`.
pub fn listen(at: SocketAddr, near: SocketAddr, narrow: bool) -> io::Result<RelayListener> {
    let relay = relay();
    let (handle, address) = relay.net.listen(at).map_err(failed)?;
    let slot = relay.charge(LISTEN, handle, near, narrow);
    Ok(RelayListener { slot, address })
}

impl Drop for RelayListener {
    fn drop(&mut self) {
        let relay = relay();
        // The kernel writes there once, and not behind this.
        let begun = || relay.get(self.slot, KIND) == LISTENING;
        let _ = eventually(begun);
        relay.set(self.slot, KIND, CLOSE);
        // The kernel clears the kind alone.
        relay.set(self.slot, RESULT, 1);
        relay.used()[self.slot] = Use::Kernel;
    }
}

/// A net at whose listener a connect neither succeeds nor fails: its table is full.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn full_listener() -> (Net, SocketAddr) {
    let builder = Net::builder(gpu()).sockets(1).ring(RING);
    let net = builder.transport(TransportChoice::Local).build().expect("a net");
    let (_, address) = net.listen(any_port()).expect("a port");
    (net, address)
}
