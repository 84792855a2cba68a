//! What no correct peer, kernel or driver does; and the bytes and values of single messages.

use crate::work::{Completion, Fault, Piece, Target, Write};

use super::fake::{Case, LIST, List, Random};
use super::tests::{RECEIVE_ADDRESS, SEND_ADDRESS, any_terms, terms};
use super::wire::{self, Handshake, Message};
use super::{
    BadPosition, BadTerms, ByteOrder, Failure, PRIVATE_DATA_BYTES, Protocol, Refused, Ring,
    Settings, Terms, Violation,
};

const PEER: Handshake = Handshake {
    order: ByteOrder::Big,
    credits: 16,
    list: Target { address: 0xabcd_0000, key: 9, length: 32 },
    buffer: Target { address: 0xfeed_0000, key: 8, length: 1 << 20 },
};

fn small() -> Terms {
    let settings = Settings { receive_queue: 16, send_queue: 16, order: ByteOrder::Little };
    terms(settings, (4096, 4096), (3968, 3968))
}

fn connection() -> Protocol {
    Protocol::new(&small(), &PEER.encode()).expect("a valid handshake")
}

fn receive(protocol: &mut Protocol, immediate: u32) {
    protocol.completed(Completion::Received(Ok(immediate)), &mut List::default());
}

fn writes(protocol: &mut Protocol) -> Vec<Write> {
    std::iter::from_fn(|| protocol.next_write()).collect()
}

fn immediates(protocol: &mut Protocol) -> Vec<Option<Message>> {
    writes(protocol).iter().map(|write| write.immediate.and_then(Message::decode)).collect()
}

#[test]
fn private_data_is_laid_out_as_rsocket_does() {
    let settings = Settings { receive_queue: 0x0180, order: ByteOrder::Big, ..Settings::default() };
    let receive =
        Ring { address: 0x0102_0304_0500_0000, key: 0x1122_3344, capacity: 0x2_0000, base: 0 };
    let terms = Terms::new(settings, receive, receive, (0x0a0b_0c0d_0e0f_1000, 0x5566_7788));
    let data = terms.expect("sound terms").private_data();
    let expected = [
        1, 1, 0x01, 0x80, 0, 0, 0, 0, // version, flags, credits, reserved, iomap
        0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0, 0x55, 0x66, 0x77, 0x88, 0, 0, 0,
        2, // list
        1, 2, 3, 4, 5, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0, 1, 0, 0, // buffer
    ];
    assert_eq!(data, expected);
    assert_eq!(Handshake::parse(&data).expect("our own").encode(), data);
}

#[test]
fn private_data_that_is_none_is_refused() {
    let good = PEER.encode();
    let with = |at: usize, byte: u8| {
        let mut data = good;
        data[at] = byte;
        Handshake::parse(&data).err()
    };
    assert_eq!(Handshake::parse(&good[..39]), Err(Refused::Short(39)));
    assert_eq!(with(0, 2), Some(Refused::Version(2)));
    assert_eq!(with(23, 3), Some(Refused::Entries(3)));
    assert_eq!(with(3, 0), Some(Refused::NoCredits));
    assert_eq!(with(37, 0), Some(Refused::NoBuffer));
    // Maps of direct writes, and bits that nobody has given a meaning, do no harm.
    assert_eq!(with(1, 0xfe), None);
    assert_eq!(with(7, 0xff), None);
    let padded = [&good[..], &[0; 156]].concat();
    assert_eq!(Handshake::parse(&padded), Ok(PEER));
}

#[test]
fn immediate_data_is_what_rsocket_says() {
    for (immediate, message) in [
        (0x0001_0000, Some(Message::Data(65536))),
        (0x2000_0005, Some(Message::Data(5))),
        (0x4000_0005, None),
        (0x6000_0005, Some(Message::Data(5))),
        (0x8001_0003, Some(Message::Limit(3))),
        (0xa000_0005, Some(Message::Data(5))),
        (0xc000_0005, None),
        (0xe000_0000, Some(Message::Disconnect)),
        (0xe000_0001, None),
        (0xe000_0002, Some(Message::Shutdown)),
        (0xe000_0003, None),
    ] {
        assert_eq!(Message::decode(immediate), message, "{immediate:#x}");
    }
    for message in [Message::Data(7), Message::Limit(9), Message::Shutdown, Message::Disconnect] {
        assert_eq!(Message::decode(message.encode()), Some(message));
    }
}

