//! The direct stream that a block used last: small messages without a look at its record.
//!
//! What a call needs of a stream's record lies two or three reads of GPU memory away, one behind the
//! other, and a call's whole code does not fit into the cache from which a single warp gets its
//! instructions at once. So the block's first warp keeps that of one stream in shared memory, and has
//! short code of its own for the usual case: a small message on that stream, and nobody else has used
//! the side since. An exchange of the side's position tells so: counters of direct streams begin at
//! numbers of their own, so a position names stream and place. Anything else goes the ordinary way
//! ([`direct`](crate::direct)), which keeps the stream for the next call.

#![allow(unsafe_code, reason = "reaches what was kept: addresses, and words of shared memory")]

use crate::abi::card::Progress;
use crate::abi::express::{self, EXPRESS_WORDS};
use crate::abi::handle::Handle;
use crate::abi::layout::{LOCAL_WORDS, MAILBOX_WORDS, WATCHED_AT};
use crate::abi::net::Net;
use crate::abi::ring::RingPlace;
use crate::abi::word::Words;
use crate::direct::{COUNTER_LANE, SEND_PROGRESS_LANE, WATCHED_LANE};
use crate::express::{copy_into, load_bytes, store_bytes};
use crate::local::{SendWay, Side, Socket, TAKEN};
use crate::simt::{self, KEPT_WORDS};

/// Looks at the mailbox before the side is given back for the ordinary way, with its deadline: some
/// 20 us. Where lanes are switched one by one, a single look.
const LOOKS: u32 = 64;
/// Looks that find a counter which has moved, and no small message: words may come behind it.
const DOUBTS: u32 = 2;

const _: () = assert!((WATCHED_LANE as usize) < MAILBOX_WORDS);

/// What is kept of a stream. The block's first warp writes and reads it, with a barrier in between;
/// of the handle, see [`keeps`].
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Kept {
    /// The stream; none: nothing is kept.
    handle: Handle,
    /// Where its record is.
    record: u64,
    /// Its mailbox.
    mailbox: u64,
    /// The peer's.
    peer: u64,
    /// Where the receive side stood when this group gave it back.
    received: u64,
    /// Where the send side did, with the number of the last small message.
    sent: u64,
    /// The last that the peer said of what it has taken.
    known: u64,
    /// The send ring.
    ring: u64,
}

const _: () = assert!(size_of::<Kept>() == 8 * KEPT_WORDS);

impl Kept {
    #[inline(always)]
    fn place() -> *mut Self {
        simt::kept().cast()
    }

    #[inline(always)]
    fn load() -> Self {
        let [handle, record, mailbox, peer, received, sent, known, ring] = simt::load_kept();
        Self { handle: Handle(handle), record, mailbox, peer, received, sent, known, ring }
    }

    #[inline(always)]
    fn words<const N: usize>(address: u64) -> Words<N> {
        // SAFETY: `keep` got the address from an open socket. Its memory stays while a kernel may
        // look there, whatever becomes of the socket.
        unsafe { Words::at(core::ptr::with_exposed_provenance_mut(address as usize)) }
    }

    #[inline(always)]
    fn socket(&self, net: Net) -> Socket {
        Socket::at(net, self.handle, Self::words::<LOCAL_WORDS>(self.record))
    }

    #[inline(always)]
    fn mailbox(&self) -> Words<MAILBOX_WORDS> {
        Self::words(self.mailbox)
    }

    #[inline(always)]
    fn peer(&self) -> Words<MAILBOX_WORDS> {
        Self::words(self.peer)
    }
}

/// Whether that stream is kept. All that other streams pay. Threads of a block's other warps ask, too,
/// at any time: what they get means nothing.
#[inline(always)]
pub(crate) fn keeps(handle: Handle) -> bool {
    simt::first_kept() == handle.0 && handle.0 != 0
}

