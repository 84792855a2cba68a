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
    ADDRESS, CALL, CLOSE, COUNT, DUTY_WORDS, FAILURE, FIRST_DUTY, HANDLE, KIND, LISTEN, LISTENING,
    NARROW, PIECE, Pair, RESULT, Relay as Work, relay as kernel,
};
use gpunet_host::{Launch, Net, NetError, Shape, TransportChoice};

use crate::memory::{Array, Flags};

/// Calls and listeners that it has at a time.
const DUTIES: usize = 256;
/// Streams that it has at a time.
const PAIRS: usize = 512;
/// How long a call is waited for: one that takes longer waits in the listener's queue, which a
/// system's connect would not wait for either.
const GRACE: Duration = Duration::from_millis(300);

/// The relay of this process.
struct Relay {
    net: Net,
    board: Arc<Flags>,
    used: Mutex<[Use; DUTIES]>,
}

/// Who needs a place on the board.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Nobody,
    Somebody,
    /// Nobody once the kernel is done with it.
    Kernel,
}

/// A listener whose streams come by the relay. It goes with this.
pub struct RelayListener {
    place: usize,
    /// Where kernels connect to.
    pub address: SocketAddr,
}

static RELAY: OnceLock<Relay> = OnceLock::new();

/// What the last leg that failed said, as a result of a call: for a test that fails.
pub(crate) fn last_failure() -> Option<i64> {
    let error = RELAY.get()?.board.get(FAILURE) as i64;
    (error != 0).then_some(error)
}

fn relay() -> &'static Relay {
    RELAY.get_or_init(|| {
        let builder = Net::builder(crate::gpu()).sockets(4 * PAIRS as u32).ring(crate::RING);
        let net = builder.transport(TransportChoice::Local).build().expect("a net for the relay");
        let board = Arc::new(Flags::many(crate::gpu(), FIRST_DUTY + DUTIES * DUTY_WORDS));
        std::thread::spawn(|| relay().keep_running());
        Relay { net, board, used: Mutex::new([Use::Nobody; DUTIES]) }
    })
}

impl Relay {
    fn used(&self) -> MutexGuard<'_, [Use; DUTIES]> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn word(place: usize, word: usize) -> usize {
        FIRST_DUTY + place * DUTY_WORDS + word
    }

    fn get(&self, place: usize, word: usize) -> u64 {
        self.board.get(Self::word(place, word))
    }

    fn set(&self, place: usize, word: usize, value: u64) {
        self.board.set(Self::word(place, word), value);
    }

    /// Has the kernel do something; where that stands on the board.
    fn charge(&self, kind: u64, handle: Handle, address: SocketAddr, narrow: bool) -> usize {
        let mut used = self.used();
        for place in 0..DUTIES {
            let over = self.get(place, KIND) == 0 && self.get(place, RESULT) != 0;
            if used[place] == Use::Kernel && over {
                used[place] = Use::Nobody;
            }
        }
        let free = used.iter().position(|now| *now == Use::Nobody);
        let place = free.expect("the relay has enough places");
        used[place] = Use::Somebody;
        self.set(place, HANDLE, handle.0);
        self.set(place, RESULT, 0);
        self.set(place, NARROW, narrow.into());
        for (at, word) in address.to_words().into_iter().enumerate() {
            self.set(place, ADDRESS + at, word);
        }
        self.set(place, KIND, kind);
        self.board.set(COUNT, self.board.get(COUNT).max(place as u64 + 1));
        place
    }

    /// Launches the kernel whenever there is something for it.
    fn keep_running(&self) -> ! {
        let gpu = self.net.gpu();
        let pairs = Array::new(gpu, &[Pair::default(); PAIRS]);
        let buffers = Array::new(gpu, &vec![0_u8; 2 * PAIRS * PIECE]);
        let poll = Array::new(gpu, &[PollFd::default()]);
        let (mut running, mut accepted) = (None::<Launch>, 0);
        loop {
            std::thread::sleep(Duration::from_micros(500));
            if running.as_ref().is_some_and(|launch| !launch.is_finished()) {
                continue;
            }
            let told = [CALL, LISTEN, CLOSE];
            let duty = (0..DUTIES).any(|place| told.contains(&self.get(place, KIND)));
            let now = self.net.statistics().accepted;
            if !duty && now == accepted {
                continue;
            }
            accepted = now;
            let (board, pairs) = (self.board.shared(), pairs.shared());
            let work = Work { board, pairs, buffers: buffers.shared(), poll: poll.shared() };
            let launched = self.net.launch(kernel, Shape::new(1, 32), (work,));
            running = Some(launched.expect("the relay launches"));
        }
    }
}

fn failed(error: NetError) -> io::Error {
    match error {
        NetError::Socket { errno, .. } | NetError::Listen { errno, .. } => {
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
    let place = relay.charge(CALL, near, to, false);
    let begin = Instant::now();
    let mut result = 0;
    while result == 0 && begin.elapsed() < crate::patient(GRACE) {
        std::thread::sleep(Duration::from_micros(200));
        result = relay.get(place, RESULT) as i64;
    }
    relay.used()[place] = if result == 0 { Use::Kernel } else { Use::Nobody };
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
    let place = relay.charge(LISTEN, handle, near, narrow);
    Ok(RelayListener { place, address })
}

impl Drop for RelayListener {
    fn drop(&mut self) {
        let relay = relay();
        // The kernel writes there once, and not behind this.
        let begun = || relay.get(self.place, KIND) == LISTENING;
        let _ = crate::eventually(crate::PATIENCE, begun);
        relay.set(self.place, KIND, CLOSE);
        // The kernel clears the kind alone.
        relay.set(self.place, RESULT, 1);
        relay.used()[self.place] = Use::Kernel;
    }
}

/// A net at whose listener a connect neither succeeds nor fails: its table is full.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn deaf_listener() -> (Net, SocketAddr) {
    let builder = Net::builder(crate::gpu()).sockets(1).ring(crate::RING);
    let net = builder.transport(TransportChoice::Local).build().expect("a net");
    let (_, address) = net.listen(crate::any_port()).expect("a port");
    (net, address)
}
