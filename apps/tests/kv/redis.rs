//! The answers of kv beside those of a redis-server.

use std::collections::BTreeSet;
use std::time::Duration;

use gpunet_support::testing::is_long;

use crate::common::skip;
use crate::draw::{Compare, Drawn, Requests};
use crate::resp::{Client, bulk, integer, request, show, strings};
use crate::server::{Kv, Redis};

/// Commands with the kernel's usual shape, and the same in a long run.
const COMMANDS: [usize; 2] = [25_000, 100_000];
/// With each of the other shapes of the kernel.
const FEWER: usize = 5000;
/// Connections to each server; each pipeline takes one of them.
const CONNECTIONS: usize = 3;
/// Where GPUNET_KV_SEED names none.
const SEED: u64 = 20;
/// A run ends when so many commands were answered in another way.
const MOST_DIFFERENCES: usize = 10;

/// Both servers, or none where there is no Redis.
fn both(test: &str, options: &[&str]) -> Option<(Kv, Redis)> {
    let redis = Redis::start();
    if redis.is_none() {
        skip(test, "redis-server is not installed");
    }
    redis.map(|redis| (Kv::start(options), redis))
}

/// Whether kv's answer is as good as Redis's.
fn agrees(compare: Compare, kv: &[u8], redis: &[u8]) -> bool {
    let is_error = kv.starts_with(b"-") || redis.starts_with(b"-");
    match compare {
        Compare::Kind if !is_error => true,
        Compare::About(most) => match (integer(kv), integer(redis)) {
            (Some(kv), Some(redis)) if kv > 0 && redis > 0 => kv.abs_diff(redis) <= most as u64,
            _ => kv == redis,
        },
        _ => kv == redis,
    }
}

/// Notes where they differ.
fn compare(requests: &[Drawn], kv: &[Vec<u8>], redis: &[Vec<u8>], differences: &mut Vec<String>) {
    for ((request, kv), redis) in requests.iter().zip(kv).zip(redis) {
        if !agrees(request.compare, kv, redis) {
            let words: Vec<_> = request.words.iter().map(|word| show(word)).collect();
            differences.push(format!(
                "{}\n  sent  {}\n  kv    {}\n  redis {}\n",
                words.join(" "),
                show(&request.bytes),
                show(kv),
                show(redis)
            ));
        }
    }
}

fn seed() -> u64 {
    std::env::var("GPUNET_KV_SEED").map_or(SEED, |seed| seed.parse().expect("a number"))
}

fn report(differences: &[String], done: usize) -> String {
    format!("seed {}, after {done} commands:\n{}", seed(), differences.join(""))
}

/// All keys that a server has to a pattern, by SCAN from its beginning to its end.
fn scanned(client: &mut Client, pattern: &[u8]) -> (BTreeSet<Vec<u8>>, usize) {
    let (mut cursor, mut keys, mut requests) = (b"0".to_vec(), BTreeSet::new(), 0);
    loop {
        let answer =
            client.ask(&[b"SCAN", cursor.as_slice(), b"MATCH", pattern, b"COUNT", b"1000"]);
        let mut found = strings(&answer).into_iter();
        cursor = found.next().unwrap_or_else(|| panic!("{}", show(&answer)));
        keys.extend(found);
        requests += 1;
        if cursor == b"0" {
            return (keys, requests);
        }
    }
}

/// Sends so many commands to both, and compares.
fn compare_commands(kv: Kv, redis: &Redis, commands: usize) {
    let mut requests = Requests::new(seed());
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| (kv.client(), redis.client())).collect();
    let (mut done, mut differences) = (0, Vec::new());
    while done < commands {
        let length = match requests.draw.once_in(4) {
            true => 1,
            false => requests.draw.between(2, 64),
        };
        let pipeline: Vec<_> = (0..length).map(|_| requests.next()).collect();
        let mut bytes: Vec<u8> = pipeline.iter().flat_map(|drawn| drawn.bytes.clone()).collect();
        let chosen = requests.draw.below(CONNECTIONS as u64) as usize;
        let quits = requests.draw.once_in(100);
        if quits {
            bytes.extend(request(&["QUIT"]));
        }
        let (to_kv, to_redis) = &mut connections[chosen];
        let answers = pipeline.len();
        let redis_answers = to_redis.exchange(&bytes, answers);
        let kv_answers = to_kv.exchange(&bytes, answers);
        compare(&pipeline, &kv_answers, &redis_answers, &mut differences);
        done += answers;
        // Some more, which may follow from the first.
        assert!(differences.len() < MOST_DIFFERENCES, "{}", report(&differences, done));
        if quits {
            for client in [to_kv, to_redis] {
                assert_eq!(client.rest().as_deref(), Some(b"+OK\r\n".as_slice()), "QUIT");
            }
            connections[chosen] = (kv.client(), redis.client());
        } else if requests.draw.once_in(10) {
            let pattern = requests.pattern();
            let (kv_keys, asked) = scanned(to_kv, &pattern);
            let redis_keys = scanned(to_redis, &pattern).0;
            let differ: Vec<_> =
                kv_keys.symmetric_difference(&redis_keys).map(|key| show(key)).collect();
            assert!(differ.is_empty(), "SCAN MATCH {}: {differ:?} not in both", show(&pattern));
            done += asked;
        }
    }
    drop(connections);
    assert!(differences.is_empty(), "{}", report(&differences, done));
    let statistics = kv.end();
    assert!(statistics.get("requests") as usize >= commands);
}

