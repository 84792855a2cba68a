//! Requests that are none, and halves of requests.

use std::time::Duration;

use gpunet_support::pattern::{Draw, fill_slice};

use crate::bystander::Watched;
use crate::resp::{bulk, request, show};

/// What is wrong, and what kv says before it closes.
const WRONG: [(&[u8], &str); 16] = [
    (b"*x\r\n", "invalid multibulk length"),
    (b"*-x\r\n", "invalid multibulk length"),
    (b"*1048577\r\n", "invalid multibulk length"),
    (b"*99999999999999999999999999\r\n", "invalid multibulk length"),
    (b"*9223372036854775807\r\n", "invalid multibulk length"),
    (b"*1\r\n$-1\r\n", "invalid bulk length"),
    (b"*1\r\n$-9223372036854775808\r\n", "invalid bulk length"),
    (b"*1\r\n$1048577\r\n", "invalid bulk length"),
    (b"*1\r\n$4294967296\r\n", "invalid bulk length"),
    (b"*1\r\n$18446744073709551615\r\n", "invalid bulk length"),
    (b"*1\r\n$\r\n", "invalid bulk length"),
    (b"*1\r\nGET\r\n", "expected '$', got 'G'"),
    (b"*1\r\n*1\r\n", "expected '$', got '*'"),
    (b"*2\r\n$3\r\nGET\r\nkey\r\n", "expected '$', got 'k'"),
    (b"GET \"key\r\n", "unbalanced quotes in request"),
    (b"GET 'key'x\r\n", "unbalanced quotes in request"),
];

#[test]
fn malformed_requests_get_an_error_and_an_end() {
    let watched = Watched::start(&[]);
    for (bytes, expected) in WRONG {
        let mut client = watched.client();
        // What came before is answered.
        client.send(&[request(&["PING"]).as_slice(), bytes].concat()).unwrap();
        let answer = client.rest().expect("the connection ends");
        let expected = format!("+PONG\r\n-ERR Protocol error: {expected}\r\n");
        assert_eq!(show(&answer), show(expected.as_bytes()), "{}", show(bytes));
    }
    for long in [vec![b'x'; 100_000], [b"*".as_slice(), &[b'1'; 100_000]].concat()] {
        let mut client = watched.client();
        // It may be closed before all is sent.
        let _ = client.send(&long);
        let answer = client.rest().expect("the connection ends");
        assert!(
            answer.is_empty() || answer.starts_with(b"-ERR Protocol error"),
            "{}",
            show(&answer)
        );
    }
    watched.end();
}

#[test]
fn random_bytes_harm_nobody() {
    let watched = Watched::start(&[]);
    let mut draw = Draw::new(3, 20);
    for number in 0..300 {
        let mut client = watched.client();
        let mut bytes = vec![0; draw.between(1, 3000) as usize];
        fill_slice(&mut bytes, draw.next(), 0);
        match number % 3 {
            // A request in which some bytes are others.
            0 => {
                let mut good = request(&["SET", "random", "value", "EX", "1000"]);
                for _ in 0..draw.between(1, 4) {
                    let at = draw.below(good.len() as u64) as usize;
                    good[at] = draw.pick([b'*', b'$', b'\r', b'\n', b'-', b'0', b'9', 0, 255]);
                }
                bytes = good.repeat(3);
            }
            1 => bytes[0] = b'*',
            _ => {}
        }
        let _ = client.send(&bytes);
        client.end_sending();
        client.rest().expect("the connection ends");
    }
    watched.end();
}

#[test]
fn a_request_that_comes_byte_by_byte_is_answered() {
    let watched = Watched::start(&[]);
    let mut client = watched.client();
    let value: Vec<u8> = (0..=255).collect();
    let requests = [
        request(&[b"SET".as_slice(), b"slow", &value]),
        b"\r\nGET slow\r\n".to_vec(),
        request(&["DEL", "slow"]),
    ]
    .concat();
    for byte in requests {
        client.send(&[byte]).unwrap();
        std::thread::sleep(Duration::from_micros(300));
    }
    assert_eq!(client.answer(), b"+OK\r\n");
    assert_eq!(client.answer(), bulk(&value));
    assert_eq!(client.answer(), b":1\r\n");
    drop(client);
    watched.end();
}

#[test]
fn half_requests_wait_and_harm_nobody() {
    let watched = Watched::start(&[]);
    let whole = request(&["SET", "half", &"v".repeat(50_000)]);
    let cuts = [1, 2, 5, 20, 30, 40, 41, 1000, 20_000, 49_999, whole.len() - 2, whole.len() - 1];
    let mut clients: Vec<_> = cuts.map(|cut| (watched.client(), cut)).into();
    for (client, cut) in &mut clients {
        client.send(&whole[..*cut]).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    for (number, (mut client, cut)) in clients.into_iter().enumerate() {
        match number % 3 {
            0 => {
                client.send(&whole[cut..]).unwrap();
                assert_eq!(client.answer(), b"+OK\r\n", "the rest after {cut} bytes");
            }
            1 => {
                client.end_sending();
                assert_eq!(client.rest().as_deref(), Some(b"".as_slice()));
            }
            _ => client.reset(),
        }
    }
    watched.end();
}
