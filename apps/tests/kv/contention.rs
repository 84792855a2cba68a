//! Writers and readers of the same few keys, of several blocks: a value is one that somebody wrote for that
//! key, from its first byte to its last.

use gpunet_support::pattern::Draw;

use crate::resp::{Client, show};
use crate::server::Kv;

/// Keys of different lengths; so few that all blocks contend for each.
const KEYS: [&str; 3] = ["k", "a key of 16 byte", "a key that is longer than sixteen bytes"];
const CLIENTS: u64 = 6;
const REQUESTS: u64 = 1500;

/// A value of a key: its number, then one byte again and again. Of many lengths, so that entries move.
fn value(key: usize, draw: &mut Draw) -> Vec<u8> {
    let length = if draw.below(8) == 0 { 300 + draw.below(600) } else { draw.below(120) };
    let mut value = vec![b'a' + draw.below(26) as u8; 1 + length as usize];
    value[0] = b'0' + key as u8;
    value
}

/// What a GET of a key may answer.
fn check(key: usize, answer: &[u8]) {
    if answer == b"$-1\r\n" {
        return;
    }
    let end = answer.iter().position(|byte| *byte == b'\n').expect("a header") + 1;
    let (length, bytes) = (&answer[1..end - 2], &answer[end..answer.len() - 2]);
    assert_eq!(str::from_utf8(length).unwrap().parse(), Ok(bytes.len()), "{}", show(answer));
    assert_eq!(bytes[0], b'0' + key as u8, "of another key: {}", show(answer));
    assert!(bytes[1..].windows(2).all(|two| two[0] == two[1]), "torn: {}", show(answer));
}

fn write_and_read(mut client: Client, seed: u64, number: u64) {
    let mut draw = Draw::new(seed, number);
    for _ in 0..REQUESTS {
        let key = draw.below(KEYS.len() as u64) as usize;
        let name = KEYS[key].as_bytes();
        match draw.below(8) {
            0 => drop(client.ask(&[b"DEL".as_slice(), name])),
            1 => check(key, &client.ask(&[b"GETSET".as_slice(), name, &value(key, &mut draw)])),
            2..4 => {
                let answer = client.ask(&[b"SET".as_slice(), name, &value(key, &mut draw)]);
                assert_eq!(show(&answer), show(b"+OK\r\n"));
            }
            _ => check(key, &client.ask(&[b"GET".as_slice(), name])),
        }
    }
}

#[test]
fn values_are_never_torn_and_never_of_another_key() {
    // The smallest table has 1024 buckets: the keys' chains have other keys in them, too.
    let kv = Kv::start(&["--blocks", "4", "--memory", "1M"]);
    let mut filler = kv.client();
    for number in 0..2000 {
        assert_eq!(filler.ask(&["SET", &format!("filler {number}"), "x"]), b"+OK\r\n");
    }
    for seed in 1..=4 {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = kv.client();
                std::thread::spawn(move || write_and_read(client, seed, number))
            })
            .collect();
        for thread in threads {
            thread.join().expect("all values are whole");
        }
    }
    for number in 0..2000 {
        assert_eq!(filler.ask(&["DEL", &format!("filler {number}")]), b":1\r\n");
    }
    filler.ask(&["DEL", KEYS[0], KEYS[1], KEYS[2]]);
    assert_eq!(filler.ask(&["DBSIZE"]), b":0\r\n");
    drop(filler);
    kv.end();
}
