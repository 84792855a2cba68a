//! Small messages by express: the first warp of a group reads counter and bytes at once, and
//! writes bytes and counter without a fence in between. See [`abi::express`](crate::abi::express).
//!
//! For groups whose first warp is whole; others go by the ring. All lanes of that warp run this
//! code together. Whatever came of it, the group ends the call as it ends one by the ring.

#![allow(unsafe_code, reason = "copies a small message from and to the caller's buffer")]

use crate::abi::card::Progress;
use crate::abi::errno::Errno;
use crate::abi::express::{self, EXPRESS_BYTES, EXPRESS_WORDS};
use crate::abi::handle::Handle;
use crate::abi::layout::LIVE_AT;
use crate::abi::net::Net;
use crate::abi::ring::RingPlace;
use crate::abi::word::writes_bytes;
use crate::direct;
use crate::group::{Group, GroupKind};
use crate::hot;
use crate::local::{Express, SendWay, Side, Socket, adopt_rings};
use crate::planted::{Bug, planted};
use crate::ring::{self, Ending, Found, Opened, Search, Window};
use crate::simt;
use crate::wait::{Deadline, EAGER_TURNS, Watch, wait_until, warp_until};

/// In what a leader plans, where no position reaches: the message goes straight to a kernel.
const DIRECT: u64 = 1 << 59;

/// What a call by express came to.
pub(crate) enum Outcome {
    /// So many bytes are where they belong; the call is over.
    Copied(usize),
    /// The rest goes by the ring.
    Ring(Opened),
}

/// Lanes that wait for something else than express words.
const COUNTER_LANE: u32 = LIVE_AT as u32;
const SEND_PROGRESS_LANE: u32 = COUNTER_LANE + 1;
const STATE_LANE: u32 = simt::WARP - 1;
const _: () = assert!(EXPRESS_WORDS as u32 <= COUNTER_LANE && SEND_PROGRESS_LANE < STATE_LANE);

/// Receives a small message on the stream that the block keeps, where the group is a single warp:
/// nobody else is to be waited for, or to be told. Its length; 0: nothing has happened. By itself, in
/// front of everything else that a call may do, so that it needs no registers of its caller's.
#[inline(always)]
pub(crate) fn receive_kept<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: (*mut u8, usize),
) -> u32 {
    if group.is_first_warp() && hot::keeps(handle) { hot::take_inline(net, buffer) } else { 0 }
}

/// Sends a small message likewise. Whether it did.
#[inline(always)]
pub(crate) fn send_kept<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: (*const u8, usize),
) -> bool {
    group.is_first_warp() && hot::keeps(handle) && hot::put_inline(net, buffer)
}

/// Receives a small message whole, or opens a window of the ring; all threads of the group call
/// it. The buffer holds `most` bytes.
#[inline(always)]
pub(crate) fn receive<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    (to, most): (*mut u8, usize),
    wait: bool,
) -> Result<Outcome, Errno> {
    let keeps = group.leads_block();
    // A single warp has tried before ([`receive_kept`]).
    let leads = keeps && wait && !group.is_first_warp() && hot::keeps(handle);
    let words = group.lead(|| {
        if leads {
            let bytes = hot::take(net, (to, most));
            if bytes != 0 {
                return [Found::COPIED, u64::from(bytes) << 32];
            }
        }
        take(net, G::KIND, handle, (to, most), wait, keeps).words()
    });
    if words[0] == Found::COPIED {
        return Ok(Outcome::Copied((words[1] >> 32) as usize));
    }
    Window::of(words, most).map(Outcome::Ring)
}

/// Sends a message of at most [`EXPRESS_BYTES`] whole, or opens a window of the ring; all threads
/// of the group call it.
#[inline(always)]
pub(crate) fn send<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    (from, length): (*const u8, usize),
    wait: bool,
) -> Result<Outcome, Errno> {
    // A single warp has tried before ([`send_kept`]).
    let leads = group.leads_block() && !group.is_first_warp() && hot::keeps(handle);
    let words = group.lead(|| {
        if leads && hot::put(net, (from, length)) {
            return [Found::SENT, 0];
        }
        put(net, handle, from, length, wait).words()
    });
    if words[0] == Found::COPIED {
        ring::finish(net, group, handle, (words[1] as u32, length), Ending::Expressed);
        return Ok(Outcome::Copied(length));
    }
    if words[0] == Found::SENT {
        return Ok(Outcome::Copied(length));
    }
    Window::of(words, length).map(Outcome::Ring)
}

