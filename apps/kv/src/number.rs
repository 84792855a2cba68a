//! Numbers in requests and values: decimal, as Redis takes them.

use gpunet_device::SharedBuf;

/// The number that these bytes are: digits, a sign in front, nothing else; no zeros in front.
#[inline(never)]
pub(crate) fn parse(bytes: SharedBuf) -> Option<i64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    let first = bytes.get(0)?;
    let negative = first == b'-';
    let start = usize::from(negative);
    if bytes.get(start)? == b'0' {
        return (bytes.len() == 1).then_some(0);
    }
    let mut value = 0_u64;
    for at in start..bytes.len() {
        let digit = bytes.get(at)?.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    match negative {
        true if value <= 1 << 63 => Some((value as i64).wrapping_neg()),
        false if value < 1 << 63 => Some(value as i64),
        _ => None,
    }
}

/// How many bytes the number has in decimal.
#[inline(never)]
pub(crate) fn length(number: i64) -> usize {
    let mut rest = number.unsigned_abs();
    let mut length = 1 + usize::from(number < 0);
    while rest >= 10 {
        (rest, length) = (rest / 10, length + 1);
    }
    length
}

/// Writes the number. For one thread.
#[inline(never)]
pub(crate) fn store(number: i64, to: SharedBuf) {
    let mut rest = number.unsigned_abs();
    let mut at = length(number);
    loop {
        at -= 1;
        to.set(at, b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        to.set(0, b'-');
    }
}

/// The digit with so many behind it.
#[inline(always)]
pub(crate) fn digit(mut magnitude: u64, behind: usize) -> u8 {
    for _ in 0..behind {
        magnitude /= 10;
    }
    b'0' + (magnitude % 10) as u8
}
