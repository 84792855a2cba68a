//! Answers in RESP2, or RESP3 after HELLO 3.

use gpunet_device::{Block, SharedBuf};
use gpunet_serve::{Exchange, Refusal};

use crate::number;
use crate::request::{Wrong, word};
use crate::state::State;

/// Bytes that are written in one go, at most: less than the smallest stage.
const MOST_AT_ONCE: usize = 512;

/// A client's request and the place for its answer.
pub(crate) type Client<'a> = Exchange<'a, Block, State>;

/// Up to eight bytes that are known beforehand, such as `+OK` and its line end: they travel in a
/// register.
#[inline(always)]
pub(crate) fn short(client: &mut Client<'_>, text: &'static [u8]) {
    short_word(client, word(text), text.len());
}

#[inline(never)]
fn short_word(client: &mut Client<'_>, text: u64, length: usize) {
    client.write_with(length, |at| (text >> (8 * at)) as u8);
}

/// An error; the text begins with its kind.
#[inline(never)]
pub(crate) fn error(client: &mut Client<'_>, text: &'static [u8]) {
    client.write_bytes(b"-");
    line(client, text);
}

/// Text and the end of a line.
#[inline(never)]
pub(crate) fn line(client: &mut Client<'_>, text: &'static [u8]) {
    client.write_bytes(text);
    client.write_bytes(b"\r\n");
}

/// A header: its kind and a number.
#[inline(never)]
pub(crate) fn header(client: &mut Client<'_>, kind: u8, number: i64) {
    let (negative, digits) = (number < 0, number::length(number));
    let magnitude = number.unsigned_abs();
    client.write_with(digits + 3, |at| match at {
        0 => kind,
        1 if negative => b'-',
        _ if at <= digits => number::digit(magnitude, digits - at),
        _ if at == digits + 1 => b'\r',
        _ => b'\n',
    });
}

/// A number.
#[inline(never)]
pub(crate) fn integer(client: &mut Client<'_>, number: i64) {
    header(client, b':', number);
}

/// Bytes.
#[inline(never)]
pub(crate) fn bulk(client: &mut Client<'_>, bytes: SharedBuf) {
    let length = bytes.len();
    // What stands in front of the bytes, of up to three digits, as a number: the first byte the lowest.
    let (front, begin) = match length as u32 {
        short @ 0..10 => (word(b"$0\r\n") + (u64::from(short) << 8), 4),
        more => {
            let (hundreds, tens, ones) = (more / 100, more / 10 % 10, more % 10);
            let digits =
                if hundreds > 0 { hundreds | tens << 8 | ones << 16 } else { tens | ones << 8 };
            let (zeros, end) = match hundreds > 0 {
                true => (word(b"$000\r\n"), 6),
                false => (word(b"$00\r\n"), 5),
            };
            (zeros + (u64::from(digits) << 8), end)
        }
    };
    let whole = begin + length + 2;
    if length > MOST_AT_ONCE - 8 {
        return long_bulk(client, bytes);
    }
    // Header, bytes and line end in one go.
    client.write_with(whole, |at| match at {
        _ if at < begin => (front >> (8 * at)) as u8,
        _ if at < begin + length => bytes.get(at - begin).unwrap_or(b' '),
        _ if at + 1 == whole => b'\n',
        _ => b'\r',
    });
}

/// The same of many.
#[inline(never)]
fn long_bulk(client: &mut Client<'_>, bytes: SharedBuf) {
    header(client, b'$', bytes.len() as i64);
    client.write(bytes);
    client.write_bytes(b"\r\n");
}

/// A text that is known beforehand, as bytes.
#[inline(never)]
pub(crate) fn bulk_text(client: &mut Client<'_>, text: &'static [u8]) {
    header(client, b'$', text.len() as i64);
    line(client, text);
}

/// Nothing in the place of bytes.
#[inline(never)]
pub(crate) fn null(client: &mut Client<'_>) {
    match client.state.is_resp3() {
        true => short(client, b"_\r\n"),
        false => short(client, b"$-1\r\n"),
    }
}

