//! Direct streams: what a group does where the other end is a kernel that reads and writes the same
//! memory, and the proxy tells of the end alone.
//!
//! Bytes go into the other end's ring, counters into its mailbox, and a small message into the
//! mailbox's express words, without a fence. Unlike a proxy, its reader need not wait for the ring
//! to follow: it puts the bytes into its own ring itself if it wants them there. Out of line as a
//! whole, so that it costs other streams a branch.

#![allow(unsafe_code, reason = "copies small messages")]

use crate::abi::card::Progress;
use crate::abi::errno::Errno;
use crate::abi::express::{self, EXPRESS_WORDS};
use crate::abi::handle::Handle;
use crate::abi::layout::{LIVE_AT, WATCHED_AT};
use crate::abi::net::Net;
use crate::express::{Announced, Claim, announce, copy_in, store_bytes};
use crate::hot;
use crate::local::{Side, Socket, tell_proxy};
use crate::ring::{Found, Search};
use crate::simt;
use crate::wait::{Deadline, Watch, wait_until, warp_until};

/// A wait looks so often, in turns, whether the proxy says that the stream is over: a read across
/// PCIe, where the others stay on the GPU.
const ENDING_TURNS: u32 = 16;

/// Lanes of a receiving warp that look at something else than express words.
pub(crate) const COUNTER_LANE: u32 = LIVE_AT as u32;
pub(crate) const SEND_PROGRESS_LANE: u32 = COUNTER_LANE + 1;
pub(crate) const WATCHED_LANE: u32 = WATCHED_AT as u32;
const STATE_LANE: u32 = simt::WARP - 1;
const _: () = assert!(EXPRESS_WORDS as u32 <= COUNTER_LANE && SEND_PROGRESS_LANE < WATCHED_LANE);

/// Takes the send side of a direct stream for a small message, by what was read of its record: the
/// progress last seen, and where the tail is.
#[inline(always)]
pub(crate) fn claim(socket: Socket, known: Progress, tail_at: u64) -> Claim {
    let Some(numbered) = socket.try_lock(Side::Send) else { return Claim::No };
    let position = express::without_number(numbered);
    // Of another socket, which has the place by now, the counters would have begun elsewhere, and
    // the tail would be of another generation: no need to look again.
    let (true, Some(tail_at)) = (known.count() == position, socket.check_tail_at(tail_at)) else {
        return Claim::Taken(numbered);
    };
    let number = express::next_number(express::number_of(numbered));
    Claim::Direct(express::with_number(position, number), tail_at)
}

/// Sends a small message; all lanes of the warp call it. `plan` and `tail_at` are what the leader
/// claimed, `bytes` the lane's own.
#[inline(always)]
pub(crate) fn put(
    (net, handle): (Net, Handle),
    socket: Socket,
    plan: u64,
    tail_at: u64,
    length: usize,
    bytes: [u8; 4],
) {
    let lane = simt::lane();
    let tail_at = simt::from_lane(tail_at, 0);
    announce(socket, socket.express(tail_at), lane, plan, length as u64, bytes);
    // Asked for behind the message, so that it comes while the ring follows.
    let watched = socket.is_watched();
    copy_in(socket, express::without_number(plan), length, 4 * lane as usize, bytes);
    // All lanes' bytes, before whoever has the side next says that the ring holds them.
    simt::warp_barrier();
    if lane == 0 {
        let position = plan + length as u64;
        socket.note_position(Side::Send, position);
        if watched {
            tell_proxy(net, handle, Side::Send, position);
        }
        simt::gpu_release_fence();
        socket.unlock(Side::Send, position);
    }
    simt::come_together();
}

