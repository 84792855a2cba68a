//! Commands on values.

use gpunet_device::{Group, SharedBuf, buf};
use gpunet_serve::Step;

use crate::kv::Kv;
use crate::number;
use crate::reply::{self, Client};
use crate::request::{Arguments, keyword, word};
use crate::table::{MOST_VALUE, Opened};

/// When a key expires, as a command says it.
#[derive(Clone, Copy)]
enum Expiry {
    /// Never.
    Never,
    /// As it did.
    Kept,
    /// So many milliseconds from now.
    In(u64),
    /// At that time, ms since 1970.
    At(u64),
}

impl Expiry {
    /// As the table has it; none if the time is beyond all clocks.
    fn of(self, kv: &Kv, opened: &Opened) -> u64 {
        match self {
            Self::Never => 0,
            Self::Kept => opened.expiry,
            // Threads may differ in it; the leader's counts.
            Self::In(ms) => kv.table.now().saturating_add(ms),
            Self::At(ms) => ms,
        }
    }
}

/// Counts a look-up, for the next tick to publish.
fn count(kv: &mut Kv, found: bool) {
    match found {
        true => kv.hits += 1,
        false => kv.misses += 1,
    }
}

/// GET.
#[inline(never)]
pub(super) fn get(kv: &mut Kv, client: &mut Client<'_>, key: SharedBuf) {
    let group = client.on().group();
    let Some(opened) = kv.table.open(group, key, false) else { return reply::busy(client) };
    match opened.found() {
        true => reply::bulk(client, kv.table.value(key, &opened)),
        false => reply::null(client),
    }
    count(kv, opened.found());
    kv.table.close(group, opened);
}

/// Copies a value, all threads at it; short ones without a call.
#[inline(always)]
fn copy<G: Group>(group: G, from: SharedBuf, to: SharedBuf) {
    if from.len() > 8 * group.size() {
        return buf::copy(group, from, to);
    }
    let mut at = group.rank();
    while let Some(byte) = from.get(at) {
        to.set(at, byte);
        at += group.size();
    }
}

/// Stores a value in a bucket that is open; false if no memory is left.
#[inline(never)]
fn store(
    kv: &Kv,
    client: &Client<'_>,
    opened: &mut Opened,
    key: SharedBuf,
    value: SharedBuf,
    expiry: Expiry,
) -> bool {
    let group = client.on().group();
    let done = kv.table.put(group, opened, key, value.len(), expiry.of(kv, opened));
    if done {
        copy(group, value, kv.table.value(key, opened));
    }
    done
}

/// What SET was asked for besides.
struct SetOptions {
    expiry: Expiry,
    only_new: bool,
    only_old: bool,
    get: bool,
}

/// Seconds or milliseconds as milliseconds, if they can be had; relative ones with room for the time
/// now.
#[inline(never)]
fn milliseconds(amount: i64, is_seconds: bool, is_relative: bool) -> Option<u64> {
    let ms = if is_seconds { amount.checked_mul(1000)? } else { amount };
    let most = if is_relative { i64::MAX - (1 << 45) } else { i64::MAX };
    u64::try_from(ms).ok().filter(|ms| (1..=most as u64).contains(ms))
}

/// SET.
#[inline(never)]
pub(super) fn set(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let (key, value) = (arguments.next(), arguments.next());
    let mut options =
        SetOptions { expiry: Expiry::Never, only_new: false, only_old: false, get: false };
    if arguments.left() > 0 && !read_options(client, &mut options, arguments) {
        return;
    }
    let group = client.on().group();
    let Some(mut opened) = kv.table.open(group, key, true) else { return reply::busy(client) };
    let refused = options.only_new && opened.found() || options.only_old && !opened.found();
    if options.get {
        set_and_get(kv, client, &mut opened, key, (!refused).then_some(value), options.expiry);
    } else if refused {
        reply::null(client);
    } else {
        match store(kv, client, &mut opened, key, value, options.expiry) {
            true => reply::short(client, b"+OK\r\n"),
            false => reply::out_of_memory(client),
        }
    }
    kv.table.close(group, opened);
}

/// SET of a key and a value, and nothing besides.
#[inline(never)]
pub(super) fn set_plain(kv: &Kv, client: &mut Client<'_>, key: SharedBuf, value: SharedBuf) {
    let group = client.on().group();
    let Some(mut opened) = kv.table.open(group, key, true) else { return reply::busy(client) };
    let stored = kv.table.put(group, &mut opened, key, value.len(), 0);
    if stored {
        copy(group, value, kv.table.value(key, &opened));
    }
    kv.table.close(group, opened);
    match stored {
        true => reply::short(client, b"+OK\r\n"),
        false => reply::out_of_memory(client),
    }
}

