//! Clients that keep the server's memory: silent ones with half a request, and ones that do not read. The others
//! are served all the same, and no client is closed without an answer.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use gpunet_support::pattern::fill_slice;
use gpunet_support::testing::hang_limit;

use crate::bystander::Watched;
use crate::resp::{ANSWER, Client, bulk, request, show};
use crate::server::{Kv, info};

/// What a client that behaves badly does.
#[derive(Clone, Copy, Debug)]
enum Bad {
    /// Sends the first 700 kB of a value of 1 MB.
    Silent,
    /// Asks for 200 kB again and again, and reads nothing.
    Unread,
}

/// Half a request, or requests whose answers stay unread.
fn bad_bytes(bad: Bad) -> Vec<u8> {
    match bad {
        Bad::Silent => {
            let whole = request(&[b"SET".as_slice(), b"never", &vec![b'v'; 1_000_000]]);
            whole[..700_000].to_vec()
        }
        Bad::Unread => request(&["GET", "large"]).repeat(20),
    }
}

/// A value of that length.
fn value(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fill_slice(&mut bytes, 5, 0);
    bytes
}

/// What an honest client asks, with answers.
fn ask_honestly(client: &mut Client, number: usize) {
    let key = format!("key {number}");
    let (middle, large) = (value(20_000), value(60_000));
    // In two segments.
    let set = request(&[b"SET".as_slice(), key.as_bytes(), b"short"]);
    client.send(&set[..20]).expect("the first half goes");
    std::thread::sleep(Duration::from_millis(5));
    client.send(&set[20..]).expect("the second half goes");
    assert_eq!(show(&client.answer()), "\"+OK\\r\\n\"", "client {number}");
    let answer = client.ask(&[b"SET".as_slice(), key.as_bytes(), &middle]);
    assert_eq!(show(&answer), "\"+OK\\r\\n\"", "20 kB, client {number}");
    assert!(client.ask(&["GET", &key]) == bulk(&middle), "20 kB are not what they were");
    assert!(client.ask(&["GET", "honest"]) == bulk(&large), "60 kB are not what they were");
}

/// Half of `count` clients behave badly; the others are served. How many of the bad ones were refused.
fn serve_beside(bad: Bad, count: usize) {
    let kv = Kv::start(&["--memory", "64M"]);
    let mut control = kv.client();
    assert_eq!(control.ask(&[b"SET".as_slice(), b"large", &value(200_000)]), b"+OK\r\n");
    assert_eq!(control.ask(&[b"SET".as_slice(), b"honest", &value(60_000)]), b"+OK\r\n");
    let bytes = bad_bytes(bad);
    let mut bad_ones: Vec<_> = (0..count / 2)
        .map(|_| {
            let mut client = Client::within(&kv.address, Duration::from_millis(300));
            // Where it is refused meanwhile, or the server reads no more, not all of it goes.
            let _ = client.send(&bytes);
            client
        })
        .collect();
    let mut honest: Vec<_> = (0..count / 2).map(|_| kv.client()).collect();
    for (number, client) in honest.iter_mut().enumerate() {
        ask_honestly(client, number);
    }
    let mut refused = 0;
    for client in &mut bad_ones {
        if let Bad::Unread = bad {
            // It has the answer that was on its way, or a part of it.
            continue;
        }
        match client.try_answer() {
            Ok(answer) => {
                assert!(answer.starts_with(b"-OOM "), "{}", show(&answer));
                refused += 1;
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => panic!("closed without an answer: {e}"),
        }
    }
    let reclaimed = info(&mut control, "reclaimed_connections");
    drop((bad_ones, honest, control));
    let statistics = kv.end();
    assert!(reclaimed > 0, "there was memory for all: the test shows nothing");
    assert!(statistics.get("closed_for_memory") >= reclaimed);
    if let Bad::Silent = bad {
        assert!(refused > 0, "nobody was refused");
    }
}

#[test]
fn silent_clients_do_not_starve_others() {
    serve_beside(Bad::Silent, 200);
}

#[test]
fn clients_that_do_not_read_do_not_starve_others() {
    serve_beside(Bad::Unread, 400);
}

#[test]
fn a_request_has_a_deadline_and_an_idle_client_has_none() {
    let limit = hang_limit(Duration::from_millis(200));
    let mut watched = Watched::start(&["--request-timeout", &limit.as_secs().to_string()]);
    let (mut idle, mut late, mut slow) = (watched.client(), watched.client(), watched.client());
    assert_eq!(idle.ask(&["PING"]), b"+PONG\r\n");
    let begin = Instant::now();
    late.send(b"*2\r\n$3\r\nGET\r\n").expect("half a request goes");
    late.set_timeout(3 * limit);
    assert_eq!(
        late.rest().as_deref(),
        Some(b"-ERR the request did not come in time\r\n".as_slice())
    );
    assert!(begin.elapsed() >= limit, "refused after {:?}", begin.elapsed());
    // Each of its requests is in time.
    for _ in 0..5 {
        slow.send(b"*1\r\n$4\r\n").expect("half a request goes");
        std::thread::sleep(limit / 6);
        slow.send(b"PING\r\n*1\r\n$4\r\nPI").expect("the rest goes");
        assert_eq!(slow.answer(), b"+PONG\r\n");
        std::thread::sleep(limit / 6);
        slow.send(b"NG\r\n").expect("the rest goes");
        assert_eq!(slow.answer(), b"+PONG\r\n");
    }
    assert_eq!(idle.ask(&["PING"]), b"+PONG\r\n");
    drop((idle, late, slow));
    assert_eq!(info(watched.control(), "late_connections"), 1);
    assert_eq!(watched.end().get("closed_late"), 1);
}

#[test]
fn a_client_that_is_refused_reads_why_while_it_still_sends() {
    let watched = Watched::start(&["--memory", "64M"]);
    let mut client = watched.client();
    let mut sender = client.sender();
    // Five arguments of 1 MiB: more than a request may have.
    let whole =
        request(&[b"DEL".as_slice(), &vec![b'a'; 1 << 20], &vec![b'b'; 1 << 20], &[b'c'; 9]]);
    let sending = std::thread::spawn(move || sender.send(&whole.repeat(3)).is_ok());
    client.set_timeout(hang_limit(ANSWER));
    let said = client.rest().expect("the server ends");
    let said = String::from_utf8_lossy(&said).into_owned();
    assert_eq!(said, "-ERR Protocol error: too big request\r\n");
    drop(client);
    sending.join().expect("it sends until the server does not take more");
    watched.end();
}
