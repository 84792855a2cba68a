//! Short requests are read as others are.

#![allow(unsafe_code, reason = "names bytes of a test")]

use std::format;
use std::vec::Vec;

use gpunet_device::SharedBuf;

use super::{Parsed, Progress, keyword, parse, parse_short};

/// Numbers that follow from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// A request of up to four arguments, mostly with something wrong in it.
fn request(draw: &mut Draw) -> Vec<u8> {
    let names = ["GET", "set", "Ping", "x", "APPEND", "FLUSHALL", "FLUSHALLX", ""];
    let count = draw.below(5);
    let mut bytes = format!("*{count}\r\n").into_bytes();
    for argument in 0..count {
        let length = [0, 1, 7, 8, 9, 99, 1000, 10_001][draw.below(8)];
        let text = if argument == 0 { names[draw.below(8)].into() } else { "v".repeat(length) };
        bytes.extend(format!("${}\r\n{text}\r\n", text.len()).into_bytes());
    }
    if count > 0 && draw.below(2) == 0 {
        let at = draw.below(bytes.len().min(40));
        bytes[at] = b"$*\r\n0129-\0a\xFF"[draw.below(12)];
    }
    if draw.below(4) == 0 {
        bytes.truncate(draw.below(bytes.len() + 1));
    }
    if draw.below(4) == 0 {
        bytes.extend(b"*1\r\n$4\r\nPING\r\n");
    }
    bytes
}

fn bytes_of(buffer: SharedBuf) -> Vec<u8> {
    (0..buffer.len()).filter_map(|at| buffer.get(at)).collect()
}

#[test]
fn what_is_read_as_short_is_what_it_is() {
    let (mut draw, mut short_ones) = (Draw(1), 0);
    for _ in 0..200_000 {
        let mut bytes = request(&mut draw);
        if bytes.is_empty() {
            continue;
        }
        // SAFETY: the test's own bytes, which outlive what it does with them.
        let input = unsafe { SharedBuf::from_raw(bytes.as_mut_ptr(), bytes.len()) };
        let parsed = parse(input, &mut { Progress::NONE });
        let Some(short) = parse_short(input) else {
            // Nothing that is asked for often goes the long way.
            let usual = bytes.starts_with(b"*1\r\n$4\r\nPING\r\n");
            assert!(!usual, "{}", bytes.escape_ascii());
            continue;
        };
        short_ones += 1;
        let Parsed::Request(request) = parsed else { panic!("{}", bytes.escape_ascii()) };
        let mut arguments = request.arguments();
        let name = keyword(arguments.next());
        let [key, value] = [arguments.next(), arguments.next()].map(bytes_of);
        let long = (name, request.count, key, value, request.length);
        let short =
            (short.command, short.count, bytes_of(short.key), bytes_of(short.value), short.length);
        assert_eq!(short, long, "{}", bytes.escape_ascii());
    }
    assert!(short_ones > 10_000, "{short_ones}");
}
