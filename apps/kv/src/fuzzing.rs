//! What the fuzzers (utils/fuzz) call of this crate's inside. Only in builds with `--cfg fuzzing`.

#![allow(unsafe_code, reason = "names bytes of the caller's")]

use std::vec::Vec;

use gpunet_device::SharedBuf;

use crate::glob;
use crate::request::{Parsed, Progress, parse, parse_short};

/// What a request is: its kind, its bytes, its arguments.
type Seen = (u8, usize, Vec<Vec<u8>>);

fn bytes_of(buffer: SharedBuf) -> Vec<u8> {
    (0..buffer.len()).filter_map(|at| buffer.get(at)).collect()
}

fn see(input: SharedBuf, progress: &mut Progress) -> Option<Seen> {
    Some(match parse(input, progress) {
        Parsed::Request(request) => {
            let mut arguments = request.arguments();
            let all = (0..request.count.min(1000)).map(|_| bytes_of(arguments.next())).collect();
            (0, request.length, all)
        }
        Parsed::Nothing(bytes) => (1, bytes, Vec::new()),
        Parsed::More(_) => return None,
        Parsed::Wrong(_) => (2, 0, Vec::new()),
    })
}

/// Parses bytes at once, and as they come in parts: the same request.
///
/// # Panics
/// Where it is another one, or reaches beyond the bytes.
pub fn request(mut bytes: Vec<u8>) {
    // The last byte says how it is cut.
    let Some(parts) = bytes.pop().filter(|_| !bytes.is_empty()) else { return };
    // SAFETY: own bytes, which outlive what is done with them.
    let input = unsafe { SharedBuf::from_raw(bytes.as_mut_ptr(), bytes.len()) };
    let begin = || Progress { done: 0, at: 0 };
    let whole = see(input, &mut begin());
    if let Some((kind, length, arguments)) = &whole {
        assert!(*length <= input.len() && (*kind == 2 || *length > 0));
        assert!(arguments.iter().map(Vec::len).sum::<usize>() <= *length);
    }
    let step = usize::from(parts % 64) + 1;
    let (mut progress, mut have, mut found) = (begin(), 0, None);
    while have < input.len() && found.is_none() {
        have = (have + step).min(input.len());
        found = see(input.first(have), &mut progress);
    }
    assert_eq!(found, whole, "in parts of {step}");
    if let Some(short) = parse_short(input) {
        let (kind, length, arguments) = whole.expect("a short request is one");
        assert_eq!((kind, length, arguments.len()), (0, short.length, short.count));
    }
    let half = input.len() / 2;
    let (pattern, text) = (input.first(half), input.slice(half, usize::MAX));
    let mut steps = 10_000;
    let _ = glob::matches(pattern, |at| text.get(at), &mut steps);
}
