//! Requests: a RESP array of bulk strings, or a line of words. Parsing finds out where the arguments
//! stand; nothing is copied.

use gpunet_device::SharedBuf;

/// The largest argument.
pub(crate) const MOST_ARGUMENT: usize = crate::table::MOST_VALUE;
/// The largest request: what the server keeps of one that is incomplete.
const MOST_REQUEST: usize = gpunet_serve::heap::MOST;
/// The longest line: a header, or an inline command.
const MOST_LINE: usize = 4096;
/// Arguments whose places are kept: a name, a key and a value.
const CACHED: usize = 3;
/// The most arguments of a request.
const MOST_ARGUMENTS: i64 = 1 << 20;

/// A complete request.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    input: SharedBuf,
    /// Arguments, the command's name among them.
    pub(crate) count: usize,
    /// Where the first arguments stand, so that their headers are read once.
    spans: [Span; CACHED],
    /// Where the header of the argument behind those stands, or the first letter of a line.
    first: usize,
    inline: bool,
    /// Bytes of the request.
    pub(crate) length: usize,
}

/// An argument in the input.
#[derive(Clone, Copy, Default)]
struct Span {
    start: u32,
    length: u32,
}

/// What the input begins with.
pub(crate) enum Parsed {
    /// A request.
    Request(Request),
    /// Nothing to answer: so many bytes to skip.
    Nothing(usize),
    /// A part of a request; so many bytes are needed in all, as far as known.
    More(usize),
    /// What is wrong, as clients get it; the connection ends.
    Wrong(Wrong),
}

/// A protocol error.
#[derive(Clone, Copy)]
pub(crate) enum Wrong {
    /// A line without an end.
    LongLine,
    /// A line of words whose quotes do not match.
    Quotes,
    /// The number of arguments.
    Count,
    /// The length of an argument.
    Length,
    /// No `$` in front of an argument, but this.
    Dollar(u8),
    /// More bytes in all than a request may have.
    LongRequest,
}

/// The number in a line behind its first byte, and where the next line begins.
enum Line {
    Number(i64, usize),
    Incomplete,
    Wrong,
    Long,
}

/// Reads `<byte><number>\r\n`.
#[inline(always)]
fn header(input: SharedBuf, start: usize) -> Line {
    // Up to six digits and the line's end, from one word.
    let word = input.word_at(start + 1);
    let (mut number, mut rest, mut digits) = (0, word, 0);
    while digits < 6 {
        let digit = (rest as u8).wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number * 10 + i64::from(digit);
        (rest, digits) = (rest >> 8, digits + 1);
    }
    let next = start + digits + 3;
    let zero_first = digits > 1 && word as u8 == b'0';
    if digits > 0 && rest as u8 == b'\r' && next <= input.len() && !zero_first {
        return Line::Number(number, next);
    }
    unusual_header(input, start)
}

/// The same for numbers that are negative, long, wrong or incomplete.
#[inline(never)]
fn unusual_header(input: SharedBuf, start: usize) -> Line {
    let mut at = start + 1;
    let negative = input.get(at) == Some(b'-');
    at += usize::from(negative);
    let (mut number, mut digits, mut wrong) = (0_i64, 0, false);
    loop {
        let Some(byte) = input.get(at) else {
            return if at - start > MOST_LINE { Line::Long } else { Line::Incomplete };
        };
        at += 1;
        if byte == b'\r' {
            break;
        }
        let digit = byte.wrapping_sub(b'0');
        // No zeros in front, as Redis has it.
        wrong |= digit > 9 || digits > 12 || digits > 0 && number == 0;
        number = number.wrapping_mul(10).wrapping_add(i64::from(digit));
        digits += 1;
    }
    // The byte behind the carriage return is taken for a line feed, as Redis does.
    match input.get(at) {
        None => Line::Incomplete,
        Some(_) if wrong || digits == 0 => Line::Wrong,
        Some(_) => Line::Number(if negative { -number } else { number }, at + 1),
    }
}

/// How far a request was parsed of which a part is there, so that it is not parsed from its beginning
/// for each further part. All zero: not at all.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Progress {
    /// Arguments that were seen whole.
    done: u32,
    /// Where the header of the next one stands.
    at: u32,
}

impl Progress {
    /// Not at all.
    pub(crate) const NONE: Self = Self { done: 0, at: 0 };
}

/// A request that most are: an array of one to three arguments with short headers, all of which is there.
pub(crate) struct Short {
    /// The command, as [`keyword`] has it.
    pub(crate) command: u64,
    /// Arguments, the command's name among them.
    pub(crate) count: usize,
    /// The argument behind the name; empty if there is none.
    pub(crate) key: SharedBuf,
    /// The one behind that.
    pub(crate) value: SharedBuf,
    /// Bytes of the request.
    pub(crate) length: usize,
}

