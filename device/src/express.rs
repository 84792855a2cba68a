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
use crate::abi::layout::{LIVE_AT, WATCHED_AT};
use crate::abi::net::Net;
use crate::abi::word::writes_bytes;
use crate::group::{Group, GroupKind};
use crate::local::{Express, Side, Socket, adopt_rings};
use crate::planted::{Bug, planted};
use crate::ring::{self, ENDING_TURNS, Ending, Found, Opened, Search, Window};
use crate::simt;
use crate::wait::{Deadline, Watch, wait_until, warp_until};

/// Stands where a [`Found`] has its ring: the bytes have been copied already. No ring lies there.
const COPIED: u64 = 1;
/// The same, and the call is over.
const DONE: u64 = 2;

/// Beside the address of a tail, which has 48 bits: the proxy wants to know of it.
const WATCHED_BIT: u64 = 1 << 63;

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
const WATCHED_LANE: u32 = WATCHED_AT as u32;
const STATE_LANE: u32 = simt::WARP - 1;
const _: () = assert!(EXPRESS_WORDS as u32 <= COUNTER_LANE && WATCHED_LANE < STATE_LANE);
const _: () = assert!(SEND_PROGRESS_LANE < WATCHED_LANE);

/// Turns of a wait in which the express words are read along with the counter, about a
/// millisecond. Who waits longer leaves the link to others, and reads them once the counter moves.
const EAGER_TURNS: u32 = 1000;

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
    let words = group.lead(|| take(net, G::KIND, handle, to, most, wait).words());
    if words[0] == COPIED {
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
    let words = group.lead(|| put(net, handle, from, length, wait).words());
    if words[0] == COPIED {
        ring::finish(net, group, handle, (words[1] as u32, length), Ending::Expressed);
        return Ok(Outcome::Copied(length));
    }
    if words[0] == DONE {
        return Ok(Outcome::Copied(length));
    }
    Window::of(words, length).map(Outcome::Ring)
}