#[test]
fn terms_that_make_no_sense_are_refused() {
    let good = small();
    let with =
        |send: Ring, settings: Settings| Terms::new(settings, send, good.receive, LIST).err();
    let ring = |capacity| Ring { capacity, ..good.send };
    for capacity in [0, 1, 3, 96, 1 << 63] {
        assert_eq!(with(ring(capacity), good.settings), Some(BadTerms::Ring("send")));
    }
    let far = Ring { address: u64::MAX - 100, ..good.send };
    assert_eq!(with(far, good.settings), Some(BadTerms::Ring("send")));
    for size in [0, 15, 0xffff] {
        let settings = Settings { send_queue: size, ..good.settings };
        assert_eq!(with(good.send, settings), Some(BadTerms::Queue("send")));
    }
}

/// The rings begin 128 bytes before their end. The first grant ends there; the second, of half the
/// ring, is due at once, in entry 1; the third goes to entry 0 when the first is exhausted.
#[test]
fn grants_end_where_the_ring_does_and_alternate() {
    let mut protocol = connection();
    let first = Handshake::parse(&small().private_data()).expect("our own").buffer;
    assert_eq!(first, Target { address: RECEIVE_ADDRESS + 3968, key: 2, length: 128 });
    let expect = |write: &Write, slot: u64, offset: u64, limit: u16| {
        let entry = Target { address: RECEIVE_ADDRESS + offset, key: 2, length: 2048 };
        assert_eq!(write.own, Some(wire::encode_entry(entry, ByteOrder::Big)));
        let target = Target { address: 0xabcd_0000 + 16 * slot, key: 9, length: 16 };
        assert_eq!(write.target, target);
        assert_eq!(write.immediate, Some(Message::Limit(limit).encode()));
    };
    let granted = writes(&mut protocol);
    assert_eq!(granted.len(), 1, "two grants at most");
    expect(&granted[0], 1, 0, 16);
    receive(&mut protocol, Message::Data(100).encode());
    assert_eq!(writes(&mut protocol), [], "the first is not exhausted");
    receive(&mut protocol, Message::Data(28).encode());
    assert_eq!(writes(&mut protocol), [], "no half is free");
    assert!(protocol.wants_head());
    protocol.consumed(3968 + 128).expect("it has arrived");
    let granted = writes(&mut protocol);
    assert_eq!(granted.len(), 1);
    expect(&granted[0], 0, 2048, 18);
}

/// Half the queue's messages have come: credit without a grant.
#[test]
fn credit_alone_is_an_empty_write() {
    let mut protocol = connection();
    writes(&mut protocol);
    for _ in 0..7 {
        receive(&mut protocol, Message::Data(1).encode());
        assert_eq!(writes(&mut protocol), []);
    }
    receive(&mut protocol, Message::Data(1).encode());
    let credit = Write {
        pieces: Default::default(),
        own: None,
        target: Target::default(),
        immediate: Some(Message::Limit(24).encode()),
    };
    assert_eq!(writes(&mut protocol), [credit]);
    assert_eq!(protocol.receives_to_post(), 8);
    assert_eq!(protocol.receives_to_post(), 0);
}

#[test]
fn data_that_wraps_has_two_pieces_and_waits_for_slots() {
    let mut protocol = connection();
    writes(&mut protocol);
    protocol.offer(3968 + 200).expect("it fits");
    let piece = |offset, length| Piece { address: SEND_ADDRESS + offset, key: 1, length };
    let write = protocol.next_write().expect("data");
    assert_eq!(write.pieces, [piece(3968, 128), piece(0, 72)]);
    assert_eq!(write.target, Target { length: 200, ..PEER.buffer });
    for more in 1..100 {
        protocol.offer(4168 + more).expect("it fits");
        let slots_and_credits = more < 12;
        assert_eq!(protocol.next_write().is_some(), slots_and_credits, "write {more}");
    }
    // What waited goes as one.
    protocol.completed(Completion::Written(Ok(())), &mut List::default());
    assert_eq!(protocol.next_write(), None, "that was the grant: its slot is not for data");
    assert_eq!(protocol.sent(), 3968);
    protocol.completed(Completion::Written(Ok(())), &mut List::default());
    assert_eq!(protocol.sent(), 4168);
    assert_eq!(protocol.next_write().map(|write| write.target.length), Some(99 - 11));
}