/// Keeps a stream: one lane of the block's first warp, with the receive side of the socket, which
/// stands at `received`.
#[cold]
#[inline(never)]
pub(crate) fn keep(socket: Socket, received: u64) {
    let (mailbox, peer) = socket.mailbox_addresses();
    let kept = Kept {
        handle: socket.handle(),
        record: socket.record_address(),
        mailbox,
        peer,
        received,
        sent: socket.numbered_position(Side::Send),
        known: socket.progress_word(Side::Send).load(),
        ring: socket.ring(Side::Send).0,
    };
    // SAFETY: the block's words; one lane writes, and the others read behind a barrier.
    unsafe { Kept::place().write(kept) };
}

/// Keeps no stream any more; one lane of the block's first warp.
#[inline(always)]
pub(crate) fn forget() {
    // SAFETY: as in `keep`.
    unsafe { (&raw mut (*Kept::place()).handle).write(Handle::NONE) };
}

/// The same as [`take_inline`], for groups with more to do at its place.
#[inline(never)]
pub(crate) fn take(net: Net, buffer: (*mut u8, usize)) -> u32 {
    take_inline(net, buffer)
}

/// Receives a small message on the stream that [is kept](keeps); all lanes of the block's first warp
/// call it. Its length, in all lanes; 0: nothing has happened, go the ordinary way.
#[inline(always)]
pub(crate) fn take_inline(net: Net, (to, most): (*mut u8, usize)) -> u32 {
    simt::whole_warp_barrier();
    let kept = Kept::load();
    let lane = simt::lane();
    let socket = kept.socket(net);
    let position = kept.received;
    let at = kept.mailbox().get(lane.min(WATCHED_LANE) as usize);
    // On its way together with the exchange: what it brings is this group's if the side is. No
    // acquire here and below: words tell by themselves what they belong to, and nobody looks into
    // the ring.
    let mut word = at.load();
    let stood = socket.position_word(Side::Receive).replace_on_gpu(position, TAKEN, lane == 0);
    if simt::any_lane((lane == 0) & (stood != position)) {
        // Not again before a small message has come the ordinary way.
        if lane == 0 {
            forget();
        }
        simt::come_together();
        return 0;
    }
    let looks = if simt::polls_by_warp() { LOOKS } else { 1 };
    let mut doubts = 0;
    for _ in 0..looks {
        let tag = simt::half_from_first_lane(express::tag_of(word));
        let end = position.wrapping_add(express::length_of(tag));
        let number = express::number_in(tag);
        let length = express::length_of(tag) as usize;
        let counter = Progress::new(end, 0).with_express(number).0;
        // Without a branch, in which lanes would go one after the other.
        let strange = (tag != express::tag(position, length as u64, number))
            | (number == 0)
            | (length > most)
            | (lane < EXPRESS_WORDS as u32) & (express::tag_of(word) != tag)
            | (lane == COUNTER_LANE) & (word != counter)
            // The ordinary way tells the proxy.
            | (lane >= WATCHED_LANE) & (word != 0);
        if !simt::any_lane(strange) {
            let first = 4 * lane as usize;
            if first < length {
                // SAFETY: the caller's buffer holds `most` bytes, and `length` is at most that.
                unsafe { store_bytes(to.add(first), express::bytes_of(word), length - first) };
            }
            if lane == SEND_PROGRESS_LANE {
                socket.remember_send_progress(Progress(word));
                // SAFETY: as in `keep`, as for the words below.
                unsafe { (&raw mut (*Kept::place()).known).write(word) };
            }
            if lane == 0 {
                // What the peer's send side reads. No fence: nobody has read the ring.
                kept.peer().get(SEND_PROGRESS_LANE as usize).store(Progress::new(end, 0).0);
                socket.note_position(Side::Receive, end);
                socket.unlock(Side::Receive, end);
                // SAFETY: as above.
                unsafe { (&raw mut (*Kept::place()).received).write(end) };
            }
            // What each lane has copied is there for all.
            simt::whole_warp_barrier();
            return length as u32;
        }
        // Whatever number is left there of the message before.
        let moved = express::without_number(word) != Progress::new(position, 0).0;
        let counts = lane == COUNTER_LANE;
        if simt::any_lane(counts & moved) {
            doubts += 1;
            // Without a number it is a longer message, in the ring.
            if doubts == DOUBTS || simt::any_lane(counts & (express::number_of(word) == 0)) {
                break;
            }
        }
        simt::pause();
        word = at.load();
    }
    if lane == 0 {
        forget();
        socket.unlock(Side::Receive, position);
    }
    simt::come_together();
    0
}