#[test]
fn commands_are_answered_as_redis_does() {
    let test = "commands_are_answered_as_redis_does";
    if let Some((kv, redis)) = both(test, &[]) {
        compare_commands(kv, &redis, COMMANDS[usize::from(is_long())]);
    }
}

#[test]
fn the_shape_of_the_kernel_does_not_change_answers() {
    for (blocks, threads) in [("1", "1"), ("2", "7"), ("1", "32")] {
        let test = "the_shape_of_the_kernel_does_not_change_answers";
        let options = ["--blocks", blocks, "--threads", threads, "--staging", "4K"];
        if let Some((kv, redis)) = both(test, &options) {
            compare_commands(kv, &redis, FEWER);
        }
    }
}

#[test]
fn a_name_is_read_as_it_was_set() {
    let kv = Kv::start(&[]);
    let mut client = kv.client();
    let names: Vec<_> = (0..2000).map(|n| "name".repeat(1 + n % 9) + &n.to_string()).collect();
    let requests: Vec<u8> = names
        .iter()
        .flat_map(|name| {
            [request(&["CLIENT", "SETNAME", name]), request(&["CLIENT", "GETNAME"])].concat()
        })
        .collect();
    let answers = client.exchange(&requests, names.len() * 2);
    for (name, answer) in names.iter().zip(answers.iter().skip(1).step_by(2)) {
        assert_eq!(show(answer), show(&bulk(name.as_bytes())));
    }
    drop(client);
    kv.end();
}

/// Bytes that are sent on a connection of their own, whose sending then ends.
fn assert_same_until_the_end(kv: &Kv, redis: &Redis, bytes: &[u8]) {
    let [of_kv, of_redis] = [kv.client(), redis.client()].map(|mut client| {
        // A server that closes early makes this fail.
        let _ = client.send(bytes);
        client.end_sending();
        client.rest().expect("the connection ends")
    });
    assert!(
        of_kv == of_redis,
        "sent  {}\n  kv    {}\n  redis {}",
        show(bytes),
        show(&of_kv),
        show(&of_redis)
    );
}

#[test]
fn protocol_errors_are_those_of_redis() {
    let Some((kv, redis)) = both("protocol_errors_are_those_of_redis", &[]) else { return };
    let cases: [&[u8]; 36] = [
        b"",
        b"\r\n",
        b"\n\n\n",
        b"PING",
        b"PING\r",
        b"PING\n",
        b"PING\r\nPING\r\n",
        b"*",
        b"*\r\n",
        b"*1",
        b"*1\r\n",
        b"*x\r\nPING\r\n",
        b"*1\r\n$4\r\nPING",
        b"*1\r\n$4\r\nPING\r",
        b"*1\r\n$4\r\nPING\r\n*",
        b"*1\r\nPING\r\n",
        b"*1\r\n+PING\r\n",
        b"*1\r\n:4\r\n",
        b"*1\r\n\r\n",
        b"*1\r\n$\r\nPING\r\n",
        b"*1\r\n$x\r\nPING\r\n",
        b"*1\r\n$-1\r\nPING\r\n",
        b"*1\r\n$04\r\nPING\r\n",
        b"*01\r\n$4\r\nPING\r\n",
        b"*+1\r\n$4\r\nPING\r\n",
        b"*1\r\n$99999999999999999999\r\n",
        b"*99999999999999999999\r\n",
        b"*2147483648\r\n",
        b"*0\r\n*-1\r\n*-100\r\n*1\r\n$4\r\nPING\r\n",
        b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n",
        b"*2\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
        b"ECHO \"unbalanced\r\n",
        b"ECHO 'unbalanced\r\n",
        b"ECHO \"one\"two\r\n",
        b"ECHO \"two words\"  \r\nECHO ''\r\n \t \r\nPING\r\n",
        b"*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n",
    ];
    for bytes in cases {
        assert_same_until_the_end(&kv, &redis, bytes);
    }
    kv.end();
}

#[test]
fn keys_expire_as_in_redis() {
    let Some((kv, redis)) = both("keys_expire_as_in_redis", &[]) else { return };
    let mut clients = [kv.client(), redis.client()];
    let script: [&[&str]; 12] = [
        &["SET", "px", "v", "PX", "2000"],
        &["SET", "kept", "v", "PX", "2000"],
        &["SET", "kept", "w", "KEEPTTL"],
        &["SET", "renewed", "v", "PX", "2000"],
        &["EXPIRE", "renewed", "100"],
        &["SET", "persistent", "v", "PX", "2000"],
        &["PERSIST", "persistent"],
        &["SET", "past", "v", "PXAT", "1"],
        &["GET", "past"],
        &["SET", "overwritten", "v", "PX", "2000"],
        &["APPEND", "overwritten", "w"],
        &["MGET", "px", "kept", "renewed", "persistent", "past", "overwritten"],
    ];
    let after: [&[&str]; 9] = [
        &["MGET", "px", "kept", "renewed", "persistent", "past", "overwritten"],
        &["EXISTS", "px", "kept", "renewed", "persistent", "past", "overwritten"],
        &["TTL", "px"],
        &["TTL", "persistent"],
        &["SET", "px", "again", "XX"],
        &["SET", "px", "again", "NX", "GET"],
        &["INCR", "kept"],
        &["TTL", "kept"],
        &["GETDEL", "overwritten"],
    ];
    for (part, wait) in [(&script[..], 2500), (&after[..], 0)] {
        for words in part {
            let [of_kv, of_redis] = clients.each_mut().map(|client| client.ask(words));
            assert_eq!(show(&of_kv), show(&of_redis), "{words:?}");
        }
        std::thread::sleep(Duration::from_millis(wait));
    }
    kv.end();
}