/// The peer takes 16 messages, and one more when it has said so; the limit, not the slots, counts.
#[test]
fn data_waits_for_credits() {
    let settings = Settings { send_queue: 64, ..Settings::default() };
    let terms = terms(settings, (4096, 4096), (0, 0));
    let mut protocol = Protocol::new(&terms, &PEER.encode()).expect("a valid handshake");
    writes(&mut protocol);
    for tail in 1..=30 {
        protocol.offer(tail).expect("it fits");
        assert_eq!(protocol.next_write().is_some(), tail <= 16, "message {tail}");
    }
    receive(&mut protocol, Message::Limit(17).encode());
    let lengths: Vec<u32> = writes(&mut protocol).iter().map(|write| write.target.length).collect();
    assert_eq!(lengths, [14]);
}

#[test]
fn violations_end_the_connection() {
    let data = |bytes| Message::Data(bytes).encode();
    let cases: [(&[u32], Violation); 7] = [
        (&[data(0)], Violation::Empty),
        (&[data(129)], Violation::Beyond { length: 129, left: 128 }),
        (&[data(100), data(29)], Violation::Beyond { length: 29, left: 28 }),
        (&[0x1fff_ffff], Violation::Beyond { length: 0x1fff_ffff, left: 128 }),
        (&[data(1); 17], Violation::Uncredited),
        (&[Message::Shutdown.encode(), data(1)], Violation::AfterEnd),
        (&[Message::Limit(17).encode()], Violation::Limit),
    ];
    for (messages, violation) in cases {
        let mut protocol = connection();
        let arrived = protocol.arrived();
        for message in messages {
            assert_eq!(protocol.failure(), None);
            receive(&mut protocol, *message);
        }
        assert_eq!(protocol.failure(), Some(Failure::Violation(violation)));
        assert!(protocol.is_over() && protocol.arrived() <= arrived + 128);
        assert_eq!(writes(&mut protocol), []);
        assert_eq!(protocol.receives_to_post(), 0);
    }
}

#[test]
fn invalid_positions_of_kernels_are_refused() {
    let mut protocol = connection();
    let tail = |tail| BadPosition::Tail { tail, least: 3968, most: 3968 + 4096 };
    assert_eq!(protocol.offer(3967), Err(tail(3967)));
    assert_eq!(protocol.offer(3968 + 4097), Err(tail(3968 + 4097)));
    receive(&mut protocol, Message::Data(5).encode());
    let head = |head| BadPosition::Head { head, least: 3968, most: 3973 };
    assert_eq!(protocol.consumed(3974), Err(head(3974)));
    assert_eq!(protocol.consumed(0), Err(head(0)));
    assert_eq!(protocol.failure(), None);
}

#[test]
fn ends_are_sent_after_the_data() {
    let (data, end) = (Some(Message::Data(10)), Some(Message::Shutdown));
    let leave = Some(Message::Disconnect);
    let mut protocol = connection();
    writes(&mut protocol);
    protocol.offer(3978).expect("it fits");
    protocol.shutdown_send();
    protocol.offer(3999).expect("not looked at");
    assert_eq!(immediates(&mut protocol), [data, end]);
    assert!(!protocol.is_all_sent());
    protocol.disconnect();
    assert_eq!(immediates(&mut protocol), [leave]);
    protocol.completed(Completion::Received(Err(Fault::Flushed)), &mut List::default());
    for _ in 0..4 {
        assert!(!protocol.is_over());
        protocol.completed(Completion::Written(Ok(())), &mut List::default());
    }
    assert!(protocol.is_over() && protocol.is_all_sent() && protocol.is_drained());
    protocol.completed(Completion::Received(Err(Fault::Flushed)), &mut List::default());
    assert_eq!(protocol.failure(), None);

    // The peer ended its stream before: one message says it all, and nobody needs grants.
    let mut protocol = connection();
    receive(&mut protocol, Message::Shutdown.encode());
    assert!(protocol.is_peer_done() && !protocol.is_peer_gone());
    protocol.shutdown_send();
    assert_eq!(immediates(&mut protocol), [leave]);

    // Both ended their streams at the same time; the peer is gone before it has acknowledged all.
    let mut protocol = connection();
    writes(&mut protocol);
    protocol.offer(3978).expect("it fits");
    protocol.shutdown_send();
    assert_eq!(immediates(&mut protocol), [data, end]);
    receive(&mut protocol, Message::Shutdown.encode());
    assert!(protocol.is_over() && !protocol.is_reset() && !protocol.is_all_sent());
    protocol.completed(Completion::Written(Ok(())), &mut List::default());
    protocol.completed(Completion::Written(Err(Fault::Unanswered)), &mut List::default());
    assert!(protocol.is_reset() && protocol.failure().is_none());
}

