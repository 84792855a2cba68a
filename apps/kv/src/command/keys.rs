//! Commands on keys.

use gpunet_device::{Group, SharedBuf};
use gpunet_serve::{Block, Heap};

use super::common;
use super::text::Text;
use crate::kv::Kv;
use crate::reply::{self, Client};
use crate::request::{Arguments, keyword, word};
use crate::{glob, number};

/// Bytes of keys that one SCAN answers with, at most; one key more than that is not a limit.
const SCAN_BYTES: usize = 32 << 10;
/// In place of a cursor: one bucket's keys take more steps to match than a command may.
const TOO_LONG: u64 = u64::MAX;
/// Buckets that one SCAN looks through, at most.
const SCAN_BUCKETS: usize = 4096;

/// DEL and UNLINK.
#[inline(never)]
pub(super) fn delete(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let group = client.on().group();
    let mut deleted = 0;
    while arguments.left() > 0 {
        let Some(mut opened) = kv.table.open(group, arguments.next(), true) else {
            return reply::busy(client);
        };
        if opened.found() {
            deleted += 1;
            kv.table.remove(group, &mut opened);
        }
        kv.table.close(group, opened);
    }
    reply::integer(client, deleted);
}

/// EXISTS and TOUCH.
#[inline(never)]
pub(super) fn exists(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let group = client.on().group();
    let mut found = 0;
    while arguments.left() > 0 {
        let Some(opened) = kv.table.open(group, arguments.next(), false) else {
            return reply::busy(client);
        };
        found += i64::from(opened.found());
        kv.table.close(group, opened);
    }
    reply::integer(client, found);
}

/// Which expiries EXPIRE changes.
#[derive(Clone, Copy, Default)]
struct Condition {
    none: bool,
    some: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    /// Whether an expiry (0: none) may become `new`.
    fn allows(self, old: u64, new: u64) -> bool {
        !(self.none && old != 0
            || self.some && old == 0
            // A key that never expires is later than all.
            || self.later && (old == 0 || new <= old)
            || self.earlier && old != 0 && new >= old)
    }
}

/// EXPIRE, PEXPIRE, EXPIREAT.
#[inline(never)]
pub(super) fn expire(kv: &Kv, client: &mut Client<'_>, command: u64, mut arguments: Arguments) {
    let (key, time) = (arguments.next(), arguments.next());
    let mut condition = Condition::default();
    while arguments.left() > 0 {
        const NX: u64 = word(b"NX");
        const XX: u64 = word(b"XX");
        const GT: u64 = word(b"GT");
        const LT: u64 = word(b"LT");
        let option = arguments.next();
        match keyword(option) {
            NX => condition.none = true,
            XX => condition.some = true,
            GT => condition.later = true,
            LT => condition.earlier = true,
            _ => {
                client.write_bytes(b"-ERR Unsupported option ");
                reply::quoted(client, option);
                client.write_bytes(b"\r\n");
                return;
            }
        }
    }
    if condition.none && (condition.some || condition.later || condition.earlier) {
        return reply::error(
            client,
            b"ERR NX and XX, GT or LT options at the same time are not compatible",
        );
    }
    if condition.later && condition.earlier {
        return reply::error(client, b"ERR GT and LT options at the same time are not compatible");
    }
    let Some(amount) = number::parse(time) else { return reply::not_a_number(client) };
    let ms = if command == super::PEXPIRE { Some(amount) } else { amount.checked_mul(1000) };
    let is_relative = command != super::EXPIREAT;
    // Room for the time now.
    let Some(ms) = ms.filter(|ms| !is_relative || *ms < i64::MAX - (1 << 45)) else {
        return reply::wrong_expiry(client, command);
    };
    let group = client.on().group();
    let Some(mut opened) = kv.table.open(group, key, true) else { return reply::busy(client) };
    let now = common(client, kv.table.now());
    let at = if is_relative { ms + now as i64 } else { ms };
    let mut changed = 0;
    if opened.found() && condition.allows(opened.expiry, at.max(1) as u64) {
        changed = 1;
        match u64::try_from(at).ok().filter(|at| *at > now) {
            Some(at) => kv.table.set_expiry(group, &opened, at),
            None => kv.table.remove(group, &mut opened),
        }
    }
    reply::integer(client, changed);
    kv.table.close(group, opened);
}

/// TTL and PTTL.
#[inline(never)]
pub(super) fn time_to_live(
    kv: &Kv,
    client: &mut Client<'_>,
    mut arguments: Arguments,
    seconds: bool,
) {
    let group = client.on().group();
    let Some(opened) = kv.table.open(group, arguments.next(), false) else {
        return reply::busy(client);
    };
    let answer = match (opened.found(), opened.expiry) {
        (false, _) => -2,
        (true, 0) => -1,
        (true, expiry) => {
            let left = expiry.saturating_sub(common(client, kv.table.now())) as i64;
            if seconds { (left + 500) / 1000 } else { left }
        }
    };
    reply::integer(client, answer);
    kv.table.close(group, opened);
}

/// PERSIST.
#[inline(never)]
pub(super) fn persist(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let group = client.on().group();
    let Some(opened) = kv.table.open(group, arguments.next(), true) else {
        return reply::busy(client);
    };
    let changes = opened.found() && opened.expiry != 0;
    if changes {
        kv.table.set_expiry(group, &opened, 0);
    }
    reply::integer(client, i64::from(changes));
    kv.table.close(group, opened);
}

