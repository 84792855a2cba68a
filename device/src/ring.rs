//! Windows of a socket's rings: received bytes to look at, space to write into.
//!
//! A group opens a window (its leader takes the direction's lock and waits for bytes or space),
//! all threads use it, and the group closes it, which publishes how far it went. Receiving and
//! sending are a window and a copy.

use crate::abi::card::{Kind, Progress};
use crate::abi::errno::Errno;
use crate::abi::express;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::{RingPlace, Span};
use crate::abi::word::Word;
use crate::copy;
use crate::direct;
use crate::group::{Group, GroupKind};
use crate::local::{self, Side, Socket};
use crate::planted::{Bug, planted};
use crate::simt;
use crate::wait::{Deadline, Watch, wait_until};

/// Bytes that the GPU reads across PCIe at once.
const RING_LINE: usize = 128;
/// A window of so many bytes is long: its copy takes longer than another call.
const LONG: usize = 32 << 10;

/// A window on a direct stream is at most that part of the ring.
const SHARE: usize = 4;

/// An open window, the same in every thread of the group.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    ring: RingPlace,
    span: Span,
}

/// What opening a window comes to.
pub(crate) enum Opened {
    /// Bytes or space, at least as many as were asked for.
    Window(Window),
    /// The peer closed, and all it sent was received.
    End,
}

impl Window {
    /// Opens a window of at most `most` bytes, at least `least`; all threads of the group call it.
    #[inline(always)]
    pub(crate) fn open<G: Group>(
        net: Net,
        group: G,
        handle: Handle,
        side: Side,
        (least, most): (usize, usize),
        wait: bool,
    ) -> Result<Opened, Errno> {
        let mut words = [0; 2];
        if group.is_leader() {
            words = find(net, G::KIND, handle, side, least, wait).words();
        }
        Self::of(group.broadcast(words), most)
    }

    /// What the words of a [`Found`] say; at most `most` bytes.
    #[inline(always)]
    pub(crate) fn of([ring, span]: [u64; 2], most: usize) -> Result<Opened, Errno> {
        match Errno::check(span as i64)? {
            0 => Ok(Opened::End),
            span => {
                Ok(Opened::Window(Self { ring: RingPlace(ring), span: Span(span).at_most(most) }))
            }
        }
    }

    /// Publishes that `used` bytes of the window were consumed or filled, and closes it; all
    /// threads of the group call it.
    #[inline(always)]
    pub(crate) fn close<G: Group>(
        self,
        net: Net,
        group: G,
        handle: Handle,
        side: Side,
        used: usize,
    ) {
        // All threads' loads and stores in the window are done ...
        group.barrier();
        self.close_after_barrier(net, group, handle, side, used);
    }

    /// The same for threads that have met at a barrier since they used the window.
    #[inline(always)]
    pub(crate) fn close_after_barrier<G: Group>(
        self,
        net: Net,
        group: G,
        handle: Handle,
        side: Side,
        used: usize,
    ) {
        finish(
            net,
            group,
            handle,
            (self.span.low(), used.min(self.len())),
            Ending::of_window(side),
        );
    }

    /// The same for a window whose bytes were all copied out.
    #[inline(always)]
    pub(crate) fn close_copied<G: Group>(self, net: Net, group: G, handle: Handle, used: usize) {
        group.barrier();
        finish(net, group, handle, (self.span.low(), used.min(self.len())), Ending::Copied);
    }

    /// Bytes in the window.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.span.length()
    }

    /// A long window that does not fill the buffer of `most` bytes, cut where a line of the ring
    /// ends: the next one then begins there, and its copy moves 16 bytes at a time. What a peer
    /// sends comes in odd pieces, and the copy of one that begins anywhere takes twice as long.
    #[inline(always)]
    pub(crate) fn up_to_a_line(self, most: usize) -> Self {
        let length = self.len();
        let beyond = (self.span.low() as usize + length) % RING_LINE;
        let cut = length >= LONG && length < most;
        Self { span: if cut { self.span.at_most(length - beyond) } else { self.span }, ..self }
    }

    /// Copies the window's bytes out; all threads of the group call it.
    #[inline(always)]
    #[allow(unsafe_code, reason = "calls the copy loops")]
    pub(crate) fn copy_out<G: Group>(self, group: G, to: *mut u8) {
        let (rank, size) = (group.rank() as u32, group.size() as u32);
        let [(first, n), (second, m)] = self.ring.pieces(self.span);
        // SAFETY: the caller's buffer holds `length` bytes, the pieces lie in the ring, whose
        // capacity fits 32 bits.
        unsafe {
            copy::from_ring(rank, size, first, to, n as u32);
            if m > 0 {
                copy::from_ring(rank, size, second, to.add(n), m as u32);
            }
        }
    }

    /// Copies bytes into the window; all threads of the group call it.
    #[inline(always)]
    #[allow(unsafe_code, reason = "calls the copy loops")]
    pub(crate) fn copy_in<G: Group>(self, group: G, from: *const u8) {
        let (rank, size) = (group.rank() as u32, group.size() as u32);
        let [(first, n), (second, m)] = self.ring.pieces(self.span);
        // SAFETY: as in copy_out.
        unsafe {
            copy::to_ring(rank, size, from, first, n as u32);
            if m > 0 {
                copy::to_ring(rank, size, from.add(n), second, m as u32);
            }
        }
    }
}

