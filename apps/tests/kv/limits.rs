//! What there is only so much of: connections, idle time, memory, time to live.

use std::time::{Duration, Instant};

use gpunet_support::testing::hang_limit;

use crate::bystander::{Watched, await_clients};
use crate::resp::{bulk, request, show};
use crate::server::{eventually, info, number_of};

#[test]
fn more_clients_than_there_may_be_are_turned_away() {
    // Two are there already.
    let mut watched = Watched::start(&["--connections", "10"]);
    let mut clients: Vec<_> = (0..8).map(|_| watched.client()).collect();
    for client in &mut clients {
        assert_eq!(client.ask(&["PING"]), b"+PONG\r\n");
    }
    for _ in 0..20 {
        let told = watched.client().rest();
        assert_eq!(told.as_deref(), Some(b"-ERR max number of clients reached\r\n".as_slice()));
    }
    for client in &mut clients {
        assert_eq!(client.ask(&["PING"]), b"+PONG\r\n");
    }
    drop(clients);
    await_clients(watched.control(), 2);
    assert_eq!(watched.client().ask(&["PING"]), b"+PONG\r\n");
    let statistics = watched.end();
    assert_eq!(statistics.get("refused"), 20);
}

#[test]
fn hundreds_of_clients_are_served() {
    let watched = Watched::start(&["--blocks", "3"]);
    let mut clients: Vec<_> = (0..400).map(|_| watched.client()).collect();
    for _ in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            let key = format!("of {}", number % 50);
            assert!(client.ask(&["INCR", &key]).starts_with(b":"));
        }
    }
    assert_eq!(clients[0].ask(&["GET", "of 7"]), bulk(b"24"));
    drop(clients);
    let statistics = watched.end();
    assert!(statistics.get("accepted") >= 402);
}

#[test]
fn idle_clients_are_closed_and_busy_ones_are_not() {
    // The bystander is never idle for long; the client that reads INFO would be.
    let idle_time = hang_limit(Duration::from_millis(300));
    let mut watched = Watched::start(&["--idle-timeout", &idle_time.as_secs().to_string()]);
    let (mut idle, begin) = (watched.client(), Instant::now());
    assert_eq!(idle.ask(&["PING"]), b"+PONG\r\n");
    while info(watched.control(), "connected_clients") > 2 {
        assert!(begin.elapsed() < 3 * idle_time, "an idle client is not closed");
        std::thread::sleep(idle_time / 50);
    }
    assert!(begin.elapsed() >= idle_time, "closed after {:?}", begin.elapsed());
    assert_eq!(idle.rest().as_deref(), Some(b"".as_slice()));
    let statistics = watched.end();
    assert_eq!(statistics.get("closed_idle"), 1);
}

#[test]
fn a_full_table_refuses_and_serves_on() {
    let mut watched = Watched::start(&["--memory", "4M"]);
    let value = "v".repeat(10_000);
    let mut client = watched.client();
    for turn in 0..3 {
        let mut stored = 0;
        let full = loop {
            let answer = client.ask(&["SET", &format!("key {stored}"), &value]);
            if answer != b"+OK\r\n" {
                break answer;
            }
            stored += 1;
            assert!(stored < 1000, "4 MiB are never full");
        };
        assert!(full.starts_with(b"-OOM "), "{}", show(&full));
        assert!(stored > 150, "full after {stored} values of 10 kB");
        let refused = format!("key {stored}");
        for words in [["APPEND", &refused, &value], ["SETNX", &refused, &value]] {
            let answer = client.ask(&words);
            assert!(answer.starts_with(b"-OOM "), "{words:?}: {}", show(&answer));
        }
        assert_eq!(number_of(&mut client, &["EXISTS", &refused]), 0);
        // What is there is still there, and may be replaced.
        assert!(client.ask(&["GET", "key 0"]) == bulk(value.as_bytes()));
        assert_eq!(client.ask(&["SET", "key 0", &value]), b"+OK\r\n");
        assert_eq!(number_of(&mut client, &["DEL", "key 1"]), 1);
        assert_eq!(client.ask(&["SET", "key 1", &value]), b"+OK\r\n", "turn {turn}");
        for number in 0..stored {
            assert_eq!(number_of(&mut client, &["DEL", &format!("key {number}")]), 1);
        }
    }
    drop(client);
    assert!(info(watched.control(), "maxmemory") <= 4 << 20);
    watched.end();
}

#[test]
fn a_table_full_of_short_values_refuses_a_long_one() {
    let watched = Watched::start(&["--memory", "4M"]);
    let mut client = watched.client();
    let mut stored = 0_usize;
    while client.ask(&["SET", &format!("key {stored}"), "short"]) == b"+OK\r\n" {
        stored += 1;
    }
    let long = "v".repeat(100_000);
    for _ in 0..10 {
        let answer = client.ask(&["SET", "long", &long]);
        assert!(answer.starts_with(b"-OOM "), "{}", show(&answer));
    }
    assert_eq!(client.ask(&["GET", "key 0"]), bulk(b"short"));
    // All that was taken by short values can be had for long ones.
    let requests: Vec<u8> =
        (0..stored).flat_map(|number| request(&["DEL", &format!("key {number}")])).collect();
    let deleted = client.exchange(&requests, stored);
    assert!(deleted.iter().all(|answer| answer == b":1\r\n"));
    for number in 0..20 {
        let answer = client.ask(&["SET", &format!("long {number}"), &long]);
        assert_eq!(show(&answer), show(b"+OK\r\n"), "long {number}");
    }
    drop(client);
    watched.end();
}

#[test]
fn expired_keys_go_without_being_asked_for() {
    let mut watched = Watched::start(&["--memory", "4M"]);
    let mut client = watched.client();
    for number in 0..500 {
        let key = format!("key {number}");
        assert_eq!(client.ask(&["SET", &key, "value", "PX", "500"]), b"+OK\r\n");
    }
    assert_eq!(client.ask(&["SET", "stays", "value"]), b"+OK\r\n");
    drop(client);
    // The bystander has a key, too.
    eventually("keys expire", || number_of(watched.control(), &["DBSIZE"]) <= 2);
    assert_eq!(watched.control().ask(&["GET", "stays"]), bulk(b"value"));
    let statistics = watched.end();
    assert_eq!(statistics.get("expired"), 500);
}