/// TYPE.
#[inline(never)]
pub(super) fn kind(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let group = client.on().group();
    let Some(opened) = kv.table.open(group, arguments.next(), false) else {
        return reply::busy(client);
    };
    match opened.found() {
        true => reply::line(client, b"+string"),
        false => reply::line(client, b"+none"),
    }
    kv.table.close(group, opened);
}

/// FLUSHALL and FLUSHDB.
#[inline(never)]
pub(super) fn flush(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    const SYNC: u64 = word(b"SYNC");
    const ASYNC: u64 = word(b"ASYNC");
    let is_wrong = match arguments.left() {
        0 => false,
        1 => !matches!(keyword(arguments.next()), SYNC | ASYNC),
        _ => true,
    };
    if is_wrong {
        return reply::syntax(client);
    }
    match kv.table.clear(client.on().group()) {
        true => reply::short(client, b"+OK\r\n"),
        false => reply::busy(client),
    }
}

/// What SCAN is to find.
struct Wanted {
    pattern: Option<SharedBuf>,
    count: u64,
    /// Whether strings are wanted, of which all values are.
    strings: bool,
}

/// SCAN. The cursor is a bucket: keys do not move between them, so each key that stays is seen once.
#[inline(never)]
pub(super) fn scan(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let Some(cursor) = number::parse(arguments.next()).and_then(|n| usize::try_from(n).ok()) else {
        return reply::error(client, b"ERR invalid cursor");
    };
    let mut wanted = Wanted { pattern: None, count: 10, strings: true };
    while arguments.left() > 0 {
        const MATCH: u64 = word(b"MATCH");
        const COUNT: u64 = word(b"COUNT");
        const TYPE: u64 = word(b"TYPE");
        const STRING: u64 = word(b"STRING");
        let option = keyword(arguments.next());
        if arguments.left() == 0 {
            return reply::syntax(client);
        }
        let value = arguments.next();
        match option {
            // All keys, the empty one too.
            MATCH if value.len() == 1 && value.get(0) == Some(b'*') => wanted.pattern = None,
            MATCH => wanted.pattern = Some(value),
            COUNT => match number::parse(value) {
                Some(count) if count > 0 => wanted.count = count as u64,
                Some(_) => return reply::syntax(client),
                None => return reply::not_a_number(client),
            },
            TYPE => wanted.strings = keyword(value) == STRING,
            _ => return reply::syntax(client),
        }
    }
    let group = client.on().group();
    let heap = client.heap();
    let cursor = kv.table.next_used(group, cursor);
    let (mut block, mut next, mut found, mut length) = (Block::NONE, 0, 0, 0);
    let first = client.allocate(SCAN_BYTES);
    if group.is_leader() && !first.is_none() {
        (block, next, found, length) = gather(kv, heap, first, cursor, &wanted);
    }
    let [block, next, found, length] = group.broadcast([block.0, next, found, length]);
    let block = Block(block);
    if block.is_none() && next == TOO_LONG {
        return reply::error(client, b"ERR the pattern takes too long to match");
    }
    if block.is_none() {
        return reply::out_of_memory(client);
    }
    reply::array(client, 2);
    reply::header(client, b'$', number::length(next as i64) as i64);
    client.write_number(next as i64);
    client.write_bytes(b"\r\n");
    reply::array(client, found as usize);
    client.write(heap.memory(block).first(length as usize));
    group.barrier();
    if group.is_leader() {
        heap.free(block);
    }
}

/// Gathers keys from a bucket on, as RESP has them, in a block: that or a larger one (none if the heap is full), the next
/// cursor, how many keys, how many bytes. For one thread.
#[inline(never)]
fn gather(
    kv: &Kv,
    heap: Heap,
    mut block: Block,
    cursor: usize,
    wanted: &Wanted,
) -> (Block, u64, u64, u64) {
    let table = &kv.table;
    let none = (Block::NONE, 0, 0, 0);
    let mut text = Text::new(heap.memory(block));
    let (mut bucket, mut found) = (cursor, 0);
    let mut steps = glob::STEPS;
    let end = cursor.saturating_add(SCAN_BUCKETS).min(table.buckets());
    while bucket < end && found < wanted.count {
        let (before, mut more) = (text.length(), 0);
        let (mut needed, mut fits) = (0, true);
        let had = table.keys_of(bucket, |key| {
            let matches = wanted
                .pattern
                .is_none_or(|pattern| glob::matches(pattern, |at| key.get(at), &mut steps));
            if wanted.strings && matches {
                // The header and both line ends are shorter than this.
                needed += key.len() + 32;
                fits &= text.fits(key.len() + 32);
                if fits {
                    text.bulk(key);
                }
                more += 1;
            }
        });
        // A bucket is answered as a whole, or the next time.
        if had && fits && steps > 0 {
            (bucket, found) = (bucket + 1, found + more);
            continue;
        }
        text.cut(before);
        if before > 0 || !had || steps == 0 && bucket > cursor {
            break;
        }
        if steps == 0 {
            heap.free(block);
            return (Block::NONE, TOO_LONG, 0, 0);
        }
        // One bucket of long keys: more memory, or none is left for this.
        heap.free(block);
        let Some(larger) = heap.allocate(needed.max(block.bytes() + 1)) else { return none };
        block = larger;
        text = Text::new(heap.memory(block));
    }
    let next = if bucket >= table.buckets() { 0 } else { bucket as u64 };
    (block, next, found, text.length() as u64)
}