/// Reads the request at the beginning of the input if it is a short one. Where it is not, or not whole,
/// [`parse`] says what it is.
#[inline(always)]
pub(crate) fn parse_short(input: SharedBuf) -> Option<Short> {
    // `*C\r\n$L\r\n`, and the name behind it: a word each.
    const FORM: u64 = word(b"*\0\r\n$\0\r\n");
    const DIGITS: u64 = 0xFF << 8 | 0xFF << 40;
    let (begin, name) = (input.word_at(0), input.word_at(8));
    let count = ((begin >> 8) as u8).wrapping_sub(b'0');
    let letters = ((begin >> 40) as u8).wrapping_sub(b'0');
    if begin & !DIGITS != FORM || count.wrapping_sub(1) > 2 || letters.wrapping_sub(1) > 7 {
        return None;
    }
    let (count, letters) = (usize::from(count), usize::from(letters));
    let command = capitals(name & u64::MAX >> (64 - 8 * letters), letters);
    let mut at = 8 + letters + 2;
    let (mut key, mut value) = (SharedBuf::EMPTY, SharedBuf::EMPTY);
    let mut index = 1;
    // Counted: at most two more.
    while index < count {
        let (length, start) = short_header(input.word_at(at))?;
        let argument = input.slice(at + start, length);
        // The first of two, or the only one.
        if index == 1 {
            key = argument;
        } else {
            value = argument;
        }
        (at, index) = (at + start + length + 2, index + 1);
    }
    (at <= input.len()).then_some(Short { command, count, key, value, length: at })
}

/// The number of `$<number>\r\n` in a word, of up to four digits, and the bytes of the header.
#[inline(always)]
fn short_header(word: u64) -> Option<(usize, usize)> {
    let (mut number, mut digits, mut rest) = (0_u32, 0, word >> 8);
    while digits < 4 {
        let digit = (rest as u8).wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number * 10 + u32::from(digit);
        (rest, digits) = (rest >> 8, digits + 1);
    }
    let zero_first = digits > 1 && (word >> 8) as u8 == b'0';
    let whole = word as u8 == b'$' && rest as u16 == u16::from_le_bytes(*b"\r\n");
    (whole && digits > 0 && !zero_first).then_some((number as usize, digits + 3))
}

/// Reads the request at the beginning of the input, which is not empty.
#[inline(never)]
pub(crate) fn parse(input: SharedBuf, progress: &mut Progress) -> Parsed {
    if input.get(0) != Some(b'*') {
        return words(input);
    }
    let (count, first) = match header(input, 0) {
        Line::Number(count, first) if count <= MOST_ARGUMENTS => (count, first),
        Line::Number(..) | Line::Wrong => return Parsed::Wrong(Wrong::Count),
        Line::Incomplete => return Parsed::More(0),
        Line::Long => return Parsed::Wrong(Wrong::LongLine),
    };
    if count <= 0 {
        return Parsed::Nothing(first);
    }
    let (count, mut at) = (count as usize, first);
    let mut request =
        Request { input, count, spans: [Span::default(); CACHED], first, inline: false, length: 0 };
    let mut index = 0;
    while index < count {
        if index == CACHED && progress.done as usize > CACHED {
            (index, at) = (progress.done as usize, progress.at as usize);
            continue;
        }
        if index > CACHED {
            *progress = Progress { done: index as u32, at: at as u32 };
        }
        match input.get(at) {
            None => return Parsed::More(0),
            Some(b'$') => {}
            Some(other) => return Parsed::Wrong(Wrong::Dollar(other)),
        }
        let (length, start) = match header(input, at) {
            Line::Number(length, start) if (0..=MOST_ARGUMENT as i64).contains(&length) => {
                (length as usize, start)
            }
            Line::Number(..) | Line::Wrong => return Parsed::Wrong(Wrong::Length),
            Line::Incomplete => return Parsed::More(0),
            Line::Long => return Parsed::Wrong(Wrong::LongLine),
        };
        at = start + length + 2;
        if at > input.len() {
            return match at <= MOST_REQUEST {
                true => Parsed::More(at),
                false => Parsed::Wrong(Wrong::LongRequest),
            };
        }
        let span = Span { start: start as u32, length: length as u32 };
        // Written out: an array that is indexed would lie in memory.
        match index {
            0 => (request.spans[0], request.first) = (span, at),
            1 => (request.spans[1], request.first) = (span, at),
            2 => (request.spans[2], request.first) = (span, at),
            _ => {}
        }
        index += 1;
    }
    *progress = Progress::NONE;
    request.length = at;
    Parsed::Request(request)
}