/// The same as [`put_inline`], for groups with more to do at its place.
#[inline(never)]
pub(crate) fn put(net: Net, buffer: (*const u8, usize)) -> bool {
    put_inline(net, buffer)
}

/// Sends a small message on the stream that [is kept](keeps); all lanes of the block's first warp
/// call it. Whether it did; else nothing has happened.
#[inline(always)]
pub(crate) fn put_inline(net: Net, (from, length): (*const u8, usize)) -> bool {
    simt::whole_warp_barrier();
    // Small: half a register is enough for it.
    let length = length as u32;
    let mut kept = Kept::load();
    let lane = simt::lane();
    let socket = kept.socket(net);
    // All that was sent before has been taken, and so its words are free.
    let all_taken = |sent: u64| kept.known == Progress::new(express::without_number(sent), 0).0;
    let refreshed = !all_taken(kept.sent);
    if refreshed {
        // This group may have sent the ordinary way since.
        let sent = last_sent(socket);
        if !all_taken(sent) {
            return false;
        }
        kept.sent = sent;
    }
    let position = express::without_number(kept.sent);
    // Both on their way together with the exchange.
    let watched = kept.mailbox().get(WATCHED_AT).load();
    let way = socket.send_way();
    let stood = socket.position_word(Side::Send).replace_on_gpu(kept.sent, TAKEN, lane == 0);
    // The message is made while they are.
    let first = 4 * lane;
    let mut bytes = [0; 4];
    if first < length {
        // SAFETY: the caller's buffer holds `length` bytes.
        bytes = unsafe { load_bytes(from.add(first as usize), (length - first) as usize) };
    }
    let number = express::next_number(express::number_of(kept.sent));
    let end = position + u64::from(length);
    let word = match lane {
        COUNTER_LANE => Progress::new(end, 0).with_express(number).0,
        _ => express::word(bytes, express::tag(position, length.into(), number)),
    };
    let word = simt::opaque(word as usize) as u64;
    // Here, or a compiler waits for one of them first.
    simt::come_together();
    let straight = way == SendWay::DIRECT;
    let taken = (lane != 0) | (stood == kept.sent);
    if simt::any_lane(!taken | (watched != 0) | !straight) {
        if lane == 0 && taken {
            // Who takes the side next knows what was sent before.
            simt::gpu_release_fence();
            socket.unlock(Side::Send, kept.sent);
        }
        if lane == 0 {
            forget();
        }
        simt::come_together();
        return false;
    }
    if refreshed {
        // Another may have, too: its tail stands before this one's.
        simt::gpu_release_fence();
    }
    if lane <= COUNTER_LANE {
        kept.peer().get(lane as usize).store(word);
    }
    copy_into(RingPlace(kept.ring), position, length as usize, first as usize, bytes);
    // All lanes' bytes, before whoever has the side next says that the ring holds them.
    simt::whole_warp_barrier();
    if lane == 0 {
        let end = express::with_number(end, number);
        socket.note_position(Side::Send, end);
        // SAFETY: as in `keep`.
        unsafe { (&raw mut (*Kept::place()).sent).write(end) };
        simt::gpu_release_fence();
        socket.unlock(Side::Send, end);
    }
    simt::come_together();
    true
}

/// Where the send side stood last, by the record; all lanes of a warp call it, and get the same. In line:
/// a call would have the whole function save its callers' registers.
#[inline(always)]
fn last_sent(socket: Socket) -> u64 {
    let mut sent = 0;
    if simt::lane() == 0 {
        sent = socket.numbered_position(Side::Send);
    }
    simt::from_lane(sent, 0)
}
