//! Whole connections over the fake queue pair, ours with ours and ours with a stock peer.

use crate::work::Fault;

use super::fake::{Case, Habits, LIST, List, Pair, Random, Side};
use super::stock::{self, Stock};
use super::{ByteOrder, Protocol, Ring, Settings, Terms};

pub(super) const SEND_ADDRESS: u64 = 0x10_0000_0000;
pub(super) const RECEIVE_ADDRESS: u64 = 0x20_0000_0000;

pub(super) fn terms(
    settings: Settings,
    (send, receive): (u64, u64),
    (base, other): (u64, u64),
) -> Terms {
    let send = Ring { address: SEND_ADDRESS, key: 1, capacity: send, base };
    let receive = Ring { address: RECEIVE_ADDRESS, key: 2, capacity: receive, base: other };
    Terms::new(settings, send, receive, LIST).expect("sound terms")
}

fn any_settings(random: &mut Random) -> Settings {
    let mut queue = || if random.one_in(2) { 16 } else { 16 + random.below(400) as u16 };
    let (receive_queue, send_queue) = (queue(), queue());
    let order = if random.one_in(2) { ByteOrder::Big } else { ByteOrder::Little };
    Settings { receive_queue, send_queue, order }
}

pub(super) fn any_terms(random: &mut Random) -> Terms {
    let settings = any_settings(random);
    let mut capacity = || 1 << (4 + random.below(10));
    let capacities = (capacity(), capacity());
    let mut base = || 128 * random.below(200);
    terms(settings, capacities, (base(), base()))
}

fn ours(terms: Terms, peer: &Terms, said: &[u8], stream: (u64, u64)) -> Side {
    let protocol = Protocol::new(&terms, said).expect("a valid peer");
    Side::new(Box::new(protocol), List::default(), terms, peer, stream)
}

fn stock(terms: Terms, peer: &Terms, stream: (u64, u64)) -> Side {
    let mut list = List::default();
    let stock = Stock::new(&terms, &peer.private_data(), &mut list);
    Side::new(Box::new(stock), list, terms, peer, stream)
}

fn pair_of_ours(a: Terms, b: Terms, bytes: [u64; 2]) -> Pair {
    let first = ours(a, &b, &b.private_data(), (1, bytes[0]));
    let second = ours(b, &a, &a.private_data(), (2, bytes[1]));
    Pair { sides: [first, second] }
}

fn pair_with_stock(a: Terms, b: Terms, bytes: [u64; 2]) -> Pair {
    let first = ours(a, &b, &stock::private_data(&b), (1, bytes[0]));
    let mut second = stock(b, &a, (2, bytes[1]));
    // Programs copy what there is out of a stock buffer, which never has more than half granted
    // while they do not.
    second.wait_for(1);
    Pair { sides: [first, second] }
}

/// How a connection comes to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plan {
    /// Each side ends its stream after its last byte.
    Shutdown,
    /// Both send everything; then one of them leaves.
    Leave,
    /// One leaves before it, or the other, has sent everything.
    LeaveEarly,
    /// The network fails.
    Failure,
}

/// Runs a connection, and checks what has come of it.
fn run(mut pair: Pair, plan: Plan, random: &mut Random) {
    let habits = Habits::any(random);
    let leaver = random.below(2) as usize;
    let mut fuse = random.any_scale(9);
    let mut ended = [false; 2];
    if plan == Plan::Leave {
        // Nothing ends the wait for more bytes than will come but the leaving that waits for it.
        pair.sides.iter_mut().for_each(|side| side.wait_for(1));
    }
    for _ in 0..random.any_scale(11) {
        pair.step(&habits, random);
        fuse = fuse.saturating_sub(1);
        match plan {
            Plan::Shutdown => {
                for (side, ended) in pair.sides.iter_mut().zip(&mut ended) {
                    if side.tail == side.goal && !*ended {
                        side.endpoint.shutdown_send();
                        *ended = true;
                    }
                }
            }
            Plan::LeaveEarly | Plan::Failure if fuse == 0 => break,
            _ => {}
        }
    }
    let both_leave = random.one_in(3);
    if plan == Plan::LeaveEarly {
        for (who, side) in pair.sides.iter_mut().enumerate() {
            if who == leaver || both_leave {
                side.goal = side.tail;
                side.endpoint.disconnect();
            }
        }
    } else if plan == Plan::Failure {
        pair.sides[leaver].fail(Fault::Unanswered);
    }
    pair.settle();
    if plan == Plan::Shutdown {
        for (side, ended) in pair.sides.iter_mut().zip(&mut ended) {
            if !*ended {
                side.endpoint.shutdown_send();
            }
        }
    } else if plan == Plan::Leave {
        pair.sides[leaver].endpoint.disconnect();
    } else if plan == Plan::Failure {
        // Who has nothing to send, or no room for it, notices only so.
        pair.sides.iter_mut().for_each(|side| side.endpoint.keepalive());
    }
    pair.settle();

    let streams = [0, 1].map(|who| {
        let (side, peer) = (&pair.sides[who], &pair.sides[1 - who]);
        (side.goal - side.start(), peer.bytes_read())
    });
    for (who, side) in pair.sides.iter().enumerate() {
        let endpoint = &side.endpoint;
        let (meant, came) = streams[who];
        match plan {
            Plan::Failure => {
                assert!(endpoint.failure().is_some(), "side {who} has not noticed");
                continue;
            }
            Plan::LeaveEarly if who != leaver || both_leave => {
                assert!(endpoint.is_peer_done() || both_leave, "the peer has left");
                assert!(endpoint.is_all_sent() || endpoint.is_reset());
                assert!(!endpoint.is_all_sent() || endpoint.sent() == side.tail);
            }
            _ => {
                assert_eq!(came, meant, "bytes of side {who}");
                assert_eq!(endpoint.sent(), side.goal);
                assert!(endpoint.is_all_sent());
            }
        }
        assert_eq!(endpoint.failure(), None, "side {who}");
        assert!(endpoint.is_over(), "side {who} goes on");
        assert!(side.disconnected, "side {who} has work on the way");
    }
}