/// Reads a line of words.
#[inline(never)]
fn words(input: SharedBuf) -> Parsed {
    let mut end = 0;
    while input.get(end).is_some_and(|byte| byte != b'\n') {
        end += 1;
    }
    if end == input.len() {
        return if end > MOST_LINE { Parsed::Wrong(Wrong::LongLine) } else { Parsed::More(0) };
    }
    let spans = [Span::default(); CACHED];
    let mut request = Request { input, count: 0, spans, first: 0, inline: true, length: end + 1 };
    let mut at = 0;
    loop {
        match request.word(at) {
            Ok(Some((_, next))) => (request.count, at) = (request.count + 1, next),
            Ok(None) => break,
            Err(()) => return Parsed::Wrong(Wrong::Quotes),
        }
    }
    if request.count == 0 { Parsed::Nothing(end + 1) } else { Parsed::Request(request) }
}

impl Request {
    /// The arguments, the command's name first.
    #[inline(always)]
    pub(crate) fn arguments(self) -> Arguments {
        Arguments { request: self, at: self.first, left: self.count }
    }

    /// All of it was parsed: for a request whose answer goes on later.
    pub(crate) fn progress(self) -> Progress {
        // A line is short, and parsed anew.
        let done = if self.inline { 0 } else { self.count as u32 };
        Progress { done, at: self.length as u32 }
    }

    /// The word of a line from `at` on, and where the next may begin.
    #[inline(never)]
    fn word(&self, mut at: usize) -> Result<Option<(SharedBuf, usize)>, ()> {
        let line = self.input.first(self.length - 1);
        let is_space = |at: usize| line.get(at).is_none_or(|byte| byte.is_ascii_whitespace());
        while at < line.len() && is_space(at) {
            at += 1;
        }
        let Some(first) = line.get(at) else { return Ok(None) };
        let mut end = at + 1;
        if first == b'"' || first == b'\'' {
            while line.get(end).ok_or(())? != first {
                end += 1;
            }
            return match is_space(end + 1) {
                true => Ok(Some((line.slice(at + 1, end - at - 1), end + 1))),
                false => Err(()),
            };
        }
        while !is_space(end) {
            end += 1;
        }
        Ok(Some((line.slice(at, end - at), end)))
    }
}

/// The arguments of a request, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Arguments {
    request: Request,
    at: usize,
    left: usize,
}

impl Arguments {
    /// How many are left.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    /// Where the next one stands, and how many are left; never 0 where any are.
    pub(crate) const fn position(&self) -> u64 {
        (self.at as u64) << 32 | self.left as u64
    }

    /// Goes on where the position was taken.
    pub(crate) const fn go_to(&mut self, position: u64) {
        (self.at, self.left) = ((position >> 32) as usize, position as u32 as usize);
    }

    /// The next one; empty behind the last.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> SharedBuf {
        let index = self.request.count - self.left;
        if self.left == 0 || index >= CACHED || self.request.inline {
            return self.next_by_header();
        }
        self.left -= 1;
        let [first, second, third] = self.request.spans;
        let span = match index {
            0 => first,
            1 => second,
            _ => third,
        };
        self.request.input.slice(span.start as usize, span.length as usize)
    }

    /// The next one, whose place is not known yet.
    #[inline(never)]
    fn next_by_header(&mut self) -> SharedBuf {
        if self.left == 0 {
            return SharedBuf::EMPTY;
        }
        self.left -= 1;
        if self.request.inline {
            let word = self.request.word(self.at).ok().flatten();
            let (word, next) = word.unwrap_or((SharedBuf::EMPTY, self.at));
            self.at = next;
            return word;
        }
        match header(self.request.input, self.at) {
            Line::Number(length, start) => {
                self.at = start + length as usize + 2;
                self.request.input.slice(start, length as usize)
            }
            _ => SharedBuf::EMPTY,
        }
    }
}

/// Up to eight letters as one number, in capitals, the first the lowest; 0 if there are more.
#[inline(always)]
pub(crate) fn keyword(bytes: SharedBuf) -> u64 {
    if bytes.len().wrapping_sub(1) >= 8 {
        return 0;
    }
    capitals(bytes.word_at(0), bytes.len())
}

/// The same of one to eight letters in a word.
#[inline(always)]
fn capitals(word: u64, length: usize) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // With a zero at its end it would be the keyword in front of that.
    if word >> (8 * (length - 1)) == 0 {
        return 0;
    }
    // The upper bit of each byte: whether it is a small letter.
    let low = word & (0x7F * EACH);
    let from_a = low + (0x80 - b'a' as u64) * EACH;
    let beyond_z = low + (0x80 - b'z' as u64 - 1) * EACH;
    let small = from_a & !beyond_z & !word & (0x80 * EACH);
    word ^ small >> 2
}

/// The same of a constant.
pub(crate) const fn word(text: &[u8]) -> u64 {
    assert!(text.len() <= 8);
    let (mut word, mut at) = (0, 0);
    while at < text.len() {
        word |= (text[at] as u64) << (8 * at);
        at += 1;
    }
    word
}

#[cfg(test)]
mod tests;
