//! How streams end.

use std::time::Duration;

use rsocket_shim::stream::StreamError;

use crate::common::turn;
use crate::world::{End, Place, Shape, drive, exchange};

fn pair() -> (End, End) {
    Place::v4().pair(Shape::default(), Shape::default())
}

/// One end leaves, while the other does what it can.
fn leave(one: &mut End, other: &mut End) {
    drive(&mut [one, other], |ends| ends[0].stream.leave());
}

#[test]
#[ignore = "needs an RDMA device"]
fn either_end_closes_its_half_and_still_reads() {
    let _turn = turn();
    for swapped in [false, true] {
        let (mut one, mut other) = pair();
        if swapped {
            (one, other) = (other, one);
        }
        // More than a ring, so that the end has to wait for it.
        one.will(200_000, 0);
        drive(&mut [&mut one, &mut other], |ends| {
            ends[0].sends.count() == 200_000 || {
                let unread = ends[1].unread();
                ends[1].will(0, unread);
                false
            }
        });
        one.stream.shutdown_send();
        other.will(0, 200_000 - other.receives.count());
        drive(&mut [&mut one, &mut other], |ends| ends[1].stream.is_peer_done());
        assert_eq!(other.unread() + other.receives.count(), 200_000);
        assert!(!one.stream.is_peer_done());
        other.will(150_001, 0);
        one.will(0, 150_001);
        exchange(&mut one, &mut other);
        other.stream.shutdown_send();
        drive(&mut [&mut one, &mut other], |ends| ends[0].stream.is_peer_done());
        assert_eq!((one.errno(), other.errno()), (None, None));
        leave(&mut one, &mut other);
        leave(&mut other, &mut one);
        assert_eq!((one.errno(), other.errno()), (None, None));
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_disconnect_goes_behind_what_was_offered() {
    let _turn = turn();
    let (mut one, mut other) = pair();
    one.will(65_536, 0);
    assert!(one.step());
    // Nothing was acknowledged yet, and half of it was not even granted.
    assert!(!one.stream.leave());
    other.will(0, 65_536);
    leave(&mut one, &mut other);
    drive(&mut [&mut other], |ends| ends[0].stream.is_peer_done() && ends[0].is_content());
    assert_eq!(other.error, None);
    drop(one);
    let mut gone = other.stream.progress();
    for _ in 0..50 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        gone = gone.and(other.stream.progress());
    }
    // An end is no error, also when the connection manager has said that it is one.
    assert!(gone.is_ok(), "{gone:?}");
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_disconnect_without_a_reader_can_still_be_dropped() {
    let _turn = turn();
    let (mut one, mut other) = pair();
    one.will(300_000, 0);
    // As much as is granted, and more was offered.
    drive(&mut [&mut one, &mut other], |ends| {
        ends[1].unread() == 65_536 && ends[0].sends.count() > 65_536
    });
    for _ in 0..100 {
        assert!(!one.stream.leave());
        other.step();
    }
    drop(one);
    drive(&mut [&mut other], |ends| ends[0].error.is_some());
    assert_eq!(other.error, Some(StreamError::Reset));
    other.will(0, 65_536);
    drive(&mut [&mut other], |ends| ends[0].unread() == 0);
    assert!(!other.stream.is_peer_done());
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_peer_that_leaves_resets_what_is_unsent() {
    let _turn = turn();
    let (mut one, mut other) = pair();
    one.will(300_000, 0);
    other.will(1000, 0);
    drive(&mut [&mut one, &mut other], |ends| {
        ends[1].unread() == 65_536 && ends[0].unread() == 1000
    });
    drive(&mut [&mut other], |ends| ends[0].stream.leave());
    drop(other);
    drive(&mut [&mut one], |ends| ends[0].error.is_some());
    assert_eq!(one.errno(), Some(libc::ECONNRESET));
    assert!(one.stream.is_peer_done());
    one.will(0, 1000);
    drive(&mut [&mut one], |ends| ends[0].unread() == 0);
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_peer_that_is_cut_off_is_a_reset_and_what_arrived_stays() {
    let _turn = turn();
    for busy in [false, true] {
        let (mut one, mut other) = pair();
        // Idle, or with writes under way.
        other.will(10_000, 0);
        drive(&mut [&mut one, &mut other], |ends| ends[0].unread() == 10_000);
        one.will(if busy { 3_000_000 } else { 0 }, 0);
        one.step();
        drop(other);
        drive(&mut [&mut one], |ends| ends[0].error.is_some());
        assert_eq!(one.errno(), Some(libc::ECONNRESET), "{:?}", one.error);
        assert!(busy || one.error == Some(StreamError::Reset), "{:?}", one.error);
        assert!(!one.stream.is_peer_done());
        one.will(0, 10_000);
        drive(&mut [&mut one], |ends| ends[0].unread() == 0);
        assert!(one.stream.leave());
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn both_leave_at_once() {
    let _turn = turn();
    for round in 0..10 {
        let (mut one, mut other) = pair();
        one.will(50_000, 50_000);
        other.will(50_000, 50_000);
        exchange(&mut one, &mut other);
        let mut left = [false; 2];
        drive(&mut [&mut one, &mut other], |ends| {
            let first = round % 2;
            for index in [first, 1 - first] {
                left[index] = left[index] || ends[index].stream.leave();
            }
            left == [true; 2]
        });
        assert_eq!((one.errno(), other.errno()), (None, None));
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_keepalive_is_no_event_for_the_peer() {
    let _turn = turn();
    let (mut one, mut other) = pair();
    let before = one.stream.work();
    one.stream.set_keepalive(Some(Duration::from_millis(50))).expect("a timer");
    drive(&mut [&mut one], |ends| ends[0].stream.work().completions > before.completions);
    one.stream.set_keepalive(None).expect("no timer");
    let after = one.stream.work();
    assert!(after.writes > before.writes, "{after:?}");
    assert_eq!(after.immediates, before.immediates);
    one.will(10, 0);
    other.will(0, 10);
    exchange(&mut one, &mut other);
}
