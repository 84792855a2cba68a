//! Clients that ask for much and read late, or that are gone in the middle of it.

use std::process::{Command, Stdio};
use std::time::Duration;

use gpunet_support::pattern::{Draw, fill_slice};

use crate::bystander::{Watched, await_clients};
use crate::common::{Guarded, skip};
use crate::resp::{bulk, request, show, strings};

/// The largest value.
const MIB: usize = 1 << 20;
/// How long a slow reader does not read.
const SLOW: Duration = Duration::from_millis(500);

fn value(seed: u64, length: usize) -> Vec<u8> {
    let mut value = vec![0; length];
    fill_slice(&mut value, seed, 0);
    value
}

#[test]
fn a_flood_whose_answers_are_read_late_is_answered_in_order() {
    // Far more than the sockets' buffers and kv's rings hold.
    const REQUESTS: u64 = 20_000;
    let watched = Watched::start(&[]);
    let mut client = watched.client();
    let mut sender = client.sender();
    let sending = std::thread::spawn(move || {
        for number in 0..REQUESTS {
            let argument = format!("{number:01000}");
            sender.send(&request(&["ECHO", &argument])).expect("requests are taken");
        }
    });
    std::thread::sleep(SLOW);
    for number in 0..REQUESTS {
        let expected = bulk(format!("{number:01000}").as_bytes());
        assert_eq!(show(&client.answer()), show(&expected));
    }
    sending.join().unwrap();
    drop(client);
    let statistics = watched.end();
    assert!(statistics.get("blocked") > 0, "it never had to wait for the client");
}

#[test]
fn a_mebibyte_goes_both_ways() {
    let watched = Watched::start(&[]);
    let mut client = watched.client();
    let large = value(1, MIB);
    assert_eq!(client.ask(&[b"SET".as_slice(), b"large", &large]), b"+OK\r\n");
    assert!(client.ask(&["GET", "large"]) == bulk(&large));
    assert!(client.ask(&[b"ECHO".as_slice(), &large]) == bulk(&large));
    assert!(client.ask(&[b"GETSET".as_slice(), b"large", &value(2, MIB)]) == bulk(&large));
    // As a key, too.
    assert_eq!(client.ask(&[b"SET".as_slice(), &large, b"small"]), b"+OK\r\n");
    assert_eq!(client.ask(&[b"GET".as_slice(), &large]), bulk(b"small"));
    assert_eq!(client.ask(&["STRLEN", "large"]), b":1048576\r\n");
    let answer = client.ask(&["APPEND", "large", "x"]);
    assert!(answer.starts_with(b"-ERR string exceeds maximum allowed size"), "{}", show(&answer));
    assert_eq!(client.ask(&["STRLEN", "large"]), b":1048576\r\n");
    for words in [
        [b"SET".as_slice(), b"larger", &value(3, MIB + 1)],
        [b"SET".as_slice(), &value(3, MIB + 1), b"larger"],
    ] {
        let mut client = watched.client();
        // It closes without reading the value.
        let _ = client.send(&request(&words));
        let answer = client.rest().expect("the connection ends");
        let expected: &[u8] = b"-ERR Protocol error: invalid bulk length\r\n";
        assert!(answer.is_empty() || answer == expected, "{}", show(&answer));
    }
    let words = [b"MSET".as_slice(), b"larger", &large, b"larger still", &large];
    let mut sender = watched.client();
    let _ = sender.send(&request(&words));
    let answer = sender.rest().expect("the connection ends");
    let expected: &[u8] = b"-ERR Protocol error: too big request\r\n";
    assert!(answer.is_empty() || answer == expected, "{}", show(&answer));
    assert_eq!(client.ask(&["EXISTS", "larger", "larger still"]), b":0\r\n");
    drop(client);
    watched.end();
}

