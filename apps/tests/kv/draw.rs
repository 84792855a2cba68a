//! Requests that are drawn from a seed: every command that kv has, with arguments right and wrong.
//!
//! Left out, because Redis's answer depends on more than the requests, or is more than kv promises:
//! escapes and quotes within words of inline commands; arguments above 1 MiB; commands, subcommands and
//! options of Redis that kv has not; the texts of HELP; an empty cursor or one with a sign. Times to live are long, and no two of them near
//! each other, so that it does not matter when either server sees a request.

use std::time::{SystemTime, UNIX_EPOCH};

use gpunet_support::pattern::{Draw, fill_slice};

use crate::resp::request;

/// How the answers of both servers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// Byte by byte.
    Bytes,
    /// As numbers that may differ by so much, if both are above zero.
    About(i64),
    /// Errors byte by byte; else both are no errors, and kv's answer is well-formed.
    Kind,
}

/// A request and how its answers are compared.
pub(crate) struct Drawn {
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) compare: Compare,
}

/// Draws requests.
pub(crate) struct Requests {
    pub(crate) draw: Draw,
    /// Seconds since 1970 when this began.
    begin: u64,
    /// Times to live that were drawn.
    times: u64,
}

/// The key of large values, which nothing is appended to.
const LARGE_KEY: &[u8] = b"large";
/// What no number of a command should be.
const ODD_NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "-0",
    "+1",
    "abc",
    "",
    "1.5",
    " 1",
    "007",
    "99999999999999999999",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775",
    "-9223372036854775",
];
const SET_OPTIONS: [&str; 10] =
    ["EX", "PX", "EXAT", "PXAT", "NX", "XX", "GET", "KEEPTTL", "PERSIST", "FOO"];
const EXPIRE_OPTIONS: [&str; 5] = ["NX", "XX", "GT", "LT", "FOO"];
const PATTERNS: [&[u8]; 8] =
    [b"*", b"k*", b"k1?", b"k[0-3]", b"k[^0-3]", b"*1", b"\\k1", b"nothing"];

fn words(of: &[&[u8]]) -> Vec<Vec<u8>> {
    of.iter().map(|word| word.to_vec()).collect()
}

impl Requests {
    pub(crate) fn new(seed: u64) -> Self {
        let begin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        Self { draw: Draw::new(seed, 20), begin, times: 0 }
    }