/// The beginning of an array.
#[inline(never)]
pub(crate) fn array(client: &mut Client<'_>, elements: usize) {
    header(client, b'*', elements as i64);
}

/// The beginning of a map; RESP2 has arrays of twice as many.
#[inline(never)]
pub(crate) fn map(client: &mut Client<'_>, pairs: usize) {
    match client.state.is_resp3() {
        true => header(client, b'%', pairs as i64),
        false => header(client, b'*', pairs as i64 * 2),
    }
}

/// An argument inside an error: no line ends, at most 128 bytes.
#[inline(never)]
pub(crate) fn quoted(client: &mut Client<'_>, bytes: SharedBuf) {
    let length = bytes.len().min(128);
    client.write_with(length, |at| match bytes.get(at) {
        None | Some(b'\r' | b'\n') => b' ',
        Some(byte) => byte,
    });
}

/// Letters that [`keyword`](crate::request::keyword) packed, in lower case.
#[inline(never)]
pub(crate) fn keyword(client: &mut Client<'_>, word: u64) {
    let length = 8 - word.leading_zeros() as usize / 8;
    client.write_with(length, |at| ((word >> (8 * at)) as u8).to_ascii_lowercase());
}

/// The wrong number of arguments.
#[inline(never)]
pub(crate) fn wrong_arguments(client: &mut Client<'_>, command: u64) {
    client.write_bytes(b"-ERR wrong number of arguments for '");
    keyword(client, command);
    line(client, b"' command");
}

/// The same for a part of a command.
#[inline(never)]
pub(crate) fn wrong_subcommand_arguments(client: &mut Client<'_>, command: u64, part: u64) {
    client.write_bytes(b"-ERR wrong number of arguments for '");
    keyword(client, command);
    client.write_bytes(b"|");
    keyword(client, part);
    line(client, b"' command");
}

/// A time that no clock has.
#[inline(never)]
pub(crate) fn wrong_expiry(client: &mut Client<'_>, command: u64) {
    client.write_bytes(b"-ERR invalid expire time in '");
    keyword(client, command);
    line(client, b"' command");
}

/// `ERR syntax error`.
#[inline(never)]
pub(crate) fn syntax(client: &mut Client<'_>) {
    error(client, b"ERR syntax error");
}

/// What should be a number is none.
#[inline(never)]
pub(crate) fn not_a_number(client: &mut Client<'_>) {
    error(client, b"ERR value is not an integer or out of range");
}

/// No memory is left.
#[inline(never)]
pub(crate) fn out_of_memory(client: &mut Client<'_>) {
    error(client, b"OOM command not allowed when used memory > 'maxmemory'.");
}

/// Why the server ends a connection.
#[inline(never)]
pub(crate) fn refused(client: &mut Client<'_>, why: Refusal) {
    match why {
        Refusal::NoMemory => error(client, b"OOM no memory is left for a request of this size"),
        Refusal::TooLarge => wrong(client, Wrong::LongRequest),
        Refusal::TooSlow => error(client, b"ERR the request did not come in time"),
        Refusal::TooMany => error(client, b"ERR max number of clients reached"),
    }
}

/// A bucket that could not be had in time.
#[inline(never)]
pub(crate) fn busy(client: &mut Client<'_>) {
    error(client, b"BUSY the key is in use by a group that does not leave it");
}

/// A request that is none; the connection ends behind this.
#[inline(never)]
pub(crate) fn wrong(client: &mut Client<'_>, what: Wrong) {
    client.write_bytes(b"-ERR Protocol error: ");
    match what {
        Wrong::LongLine => line(client, b"too big inline request"),
        Wrong::Quotes => line(client, b"unbalanced quotes in request"),
        Wrong::Count => line(client, b"invalid multibulk length"),
        Wrong::Length => line(client, b"invalid bulk length"),
        Wrong::LongRequest => line(client, b"too big request"),
        Wrong::Dollar(byte) => {
            client.write_bytes(b"expected '$', got '");
            client.write_with(1, |_| if byte.is_ascii_control() { b' ' } else { byte });
            line(client, b"'");
        }
    }
}