/// Reads what follows the value; false if it is wrong, of which the client has the error.
#[inline(never)]
fn read_options(
    client: &mut Client<'_>,
    options: &mut SetOptions,
    mut arguments: Arguments,
) -> bool {
    const EX: u64 = word(b"EX");
    const PX: u64 = word(b"PX");
    const EXAT: u64 = word(b"EXAT");
    const PXAT: u64 = word(b"PXAT");
    const NX: u64 = word(b"NX");
    const XX: u64 = word(b"XX");
    const GET: u64 = word(b"GET");
    const KEEPTTL: u64 = word(b"KEEPTTL");
    // The one that says when it expires; given twice, the second counts.
    let (mut expiry, mut amount) = (0, SharedBuf::EMPTY);
    while arguments.left() > 0 {
        let option = keyword(arguments.next());
        let is_only = expiry == 0 || expiry == option;
        match option {
            NX if !options.only_old => options.only_new = true,
            XX if !options.only_new => options.only_old = true,
            GET => options.get = true,
            KEEPTTL if is_only => expiry = option,
            EX | PX | EXAT | PXAT if is_only && arguments.left() > 0 => {
                (expiry, amount) = (option, arguments.next());
            }
            _ => {
                reply::syntax(client);
                return false;
            }
        }
    }
    if expiry == 0 || expiry == KEEPTTL {
        options.expiry = if expiry == 0 { Expiry::Never } else { Expiry::Kept };
        return true;
    }
    let Some(amount) = number::parse(amount) else {
        reply::not_a_number(client);
        return false;
    };
    let is_relative = expiry == EX || expiry == PX;
    let Some(ms) = milliseconds(amount, expiry == EX || expiry == EXAT, is_relative) else {
        reply::wrong_expiry(client, word(b"SET"));
        return false;
    };
    options.expiry = if is_relative { Expiry::In(ms) } else { Expiry::At(ms) };
    true
}

/// Answers with the value that was there, and stores another if one is given.
#[inline(never)]
fn set_and_get(
    kv: &Kv,
    client: &mut Client<'_>,
    opened: &mut Opened,
    key: SharedBuf,
    value: Option<SharedBuf>,
    expiry: Expiry,
) {
    let group = client.on().group();
    let (found, old) = (opened.found(), kv.table.value(key, opened));
    let at = expiry.of(kv, opened);
    // The old value stays where it is until another is copied there.
    if let Some(value) = value
        && !kv.table.put(group, opened, key, value.len(), at)
    {
        return reply::out_of_memory(client);
    }
    match found {
        true => reply::bulk(client, old),
        false => reply::null(client),
    }
    if let Some(value) = value {
        // All threads have copied their part of the answer.
        group.barrier();
        buf::copy(group, value, kv.table.value(key, opened));
    }
}

/// GETSET.
#[inline(never)]
pub(super) fn get_and_set(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let (key, value) = (arguments.next(), arguments.next());
    let group = client.on().group();
    let Some(mut opened) = kv.table.open(group, key, true) else { return reply::busy(client) };
    set_and_get(kv, client, &mut opened, key, Some(value), Expiry::Never);
    kv.table.close(group, opened);
}

/// GETDEL.
#[inline(never)]
pub(super) fn get_and_delete(kv: &mut Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let (key, group) = (arguments.next(), client.on().group());
    let Some(mut opened) = kv.table.open(group, key, true) else { return reply::busy(client) };
    match opened.found() {
        true => {
            reply::bulk(client, kv.table.value(key, &opened));
            kv.table.remove(group, &mut opened);
        }
        false => reply::null(client),
    }
    count(kv, opened.found());
    kv.table.close(group, opened);
}

/// SETNX.
#[inline(never)]
pub(super) fn set_new(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let (key, value) = (arguments.next(), arguments.next());
    let group = client.on().group();
    let Some(mut opened) = kv.table.open(group, key, true) else { return reply::busy(client) };
    let is_new = !opened.found();
    if is_new && !store(kv, client, &mut opened, key, value, Expiry::Never) {
        reply::out_of_memory(client);
    } else {
        reply::integer(client, i64::from(is_new));
    }
    kv.table.close(group, opened);
}