/// The first warp's part of receiving.
#[inline(always)]
fn take(
    net: Net,
    kind: GroupKind,
    handle: Handle,
    buffer: (*mut u8, usize),
    wait: bool,
    keeps: bool,
) -> Found {
    let found = take_once(net, kind, handle, buffer, wait, keeps);
    if found.is_unconnected() && adopts(net, handle) {
        return take_once(net, kind, handle, buffer, wait, keeps);
    }
    found
}

/// Whether rings have come since; all lanes of the warp call it.
#[cold]
#[inline(never)]
fn adopts(net: Net, handle: Handle) -> bool {
    let mine = simt::lane() == 0 && adopt_rings(net, handle);
    simt::any_lane(mine)
}

#[inline(never)]
fn take_once(
    net: Net,
    kind: GroupKind,
    handle: Handle,
    (to, most): (*mut u8, usize),
    wait: bool,
    keeps: bool,
) -> Found {
    let lane = simt::lane();
    let mut search = None;
    let mut plan = [0; 3];
    if lane == 0 {
        let begun = Search::begin(net, handle, Side::Receive, 1, wait);
        match begun.and_then(|search| search.by(kind)) {
            Ok(begun) => {
                let deadline = begun.deadline.map_or(0, Deadline::to_word);
                plan = [begun.position, deadline, u64::from(begun.direct)];
                search = Some(begun);
            }
            Err(errno) => plan[2] = errno.negative() as u64,
        }
    }
    let [position, deadline, other] = plan.map(|word| simt::from_lane(word, 0));
    if other != 0 {
        if (other as i64) < 0 {
            return Found { ring: 0, span: other as i64 };
        }
        return direct::take(net, handle, (to, most), position, deadline, keeps);
    }
    // All lanes: the leader, who has checked the handle, and those who heard of it.
    let Ok(socket) = Socket::named(net, handle) else { return Found::error(Errno::EBADF) };
    let head = socket.receive_head();
    let at = match lane {
        STATE_LANE => socket.state_word(),
        lane => socket.told(lane.min(SEND_PROGRESS_LANE) as usize),
    };
    let moved = |word: u64| {
        let progress = Progress(word);
        progress.count().wrapping_sub(position) as i64 > 0 || progress.is_over()
    };
    let mut word = 0;
    let mut eager = true;
    let news = |turns: u32| {
        // Later it polls 8 bytes with one lane, and reads the rest once the counter moves.
        eager = turns < EAGER_TURNS;
        if eager || lane == COUNTER_LANE || lane == STATE_LANE {
            // Acquire: who sees the counter sees the ring's bytes, too.
            let acquires = !planted(Bug::ReceiveWithoutAcquire);
            word = if acquires { at.load_acquire() } else { at.load() };
        }
        let mine = match lane {
            COUNTER_LANE => moved(word),
            STATE_LANE => !socket.says_open(word),
            _ => false,
        };
        simt::any_lane(mine).then_some(())
    };
    let deadline = Deadline::from_word(deadline);
    let waited = match deadline {
        Some(deadline) => {
            // A warp polls as one; where that costs a switch for each lane, one polls for all.
            let alone =
                if simt::polls_by_warp() { 0 } else { wait_alone(net, socket, deadline, moved) };
            match alone {
                0 => warp_until(net, socket.shard(), deadline, Watch::Stop, news),
                errno => Err(Errno(errno as i32)),
            }
        }
        None => {
            let mut news = news;
            news(0).ok_or(Errno::EAGAIN)
        }
    };
    if waited.is_ok() && !eager && lane != COUNTER_LANE && lane != STATE_LANE {
        word = at.load_acquire();
    }
    let counter = Progress(simt::from_lane(word, COUNTER_LANE));
    let Announced { length, tag, fits } = Announced::by(counter, position, most);
    let strange = lane < EXPRESS_WORDS as u32 && !express::belongs(word, tag);
    let other = !fits || simt::any_lane(strange);
    let sent = Progress(simt::from_lane(word, SEND_PROGRESS_LANE));
    let open = socket.says_open(simt::from_lane(word, STATE_LANE));
    if other || waited.is_err() {
        let mut found = Found { ring: 0, span: 0 };
        if let Some(search) = search {
            // As for any group: bytes, the end, an error.
            let outcome =
                waited.and_then(|()| search.judge(counter, open).unwrap_or(Err(Errno::EAGAIN)));
            found = search.end(outcome).unwrap_or_else(Found::error);
        }
        simt::come_together();
        return found;
    }
    let first = 4 * lane as usize;
    if first < length as usize {
        // SAFETY: the caller's buffer holds `most` bytes, and `length` is at most that.
        unsafe { store_bytes(to.add(first), express::bytes_of(word), length as usize - first) };
    }
    if lane == 0 {
        // No fence: nobody has read the ring.
        head.store(position + length);
        // It came with the rest, and spares the answer a read across PCIe.
        socket.remember_send_progress(sent);
        socket.note_position(Side::Receive, position + length);
        socket.unlock(Side::Receive, position + length);
    }
    simt::come_together();
    Found { ring: Found::COPIED, span: Found::span(position, length as usize) }
}

