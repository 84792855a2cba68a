//! Against stock rsocket, whose calls block, on a thread of its own.

use std::net::{Shutdown, SocketAddr};
use std::process::{Child, Command};
use std::thread;

use gpunet_support::testing::share_limits;
use rsocket_shim::stock::{RDMA_RQSIZE, RDMA_SQSIZE, StockSocket};

use crate::common::{libraries, turn};
use crate::world::{Edges, End, Place, Shape, drive, stream_bytes, timeout};

/// Sizes of a stock socket: buffers (which it doubles) and queues; none for its defaults.
type Sizes = Option<(i32, u32)>;

fn socket(address: SocketAddr, sizes: Sizes) -> StockSocket {
    let socket = StockSocket::new(libraries(), address).unwrap();
    if let Some((buffer, queue)) = sizes {
        for option in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
            socket.set_option(libc::SOL_SOCKET, option, buffer).unwrap();
        }
        socket.set_rdma(RDMA_RQSIZE, queue).unwrap();
        socket.set_rdma(RDMA_SQSIZE, queue).unwrap();
    }
    socket
}

fn send_all(socket: &StockSocket, count: usize, piece: usize) {
    let bytes = stream_bytes(0, count);
    for piece in bytes.chunks(piece) {
        let mut left = piece;
        while !left.is_empty() {
            left = &left[socket.send(left).unwrap()..];
        }
    }
}

/// Until so many are there, or the end. How many were there.
fn receive_all(socket: &StockSocket, count: usize, piece: usize) -> usize {
    let mut room = vec![0; piece];
    let mut got = 0;
    while got < count {
        let length = socket.receive(&mut room[..piece.min(count - got)]).unwrap();
        if length == 0 {
            break;
        }
        assert!(room[..length] == stream_bytes(got as u64, length), "wrong in {got} + {length}");
        got += length;
    }
    got
}

/// A stock socket on a thread, connected to an end of ours; `act` is what it does.
fn with_stock<T: Send + 'static>(
    place: &Place,
    shape: Shape,
    sizes: Sizes,
    stock_connects: bool,
    act: impl FnOnce(StockSocket) -> T + Send + 'static,
) -> (End, thread::JoinHandle<T>) {
    if stock_connects {
        let (listener, address) = place.listen();
        let thread = thread::spawn(move || {
            let socket = socket(address, sizes);
            socket.connect(address).unwrap();
            act(socket)
        });
        let request = loop {
            if let Some(request) = listener.next().unwrap() {
                break request;
            }
            Edges::new(&[listener.descriptor()]).wait(timeout());
        };
        return (place.accept(request, shape).unwrap(), thread);
    }
    let listener = socket(place.address, sizes);
    listener.bind(place.address).unwrap();
    listener.listen(4).unwrap();
    let address = listener.local_address().unwrap();
    let thread = thread::spawn(move || act(listener.accept().unwrap().0));
    let mut end = place.connect(address, shape);
    drive(&mut [&mut end], |ends| ends[0].is_open());
    (end, thread)
}

fn content(end: &mut End) {
    drive(&mut [end], |ends| {
        assert_eq!(ends[0].error, None);
        ends[0].is_content()
    });
}

