//! Patterns of SCAN and CONFIG GET: `*`, `?`, `[a-z]`, `[^a]`, `\x`, as Redis has them.

use gpunet_device::SharedBuf;

/// Steps of matching that one command may take.
pub(crate) const STEPS: u32 = 1 << 22;

/// Whether the text matches. Looks back at the last `*` only, so its time is bounded by the product of
/// both lengths; each turn takes one of `steps`, and without any left nothing matches.
pub(crate) fn matches(
    pattern: SharedBuf,
    text: impl Fn(usize) -> Option<u8>,
    steps: &mut u32,
) -> bool {
    // As Redis has it: nothing but the empty pattern takes an empty text.
    if text(0).is_none() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if *steps == 0 {
            return false;
        }
        *steps -= 1;
        let step = match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            None if text(t).is_none() => return true,
            None => None,
            Some(byte) => text(t).and_then(|c| one(pattern, p, byte, c)),
        };
        match (step, star) {
            (Some(next), _) => (p, t) = (next, t + 1),
            (None, Some((after, from))) if text(from).is_some() => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// Whether the character at `p` of the pattern takes `c`: where the pattern goes on.
#[inline(never)]
fn one(pattern: SharedBuf, p: usize, byte: u8, c: u8) -> Option<usize> {
    match byte {
        b'?' => Some(p + 1),
        b'[' => class(pattern, p + 1, c),
        b'\\' if pattern.get(p + 1).is_some() => (pattern.get(p + 1) == Some(c)).then_some(p + 2),
        byte => (byte == c).then_some(p + 1),
    }
}

/// `[...]`: where the pattern goes on if it takes `c`.
#[inline(never)]
fn class(pattern: SharedBuf, mut p: usize, c: u8) -> Option<usize> {
    let inverted = pattern.get(p) == Some(b'^');
    p += usize::from(inverted);
    let mut found = false;
    loop {
        match (pattern.get(p), pattern.get(p + 1), pattern.get(p + 2)) {
            // A class without an end takes what it has.
            (None, ..) => break,
            (Some(b'\\'), Some(literal), _) => {
                found |= literal == c;
                p += 2;
            }
            (Some(b']'), ..) => {
                p += 1;
                break;
            }
            (Some(from), Some(b'-'), Some(to)) => {
                found |= (from.min(to)..=from.max(to)).contains(&c);
                p += 3;
            }
            (Some(literal), ..) => {
                found |= literal == c;
                p += 1;
            }
        }
    }
    (found != inverted).then_some(p)
}