/// The first warp's part of receiving, once its leader has the side; all its lanes call it. A small
/// message is copied, and [`Found::COPIED`] says so. `keeps`: the warp is its block's first, and keeps
/// the stream.
#[inline(never)]
pub(crate) fn take(
    net: Net,
    handle: Handle,
    (to, most): (*mut u8, usize),
    position: u64,
    deadline: u64,
    keeps: bool,
) -> Found {
    let deadline = Deadline::from_word(deadline);
    let lane = simt::lane();
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
    let (mut word, mut counter) = (0, Progress(0));
    // Whether a small message has come as a whole that begins where the group stands.
    let mut small = false;
    let news = |turns: u32| {
        let ending = (turns + 1).is_multiple_of(ENDING_TURNS);
        word = if ending && (COUNTER_LANE..=SEND_PROGRESS_LANE).contains(&lane) {
            let side = if lane == COUNTER_LANE { Side::Receive } else { Side::Send };
            socket.with_ending(side, at).0
        } else {
            // Acquire: who sees the counter sees the ring's bytes, too.
            at.load_acquire()
        };
        let closed = lane == STATE_LANE && !socket.says_open(word);
        if !simt::any_lane(closed || lane == COUNTER_LANE && moved(word)) {
            return None;
        }
        counter = Progress(simt::from_lane(word, COUNTER_LANE));
        let Announced { tag, fits, .. } = Announced::by(counter, position, most);
        let strange = lane < EXPRESS_WORDS as u32 && !express::belongs(word, tag);
        small = fits && !simt::any_lane(strange);
        (small || is_whole(lane, word, counter) || simt::any_lane(closed)).then_some(())
    };
    let waited = match deadline {
        Some(deadline) => {
            // A warp polls as one; where that costs a switch for each lane, one polls for all.
            let alone = match simt::polls_by_warp() {
                true => 0,
                false => wait_alone(net, socket, deadline, moved),
            };
            match alone {
                0 => warp_until(net, socket.shard(), deadline, Watch::Stop, news),
                errno => Err(Errno(errno as i32)),
            }
        }
        None => {
            let mut news = news;
            // With a look at the end.
            news(ENDING_TURNS - 1).ok_or(Errno::EAGAIN)
        }
    };
    if !small || waited.is_err() {
        let sent = Progress(simt::from_lane(word, SEND_PROGRESS_LANE));
        let open = socket.says_open(simt::from_lane(word, STATE_LANE));
        let mut found = Found { ring: 0, span: 0 };
        if lane == 0 {
            found = by_ring(net, socket, position, waited, (counter, sent), open);
        }
        simt::come_together();
        return found;
    }
    let length = counter.count().wrapping_sub(position);
    let first = 4 * lane as usize;
    if first < length as usize {
        // SAFETY: the caller's buffer holds `most` bytes, and `length` is at most that.
        unsafe { store_bytes(to.add(first), express::bytes_of(word), length as usize - first) };
    }
    if lane == SEND_PROGRESS_LANE {
        // It came with the rest, and the answer may then be a small message.
        socket.remember_send_progress(Progress(word));
    }
    let watched = simt::any_lane(lane == WATCHED_LANE && word != 0);
    if lane == 0 {
        // No fence: nobody has read the ring.
        head.store(position + length);
        socket.note_position(Side::Receive, position + length);
        if watched {
            tell_proxy(net, handle, Side::Receive, position + length);
        }
        // One that is watched takes the ordinary way, where the proxy is told.
        if keeps && !watched {
            hot::keep(socket, position + length);
        }
        socket.unlock(Side::Receive, position + length);
    }
    simt::come_together();
    Found { ring: Found::COPIED, span: Found::span(position, length as usize) }
}

/// What the leader found is in the ring, or an error, or the end.
#[inline(never)]
fn by_ring(
    net: Net,
    socket: Socket,
    position: u64,
    waited: Result<(), Errno>,
    (counter, sent): (Progress, Progress),
    open: bool,
) -> Found {
    // The leader has the side; whether it may wait was settled before.
    let search = match Search::with_lock(net, socket, Side::Receive, 1, false, Some(position)) {
        Ok(search) => search,
        Err(errno) => return Found::error(errno),
    };
    if waited.is_ok() {
        // It came with the rest: the answer may be a small message even so.
        socket.remember_send_progress(sent);
    }
    let counter = search.with_message(counter).certain(position);
    let outcome = waited.and_then(|()| search.judge(counter, open).unwrap_or(Err(Errno::EAGAIN)));
    search.end(outcome).unwrap_or_else(Found::error)
}

/// Whether nothing more is to be waited for where a counter has moved: it has no number, all words
/// of its message have come, or none will; all lanes call it.
#[inline(always)]
fn is_whole(lane: u32, word: u64, counter: Progress) -> bool {
    if counter.express() == 0 || counter.is_over() {
        return true;
    }
    let tag = express::tag_before(counter, express::tag_of(simt::from_lane(word, 0)));
    let strange = lane < EXPRESS_WORDS as u32 && tag != Some(express::tag_of(word));
    !simt::any_lane(strange)
}

/// One lane waits until the counter has moved, or the socket is being closed; all get an error
/// number, or 0.
#[cold]
fn wait_alone(net: Net, socket: Socket, deadline: Deadline, moved: impl Fn(u64) -> bool) -> u64 {
    let mut error = 0;
    if simt::lane() == 0 {
        let counter = socket.progress_word(Side::Receive);
        let waited = wait_until(net, socket.shard(), deadline, Watch::Stop, || {
            let word = socket.with_ending(Side::Receive, counter).0;
            (moved(word) || !socket.is_open()).then_some(())
        });
        error = waited.map_or_else(|errno| errno.0, |()| 0) as u64;
    }
    simt::from_lane(error, 0)
}