/// The first warp's part of receiving.
#[inline(always)]
fn take(net: Net, kind: GroupKind, handle: Handle, to: *mut u8, most: usize, wait: bool) -> Found {
    let found = take_once(net, kind, handle, to, most, wait);
    if found.is_unconnected() && adopts(net, handle) {
        return take_once(net, kind, handle, to, most, wait);
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
    to: *mut u8,
    most: usize,
    wait: bool,
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
    let [position, deadline, direct] = plan.map(|word| simt::from_lane(word, 0));
    if (direct as i64) < 0 {
        return Found { ring: 0, span: direct as i64 };
    }
    let direct = direct != 0;
    // All lanes: the leader, who has checked the handle, and those who heard of it.
    let Ok(socket) = Socket::named(net, handle) else { return Found::error(Errno::EBADF) };
    let head = socket.counter(Side::Receive);
    let at = match lane {
        STATE_LANE => socket.state_word(),
        lane => socket.told(lane.min(WATCHED_LANE) as usize),
    };
    let moved = |word: u64| {
        let progress = Progress(word);
        progress.count().wrapping_sub(position) as i64 > 0 || progress.is_over()
    };
    let mut word = 0;
    let mut eager = true;
    let news = |turns: u32| {
        eager = turns < EAGER_TURNS;
        let ending = direct && (turns + 1).is_multiple_of(ENDING_TURNS);
        if ending && (COUNTER_LANE..=SEND_PROGRESS_LANE).contains(&lane) {
            let side = if lane == COUNTER_LANE { Side::Receive } else { Side::Send };
            word = socket.with_ending(side, at).0;
        } else if eager || direct || lane >= COUNTER_LANE {
            // Acquire: who sees the counter sees the ring's bytes, too.
            let acquires = !planted(Bug::ReceiveWithoutAcquire);
            word = if acquires { at.load_acquire() } else { at.load() };
        }
        let mine = match lane {
            COUNTER_LANE => moved(word),
            STATE_LANE => !socket.says_open(word),
            _ => false,
        };
        if !simt::any_lane(mine) {
            return None;
        }
        // A direct stream's small message need not be in the ring: its words have to be here.
        let closed = lane == STATE_LANE && mine;
        (!direct || is_whole(lane, word) || simt::any_lane(closed)).then_some(())
    };
    let deadline = Deadline::from_word(deadline);
    let waited = match deadline {
        Some(deadline) => {
            // A warp polls as one; where that costs a switch for each lane, one polls for all.
            let alone = match simt::polls_by_warp() {
                true => 0,
                false => wait_alone(net, socket, deadline, direct, moved),
            };
            match alone {
                0 => warp_until(net, socket.shard(), deadline, Watch::Stop, news),
                errno => Err(Errno(errno as i32)),
            }
        }
        None => {
            let mut news = news;
            // With a look at the end of a direct stream.
            news(ENDING_TURNS - 1).ok_or(Errno::EAGAIN)
        }
    };
    if waited.is_ok() && !eager && !direct && lane < COUNTER_LANE {
        word = at.load_acquire();
    }
    let counter = Progress(simt::from_lane(word, COUNTER_LANE));
    let Announced { length, tag, fits } = Announced::by(counter, position, most);
    let strange = lane < EXPRESS_WORDS as u32 && !express::belongs(word, tag);
    let other = !fits || simt::any_lane(strange);
    let sent = Progress(simt::from_lane(word, SEND_PROGRESS_LANE));
    let watched = direct && simt::from_lane(word, WATCHED_LANE) != 0;
    let open = socket.says_open(simt::from_lane(word, STATE_LANE));
    if other || waited.is_err() {
        let Some(search) = search else { return Found { ring: 0, span: 0 } };
        if waited.is_ok() {
            // It came with the rest: the answer may go by express even so.
            socket.remember_send_progress(sent);
        }
        // As for any group: bytes, the end, an error. A message that this buffer cannot take goes
        // through the ring even so.
        let counter = match direct {
            true => search.with_message(counter).certain(position),
            false => counter,
        };
        let outcome =
            waited.and_then(|()| search.judge(counter, open).unwrap_or(Err(Errno::EAGAIN)));
        return search.end(outcome).unwrap_or_else(Found::error);
    }
    let first = 4 * lane as usize;
    if first < length as usize {
        // SAFETY: the caller's buffer holds `most` bytes, and `length` is at most that.
        unsafe { store_bytes(to.add(first), express::bytes_of(word), length as usize - first) };
    }
    if lane == 0 {
        // No fence: nobody has read the ring.
        head.store(position + length);
        if watched {
            socket.note_watched();
            socket.tell_proxy(Side::Receive, position + length);
        }
        // It came with the rest, and spares the answer a read across PCIe.
        socket.remember_send_progress(sent);
        socket.note_position(Side::Receive, position + length);
        socket.unlock(Side::Receive, position + length);
    }
    Found { ring: COPIED, span: Found::span(position, length as usize) }
}

/// Whether nothing more is to be waited for on a direct stream whose counter has moved: it has no
/// number, all words of its message have come, or none will; all lanes call it.
#[inline(always)]
fn is_whole(lane: u32, word: u64) -> bool {
    let counter = Progress(simt::from_lane(word, COUNTER_LANE));
    if counter.express() == 0 || counter.is_over() {
        return true;
    }
    let tag = express::tag_before(counter, express::tag_of(simt::from_lane(word, 0)));
    let strange = lane < EXPRESS_WORDS as u32 && tag != Some(express::tag_of(word));
    !simt::any_lane(strange)
}

/// What a counter says of the message in the express words.
struct Announced {
    length: u64,
    tag: u32,
    /// Whether there is one, and the buffer takes it.
    fits: bool,
}

impl Announced {
    #[inline(always)]
    fn by(counter: Progress, position: u64, most: usize) -> Self {
        let length = counter.count().wrapping_sub(position);
        let fits = (1..=EXPRESS_BYTES.min(most) as u64).contains(&length) && counter.express() != 0;
        Self { length, tag: express::tag(position, length, counter.express()), fits }
    }
}

/// One lane waits until the counter has moved or the socket is being closed; all get an error
/// number, or 0.
#[cold]
fn wait_alone(
    net: Net,
    socket: Socket,
    deadline: Deadline,
    direct: bool,
    moved: impl Fn(u64) -> bool,
) -> u64 {
    let mut error = 0;
    if simt::lane() == 0 {
        let counter = socket.progress_word(Side::Receive);
        let waited = wait_until(net, socket.shard(), deadline, Watch::Stop, || {
            let word = match direct {
                true => socket.with_ending(Side::Receive, counter).0,
                false => counter.load(),
            };
            (moved(word) || !socket.is_open()).then_some(())
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
    // The bytes are on their way while the leader takes the direction.
    let first = 4 * lane as usize;
    let mut bytes = [0; 4];
    if first < length {
        // SAFETY: the caller's buffer holds `length` bytes.
        bytes = unsafe { load_bytes(from.add(first), length - first) };
    }
    // Where the message begins, with its number, and where it goes.
    let mut plan = [0; 2];
    let mut found = Found { ring: 0, span: 0 };
    if lane == 0 {
        match claim(socket) {
            Claim::Express(begin, tail_at) => plan = [begin, tail_at],
            other => found = by_ring(net, handle, socket, wait, other),
        }
    }
    let [plan, tail_at] = plan.map(|word| simt::from_lane(word, 0));
    let position = express::without_number(plan);
    if express::number_of(plan) == 0 {
        return found;
    }
    let express = socket.express(tail_at);
    let direct = express.is_direct();
    announce(socket, express, lane, plan, length as u64, bytes);
    copy_in(socket, position, length, first, bytes);
    if direct {
        // Its reader takes the words for what their tags say, whatever the ring holds by now.
        give_back(socket, lane, plan + length as u64, tail_at & WATCHED_BIT != 0);
        return Found { ring: DONE, span: 0 };
    }
    Found { ring: COPIED, span: Found::span(position, length) }
}

/// Ends a small message on a direct stream: all lanes of the warp call it. What follows it, by
/// whichever group, comes behind it.
#[inline(always)]
fn give_back(socket: Socket, lane: u32, position: u64, watched: bool) {
    // All lanes' bytes, before whoever has the side next says that the ring holds them.
    simt::warp_barrier();
    if lane == 0 {
        socket.note_position(Side::Send, position);
        simt::gpu_release_fence();
        socket.unlock(Side::Send, position);
        // Asked behind the message, which is on its way by now: who only sends has not seen it
        // anywhere else.
        if watched || socket.is_watched() {
            socket.tell_proxy(Side::Send, position);
        }
    }
}

/// A lane's part of putting a message of `length` bytes, which begins at `plan`, into the express
/// words, and announcing it.
#[inline(always)]
fn announce(
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
        // No fence: the reader takes the words for what their tags say, and waits for the rest.
        tail.store(plan + length);
        socket.note_position(Side::Send, plan);
    }
}

/// A lane's part of putting a message, which begins at `position`, into the ring: the bytes from
/// `first` on.
#[inline(always)]
fn copy_in(socket: Socket, position: u64, length: usize, first: usize, bytes: [u8; 4]) {
    let ring = socket.ring(Side::Send);
    let offset = |at: usize| (position as usize + first + at) & (ring.capacity() - 1);
    if first + 4 <= length && offset(0).is_multiple_of(4) {
        writes_bytes(ring.start().wrapping_add(offset(0)), 4);
        // SAFETY: inside the ring, whose lock the group has.
        unsafe {
            simt::store_plain(ring.start().add(offset(0)).cast(), u32::from_le_bytes(bytes));
        }
    } else {
        for (at, byte) in bytes.into_iter().enumerate() {
            if first + at < length {
                writes_bytes(ring.start().wrapping_add(offset(at)), 1);
                // SAFETY: as above.
                unsafe { simt::store_plain(ring.start().add(offset(at)), byte) };
            }
        }
    }
}

/// What the attempt to send by express came to.
enum Claim {
    /// The side is taken; where the message begins, with its number, and where it goes.
    Express(u64, u64),
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
    let by_express = socket.sends_by_express();
    let tail_at = socket.send_tail_at();
    let watched = socket.traits().is_watched();
    if !socket.says_in_use(state) || known.is_over() || !by_express {
        return Claim::No;
    }
    let Some(numbered) = socket.try_lock(Side::Send) else { return Claim::No };
    let position = express::without_number(numbered);
    // Where they agree the side is that of the socket whose state was read: another one in its
    // place would have begun as over.
    let (true, Some(tail_at)) = (known.count() == position, socket.check_tail_at(tail_at)) else {
        return Claim::Taken(numbered);
    };
    let number = express::next_number(express::number_of(numbered));
    let watched = if watched { WATCHED_BIT } else { 0 };
    Claim::Express(express::with_number(position, number), tail_at | watched)
}

/// Goes on by the ring.
#[inline(never)]
fn by_ring(net: Net, handle: Handle, socket: Socket, wait: bool, claim: Claim) -> Found {
    let search = match claim {
        Claim::Taken(numbered) => {
            Search::with_lock(net, socket, Side::Send, 1, wait, Some(numbered))
        }
        _ => Search::begin(net, handle, Side::Send, 1, wait),
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
unsafe fn load_bytes(from: *const u8, left: usize) -> [u8; 4] {
    if left >= 4 && from.addr().is_multiple_of(4) {
        // SAFETY: the caller's promise, and aligned.
        return unsafe { from.cast::<u32>().read() }.to_le_bytes();
    }
    let mut bytes = [0; 4];
    for (at, byte) in bytes.iter_mut().enumerate() {
        if at < left {
            // SAFETY: the caller's promise.
            *byte = unsafe { from.add(at).read() };
        }
    }
    bytes
}

/// Stores up to four bytes into the `left` that follow.
///
/// # Safety
/// `to` is valid for `left` bytes.
#[inline(always)]
unsafe fn store_bytes(to: *mut u8, bytes: [u8; 4], left: usize) {
    if left >= 4 && to.addr().is_multiple_of(4) {
        // SAFETY: the caller's promise, and aligned.
        return unsafe { to.cast::<u32>().write(u32::from_le_bytes(bytes)) };
    }
    for (at, byte) in bytes.into_iter().enumerate() {
        if at < left {
            // SAFETY: the caller's promise.
            unsafe { to.add(at).write(byte) };
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
        let (plan, tail_at) =
            wait_until(net, socket.shard(), Deadline::NEVER, Watch::Stop, || {
                socket.remember_send_progress(socket.progress(Side::Send));
                match claim(socket) {
                    Claim::Express(plan, tail_at) => Some((plan, tail_at)),
                    Claim::Taken(numbered) => {
                        socket.unlock(Side::Send, numbered);
                        None
                    }
                    Claim::No => None,
                }
            })?;
        for lane in 0..EXPRESS_WORDS {
            let four = core::array::from_fn(|at| *message.get(4 * lane + at).unwrap_or(&0));
            let express = socket.express(tail_at);
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
        socket.counter(Side::Receive).store(position + length);
        socket.note_position(Side::Receive, position + length);
        socket.unlock(Side::Receive, position + length);
        Ok(length as usize)
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