/// What a counter says of the message in the express words.
pub(crate) struct Announced {
    pub(crate) length: u64,
    pub(crate) tag: u32,
    /// Whether there is one, and the buffer takes it.
    pub(crate) fits: bool,
}

impl Announced {
    #[inline(always)]
    pub(crate) fn by(counter: Progress, position: u64, most: usize) -> Self {
        let length = counter.count().wrapping_sub(position);
        let fits = (1..=EXPRESS_BYTES.min(most) as u64).contains(&length) && counter.express() != 0;
        Self { length, tag: express::tag(position, length, counter.express()), fits }
    }
}

/// One lane waits until the counter has moved or the socket is being closed; all get an error
/// number, or 0.
#[cold]
fn wait_alone(net: Net, socket: Socket, deadline: Deadline, moved: impl Fn(u64) -> bool) -> u64 {
    let mut error = 0;
    if simt::lane() == 0 {
        let counter = socket.progress_word(Side::Receive);
        let waited = wait_until(net, socket.shard(), deadline, Watch::Stop, || {
            (moved(counter.load()) || !socket.is_open()).then_some(())
        });
        error = waited.map_or_else(|errno| errno.0, |()| 0) as u64;
    }
    simt::from_lane(error, 0)
}

/// The first warp's part of sending.
#[inline(never)]
fn put(net: Net, handle: Handle, from: *const u8, length: usize, wait: bool) -> Found {
    let lane = simt::lane();
    let Ok(socket) = Socket::named(net, handle) else { return Found::error(Errno::EBADF) };
    // Addresses and bytes are on their way while the leader takes the direction.
    let (words, tail) = socket.send_words();
    let first = 4 * lane as usize;
    let mut bytes = [0; 4];
    if first < length {
        // SAFETY: the caller's buffer holds `length` bytes.
        bytes = unsafe { load_bytes(from.add(first), length - first) };
    }
    // Where the message begins, with its number.
    let (mut plan, mut tail_at) = (0, 0);
    let mut found = Found { ring: 0, span: 0 };
    if lane == 0 {
        match claim(socket) {
            Claim::Express(begin) => plan = begin,
            Claim::Direct(begin, at) => (plan, tail_at) = (begin | DIRECT, at),
            Claim::Taken(numbered) => found = by_ring(net, handle, wait, Some(numbered)),
            Claim::No => found = by_ring(net, handle, wait, None),
        }
    }
    // Together again from here on, by whichever way.
    let plan = simt::from_lane(plan, 0);
    let position = express::without_number(plan);
    if express::number_of(plan) == 0 {
        return found;
    }
    if plan & DIRECT != 0 {
        direct::put((net, handle), socket, plan & !DIRECT, tail_at, length, bytes);
        return Found { ring: Found::SENT, span: 0 };
    }
    announce(socket, Express { words, tail }, lane, plan, length as u64, bytes);
    copy_in(socket, position, length, first, bytes);
    Found { ring: Found::COPIED, span: Found::span(position, length) }
}

/// A lane's part of putting a message of `length` bytes, which begins at `plan`, into the express
/// words, and announcing it.
#[inline(always)]
pub(crate) fn announce(
    socket: Socket,
    Express { words, tail }: Express,
    lane: u32,
    plan: u64,
    length: u64,
    bytes: [u8; 4],
) {
    if lane < EXPRESS_WORDS as u32 {
        let (position, number) = (express::without_number(plan), express::number_of(plan));
        let tag = express::tag(position, length, number);
        words.get(lane as usize).store(express::word(bytes, tag));
    }
    if lane == 0 {
        // No fence: the proxy takes the words for what their tags say, and waits for the rest.
        tail.store(plan + length);
        socket.note_position(Side::Send, plan);
    }
}