fn any_plan(random: &mut Random) -> Plan {
    match random.below(6) {
        0 => Plan::Leave,
        1 => Plan::LeaveEarly,
        2 => Plan::Failure,
        _ => Plan::Shutdown,
    }
}

#[test]
fn ours_and_ours_move_all_bytes_in_order() {
    for seed in 0..5000 {
        let _case = Case(seed);
        let mut random = Random(seed);
        let (a, b) = (any_terms(&mut random), any_terms(&mut random));
        let bytes = [(); 2].map(|()| random.any_scale(13) - 1);
        let plan = any_plan(&mut random);
        run(pair_of_ours(a, b, bytes), plan, &mut random);
    }
}

#[test]
fn ours_and_stock_move_all_bytes_in_order() {
    for seed in 0..3000 {
        let _case = Case(seed);
        let mut random = Random(seed);
        let a = any_terms(&mut random);
        let mut capacity = || 1 << (4 + random.below(12));
        let capacities = (capacity(), capacity());
        let b = terms(any_settings(&mut random), capacities, (0, 0));
        let bytes = [(); 2].map(|()| random.any_scale(13) - 1);
        let plan = match any_plan(&mut random) {
            Plan::Failure => Plan::Shutdown,
            plan => plan,
        };
        run(pair_with_stock(a, b, bytes), plan, &mut random);
    }
}

#[test]
fn the_smallest_ring_works() {
    let tiny = terms(Settings::default(), (2, 2), (128, 256));
    run(pair_of_ours(tiny, tiny, [300, 200]), Plan::Shutdown, &mut Random(1));
}

/// The wire counts messages in 16 bits, and more than that many go by.
#[test]
fn credits_wrap() {
    let small = Settings { receive_queue: 16, ..Settings::default() };
    let large = Settings { receive_queue: 0xfffe, send_queue: 16, ..small };
    let (a, b) = (terms(small, (64, 64), (0, 0)), terms(large, (64, 64), (0, 0)));
    for mut pair in
        [pair_of_ours(a, b, [u64::MAX >> 2; 2]), pair_with_stock(a, b, [u64::MAX >> 2; 2])]
    {
        for _ in 0..70_000 {
            pair.round(1);
        }
        for side in &pair.sides {
            assert!(side.data_messages > 69_000, "{} messages", side.data_messages);
            assert!(side.bytes_read() > 69_000);
            assert_eq!(side.endpoint.failure(), None);
        }
    }
}

/// Messages for data of one side, and for grants of the other, that so many bytes take: three
/// transfers, each after the last one has come.
fn messages(mut pair: Pair, bytes: u64) -> (u64, u64) {
    for _ in 0..3 {
        pair.sides[0].goal += bytes;
        pair.settle();
    }
    assert_eq!(pair.sides[1].bytes_read(), 3 * bytes);
    (pair.sides[0].data_messages, pair.sides[1].control_messages)
}

#[test]
fn transfers_take_no_more_messages_than_stock() {
    let buffers = 1 << 17;
    let ring = terms(Settings::default(), (buffers, buffers), (0, 0));
    let with_base = terms(Settings::default(), (buffers, buffers), (128 * 33, 128 * 77));
    for bytes in [64, 4096, 65536, 1 << 20] {
        let first = stock(ring, &ring, (1, 0));
        let mut second = stock(ring, &ring, (2, 0));
        second.wait_for(1);
        let stock = messages(Pair { sides: [first, second] }, bytes);
        for ours in [
            messages(pair_of_ours(ring, ring, [0, 0]), bytes),
            messages(pair_of_ours(with_base, with_base, [0, 0]), bytes),
            messages(pair_with_stock(ring, ring, [0, 0]), bytes),
        ] {
            assert!(ours.0 <= stock.0 && ours.1 <= stock.1, "{bytes}: {ours:?}, {stock:?}");
        }
    }
}

/// A kernel that does not read keeps what the peer has sent; one that waits for a full ring gets
/// it, though the peer is granted halves.
#[test]
fn a_kernel_may_wait_for_a_full_ring() {
    for base in [0, 128, 896] {
        let wide = terms(
            Settings { receive_queue: 16, ..Settings::default() },
            (4096, 1024),
            (base, base),
        );
        let mut pair = pair_of_ours(wide, wide, [5000, 0]);
        pair.sides[1].wait_for(u64::MAX);
        for _ in 0..2000 {
            pair.round(1);
        }
        assert_eq!(pair.sides[1].endpoint.arrived(), base + 1024, "all that the ring holds");
        pair.sides[1].wait_for(1000);
        pair.settle();
        assert_eq!(pair.sides[1].bytes_read(), 5000);
    }
}