fn there_and_back(sizes: Sizes, shape: Shape, count: u64, piece: usize) {
    let place = Place::v4();
    for stock_connects in [true, false] {
        let bytes = count as usize;
        let (mut end, thread) = with_stock(&place, shape, sizes, stock_connects, move |socket| {
            assert_eq!(receive_all(&socket, bytes, piece), bytes);
            send_all(&socket, bytes, piece);
            // Small questions and answers.
            for _ in 0..200 {
                let mut byte = [0];
                assert_eq!(socket.receive(&mut byte).unwrap(), 1);
                assert_eq!(socket.send(&byte).unwrap(), 1);
            }
            assert_eq!(receive_all(&socket, 1, 1), 0);
            socket.close().unwrap();
        });
        end.will(count, count);
        content(&mut end);
        for _ in 0..200 {
            end.will(1, 1);
            content(&mut end);
        }
        drive(&mut [&mut end], |ends| ends[0].stream.leave());
        assert_eq!(end.error, None);
        thread.join().unwrap();
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn stock_and_ours_exchange_bytes_at_default_sizes() {
    let _turn = turn();
    there_and_back(None, Shape::new(131_072, 5, 77), 1_000_003, 100_000);
}

#[test]
#[ignore = "needs an RDMA device"]
fn stock_and_ours_exchange_bytes_at_small_sizes() {
    let _turn = turn();
    there_and_back(Some((2048, 16)), Shape::new(131_072, 1, 2), 300_001, 777);
    there_and_back(Some((65_536, 64)), Shape::new(4096, 1, 2).queues(16), 300_001, 50_000);
    there_and_back(Some((4096, 16)), Shape::new(4096, 4095, 3), 100_001, 33);
}

#[test]
#[ignore = "needs an RDMA device"]
fn stock_and_ours_flow_both_ways_at_once() {
    let _turn = turn();
    let place = Place::v6();
    for stock_connects in [true, false] {
        const BYTES: usize = 700_001;
        let (mut end, thread) =
            with_stock(&place, Shape::default(), None, stock_connects, |socket| {
                thread::scope(|scope| {
                    let reader = scope.spawn(|| receive_all(&socket, BYTES, 9000));
                    send_all(&socket, BYTES, 30_000);
                    assert_eq!(reader.join().unwrap(), BYTES);
                });
            });
        end.will(BYTES as u64, BYTES as u64);
        content(&mut end);
        drive(&mut [&mut end], |ends| ends[0].stream.leave());
        thread.join().unwrap();
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn either_closes_its_half_first() {
    let _turn = turn();
    let place = Place::v4();
    for stock_connects in [true, false] {
        // Stock first.
        let (mut end, thread) =
            with_stock(&place, Shape::default(), None, stock_connects, |socket| {
                send_all(&socket, 100_000, 100_000);
                socket.shutdown(Shutdown::Write).unwrap();
                let got = receive_all(&socket, 200_000, 5000);
                socket.close().unwrap();
                got
            });
        end.will(0, 100_000);
        drive(&mut [&mut end], |ends| ends[0].is_content() && ends[0].stream.is_peer_done());
        end.will(70_000, 0);
        content(&mut end);
        end.stream.shutdown_send();
        drive(&mut [&mut end], |ends| ends[0].stream.leave());
        assert_eq!((end.errno(), thread.join().unwrap()), (None, 70_000));
        // Ours first.
        let (mut end, thread) =
            with_stock(&place, Shape::default(), None, stock_connects, |socket| {
                let got = receive_all(&socket, 200_000, 5000);
                send_all(&socket, 90_000, 1000);
                socket.close().unwrap();
                got
            });
        end.will(50_000, 0);
        content(&mut end);
        end.stream.shutdown_send();
        end.will(0, 90_000);
        drive(&mut [&mut end], |ends| ends[0].is_content() && ends[0].stream.is_peer_done());
        assert_eq!((end.errno(), thread.join().unwrap()), (None, 50_000));
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_stock_peer_that_closes_resets_what_is_unsent() {
    let _turn = turn();
    let place = Place::v4();
    for stock_connects in [true, false] {
        let (mut end, thread) =
            with_stock(&place, Shape::default(), None, stock_connects, |socket| {
                receive_all(&socket, 10_000, 1000);
                send_all(&socket, 500, 500);
                socket.close().unwrap();
            });
        end.will(2_000_000, 0);
        drive(&mut [&mut end], |ends| ends[0].error.is_some());
        thread.join().unwrap();
        assert_eq!(end.errno(), Some(libc::ECONNRESET), "{:?}", end.error);
        end.will(0, 500);
        drive(&mut [&mut end], |ends| ends[0].unread() == 0);
        assert_eq!(end.receives.count(), 500);
    }
}

const ROLE: &str = "STREAMS_TEST_PEER";

/// Not a test of its own: what the killed process runs.
#[test]
#[ignore = "the process that another test kills"]
fn a_peer_to_kill() {
    let Ok(address) = std::env::var(ROLE) else { return };
    let address: SocketAddr = address.parse().unwrap();
    let socket = socket(address, None);
    socket.connect(address).unwrap();
    send_all(&socket, 20_000, 20_000);
    loop {
        let _ = socket.receive(&mut [0; 100]);
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_killed_peer_is_a_reset_and_what_arrived_stays() {
    let _turn = turn();
    let place = Place::v4();
    for busy in [false, true] {
        let (listener, address) = place.listen();
        let mut child: Child = share_limits(&mut Command::new(std::env::current_exe().unwrap()))
            .args(["stock::a_peer_to_kill", "--exact", "--ignored"])
            .env(ROLE, address.to_string())
            .spawn()
            .unwrap();
        Edges::new(&[listener.descriptor()]).wait(timeout());
        let request = listener.next().unwrap().unwrap();
        let mut end = place.accept(request, Shape::default()).unwrap();
        end.will(if busy { 100_000_000 } else { 0 }, 0);
        drive(&mut [&mut end], |ends| {
            ends[0].unread() == 20_000 && (!busy || ends[0].sends.count() > 300_000)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        drive(&mut [&mut end], |ends| ends[0].error.is_some());
        assert_eq!(end.errno(), Some(libc::ECONNRESET), "{:?}", end.error);
        end.will(0, 20_000);
        drive(&mut [&mut end], |ends| ends[0].unread() == 0);
        assert_eq!(end.receives.count(), 20_000);
    }
}