/// What a leader found, in two words, which a function returns in registers.
pub(crate) struct Found {
    /// The ring.
    pub(crate) ring: u64,
    /// The window's length (upper half), and the lowest bits of the position where it begins; 0 at
    /// the end of the stream, or a negative error number.
    pub(crate) span: i64,
}

impl Found {
    /// Stands where a ring would: the bytes have been copied already. No ring lies there.
    pub(crate) const COPIED: u64 = 1;

    /// Stands there likewise: the message is sent, and nothing is to follow.
    pub(crate) const SENT: u64 = 2;

    /// So many bytes from a position on.
    #[inline(always)]
    pub(crate) fn span(position: u64, length: usize) -> i64 {
        Span::new(position, length).0 as i64
    }

    /// That went wrong.
    #[inline(always)]
    pub(crate) fn error(errno: Errno) -> Self {
        Self { ring: 0, span: errno.negative() }
    }

    /// Whether it was that there are no rings: those of a direct stream may have come since.
    #[inline(always)]
    pub(crate) fn is_unconnected(&self) -> bool {
        self.ring == 0 && self.span == Errno::ENOTCONN.negative()
    }

    /// As the group passes it on.
    #[inline(always)]
    pub(crate) fn words(self) -> [u64; 2] {
        [self.ring, self.span as u64]
    }
}

/// The leader's part of opening a window: lock, wait, see how much there is.
#[inline(never)]
pub(crate) fn find(
    net: Net,
    kind: GroupKind,
    handle: Handle,
    side: Side,
    least: usize,
    wait: bool,
) -> Found {
    let found = find_once(net, kind, handle, side, least, wait);
    // Out of line, and the search with it: twice the code is twice as long to fetch.
    if found.is_unconnected() && local::adopt_rings(net, handle) {
        return find_once(net, kind, handle, side, least, wait);
    }
    found
}

#[inline(never)]
fn find_once(
    net: Net,
    kind: GroupKind,
    handle: Handle,
    side: Side,
    least: usize,
    wait: bool,
) -> Found {
    Search::begin(net, handle, side, least, wait)
        .and_then(|search| search.by(kind))
        .and_then(Search::finish)
        .unwrap_or_else(Found::error)
}

/// A leader's search for bytes or space, with the direction's lock taken.
pub(crate) struct Search {
    pub(crate) socket: Socket,
    pub(crate) position: u64,
    /// The position with the number of the last express message, as the socket keeps it.
    numbered: u64,
    pub(crate) ring: RingPlace,
    /// The proxy's counter of the direction.
    pub(crate) live: Word,
    /// How long it may take; none: no time at all.
    pub(crate) deadline: Option<Deadline>,
    /// Whether the proxy tells of the end alone.
    pub(crate) direct: bool,
    pub(crate) side: Side,
    pub(crate) net: Net,
    least: usize,
    pub(crate) known: Progress,
}

impl Search {
    /// Takes the direction. On an error it is free.
    #[inline(always)]
    pub(crate) fn begin(
        net: Net,
        handle: Handle,
        side: Side,
        least: usize,
        wait: bool,
    ) -> Result<Self, Errno> {
        let socket = Socket::open(net, handle)?;
        Self::with_lock(net, socket, side, least, wait, None)
    }