/// SETEX and PSETEX.
#[inline(never)]
pub(super) fn set_with_expiry(
    kv: &Kv,
    client: &mut Client<'_>,
    command: u64,
    mut arguments: Arguments,
) {
    let (key, time, value) = (arguments.next(), arguments.next(), arguments.next());
    let Some(amount) = number::parse(time) else { return reply::not_a_number(client) };
    let Some(ms) = milliseconds(amount, command == super::SETEX, true) else {
        return reply::wrong_expiry(client, command);
    };
    let group = client.on().group();
    let Some(mut opened) = kv.table.open(group, key, true) else { return reply::busy(client) };
    match store(kv, client, &mut opened, key, value, Expiry::In(ms)) {
        true => reply::short(client, b"+OK\r\n"),
        false => reply::out_of_memory(client),
    }
    kv.table.close(group, opened);
}

/// MGET. Where the client does not read, the rest of the values waits until it does.
#[inline(never)]
pub(super) fn get_many(
    kv: &mut Kv,
    client: &mut Client<'_>,
    mut arguments: Arguments,
) -> Option<Step> {
    match client.state.position {
        0 => reply::array(client, arguments.left()),
        position => arguments.go_to(position),
    }
    while arguments.left() > 0 {
        if client.is_blocked() {
            client.state.position = arguments.position();
            return Some(Step::Again);
        }
        get(kv, client, arguments.next());
    }
    client.state.position = 0;
    None
}

/// MSET.
#[inline(never)]
pub(super) fn set_many(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    if arguments.left() % 2 == 1 {
        return reply::wrong_arguments(client, word(b"MSET"));
    }
    let group = client.on().group();
    while arguments.left() > 0 {
        let (key, value) = (arguments.next(), arguments.next());
        let Some(mut opened) = kv.table.open(group, key, true) else { return reply::busy(client) };
        let stored = store(kv, client, &mut opened, key, value, Expiry::Never);
        kv.table.close(group, opened);
        if !stored {
            return reply::out_of_memory(client);
        }
    }
    reply::short(client, b"+OK\r\n");
}

/// APPEND.
#[inline(never)]
pub(super) fn append(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let (key, more) = (arguments.next(), arguments.next());
    let group = client.on().group();
    let Some(mut opened) = kv.table.open(group, key, true) else { return reply::busy(client) };
    let (old, before) = (kv.table.value(key, &opened), opened.entry);
    let (had, length) = (opened.length, opened.length + more.len());
    let expiry = opened.expiry;
    if length > MOST_VALUE {
        reply::error(client, b"ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    } else if !kv.table.put(group, &mut opened, key, length, expiry) {
        reply::out_of_memory(client);
    } else {
        let value = kv.table.value(key, &opened);
        if opened.entry != before {
            buf::copy(group, old, value);
        }
        buf::copy(group, more, value.slice(had, more.len()));
        reply::integer(client, length as i64);
    }
    kv.table.close(group, opened);
}

/// STRLEN.
#[inline(never)]
pub(super) fn length(kv: &mut Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let group = client.on().group();
    let Some(opened) = kv.table.open(group, arguments.next(), false) else {
        return reply::busy(client);
    };
    reply::integer(client, opened.length as i64);
    count(kv, opened.found());
    kv.table.close(group, opened);
}

/// INCR and DECR.
#[inline(never)]
pub(super) fn add_one(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments, by: i64) {
    increase(kv, client, arguments.next(), by);
}

/// INCRBY and DECRBY.
#[inline(never)]
pub(super) fn add(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments, negated: bool) {
    let (key, by) = (arguments.next(), arguments.next());
    let Some(by) = number::parse(by) else { return reply::not_a_number(client) };
    match by.checked_neg() {
        _ if !negated => increase(kv, client, key, by),
        Some(by) => increase(kv, client, key, by),
        None => reply::error(client, b"ERR decrement would overflow"),
    }
}

#[inline(never)]
fn increase(kv: &Kv, client: &mut Client<'_>, key: SharedBuf, by: i64) {
    let group = client.on().group();
    let Some(mut opened) = kv.table.open(group, key, true) else { return reply::busy(client) };
    let value = kv.table.value(key, &opened);
    let old = if opened.found() { number::parse(value) } else { Some(0) };
    // All threads have read the value before one writes it.
    group.barrier();
    let expiry = opened.expiry;
    match old.map(|old| old.checked_add(by)) {
        None => reply::not_a_number(client),
        Some(None) => reply::error(client, b"ERR increment or decrement would overflow"),
        Some(Some(new)) => {
            match kv.table.put(group, &mut opened, key, number::length(new), expiry) {
                true => {
                    if group.is_leader() {
                        number::store(new, kv.table.value(key, &opened));
                    }
                    reply::integer(client, new);
                }
                false => reply::out_of_memory(client),
            }
        }
    }
    kv.table.close(group, opened);
}