#[test]
fn a_peer_that_leaves_resets_what_is_unsent() {
    let mut protocol = connection();
    writes(&mut protocol);
    protocol.offer(3978).expect("it fits");
    assert_eq!(immediates(&mut protocol).len(), 1);
    receive(&mut protocol, Message::Data(3).encode());
    receive(&mut protocol, Message::Disconnect.encode());
    assert!(protocol.is_peer_gone() && protocol.is_over() && !protocol.is_reset());
    assert_eq!(protocol.arrived(), 3971);
    protocol.completed(Completion::Written(Ok(())), &mut List::default());
    protocol.completed(Completion::Written(Err(Fault::Unanswered)), &mut List::default());
    assert!(protocol.is_reset() && !protocol.is_all_sent());
    assert_eq!(protocol.failure(), None);
}

#[test]
fn control_messages_have_four_slots() {
    let mut protocol = connection();
    assert_eq!(writes(&mut protocol).len(), 1);
    for more in 0..10 {
        protocol.keepalive();
        let write = protocol.next_write();
        assert_eq!(write.is_some(), more < 3);
        assert_eq!(write.and_then(|write| write.immediate), None, "the peer notices nothing");
    }
}

#[test]
fn completions_of_nothing_are_the_drivers_fault() {
    let mut protocol = connection();
    protocol.completed(Completion::Written(Ok(())), &mut List::default());
    assert_eq!(protocol.failure(), Some(Failure::Unasked));
    let mut protocol = connection();
    for _ in 0..small().receives() + 1 {
        receive(&mut protocol, 0x4000_0000);
    }
    assert_eq!(protocol.failure(), Some(Failure::Unasked));
}

/// Arbitrary calls, and what has to hold after each.
struct Fuzz {
    random: Random,
    terms: Terms,
    protocol: Protocol,
    list: List,
    tail: u64,
    head: u64,
    granted: u64,
    data_writes: u16,
    outstanding: usize,
}

impl Fuzz {
    /// Immediate data, mostly such as a correct peer could send.
    fn immediate(&mut self) -> u32 {
        let left = self.granted - self.protocol.arrived();
        match self.random.below(64) {
            0 if self.random.one_in(4) => self.random.next() as u32,
            1 if self.random.one_in(4) => (self.random.below(8) as u32) << 29 | 1,
            2..24 => {
                let credits = self.random.below(u64::from(PEER.credits) + 1) as u16;
                Message::Limit(self.data_writes.wrapping_add(credits)).encode()
            }
            24 => Message::Data(1 + self.random.below(left + 2) as u32).encode(),
            _ if left == 0 => 0x4000_0000,
            // Of such a length, that it ends where the grant does or well before.
            _ => Message::Data(if left > 16 && self.random.one_in(2) { 8 } else { 1 }).encode(),
        }
    }

    fn fault(&mut self) -> Fault {
        [Fault::Flushed, Fault::NotReady, Fault::Refused, Fault::Other(7)]
            [self.random.below(4) as usize]
    }