    /// The same on an open socket, whose direction may have been taken already.
    #[inline(always)]
    pub(crate) fn with_lock(
        net: Net,
        socket: Socket,
        side: Side,
        least: usize,
        wait: bool,
        taken: Option<u64>,
    ) -> Result<Self, Errno> {
        // All of these are on their way to GPU memory before the first is looked at.
        let ring = socket.ring(side);
        let traits = socket.traits();
        let known = socket.known_send_progress();
        let live = socket.progress_word(side);
        let timeout = socket.timeout(side);
        let first_try = taken.or_else(|| socket.try_lock(side));
        let wait = wait & !traits.non_blocking();
        // The wait for the side and the wait for bytes share one time-out.
        let deadline = wait.then(|| Deadline::after_or_never(timeout));
        let numbered = match first_try {
            Some(position) => position,
            None => socket.lock(side, wait)?,
        };
        let position = express::without_number(numbered);
        let direct = traits.is_direct();
        let this = Self {
            socket,
            position,
            numbered,
            ring,
            live,
            deadline,
            direct,
            side,
            net,
            least,
            known,
        };
        // With the side, and both on their way together: who had it before may have shut it down.
        let (here, shut) = (socket.is_still_here(), this.is_shut());
        if !here {
            return Err(this.refuse(Errno::EBADF));
        }
        if shut {
            return Err(this.refuse(Errno::EPIPE));
        }
        // A listener's ring holds no bytes.
        if ring.is_none() || traits.kind() == Some(Kind::Listener) {
            return Err(this.refuse(Errno::ENOTCONN));
        }
        if least > ring.capacity() {
            return Err(this.refuse(Errno::EMSGSIZE));
        }
        Ok(this)
    }

    /// Tells what kind of group searches; those that receive follow the one that did before.
    #[inline(always)]
    pub(crate) fn by(self, kind: GroupKind) -> Result<Self, Errno> {
        if self.side == Side::Send {
            return Ok(self);
        }
        if self.direct {
            // Heads are in GPU memory: a look is no dearer than to ask who was here last.
            return match local::follow_receiver(self.net, self.socket, self.position, 0) {
                Ok(()) => Ok(self),
                Err(errno) => Err(self.refuse(errno)),
            };
        }
        let (group, last) = self.socket.change_receiver(kind);
        if group != last
            && let Err(errno) = local::follow_receiver(self.net, self.socket, self.position, last)
        {
            self.socket.restore_receiver(last);
            return Err(self.refuse(errno));
        }
        Ok(self)
    }

    /// Gives the direction back as it was.
    #[inline(always)]
    fn refuse(&self, errno: Errno) -> Errno {
        if self.side == Side::Send {
            // Who takes the side next knows what was sent before.
            simt::gpu_release_fence();
        }
        self.socket.unlock(self.side, self.numbered);
        errno
    }

    /// Waits for bytes or space.
    #[inline(always)]
    pub(crate) fn finish(self) -> Result<Found, Errno> {
        if self.side == Side::Send {
            // What is known may be old, and then there is more space, never less.
            let (known, capacity) = (self.known, self.ring.capacity());
            let used = self.position.wrapping_sub(known.count()) as usize;
            if !known.is_over() && used <= capacity && capacity - used >= self.least.max(1) {
                return Ok(self.found(capacity - used));
            }
        }
        if self.direct {
            let (handle, deadline) = (self.socket.handle(), self.deadline);
            let deadline = deadline.map_or(0, Deadline::to_word);
            let (net, side) = (self.net, self.side);
            return Ok(direct::finish(net, handle, side, self.numbered, self.least, deadline));
        }
        let ready = || {
            // Asked for first, so that they come while the read across PCIe is under way.
            let (open, shut) = (self.socket.is_open(), self.is_shut());
            // Acquire: who sees the counter sees the bytes (receive), or may overwrite them
            // (send).
            let word = if planted(Bug::ReceiveWithoutAcquire) {
                self.live.load()
            } else {
                self.live.load_acquire()
            };
            self.judge(Progress(word).ended_if(shut), open)
        };
        let outcome = match self.deadline {
            Some(deadline) => {
                wait_until(self.net, self.socket.shard(), deadline, Watch::Stop, ready)
                    .and_then(|inner| inner)
            }
            None => ready().unwrap_or(Err(Errno::EAGAIN)),
        };
        self.end(outcome)
    }

    /// Whether it is for sending, which another group has ended; or does so and waits for this one.
    #[inline(always)]
    pub(crate) fn is_shut(&self) -> bool {
        self.side == Side::Send && self.socket.send_is_shut()
    }

    /// What it came to.
    #[inline(always)]
    pub(crate) fn end(&self, outcome: Result<usize, Errno>) -> Result<Found, Errno> {
        match outcome {
            // The end of the stream, or no bytes were asked for and there are none.
            Ok(0) => Err(self.refuse(Errno(0))),
            Ok(available) => Ok(self.found(available)),
            Err(errno) => Err(self.refuse(errno)),
        }
    }

    #[inline(always)]
    fn found(&self, available: usize) -> Found {
        let mut length = available;
        if self.direct && self.side == Side::Send {
            // The kernel at the other end reads while this one fills the rest.
            length = available.min((self.ring.capacity() / SHARE).max(self.least));
        }
        Found { ring: self.ring.0, span: Found::span(self.position, length) }
    }