#[test]
fn many_large_values_reach_a_slow_reader() {
    const VALUES: usize = 24;
    let watched = Watched::start(&[]);
    let mut client = watched.client();
    let names: Vec<String> = (0..VALUES).map(|number| format!("large {number}")).collect();
    for (seed, name) in names.iter().enumerate() {
        let large = value(seed as u64, MIB);
        assert_eq!(client.ask(&[b"SET".as_slice(), name.as_bytes(), &large]), b"+OK\r\n");
    }
    let mut words = vec!["MGET"];
    words.extend(names.iter().map(String::as_str));
    words.push("nothing");
    // Another request waits behind it.
    client.send(&[request(&words), request(&["PING"])].concat()).unwrap();
    std::thread::sleep(SLOW);
    let answer = client.answer();
    assert!(answer.starts_with(b"*25\r\n") && answer.ends_with(b"\r\n$-1\r\n"));
    assert_eq!(client.answer(), b"+PONG\r\n");
    let found = strings(&answer);
    assert_eq!(found.len(), VALUES);
    for (seed, found) in found.iter().enumerate() {
        assert!(*found == value(seed as u64, MIB), "value {seed}");
    }
    drop(client);
    let statistics = watched.end();
    assert!(statistics.get("blocked") > 0, "it never had to wait for the client");
}

#[test]
fn a_request_above_two_mebibytes_is_refused() {
    let watched = Watched::start(&[]);
    let large = value(7, MIB);
    let two = [b"MSET".as_slice(), b"a", &large, b"b", &large];
    let many: Vec<_> = std::iter::repeat_n(b"EXISTS".as_slice(), 400_000).collect();
    for words in [&two[..], &many[..]] {
        let mut client = watched.client();
        // It closes without reading all.
        let _ = client.send(&request(words));
        let answer = client.rest().expect("the connection ends");
        let expected: &[u8] = b"-ERR Protocol error: too big request\r\n";
        assert!(answer.is_empty() || answer == expected, "{}", show(&answer));
    }
    assert_eq!(watched.client().ask(&["EXISTS", "a", "b"]), b":0\r\n");
    watched.end();
}

#[test]
fn a_long_request_that_comes_slowly_harms_nobody() {
    let watched = Watched::start(&["--blocks", "1"]);
    let mut client = watched.client();
    let words: Vec<_> =
        std::iter::once("EXISTS").chain(std::iter::repeat_n("k", 200_000)).collect();
    let whole = request(&words);
    let cut = whole.len() - 300;
    client.send(&whole[..cut]).unwrap();
    for byte in &whole[cut..] {
        client.send(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(client.answer(), b":0\r\n");
    // The same for an answer that is long.
    let words: Vec<_> = std::iter::once("MGET").chain(words.into_iter().skip(1)).collect();
    client.send(&[request(&words), request(&["PING"])].concat()).unwrap();
    std::thread::sleep(SLOW);
    let answer = client.answer();
    assert!(answer.starts_with(b"*200000\r\n$-1\r\n") && answer.len() == 9 + 200_000 * 5);
    assert_eq!(client.answer(), b"+PONG\r\n");
    drop(client);
    watched.end();
}

#[test]
fn values_are_whole_whoever_writes_them() {
    const CLIENTS: u64 = 6;
    const TURNS: u64 = 1500;
    // A value says how long it is and what it is made of.
    let make = |seed: u64, length: u64| {
        let text = format!("{seed} {length} ");
        let filler = b'a' + (seed % 26) as u8;
        [text.as_bytes(), &vec![filler; length as usize]].concat()
    };
    let watched = Watched::start(&["--blocks", "3"]);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let mut client = watched.client();
            scope.spawn(move || {
                let mut draw = Draw::new(number, 21);
                for turn in 0..TURNS {
                    let key = draw.pick(["a", "b", "c"]).as_bytes();
                    let length = draw.pick([10, 100, 1000, 5000, 20_000]) + draw.below(50);
                    let new = make(draw.below(1000), length);
                    let answer = match draw.below(6) {
                        0 => client.ask(&[b"SET".as_slice(), key, &new]),
                        1 => client.ask(&[b"GETSET".as_slice(), key, &new]),
                        2 => client.ask(&[b"GETDEL".as_slice(), key]),
                        3 => client.ask(&[b"SET".as_slice(), key, &new, b"GET", b"XX"]),
                        _ => client.ask(&[b"GET".as_slice(), key]),
                    };
                    for value in strings(&answer).iter() {
                        let text = String::from_utf8_lossy(value);
                        let numbers: Vec<u64> =
                            text.split(' ').take(2).map(|word| word.parse().unwrap()).collect();
                        assert!(*value == make(numbers[0], numbers[1]), "{}", show(value));
                    }
                    assert!(client.ask(&["INCR", "turns"]).starts_with(b":"));
                    assert!(client.ask(&["APPEND", "log", "xyz"]).starts_with(b":"), "{turn}");
                }
            });
        }
    });
    let mut client = watched.client();
    assert_eq!(client.ask(&["GET", "turns"]), bulk((CLIENTS * TURNS).to_string().as_bytes()));
    assert_eq!(client.ask(&["STRLEN", "log"]), format!(":{}\r\n", CLIENTS * TURNS * 3).as_bytes());
    drop(client);
    watched.end();
}

