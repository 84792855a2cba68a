//! Two endpoints, the kernels that use their rings, and a queue pair between them, all in memory.
//!
//! The queue pair keeps the order of writes and lets everything else be late, as a seed decides.
//! It checks each write against what the receiver really has free, so that an endpoint that
//! writes where it must not is found at once and not by what becomes of the bytes.

use std::collections::VecDeque;

use crate::work::{Completion, Fault, Piece, Write};

use super::wire::{ENTRY_BYTES, Message};
use super::{Failure, Protocol, TargetList, Terms};

/// A generator of numbers that has only its seed (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(super) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of 1, 2, 4, ... up to a power of two, or a number around it.
    pub(super) fn any_scale(&mut self, powers: u64) -> u64 {
        let power = 1 << self.below(powers + 1);
        1 + self.below(power)
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The byte of a stream at a position.
fn byte(stream: u64, position: u64) -> u8 {
    (position.wrapping_add(stream).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// What no stream byte that matters is: put where nobody may look any more.
const POISON: u8 = 0xa5;

/// Where a side's target list is, and its key.
pub(super) const LIST: (u64, u32) = (0x7000_0000_0010, 77);

pub(super) type List = [[u8; ENTRY_BYTES as usize]; 2];

impl TargetList for List {
    fn read(&self, entry: usize) -> [u8; 16] {
        self[entry]
    }

    fn clear(&mut self, entry: usize) {
        self[entry] = [0; 16];
    }
}

/// A side's state machine.
pub(super) trait Endpoint {
    fn next_write(&mut self, list: &mut List) -> Option<Write>;
    fn completed(&mut self, completion: Completion, list: &mut List);
    fn receives_to_post(&mut self) -> u32;
    fn offer(&mut self, tail: u64);
    fn consumed(&mut self, head: u64);
    fn shutdown_send(&mut self);
    fn disconnect(&mut self);
    fn keepalive(&mut self);
    fn sent(&self) -> u64;
    fn arrived(&self) -> u64;
    fn wants_head(&self) -> bool;
    fn is_all_sent(&self) -> bool;
    fn is_reset(&self) -> bool;
    fn is_peer_done(&self) -> bool;
    fn is_over(&self) -> bool;
    fn failure(&self) -> Option<Failure>;
    fn entry_is_exhausted(&self, slot: usize, list: &List) -> bool;
}

impl Endpoint for Protocol {
    fn next_write(&mut self, _list: &mut List) -> Option<Write> {
        self.next_write()
    }
    fn completed(&mut self, completion: Completion, list: &mut List) {
        self.completed(completion, list);
    }
    fn receives_to_post(&mut self) -> u32 {
        self.receives_to_post()
    }
    fn offer(&mut self, tail: u64) {
        self.offer(tail).expect("the kernel behaves");
    }
    fn consumed(&mut self, head: u64) {
        self.consumed(head).expect("the kernel behaves");
    }
    fn shutdown_send(&mut self) {
        self.shutdown_send();
    }
    fn disconnect(&mut self) {
        self.disconnect();
    }
    fn keepalive(&mut self) {
        self.keepalive();
    }
    fn sent(&self) -> u64 {
        self.sent()
    }
    fn arrived(&self) -> u64 {
        self.arrived()
    }
    fn wants_head(&self) -> bool {
        self.wants_head()
    }
    fn is_all_sent(&self) -> bool {
        self.is_all_sent()
    }
    fn is_reset(&self) -> bool {
        self.is_reset()
    }
    fn is_peer_done(&self) -> bool {
        self.is_peer_done()
    }
    fn is_over(&self) -> bool {
        self.is_over()
    }
    fn failure(&self) -> Option<Failure> {
        self.failure()
    }
    fn entry_is_exhausted(&self, slot: usize, list: &List) -> bool {
        self.sending.entry_is_exhausted(slot) && list[slot] == [0; 16]
    }
}

/// One side: endpoint, kernel, memory, its end of the queue pair.
pub(super) struct Side {
    pub(super) endpoint: Box<dyn Endpoint>,
    terms: Terms,
    list: List,
    send_memory: Vec<u8>,
    receive_memory: Vec<u8>,

    /// Which stream it sends, how far the kernel has, and where it stops.
    stream: u64,
    pub(super) tail: u64,
    pub(super) goal: u64,
    /// What the kernel has consumed, and how much it waits for before it looks.
    pub(super) head: u64,
    least: u64,
    /// Most that it ever waits for.
    most_waited: u64,
    /// What was last reported to the kernel.
    seen_sent: u64,
    seen_arrived: u64,

    /// Posted, not delivered; delivered, not reported; reported, not read.
    writes: VecDeque<Write>,
    unreported: usize,
    completions: VecDeque<Completion>,
    /// Writes whose completion was not read: they fill the send queue.
    outstanding: usize,
    receives: u32,
    receives_owed: u32,
    /// In error: what is posted comes back.
    error: bool,
    /// Destroyed.
    pub(super) disconnected: bool,

    /// What was written into the receive ring.
    delivered: u64,
    /// Messages with data that were posted, and how many the peer has allowed.
    pub(super) data_messages: u64,
    limit: u64,
    pub(super) control_messages: u64,
}

impl Side {
    /// A side that sends so many bytes. The peer's terms say how many messages it may send.
    pub(super) fn new(
        endpoint: Box<dyn Endpoint>,
        list: List,
        terms: Terms,
        peer: &Terms,
        (stream, bytes): (u64, u64),
    ) -> Self {
        Self {
            endpoint,
            list,
            send_memory: vec![POISON; terms.send.capacity as usize],
            receive_memory: vec![POISON; terms.receive.capacity as usize],
            stream,
            tail: terms.send.base,
            goal: terms.send.base + bytes,
            head: terms.receive.base,
            least: 1,
            most_waited: terms.receive.capacity,
            seen_sent: terms.send.base,
            seen_arrived: terms.receive.base,
            writes: VecDeque::new(),
            unreported: 0,
            completions: VecDeque::new(),
            outstanding: 0,
            receives: terms.receives(),
            receives_owed: 0,
            error: false,
            disconnected: false,
            delivered: terms.receive.base,
            data_messages: 0,
            limit: peer.settings.receive_queue.into(),
            control_messages: 0,
            terms,
        }
    }

    /// Where its stream begins.
    pub(super) fn start(&self) -> u64 {
        self.terms.send.base
    }

    /// How many bytes its kernel has read.
    pub(super) fn bytes_read(&self) -> u64 {
        self.head - self.terms.receive.base
    }

    /// Its kernel reads nothing until so many bytes are there, and never waits for more than that.
    pub(super) fn wait_for(&mut self, bytes: u64) {
        (self.least, self.most_waited) = (bytes, bytes);
    }

    /// The kernel publishes up to so many bytes. Whether anything happened; as all that follow.
    pub(super) fn produce(&mut self, most: u64) -> bool {
        let ring = self.terms.send;
        let space = ring.capacity - (self.tail - self.seen_sent);
        let count = most.min(space).min(self.goal - self.tail);
        for position in self.tail..self.tail + count {
            self.send_memory[(position & (ring.capacity - 1)) as usize] =
                byte(self.stream, position - ring.base);
        }
        self.tail += count;
        if count > 0 {
            self.endpoint.offer(self.tail);
        }
        count > 0
    }

    /// The kernel reads up to so many bytes of the peer's stream, if as many are there as it waits
    /// for; then it waits for `least`.
    pub(super) fn consume(&mut self, stream: u64, most: u64, least: u64) -> bool {
        let ring = self.terms.receive;
        let there = self.seen_arrived - self.head;
        if there < self.least && !self.endpoint.is_peer_done() {
            return false;
        }
        let count = most.min(there);
        for position in self.head..self.head + count {
            let place = &mut self.receive_memory[(position & (ring.capacity - 1)) as usize];
            let expected = byte(stream, position - ring.base);
            assert_eq!(*place, expected, "byte {} of the stream", position - ring.base);
            *place = POISON;
        }
        self.head += count;
        if count > 0 {
            self.least = least.min(self.most_waited);
        }
        count > 0
    }

    /// The driver reports to the endpoint what the kernel has consumed.
    pub(super) fn report_head(&mut self) {
        self.endpoint.consumed(self.head);
    }

    /// The driver reads completions.
    pub(super) fn poll(&mut self, most: u64) -> bool {
        let mut read = 0;
        while read < most
            && !self.disconnected
            && let Some(completion) = self.completions.pop_front()
        {
            read += 1;
            if matches!(completion, Completion::Written(_)) {
                self.outstanding -= 1;
            }
            self.endpoint.completed(completion, &mut self.list);
            self.receives_owed += self.endpoint.receives_to_post();
            self.publish();
        }
        read > 0
    }

    /// The driver reports to the kernel what the endpoint knows. Poisons what the kernel may overwrite.
    fn publish(&mut self) {
        let (sent, arrived) = (self.endpoint.sent(), self.endpoint.arrived());
        assert!(self.seen_sent <= sent && sent <= self.tail, "sent {sent}");
        assert!(self.seen_arrived <= arrived && arrived <= self.delivered, "arrived {arrived}");
        let mask = self.terms.send.capacity - 1;
        for position in self.seen_sent..sent {
            self.send_memory[(position & mask) as usize] = POISON;
        }
        (self.seen_sent, self.seen_arrived) = (sent, arrived);
    }

    /// The driver posts the receives that are due.
    pub(super) fn post_receives(&mut self) -> bool {
        let count = std::mem::take(&mut self.receives_owed);
        self.receives += count;
        assert!(self.receives <= self.terms.receives(), "the receive queue overflows");
        if self.error {
            self.flush_receives();
        }
        count > 0
    }

    /// The driver posts writes.
    pub(super) fn post_writes(&mut self, most: u64) -> bool {
        let mut posted = 0;
        while posted < most
            && !self.disconnected
            && let Some(write) = self.endpoint.next_write(&mut self.list)
        {
            posted += 1;
            self.outstanding += 1;
            assert!(
                self.outstanding <= self.terms.settings.send_queue.into(),
                "the send queue overflows"
            );
            if let Some(Message::Data(_)) = write.immediate.and_then(Message::decode) {
                self.data_messages += 1;
                assert!(self.data_messages <= self.limit, "a message without a credit");
            } else {
                self.control_messages += 1;
            }
            if self.error {
                self.completions.push_back(Completion::Written(Err(Fault::Flushed)));
            } else {
                self.writes.push_back(write);
            }
        }
        posted > 0
    }

    /// A write that the peer has acknowledged is reported.
    pub(super) fn report(&mut self) -> bool {
        let some = self.unreported > 0;
        if some {
            self.unreported -= 1;
            self.completions.push_back(Completion::Written(Ok(())));
        }
        some
    }

    /// The queue pair goes into error, and gives back all that was posted.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.error = true;
        let writes = std::mem::take(&mut self.unreported) + std::mem::take(&mut self.writes).len();
        let faults = std::iter::once(fault).chain(std::iter::repeat(Fault::Flushed));
        for fault in faults.take(writes) {
            self.completions.push_back(Completion::Written(Err(fault)));
        }
        self.flush_receives();
    }

    fn flush_receives(&mut self) {
        for _ in 0..std::mem::take(&mut self.receives) {
            self.completions.push_back(Completion::Received(Err(Fault::Flushed)));
        }
    }

    /// The driver destroys the queue pair once the connection is over and nothing is on the way.
    pub(super) fn leave(&mut self) -> bool {
        let leaves = !self.disconnected && self.endpoint.is_over() && self.outstanding == 0;
        self.disconnected |= leaves;
        leaves
    }

    fn gather(&self, piece: &Piece, bytes: &mut Vec<u8>) {
        let ring = self.terms.send;
        let offset = piece.address.checked_sub(ring.address).expect("a piece before the ring");
        let end = offset + u64::from(piece.length);
        assert!(piece.key == ring.key && end <= ring.capacity, "a piece outside the ring");
        bytes.extend_from_slice(&self.send_memory[offset as usize..end as usize]);
    }

    /// A write arrives: in the list, in the ring, or nowhere as it is empty.
    fn take(&mut self, write: &Write, bytes: &[u8]) {
        let target = write.target;
        if write.own.is_some() {
            let offset = target.address.checked_sub(LIST.0).expect("a grant before the list");
            let slot = (offset / u64::from(ENTRY_BYTES)) as usize;
            assert_eq!(offset % u64::from(ENTRY_BYTES), 0, "a grant across entries");
            assert_eq!((target.key, target.length), (LIST.1, ENTRY_BYTES));
            assert!(
                self.endpoint.entry_is_exhausted(slot, &self.list),
                "a grant over one that is not exhausted"
            );
            self.list[slot].copy_from_slice(bytes);
        } else if !bytes.is_empty() {
            let ring = self.terms.receive;
            let offset = self.delivered & (ring.capacity - 1);
            let end = offset + bytes.len() as u64;
            assert_eq!((target.address, target.key), (ring.address + offset, ring.key));
            assert!(end <= ring.capacity, "data across the ring's end");
            self.delivered += bytes.len() as u64;
            assert!(self.delivered - self.head <= ring.capacity, "unread bytes overwritten");
            self.receive_memory[offset as usize..end as usize].copy_from_slice(bytes);
        }
        if let Some(immediate) = write.immediate {
            if let Some(Message::Limit(limit)) = Message::decode(immediate) {
                self.limit += u64::from(limit.wrapping_sub(self.limit as u16));
            }
            self.receives -= 1;
            self.completions.push_back(Completion::Received(Ok(immediate)));
        }
    }
}

/// Delivers the oldest write of one side to the other, if that has a receive for it.
pub(super) fn deliver(from: &mut Side, to: &mut Side) -> bool {
    let Some(write) = from.writes.front().copied() else { return false };
    if to.disconnected || to.error {
        // What was delivered before was acknowledged before.
        while from.report() {}
        from.fail(Fault::Unanswered);
        return true;
    }
    if write.immediate.is_some() && to.receives == 0 {
        return false;
    }
    let mut bytes = Vec::new();
    match write.own {
        Some(own) => bytes.extend_from_slice(&own),
        None => {
            for piece in write.pieces.iter().filter(|piece| piece.length > 0) {
                from.gather(piece, &mut bytes);
            }
        }
    }
    assert_eq!(bytes.len() as u32, write.target.length, "the target's length");
    from.writes.pop_front();
    from.unreported += 1;
    to.take(&write, &bytes);
    true
}

/// What the programs and drivers of a connection tend to do.
pub(super) struct Habits {
    /// How many powers of two the sizes of what is sent and read have.
    portions: u64,
    /// One in how many times a driver that could read completions does.
    laziness: [u64; 2],
}

impl Habits {
    pub(super) fn any(random: &mut Random) -> Self {
        let laziness = [(); 2].map(|()| if random.one_in(2) { 1 } else { 1 + random.below(60) });
        Self { portions: random.below(15), laziness }
    }
}

/// Two sides.
pub(super) struct Pair {
    pub(super) sides: [Side; 2],
}

impl Pair {
    fn both(&mut self, first: usize) -> (&mut Side, &mut Side) {
        let [a, b] = &mut self.sides;
        if first == 0 { (a, b) } else { (b, a) }
    }

    /// Something happens to one of the sides.
    pub(super) fn step(&mut self, habits: &Habits, random: &mut Random) {
        let who = random.below(2) as usize;
        let action = random.below(10);
        let some = random.any_scale(habits.portions);
        let (side, peer) = self.both(who);
        match action {
            0 => {
                side.produce(some);
                side.post_writes(1);
            }
            1 => _ = side.consume(peer.stream, some, random.any_scale(15)),
            2 => side.report_head(),
            3 if random.one_in(habits.laziness[who]) => _ = side.poll(random.any_scale(5)),
            3 => {}
            4 => _ = side.post_receives(),
            5 => _ = side.post_writes(random.any_scale(5)),
            6 => _ = side.report(),
            7 => _ = side.leave(),
            _ => _ = deliver(side, peer),
        }
    }

    /// Everything happens that can without another call of the programs.
    pub(super) fn settle(&mut self) {
        // A head that is reported again without a change is input to the endpoint, too.
        let mut quiet = 0;
        while quiet < 3 {
            quiet = if self.round(u64::MAX) { 0 } else { quiet + 1 };
        }
    }

    /// Each kernel publishes so many bytes, and both sides and the network do what they can.
    pub(super) fn round(&mut self, bytes: u64) -> bool {
        let mut busy = false;
        for who in 0..2 {
            let (side, peer) = self.both(who);
            busy |= side.produce(bytes);
            busy |= side.poll(u64::MAX);
            busy |= side.consume(peer.stream, u64::MAX, 1);
            if side.endpoint.wants_head() {
                side.report_head();
            }
            busy |= side.post_receives();
            busy |= side.post_writes(u64::MAX);
            while deliver(side, peer) {
                busy = true;
            }
            while side.report() {
                busy = true;
            }
            busy |= side.leave();
        }
        busy
    }
}

/// Prints the seed of a case that panics.
pub(super) struct Case(pub(super) u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the case with seed {} fails", self.0);
        }
    }
}