/// A lane's part of putting a message, which begins at `position`, into the ring: the bytes from
/// `first` on.
#[inline(always)]
pub(crate) fn copy_in(socket: Socket, position: u64, length: usize, first: usize, bytes: [u8; 4]) {
    copy_into(socket.ring(Side::Send), position, length, first, bytes);
}

/// The same into that ring.
#[inline(always)]
pub(crate) fn copy_into(
    ring: RingPlace,
    position: u64,
    length: usize,
    first: usize,
    bytes: [u8; 4],
) {
    let offset = |at: usize| (position as usize + first + at) & (ring.capacity() - 1);
    if first + 4 <= length && offset(0).is_multiple_of(4) {
        writes_bytes(ring.start().wrapping_add(offset(0)), 4);
        // SAFETY: inside the ring, whose lock the group has.
        unsafe {
            simt::store_plain(ring.start().add(offset(0)).cast(), u32::from_le_bytes(bytes));
        }
    } else {
        let four = u32::from_le_bytes(bytes);
        for at in 0..4 {
            if first + at < length {
                writes_bytes(ring.start().wrapping_add(offset(at)), 1);
                // SAFETY: as above.
                unsafe {
                    simt::store_plain(ring.start().add(offset(at)), (four >> (8 * at)) as u8);
                }
            }
        }
    }
}

/// What the attempt to send by express came to.
pub(crate) enum Claim {
    /// The side is taken; where the message begins, with its number.
    Express(u64),
    /// The same on a direct stream, and where its tail is.
    Direct(u64, u64),
    /// The side is taken and stands there, but the proxy is not known to have taken all that was
    /// sent.
    Taken(u64),
    /// The side is not taken.
    No,
}

/// Takes the send side for a message by express.
#[inline(always)]
fn claim(socket: Socket) -> Claim {
    // All on their way before the first is looked at. The state needs no acquire: the side does.
    let state = socket.state_word().load();
    let known = socket.known_send_progress();
    let way = socket.send_way();
    let tail_at = socket.send_tail_at();
    if !socket.says_in_use(state) || known.is_over() || way != SendWay::EXPRESS {
        if way == SendWay::DIRECT && socket.says_in_use(state) && !known.is_over() {
            return direct::claim(socket, known, tail_at);
        }
        return Claim::No;
    }
    let Some(numbered) = socket.try_lock(Side::Send) else { return Claim::No };
    let position = express::without_number(numbered);
    // Where they agree the side is that of the socket whose state was read: another one in its
    // place would have begun as over.
    if known.count() != position {
        return Claim::Taken(numbered);
    }
    let number = express::next_number(express::number_of(numbered));
    Claim::Express(express::with_number(position, number))
}

/// Goes on by the ring.
#[inline(never)]
fn by_ring(net: Net, handle: Handle, wait: bool, taken: Option<u64>) -> Found {
    let search = match taken {
        Some(_) => Socket::named(net, handle)
            .and_then(|socket| Search::with_lock(net, socket, Side::Send, 1, wait, taken)),
        None => Search::begin(net, handle, Side::Send, 1, wait),
    };
    let found = search.and_then(Search::finish).unwrap_or_else(Found::error);
    if found.is_unconnected() && adopt_rings(net, handle) {
        return ring::find(net, GroupKind::Warp, handle, Side::Send, 1, wait);
    }
    found
}

/// Up to four bytes of the `left` that follow.
///
/// # Safety
/// `from` is valid for `left` bytes.
#[inline(always)]
pub(crate) unsafe fn load_bytes(from: *const u8, left: usize) -> [u8; 4] {
    if left >= 4 && from.addr().is_multiple_of(4) {
        // SAFETY: the caller's promise, and aligned.
        return unsafe { from.cast::<u32>().read() }.to_le_bytes();
    }
    let mut four = 0;
    // In a register: an array that is indexed would lie in local memory.
    for at in 0..4 {
        if at < left {
            // SAFETY: the caller's promise.
            four |= u32::from(unsafe { from.add(at).read() }) << (8 * at);
        }
    }
    four.to_le_bytes()
}