impl Search {
    /// Waits for bytes or space on a direct stream.
    #[inline(always)]
    fn wait_direct(&self) -> Result<usize, Errno> {
        let mut turns = 0_u32;
        let mut ready = || {
            let open = self.socket.is_open();
            turns = turns.wrapping_add(1);
            // Who has heard that sending is over, or nothing yet, asks first.
            let doubt = turns == 1 && self.side == Side::Send && self.known.is_over();
            let ending = self.deadline.is_none() || doubt || turns.is_multiple_of(ENDING_TURNS);
            self.judge_direct(ending, open)
        };
        match self.deadline {
            Some(deadline) => {
                wait_until(self.net, self.socket.shard(), deadline, Watch::Stop, ready)
                    .and_then(|inner| inner)
            }
            None => ready().unwrap_or(Err(Errno::EAGAIN)),
        }
    }

    /// What the kernel at the other end says, and with `ending` what the proxy says of its end.
    #[inline(always)]
    fn judge_direct(&self, ending: bool, open: bool) -> Option<Result<usize, Errno>> {
        let progress = match ending {
            true => self.socket.with_ending(self.side, self.live).ended_if(self.is_shut()),
            false => Progress(self.live.load_acquire()),
        };
        // A small message whose words are on their way is waited for, unless nothing will come.
        let progress = self.with_message(progress);
        match progress.express() {
            0 => self.judge(progress, open),
            _ if progress.is_over() || !open => self.judge(progress.at(self.position), open),
            _ => None,
        }
    }

    /// A counter with the small message that it announces put into the ring, where its sender may
    /// not have put it yet: the same bytes. With its number where the message is not here as a whole.
    #[inline(always)]
    fn with_message(&self, counter: Progress) -> Progress {
        if counter.express() == 0 || self.side == Side::Send {
            return counter;
        }
        self.put_into_ring(counter)
    }

    #[cold]
    #[inline(never)]
    fn put_into_ring(&self, counter: Progress) -> Progress {
        let Some(begin) = self.socket.small_message(counter) else { return counter };
        let length = counter.count().wrapping_sub(begin) as usize;
        for word in 0..EXPRESS_WORDS {
            // The same as was just found whole: the peer sends no other before this one was received.
            let four = u32::from_le_bytes(express::bytes_of(self.socket.told(word).load()));
            for byte in 0..4 {
                let at = 4 * word + byte;
                let position = begin + at as u64;
                if at < length && position >= self.position {
                    let offset = position as usize & (self.ring.capacity() - 1);
                    // SAFETY: inside the ring, whose receive side the group has; its sender writes
                    // nothing else there before the message was received.
                    unsafe {
                        let to = self.ring.start().add(offset);
                        simt::store_plain(to, (four >> (8 * byte)) as u8);
                    }
                }
            }
        }
        // Another thread says that the message was received, without a fence where it was copied:
        // these bytes must not land behind those that the peer then puts in their place.
        simt::release_fence();
        counter.at(counter.count())
    }
}

/// The rest of a search on a direct stream whose side the leader has: of the same handle, standing at
/// `numbered`, for `least` bytes, until that deadline. Words only: what is handed over in memory would
/// cost all streams a stack frame.
#[inline(never)]
pub(crate) fn finish(
    net: Net,
    handle: Handle,
    side: Side,
    numbered: u64,
    least: usize,
    deadline: u64,
) -> Found {
    let search = Socket::named(net, handle)
        .and_then(|socket| Search::with_lock(net, socket, side, least, false, Some(numbered)));
    let found = search.and_then(|mut search| {
        search.deadline = Deadline::from_word(deadline);
        search.end(search.wait_direct())
    });
    found.unwrap_or_else(Found::error)
}

/// The rest of closing a window of a direct stream, while the group has the side: tells the proxy
/// how far it is, where it wants to know, and remembers how much space there is behind a window that
/// was filled.
#[inline(never)]
pub(crate) fn settle(net: Net, handle: Handle, side: Side, position: u64, filled: bool) {
    let Ok(socket) = Socket::named(net, handle) else { return };
    let watched = socket.is_watched();
    if filled {
        socket.remember_send_progress(socket.progress(Side::Send));
    }
    if watched {
        tell_proxy(net, handle, side, position);
    }
}