    /// What a counter of the proxy means: so many bytes or so much space, an error, or nothing
    /// yet. `open`: no group has begun to close the socket.
    #[inline(always)]
    pub(crate) fn judge(&self, progress: Progress, open: bool) -> Option<Result<usize, Errno>> {
        let capacity = self.ring.capacity();
        // How far the proxy is ahead of the kernel, or behind it.
        let distance = match self.side {
            // What another group has received may be news to this one.
            Side::Receive => (progress.count().wrapping_sub(self.position) as i64).max(0) as usize,
            Side::Send => self.position.wrapping_sub(progress.count()) as usize,
        };
        if distance > capacity {
            // Counters of another socket, which has the place by now.
            return Some(Err(Errno::EBADF));
        }
        let available = if self.side == Side::Receive { distance } else { capacity - distance };
        let over = progress.is_over();
        if progress.has_failed() {
            // The next send must not go by what was known before.
            self.socket.remember_send_progress(Progress::new(0, Progress::FAILED));
        }
        match self.side {
            Side::Receive if available >= self.least || (over && available > 0) => {
                Some(Ok(available))
            }
            Side::Send if !over && available >= self.least => {
                self.socket.remember_send_progress(progress);
                Some(Ok(available))
            }
            _ if progress.has_failed() => Some(Err(self.socket.failure())),
            Side::Receive if over => Some(Ok(0)),
            Side::Send if over => Some(Err(Errno::EPIPE)),
            _ if !open => Some(Err(Errno::EBADF)),
            _ => None,
        }
    }
}

/// How a call ends, which decides what it must wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Bytes were copied out of the ring. Each load was complete before the barrier, since its
    /// bytes had been stored elsewhere: no fence.
    Copied,
    /// The program itself has read the window.
    Read,
    /// The window was filled.
    Filled,
    /// The bytes were sent by express, and the ring follows.
    Expressed,
}

impl Ending {
    pub(crate) const fn of_window(side: Side) -> Self {
        match side {
            Side::Receive => Self::Read,
            Side::Send => Self::Filled,
        }
    }
}

/// Publishes that `used` bytes from a position on (its lowest bits are `low`) were consumed or
/// filled, and gives the direction back; all threads of the group call it, behind a barrier.
#[inline(always)]
pub(crate) fn finish<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    (low, used): (u32, usize),
    ending: Ending,
) {
    // The last thread, in larger groups of another warp than the leader: the group's next call
    // begins while this one's counter is still on its way.
    if group.rank() + 1 == group.size() {
        settle(net, handle, low, used, ending);
    }
}

/// The last thread's part of closing a window: publish, unlock.
#[inline(never)]
fn settle(net: Net, handle: Handle, low: u32, used: usize, ending: Ending) {
    let Ok(socket) = Socket::named(net, handle) else { return };
    let side = match ending {
        Ending::Copied | Ending::Read => Side::Receive,
        Ending::Filled | Ending::Expressed => Side::Send,
    };
    // Both on their way before the fence.
    let counter = socket.counter(side);
    let seen = socket.numbered_position(side);
    // What the last owner of a receive side wrote there may not have come yet, since nothing but
    // the position itself tells of it. Its lowest bits came with the window.
    let behind = if planted(Bug::PositionBelieved) { 0 } else { low.wrapping_sub(seen as u32) };
    let position = seen + u64::from(behind) + used as u64;
    // All threads' accesses before the counter moves, for the proxy, and before the next group has
    // the side: what was written into space that was not committed must not land behind its bytes.
    // A model knows of no load that is complete, and finds a race where there is none.
    let fences = ending != Ending::Copied || cfg!(feature = "loom");
    if fences && !planted(Bug::SendWithoutFence) {
        simt::release_fence();
    }
    if used > 0 {
        counter.store(express::without_number(position));
    }
    socket.note_position(side, position);
    if counter.is_direct() {
        // While the side is this group's: what the proxy is told only grows, and nothing is written
        // once the place may be another socket's.
        direct::settle(net, handle, side, position, ending == Ending::Filled);
    }
    if side == Side::Send {
        // The next group's counter must not be overtaken by this one.
        simt::gpu_release_fence();
    }
    socket.unlock(side, position);
    if ending == Ending::Filled && !counter.is_direct() {
        // For the next call: it then knows of space and of a broken connection without a read
        // across PCIe while it has bytes to send. After an express the answer brings that.
        socket.remember_send_progress(socket.progress(side));
    }
}