/// Stores up to four bytes into the `left` that follow.
///
/// # Safety
/// `to` is valid for `left` bytes.
#[inline(always)]
pub(crate) unsafe fn store_bytes(to: *mut u8, bytes: [u8; 4], left: usize) {
    if left >= 4 && to.addr().is_multiple_of(4) {
        // SAFETY: the caller's promise, and aligned.
        return unsafe { to.cast::<u32>().write(u32::from_le_bytes(bytes)) };
    }
    let four = u32::from_le_bytes(bytes);
    for at in 0..4 {
        if at < left {
            // SAFETY: the caller's promise.
            unsafe { to.add(at).write((four >> (8 * at)) as u8) };
        }
    }
}

/// A warp's part in models: lane after lane, by one thread.
#[cfg(feature = "loom")]
pub mod model {
    use super::*;
    use crate::group::Thread;

    /// Sends a message by express, once the proxy has taken all that was sent before; waits for
    /// that.
    ///
    /// # Errors
    /// A handle that names no open socket.
    pub fn put(net: Net, handle: Handle, message: &[u8]) -> Result<(), Errno> {
        let socket = Socket::open(net, handle)?;
        let plan = wait_until(net, socket.shard(), Deadline::NEVER, Watch::Stop, || {
            socket.remember_send_progress(socket.progress(Side::Send));
            match claim(socket) {
                Claim::Express(plan) => Some(plan),
                Claim::Taken(numbered) => {
                    socket.unlock(Side::Send, numbered);
                    None
                }
                Claim::Direct(..) | Claim::No => None,
            }
        })?;
        for lane in 0..EXPRESS_WORDS {
            let four = core::array::from_fn(|at| *message.get(4 * lane + at).unwrap_or(&0));
            let (words, tail) = socket.send_words();
            let express = Express { words, tail };
            announce(socket, express, lane as u32, plan, message.len() as u64, four);
        }
        for lane in 0..EXPRESS_WORDS {
            let four = core::array::from_fn(|at| *message.get(4 * lane + at).unwrap_or(&0));
            copy_in(socket, express::without_number(plan), message.len(), 4 * lane, four);
        }
        ring::finish(net, Thread, handle, (plan as u32, message.len()), Ending::Expressed);
        Ok(())
    }

    /// Takes a message by express if one is there as a whole; how long it is.
    ///
    /// # Errors
    /// A handle that names no open socket, or a side that another group has.
    pub fn take(net: Net, handle: Handle, to: &mut [u8]) -> Result<usize, Errno> {
        let search = Search::begin(net, handle, Side::Receive, 1, true)?.by(GroupKind::Thread)?;
        let (socket, position) = (search.socket, search.position);
        // The counter last: it may be newer than the words.
        let words: [u64; EXPRESS_WORDS] =
            core::array::from_fn(|lane| socket.told(lane).load_acquire());
        let counter = Progress(socket.told(LIVE_AT).load_acquire());
        let Announced { length, tag, fits } = Announced::by(counter, position, to.len());
        if !fits || !words.iter().all(|word| express::belongs(*word, tag)) {
            socket.unlock(Side::Receive, position);
            return Ok(0);
        }
        for (at, byte) in to[..length as usize].iter_mut().enumerate() {
            *byte = express::bytes_of(words[at / 4])[at % 4];
        }
        socket.receive_head().store(position + length);
        socket.note_position(Side::Receive, position + length);
        socket.unlock(Side::Receive, position + length);
        Ok(length as usize)
    }

    /// Waits until no group has the send side, and it stands there. Groups that meet there are beyond
    /// loom, which does not know that their exchanges are in one order with the store that follows.
    ///
    /// # Errors
    /// A handle that names no open socket.
    pub fn until_sent(net: Net, handle: Handle, position: u64) -> Result<(), Errno> {
        let socket = Socket::open(net, handle)?;
        let stands = || (socket.position_word(Side::Send).load() == position).then_some(());
        wait_until(net, socket.shard(), Deadline::NEVER, Watch::Stop, stands)
    }

    /// Where the record of a socket says that its rings are, and the receive side's position.
    ///
    /// # Errors
    /// A handle that names no open socket.
    pub fn rings(net: Net, handle: Handle) -> Result<[u64; 3], Errno> {
        let socket = Socket::open(net, handle)?;
        let (receive, send) = (socket.ring(Side::Receive), socket.ring(Side::Send));
        Ok([receive.0, send.0, socket.position(Side::Receive)])
    }
}