    fn key(&mut self) -> Vec<u8> {
        match self.draw.below(24) {
            0 => Vec::new(),
            1 => b"with space".to_vec(),
            2 => b"line\r\nend".to_vec(),
            3 => b"\0\x01\xff\xfe".to_vec(),
            4 => vec![b'x'; 300],
            number => format!("k{number}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.draw.below(400) {
            0 => self.draw.between(1000, 20_000),
            1..200 => self.draw.below(64),
            200..230 => 0,
            230..250 => return self.odd_number(),
            _ => return (self.draw.below(2000) as i64 - 1000).to_string().into_bytes(),
        };
        self.random(length as usize)
    }

    fn random(&mut self, length: usize) -> Vec<u8> {
        let mut value = vec![0; length];
        fill_slice(&mut value, self.draw.next(), 0);
        value
    }

    fn odd_number(&mut self) -> Vec<u8> {
        self.draw.pick(ODD_NUMBERS).into()
    }

    fn number(&mut self) -> Vec<u8> {
        match self.draw.once_in(6) {
            true => self.odd_number(),
            false => (self.draw.below(2000) as i64 - 1000).to_string().into_bytes(),
        }
    }

    /// A time to live in seconds, at least 200 away from all others.
    fn seconds(&mut self) -> u64 {
        self.times += 1;
        10_000 + 200 * (self.times * 7919 % 1_000_003)
    }

    /// The time that belongs behind an option or into a command, in its unit.
    fn time(&mut self, unit: &str) -> Vec<u8> {
        if self.draw.once_in(8) {
            return self.odd_number();
        }
        let seconds = self.seconds();
        let time = match unit {
            "EX" => seconds,
            "PX" => seconds * 1000,
            "EXAT" => self.begin + seconds,
            _ => (self.begin + seconds) * 1000,
        };
        time.to_string().into_bytes()
    }

    fn set(&mut self) -> Vec<Vec<u8>> {
        let mut words = vec![b"SET".to_vec(), self.key(), self.value()];
        if self.draw.once_in(2) {
            return words;
        }
        for _ in 0..self.draw.between(1, 3) {
            let option = self.draw.pick(SET_OPTIONS);
            // These are always wrong: not too often.
            if matches!(option, "PERSIST" | "FOO") && !self.draw.once_in(4) {
                continue;
            }
            words.push(option.into());
            if matches!(option, "EX" | "PX" | "EXAT" | "PXAT") && !self.draw.once_in(10) {
                let time = self.time(option);
                words.push(time);
            }
        }
        words
    }

    fn expire(&mut self) -> Vec<Vec<u8>> {
        let (command, unit) =
            self.draw.pick([("EXPIRE", "EX"), ("PEXPIRE", "PX"), ("EXPIREAT", "EXAT")]);
        let mut words = vec![command.into(), self.key(), self.time(unit)];
        if self.draw.once_in(2) {
            for _ in 0..self.draw.between(1, 2) {
                words.push(self.draw.pick(EXPIRE_OPTIONS).into());
            }
        }
        words
    }

    fn keys_of(&mut self, command: &str, most: u64) -> Vec<Vec<u8>> {
        let mut words = vec![command.into()];
        for _ in 0..self.draw.between(1, most) {
            words.push(self.key());
        }
        words
    }

    fn set_many(&mut self) -> Vec<Vec<u8>> {
        let mut words = vec![b"MSET".to_vec()];
        for _ in 0..self.draw.between(1, 4) {
            words.extend([self.key(), self.value()]);
        }
        words
    }

    /// Values up to 1 MiB, under a key of their own.
    fn large(&mut self) -> Vec<Vec<u8>> {
        match self.draw.below(40) {
            0 => {
                let length = self.draw.between(100_000, 1 << 20);
                vec![b"SET".to_vec(), LARGE_KEY.to_vec(), self.random(length as usize)]
            }
            1 => words(&[b"GET", LARGE_KEY]),
            2 => words(&[b"GETSET", LARGE_KEY, b"1"]),
            3 => words(&[b"MGET", LARGE_KEY, b"k7", LARGE_KEY]),
            4 => words(&[b"GETDEL", LARGE_KEY]),
            _ => words(&[b"STRLEN", LARGE_KEY]),
        }
    }

    fn unknown(&mut self) -> Vec<Vec<u8>> {
        let long = "xyzzy".repeat(40);
        let name = self.draw.pick(["FOO", "GETT", "G", "", "line\r\nend", "ninechars", &long]);
        let mut words = vec![name.into()];
        for _ in 0..self.draw.below(5) {
            let argument = self.draw.pick(["a", "", "two words", "line\r\nend", &long]);
            words.push(argument.into());
        }
        words
    }

    /// About the connection and the server.
    fn about(&mut self) -> (Vec<Vec<u8>>, Compare) {
        let exact: &[&[u8]] = match self.draw.below(28) {
            0..3 => &[b"PING"],
            3 => &[b"PING", b"with\r\nmore"],
            4 => return (vec![b"ECHO".to_vec(), self.value()], Compare::Bytes),
            5 => return (vec![b"SELECT".to_vec(), self.odd_number()], Compare::Bytes),
            6 => &[b"SELECT", b"0"],
            7 => &[b"SELECT", b"1"],
            8..10 => &[b"CLIENT", b"GETNAME"],
            10 => &[b"CLIENT", b"SETNAME", b"somebody"],
            11 => &[b"CLIENT", b"SETNAME", b"some body"],
            12 => &[b"CLIENT", b"SETNAME", b""],
            13 => &[b"CLIENT", b"SETNAME"],
            14 => &[b"CLIENT", b"FOO"],
            15 => &[b"CLIENT", b"GETNAME", b"x"],
            16 => &[b"CLIENT"],
            17 => &[b"HELLO", b"abc"],
            18 => &[b"HELLO", b"4"],
            19 => &[b"HELLO", b"3", b"SETNAME"],
            20 => &[b"CONFIG", b"FOO"],
            21 => &[b"CONFIG", b"GET"],
            22 if self.draw.once_in(4) => &[b"RESET"],
            _ => return (self.parsed(), Compare::Kind),
        };
        (words(exact), Compare::Bytes)
    }

    /// Commands whose answers are each server's own.
    fn parsed(&mut self) -> Vec<Vec<u8>> {
        let pick: [&[&[u8]]; 13] = [
            &[b"INFO"],
            &[b"INFO", b"memory"],
            &[b"HELLO"],
            &[b"HELLO", b"2"],
            &[b"HELLO", b"3"],
            &[b"HELLO", b"3", b"SETNAME", b"hello"],
            &[b"CONFIG", b"GET", b"maxmemory"],
            &[b"COMMAND", b"COUNT"],
            &[b"COMMAND", b"FOO"],
            &[b"COMMAND", b"DOCS", b"get"],
            &[b"TIME"],
            &[b"CLIENT", b"ID"],
            &[b"CLIENT", b"INFO"],
        ];
        words(self.draw.pick(pick))
    }

    fn scan(&mut self) -> (Vec<Vec<u8>>, Compare) {
        let cursor = self.draw.pick(["0", "0", "0", "x", "1.5"]);
        let mut words = vec![b"SCAN".to_vec(), cursor.into()];
        for _ in 0..self.draw.below(3) {
            match self.draw.below(5) {
                0 => words.extend([b"MATCH".to_vec(), self.draw.pick(PATTERNS).to_vec()]),
                1 => words.extend([b"COUNT".to_vec(), self.number()]),
                2 => words.extend([b"TYPE".to_vec(), b"string".to_vec()]),
                3 => words.extend([b"TYPE".to_vec(), b"list".to_vec()]),
                _ => words.push(self.draw.pick(["FOO", "MATCH", "COUNT"]).into()),
            }
        }
        (words, Compare::Kind)
    }

    /// The pattern of a SCAN over all keys: one that makes sense, or any.
    pub(crate) fn pattern(&mut self) -> Vec<u8> {
        if self.draw.once_in(3) {
            return self.draw.pick(PATTERNS).to_vec();
        }
        let length = self.draw.between(1, 7);
        (0..length).map(|_| self.draw.pick(*b"kkk1125x**?[[]]^-\\")).collect()
    }

    fn command(&mut self) -> (Vec<Vec<u8>>, Compare) {
        let key = self.key();
        let words = match self.draw.below(100) {
            0..18 => self.set(),
            18..30 => vec![b"GET".to_vec(), key],
            30..33 => vec![b"GETSET".to_vec(), key, self.value()],
            33..35 => vec![b"GETDEL".to_vec(), key],
            35..38 => self.keys_of("DEL", 3),
            38..41 => self.keys_of("EXISTS", 4),
            41..47 => self.expire(),
            47..50 => return (vec![b"TTL".to_vec(), key], Compare::About(10)),
            50..53 => return (vec![b"PTTL".to_vec(), key], Compare::About(10_000)),
            53..56 => vec![b"PERSIST".to_vec(), key],
            56..59 => vec![b"INCR".to_vec(), key],
            59..61 => vec![b"DECR".to_vec(), key],
            61..64 => vec![b"INCRBY".to_vec(), key, self.number()],
            64..66 => vec![b"DECRBY".to_vec(), key, self.number()],
            66..69 => vec![b"APPEND".to_vec(), key, self.value()],
            69..71 => vec![b"STRLEN".to_vec(), key],
            71..74 => self.keys_of("MGET", 6),
            74..77 => self.set_many(),
            77..79 => vec![b"SETNX".to_vec(), key, self.value()],
            79 => vec![b"SETEX".to_vec(), key, self.time("EX"), self.value()],
            80 => vec![b"PSETEX".to_vec(), key, self.time("PX"), self.value()],
            81..83 => return self.scan(),
            83 => vec![b"DBSIZE".to_vec()],
            84 => match self.draw.below(12) {
                0 => words(&[b"FLUSHALL"]),
                1 => words(&[b"FLUSHDB", b"SYNC"]),
                2 => words(&[b"FLUSHALL", b"FOO"]),
                3 => words(&[b"FLUSHALL", b"SYNC", b"ASYNC"]),
                _ => words(&[b"DBSIZE"]),
            },
            85..87 => vec![b"TYPE".to_vec(), key],
            87 => self.keys_of("UNLINK", 2),
            88 => self.keys_of("TOUCH", 3),
            89..92 => self.unknown(),
            92..95 => self.large(),
            _ => return self.about(),
        };
        (words, Compare::Bytes)
    }

    /// The next request. Some have an argument too few or too many, or another case; some are inline.
    pub(crate) fn next(&mut self) -> Drawn {
        let (mut words, compare) = self.command();
        match self.draw.below(60) {
            0 if words.len() > 1 => _ = words.pop(),
            1 => words.push(self.draw.pick(["extra", "", "NX", "99999999999999"]).into()),
            2..8 => words[0].make_ascii_lowercase(),
            8 => words.iter_mut().take(1).for_each(|name| {
                name.iter_mut().step_by(2).for_each(|byte| byte.make_ascii_lowercase());
            }),
            9 => words.iter_mut().skip(3).for_each(|word| word.make_ascii_lowercase()),
            _ => {}
        }
        // With arguments or without, its answer has a number of the server's own.
        let compare = if words[0].eq_ignore_ascii_case(b"HELLO") { Compare::Kind } else { compare };
        let is_plain = |word: &Vec<u8>| {
            !word.is_empty() && word.len() < 400 && word.iter().all(u8::is_ascii_alphanumeric)
        };
        let bytes = match words.iter().all(is_plain) && self.draw.once_in(8) {
            true => self.inline(&words),
            false => [self.nothing(), &request(&words)].concat(),
        };
        Drawn { words, bytes, compare }
    }

    /// What is no request, and gets no answer.
    fn nothing(&mut self) -> &'static [u8] {
        match self.draw.below(200) {
            0 => b"\r\n",
            1 => b"*0\r\n",
            2 => b"*-1\r\n",
            3 => b"\n",
            _ => b"",
        }
    }

    fn inline(&mut self, words: &[Vec<u8>]) -> Vec<u8> {
        let mut line = Vec::new();
        for word in words {
            let quote = self.draw.pick(["", "", "\"", "'"]);
            line.extend([quote.as_bytes(), word, quote.as_bytes()].concat());
            line.extend(self.draw.pick([" ", "  ", "\t"]).as_bytes());
        }
        line.extend(self.draw.pick(["\r\n", "\n"]).as_bytes());
        line
    }
}