    fn step(&mut self) {
        let rare = self.random.one_in(200);
        match self.random.below(6) {
            0 if rare => self.protocol.shutdown_send(),
            1 if rare => self.protocol.disconnect(),
            2 if rare => _ = self.protocol.offer(self.random.next()),
            3 if rare => _ = self.protocol.consumed(self.random.next()),
            4 if rare => {
                let fault = self.fault();
                self.protocol.completed(Completion::Received(Err(fault)), &mut self.list);
            }
            5 if rare => {
                self.outstanding = self.outstanding.saturating_sub(1);
                let fault = self.fault();
                self.protocol.completed(Completion::Written(Err(fault)), &mut self.list);
            }
            0 => {
                let entry = self.random.below(2) as usize;
                self.list[entry] = std::array::from_fn(|_| self.random.next() as u8);
                let immediate = self.immediate();
                self.protocol.completed(Completion::Received(Ok(immediate)), &mut self.list);
                self.protocol.receives_to_post();
            }
            1 => {
                let tail = self.tail + self.random.any_scale(10);
                if self.protocol.offer(tail).is_ok() {
                    self.tail = tail;
                }
            }
            2 => {
                let head = self.head + self.random.any_scale(10) - 1;
                if self.protocol.consumed(head).is_ok() {
                    self.head = head;
                }
            }
            3 if self.outstanding > 0 => {
                self.outstanding -= 1;
                self.protocol.completed(Completion::Written(Ok(())), &mut self.list);
            }
            4 => self.protocol.keepalive(),
            _ => {
                while let Some(write) = self.protocol.next_write() {
                    self.outstanding += 1;
                    self.check(&write);
                }
            }
        }
    }

    fn check(&mut self, write: &Write) {
        assert!(self.outstanding <= self.terms.settings.send_queue.into());
        let send = self.terms.send;
        for piece in write.pieces.iter().filter(|piece| piece.length > 0) {
            let end = piece.address + u64::from(piece.length);
            assert!(piece.address >= send.address && end <= send.address + send.capacity);
        }
        let bytes: u32 = write.pieces.iter().map(|piece| piece.length).sum();
        let own = write.own.map_or(0, |own| own.len() as u32);
        assert_eq!(write.target.length, bytes + own);
        self.data_writes = self.data_writes.wrapping_add(u16::from(bytes > 0));
        if let Some(own) = write.own {
            let grant = wire::decode_entry(own, PEER.order);
            let receive = self.terms.receive;
            let offset = self.granted & (receive.capacity - 1);
            assert_eq!(grant.address, receive.address + offset);
            assert!(grant.length > 0 && offset + u64::from(grant.length) <= receive.capacity);
            self.granted += u64::from(grant.length);
            assert!(self.granted - self.head <= receive.capacity);
        }
    }
}

#[test]
fn nothing_leads_it_out_of_its_rings() {
    let mut lasted = 0;
    for seed in 0..2000 {
        let _case = Case(seed);
        let mut random = Random(seed);
        let terms = any_terms(&mut random);
        let protocol = Protocol::new(&terms, &PEER.encode()).expect("a valid handshake");
        let (tail, head) = (terms.send.base, terms.receive.base);
        let first = Handshake::parse(&terms.private_data()).expect("our own").buffer;
        let granted = head + u64::from(first.length);
        let list = List::default();
        let (data_writes, outstanding) = (0, 0);
        let mut fuzz =
            Fuzz { random, terms, protocol, list, tail, head, granted, data_writes, outstanding };
        let (mut sent, mut arrived) = (tail, head);
        for step in 0..300 {
            fuzz.step();
            assert!(sent <= fuzz.protocol.sent() && fuzz.protocol.sent() <= fuzz.tail);
            assert!(arrived <= fuzz.protocol.arrived() && fuzz.protocol.arrived() <= fuzz.granted);
            (sent, arrived) = (fuzz.protocol.sent(), fuzz.protocol.arrived());
            lasted += u64::from(!fuzz.protocol.is_over() && step == 200);
        }
    }
    assert!(lasted > 200, "only {lasted} connections came to something");
}

#[test]
fn any_private_data_is_taken_or_refused() {
    let mut random = Random(7);
    for _ in 0..20_000 {
        let mut data: [u8; PRIVATE_DATA_BYTES] = std::array::from_fn(|_| random.next() as u8);
        let length = random.below(41) as usize;
        (data[0], data[20], data[21], data[22], data[23]) = (1, 0, 0, 0, 2);
        if let Ok(mut protocol) = Protocol::new(&small(), &data[..length]) {
            protocol.offer(4000).expect("it fits");
            writes(&mut protocol);
        }
    }
}
