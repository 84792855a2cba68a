//! Clients without a pipeline: a block that has answered one of them waits for its next request beside the
//! poller, without an event. Nobody is forgotten by that, and nobody waits for another.

use std::time::{Duration, Instant};

use gpunet_support::pattern::Draw;
use gpunet_support::testing::{hang_limit, is_long};

use crate::resp::{bulk, show};
use crate::server::Kv;

/// One block of a whole warp: others go by events alone.
const ONE_BLOCK: [&str; 4] = ["--blocks", "1", "--threads", "32"];
/// The longest that an answer may take on an idle server.
const LIMIT: Duration = Duration::from_secs(1);

/// Asks one thing at a time, sometimes with a pause, and with requests below, at and above a packet's
/// length. The longest that an answer took.
fn ask_in_turn(mut client: crate::resp::Client, seed: u64, requests: u64) -> Duration {
    let (mut draw, mut longest) = (Draw::new(seed, 0), Duration::ZERO);
    for number in 0..requests {
        match draw.below(16) {
            0 => std::thread::sleep(Duration::from_micros(draw.below(400))),
            1 => std::thread::yield_now(),
            _ => {}
        }
        let length = match draw.below(32) {
            0 => 2000,
            1 => 225 + draw.below(8) as usize,
            _ => draw.below(60) as usize,
        };
        let text = format!("{seed} {number} {}", "x".repeat(length));
        let begin = Instant::now();
        assert_eq!(show(&client.ask(&["ECHO", &text])), show(&bulk(text.as_bytes())));
        longest = longest.max(begin.elapsed());
    }
    longest
}

fn clients_of_one_block(clients: u64, requests: u64, seed: u64) -> u64 {
    let kv = Kv::start(&ONE_BLOCK);
    let threads: Vec<_> = (0..clients)
        .map(|number| {
            let client = kv.client();
            std::thread::spawn(move || ask_in_turn(client, seed + number, requests))
        })
        .collect();
    for thread in threads {
        let longest = thread.join().unwrap();
        assert!(longest < hang_limit(LIMIT), "an answer took {longest:?}");
    }
    let statistics = kv.end();
    assert_eq!(statistics.get("requests"), clients * requests);
    statistics.get("without_event")
}

#[test]
fn one_client_is_answered_without_events() {
    const REQUESTS: u64 = 1000;
    let without = clients_of_one_block(1, REQUESTS, 1);
    // The emulated GPU polls a few times only, and its client may take longer than that.
    assert!(without > REQUESTS / 20, "{without} of {REQUESTS}");
}

/// Requests of all clients together. Each is a wait for threads of two processes, which are late on a busy machine.
fn requests() -> u64 {
    if is_long() { 9000 } else { 1800 }
}

#[test]
fn clients_of_one_block_take_turns() {
    for (clients, seed) in [(2, 100), (3, 200), (8, 300)] {
        clients_of_one_block(clients, requests() / clients, seed);
    }
}

#[test]
fn a_busy_client_keeps_nobody_from_being_accepted() {
    let kv = Kv::start(&ONE_BLOCK);
    let busy = kv.client();
    let busy = std::thread::spawn(move || ask_in_turn(busy, 7, requests()));
    for number in 0..100 {
        let begin = Instant::now();
        let text = format!("new {number}");
        assert_eq!(show(&kv.client().ask(&["ECHO", &text])), show(&bulk(text.as_bytes())));
        assert!(
            begin.elapsed() < hang_limit(LIMIT),
            "a new client waited for {:?}",
            begin.elapsed()
        );
    }
    busy.join().unwrap();
    kv.end();
}