#[test]
fn resets_in_the_middle_harm_nobody() {
    let mut watched = Watched::start(&[]);
    let large = value(5, 200_000);
    let mut client = watched.client();
    assert_eq!(client.ask(&[b"SET".as_slice(), b"large", &large]), b"+OK\r\n");
    drop(client);
    let mut draw = Draw::new(5, 20);
    for number in 0..90 {
        let mut client = watched.client();
        match number % 3 {
            // In the middle of a request.
            0 => {
                let whole = request(&[b"SET".as_slice(), b"reset", &large]);
                let cut = draw.below(whole.len() as u64) as usize;
                client.send(&whole[..cut]).unwrap();
            }
            // In the middle of answers, of which some were read.
            1 => {
                client.send(&request(&["GET", "large"]).repeat(50)).unwrap();
                for _ in 0..draw.below(4) {
                    assert!(client.answer() == bulk(&large));
                }
            }
            // Before anything.
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(draw.below(4)));
        client.reset();
    }
    // Its own two are left.
    await_clients(watched.control(), 2);
    let statistics = watched.end();
    assert!(statistics.get("closed_failed") > 0);
}

#[test]
fn clients_that_are_killed_harm_nobody() {
    let mut watched = Watched::start(&[]);
    for _ in 0..5 {
        let mut command = Command::new("redis-benchmark");
        command.args(["-p", watched.kv.port(), "-c", "50", "-P", "16", "-n", "100000000", "-q"]);
        command.args(["-t", "set,get", "-d", "500", "-r", "1000"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            return skip("clients_that_are_killed_harm_nobody", "no redis-benchmark");
        };
        let child = Guarded(child);
        std::thread::sleep(Duration::from_millis(500));
        drop(child);
    }
    await_clients(watched.control(), 2);
    watched.end();
}

#[test]
fn long_requests_come_whole_through_rings_of_any_size() {
    for ring in ["4K", "32K", "64K", "1M"] {
        let watched = Watched::start(&["--ring", ring, "--blocks", "1"]);
        // Another client keeps the block busy, so that much has come when it looks.
        let (mut client, mut busy) = (watched.client(), watched.client());
        for (turn, length) in [200_000, 60_000, 33_000, 500_000].into_iter().enumerate() {
            let large = value(turn as u64, length);
            busy.send(&request(&["PING"]).repeat(200)).expect("it takes requests");
            assert_eq!(client.ask(&[b"SET".as_slice(), b"k", &large]), b"+OK\r\n", "{ring}");
            assert!(client.ask(&["GET", "k"]) == bulk(&large), "{ring}");
            for _ in 0..200 {
                assert_eq!(busy.answer(), b"+PONG\r\n");
            }
        }
        drop((client, busy));
        watched.end();
    }
}

#[test]
fn a_pattern_that_takes_for_ever_is_an_error() {
    let watched = Watched::start(&["--blocks", "1"]);
    let mut client = watched.client();
    let key = vec![b'a'; 300_000];
    assert_eq!(client.ask(&[b"SET".as_slice(), &key, b"x"]), b"+OK\r\n");
    let pattern = [b"*".as_slice(), &vec![b'a'; 50_000], b"b"].concat();
    let (mut cursor, mut refused) = (b"0".to_vec(), false);
    for _ in 0..10_000 {
        let answer = client.ask(&[b"SCAN".as_slice(), &cursor, b"MATCH", &pattern]);
        refused = answer.starts_with(b"-ERR the pattern takes too long");
        let next = answer.split(|byte| *byte == b'\n').nth(2).unwrap_or(b"0\r");
        cursor = next.strip_suffix(b"\r").unwrap_or(next).to_vec();
        if refused || cursor == b"0" {
            break;
        }
    }
    assert!(refused, "the bucket of the key was passed");
    drop(client);
    watched.end();
}
