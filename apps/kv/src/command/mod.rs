//! Commands: which there are, how many arguments they take, and who answers them.

mod keys;
mod server;
mod strings;
mod text;

use gpunet_serve::Step;

use crate::kv::Kv;
use crate::reply::{self, Client};
use crate::request::{self, Arguments, Parsed, keyword, word};
use crate::store::Word;

macro_rules! commands {
    ($($name:ident $least:literal $most:tt;)*) => {
        $(#[allow(non_upper_case_globals)] const $name: u64 = word(stringify!($name).as_bytes());)*

        /// How many arguments a command takes besides its name; none if there is no such command.
        #[inline(always)]
        const fn arity(command: u64) -> Option<(usize, usize)> {
            match command {
                $($name => Some(($least, $most)),)*
                _ => None,
            }
        }

        /// How many commands there are.
        const COMMANDS: i64 = [$($name),*].len() as i64;
    };
}

/// As many as there are.
const ANY: usize = usize::MAX;

commands! {
    GET 1 1; SET 2 ANY; DEL 1 ANY; EXISTS 1 ANY; INCR 1 1; DECR 1 1; INCRBY 2 2; DECRBY 2 2;
    MGET 1 ANY; MSET 2 ANY; GETSET 2 2; GETDEL 1 1; APPEND 2 2; STRLEN 1 1; SETNX 2 2; SETEX 3 3;
    PSETEX 3 3; EXPIRE 2 ANY; PEXPIRE 2 ANY; EXPIREAT 2 ANY; TTL 1 1; PTTL 1 1; PERSIST 1 1;
    TYPE 1 1; UNLINK 1 ANY; TOUCH 1 ANY; SCAN 1 ANY; DBSIZE 0 0; FLUSHALL 0 ANY; FLUSHDB 0 ANY;
    PING 0 1; ECHO 1 1; SELECT 1 1; QUIT 0 ANY; HELLO 0 ANY; INFO 0 ANY; CLIENT 1 ANY;
    CONFIG 1 ANY; COMMAND 0 ANY; TIME 0 0; RESET 0 0;
}

/// Answers the request that the input begins with.
#[inline(always)]
pub(crate) fn answer(kv: &mut Kv, client: &mut Client<'_>) -> Step {
    // Those that are asked for millions of times a second; nothing else stands in their way.
    let Some(short) = request::parse_short(client.input()) else { return answer_any(kv, client) };
    match (short.command, short.count) {
        (GET, 2) => strings::get(kv, client, short.key),
        (SET, 3) => strings::set_plain(kv, client, short.key, short.value),
        (PING, 1) => reply::short(client, b"+PONG\r\n"),
        _ => return answer_any(kv, client),
    }
    Step::Consumed(short.length)
}

/// The same for all requests.
#[inline(never)]
fn answer_any(kv: &mut Kv, client: &mut Client<'_>) -> Step {
    let mut progress = client.state.parsed;
    let parsed = request::parse(client.input(), &mut progress);
    client.state.parsed = progress;
    let request = match parsed {
        Parsed::Request(request) => request,
        Parsed::Nothing(bytes) => return Step::Consumed(bytes),
        Parsed::More(bytes) => return Step::More(bytes),
        Parsed::Wrong(what) => {
            reply::wrong(client, what);
            return Step::Close;
        }
    };
    let mut arguments = request.arguments();
    let name = arguments.next();
    let command = keyword(name);
    let step = match arity(command) {
        None => {
            unknown(client, name, arguments);
            None
        }
        Some((least, most)) if !(least..=most).contains(&arguments.left()) => {
            reply::wrong_arguments(client, command);
            None
        }
        Some(_) => run(kv, client, command, arguments),
    };
    if step == Some(Step::Again) {
        client.state.parsed = request.progress();
    }
    step.unwrap_or(Step::Consumed(request.length))
}

/// Runs a command. The step, if it is another one than that the request is answered.
#[inline(always)]
fn run(
    kv: &mut Kv,
    client: &mut Client<'_>,
    command: u64,
    mut arguments: Arguments,
) -> Option<Step> {
    match command {
        GET => strings::get(kv, client, arguments.next()),
        SET => strings::set(kv, client, arguments),
        _ => return run_others(kv, client, command, arguments),
    }
    None
}

/// The same, where the arguments are passed on as they are.
#[inline(never)]
fn run_others(
    kv: &mut Kv,
    client: &mut Client<'_>,
    command: u64,
    arguments: Arguments,
) -> Option<Step> {
    match command {
        INCR => strings::add_one(kv, client, arguments, 1),
        DECR => strings::add_one(kv, client, arguments, -1),
        INCRBY | DECRBY => strings::add(kv, client, arguments, command == DECRBY),
        MGET => return strings::get_many(kv, client, arguments),
        MSET => strings::set_many(kv, client, arguments),
        GETSET => strings::get_and_set(kv, client, arguments),
        GETDEL => strings::get_and_delete(kv, client, arguments),
        APPEND => strings::append(kv, client, arguments),
        STRLEN => strings::length(kv, client, arguments),
        SETNX => strings::set_new(kv, client, arguments),
        SETEX | PSETEX => strings::set_with_expiry(kv, client, command, arguments),
        DEL | UNLINK => keys::delete(kv, client, arguments),
        EXISTS | TOUCH => keys::exists(kv, client, arguments),
        EXPIRE | PEXPIRE | EXPIREAT => keys::expire(kv, client, command, arguments),
        TTL | PTTL => keys::time_to_live(kv, client, arguments, command == TTL),
        PERSIST => keys::persist(kv, client, arguments),
        TYPE => keys::kind(kv, client, arguments),
        SCAN => keys::scan(kv, client, arguments),
        DBSIZE => reply::integer(client, common(client, kv.table.counted(Word::Keys)) as i64),
        FLUSHALL | FLUSHDB => keys::flush(kv, client, arguments),
        QUIT => {
            reply::short(client, b"+OK\r\n");
            return Some(Step::Close);
        }
        _ => server::run(kv, client, command, arguments),
    }
    None
}

/// The leader's number, to all threads.
fn common(client: &Client<'_>, number: u64) -> u64 {
    use gpunet_device::Group;
    let [number] = client.on().group().broadcast([number]);
    number
}

#[inline(never)]
fn unknown(client: &mut Client<'_>, name: gpunet_device::SharedBuf, mut arguments: Arguments) {
    client.write_bytes(b"-ERR unknown command '");
    reply::quoted(client, name);
    client.write_bytes(b"', with args beginning with: ");
    let mut written = 0;
    while arguments.left() > 0 && written < 128 {
        let argument = arguments.next();
        let argument = argument.first(128 - written);
        client.write_bytes(b"'");
        reply::quoted(client, argument);
        client.write_bytes(b"' ");
        written += argument.len() + 3;
    }
    client.write_bytes(b"\r\n");
}
