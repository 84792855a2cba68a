//! Commands about the server and the connection.

use gpunet_device::{Group, SharedBuf, buf};
use gpunet_serve::{Block, Counter};

use super::text::Text;
use super::{
    CLIENT, COMMAND, COMMANDS, CONFIG, ECHO, HELLO, INFO, PING, RESET, SELECT, TIME, common,
};
use crate::kv::Kv;
use crate::reply::{self, Client};
use crate::request::{Arguments, keyword, word};
use crate::store::Word;
use crate::{glob, number};

/// The Redis whose commands and answers these are.
const REDIS_VERSION: &[u8] = b"7.0.15";

/// Runs one of them.
#[inline(never)]
pub(super) fn run(kv: &mut Kv, client: &mut Client<'_>, command: u64, arguments: Arguments) {
    match command {
        PING => ping(client, arguments),
        ECHO => echo(client, arguments),
        SELECT => select(client, arguments),
        HELLO => hello(kv, client, arguments),
        INFO => info(kv, client),
        CLIENT => about_client(kv, client, arguments),
        CONFIG => config(kv, client, arguments),
        COMMAND => about_commands(client, arguments),
        TIME => time(kv, client),
        RESET => {
            client.state.version = 2;
            set_name(kv, client, SharedBuf::EMPTY);
            reply::short(client, b"+RESET\r\n");
        }
        _ => reply::error(client, b"ERR this command is not there"),
    }
}

#[inline(never)]
fn ping(client: &mut Client<'_>, mut arguments: Arguments) {
    match arguments.left() {
        0 => reply::short(client, b"+PONG\r\n"),
        _ => reply::bulk(client, arguments.next()),
    }
}

#[inline(never)]
fn echo(client: &mut Client<'_>, mut arguments: Arguments) {
    reply::bulk(client, arguments.next());
}

#[inline(never)]
fn select(client: &mut Client<'_>, mut arguments: Arguments) {
    match number::parse(arguments.next()) {
        Some(0) => reply::short(client, b"+OK\r\n"),
        Some(index) if i32::try_from(index).is_ok() => {
            reply::error(client, b"ERR DB index is out of range");
        }
        Some(_) => reply::error(
            client,
            b"ERR value is out of range, value must between -2147483648 and 2147483647",
        ),
        None => reply::not_a_number(client),
    }
}

#[inline(never)]
fn time(kv: &Kv, client: &mut Client<'_>) {
    let now = common(client, kv.table.now());
    reply::array(client, 2);
    for part in [now / 1000, now % 1000 * 1000] {
        reply::header(client, b'$', number::length(part as i64) as i64);
        client.write_number(part as i64);
        client.write_bytes(b"\r\n");
    }
}

/// HELLO [version [AUTH name password] [SETNAME name]].
#[inline(never)]
fn hello(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    let mut version = client.state.version.max(2);
    if arguments.left() > 0 {
        version = match number::parse(arguments.next()) {
            Some(version @ 2..=3) => version as u64,
            Some(_) => return reply::error(client, b"NOPROTO unsupported protocol version"),
            None => {
                return reply::error(
                    client,
                    b"ERR Protocol version is not an integer or out of range",
                );
            }
        };
    }
    while arguments.left() > 0 {
        const AUTH: u64 = word(b"AUTH");
        const SETNAME: u64 = word(b"SETNAME");
        let option = arguments.next();
        match keyword(option) {
            AUTH if arguments.left() >= 2 => {
                return reply::error(client, b"ERR AUTH: this server has no passwords");
            }
            SETNAME if arguments.left() >= 1 => {
                let name = arguments.next();
                if !is_name(name) {
                    return wrong_name(client);
                }
                if !set_name(kv, client, name) {
                    return reply::out_of_memory(client);
                }
            }
            _ => {
                client.write_bytes(b"-ERR Syntax error in HELLO option '");
                reply::quoted(client, option);
                return reply::line(client, b"'");
            }
        }
    }
    client.state.version = version;
    reply::map(client, 7);
    for text in [b"server".as_slice(), b"redis", b"version", REDIS_VERSION, b"proto"] {
        reply::bulk_text(client, text);
    }
    reply::integer(client, version as i64);
    reply::bulk_text(client, b"id");
    reply::integer(client, i64::from(client.number()) + 1);
    for text in [b"mode".as_slice(), b"standalone", b"role", b"master", b"modules"] {
        reply::bulk_text(client, text);
    }
    reply::array(client, 0);
}

/// Whether a client may be called that.
#[inline(never)]
fn is_name(name: SharedBuf) -> bool {
    (0..name.len()).all(|at| name.get(at).is_some_and(|byte| (b'!'..=b'~').contains(&byte)))
}

#[inline(never)]
fn wrong_name(client: &mut Client<'_>) {
    reply::error(
        client,
        b"ERR Client names cannot contain spaces, newlines or special characters.",
    );
}

/// Keeps a client's name, in the memory of the table; false if none is left.
#[inline(never)]
fn set_name(kv: &Kv, client: &mut Client<'_>, name: SharedBuf) -> bool {
    let (group, heap) = (client.on().group(), kv.table.heap);
    let mut block = Block::NONE;
    if group.is_leader() && !name.is_empty() {
        block = heap.allocate(name.len()).unwrap_or(Block::NONE);
    }
    let [block] = group.broadcast([block.0]);
    let block = Block(block);
    if block.is_none() && !name.is_empty() {
        return false;
    }
    buf::copy(group, name, heap.memory(block));
    // All threads are done with the old name, and may read the new one.
    group.barrier();
    if group.is_leader() {
        heap.free(client.state.name);
    }
    (client.state.name, client.state.name_length) = (block, name.len() as u64);
    true
}

#[inline(never)]
fn about_client(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    const SETNAME: u64 = word(b"SETNAME");
    const GETNAME: u64 = word(b"GETNAME");
    const SETINFO: u64 = word(b"SETINFO");
    const ID: u64 = word(b"ID");
    const INFO: u64 = word(b"INFO");
    const LIST: u64 = word(b"LIST");
    let what = arguments.next();
    match (keyword(what), arguments.left()) {
        (SETNAME, 1) => {
            let name = arguments.next();
            if !is_name(name) {
                wrong_name(client);
            } else if set_name(kv, client, name) {
                reply::short(client, b"+OK\r\n");
            } else {
                reply::out_of_memory(client);
            }
        }
        (GETNAME, 0) if client.state.name.is_none() => reply::null(client),
        (GETNAME, 0) => reply::bulk(client, name_of(kv, client)),
        // What a client library says of itself; nobody asks for it here.
        (SETINFO, 2) => reply::short(client, b"+OK\r\n"),
        (ID, 0) => reply::integer(client, i64::from(client.number()) + 1),
        (INFO | LIST, 0) => {
            let (number, version) = (client.number(), client.state.version.max(2));
            let name = name_of(kv, client);
            compose(client, |text| {
                text.text(b"id=").number(u64::from(number) + 1).text(b" name=");
                text.bytes(name);
                text.text(b" db=0 resp=").number(version).text(b"\n");
            });
        }
        (SETNAME | GETNAME | SETINFO | ID | INFO | LIST, _) => {
            reply::wrong_subcommand_arguments(client, CLIENT, keyword(what));
        }
        _ => unknown_subcommand(client, what, b"CLIENT"),
    }
}

#[inline(never)]
fn name_of(kv: &Kv, client: &Client<'_>) -> SharedBuf {
    kv.table.heap.memory(client.state.name).first(client.state.name_length as usize)
}

#[inline(never)]
fn unknown_subcommand(client: &mut Client<'_>, what: SharedBuf, command: &'static [u8]) {
    client.write_bytes(b"-ERR unknown subcommand '");
    reply::quoted(client, what);
    client.write_bytes(b"'. Try ");
    client.write_bytes(command);
    reply::line(client, b" HELP.");
}

/// What CONFIG GET knows, and what it says; a number where there is none.
const SETTINGS: [(&[u8], &[u8]); 5] = [
    (b"appendonly", b"no"),
    (b"databases", b"1"),
    (b"maxmemory", b""),
    (b"maxmemory-policy", b"noeviction"),
    (b"save", b""),
];

#[inline(never)]
fn config(kv: &Kv, client: &mut Client<'_>, mut arguments: Arguments) {
    const GET: u64 = word(b"GET");
    let what = arguments.next();
    if keyword(what) != GET {
        return unknown_subcommand(client, what, b"CONFIG");
    }
    if arguments.left() == 0 {
        return reply::wrong_subcommand_arguments(client, CONFIG, GET);
    }
    let matches = |name: &[u8]| {
        let mut patterns = arguments;
        let (mut found, mut steps) = (false, glob::STEPS);
        while patterns.left() > 0 {
            found |= glob::matches(patterns.next(), |at| name.get(at).copied(), &mut steps);
        }
        found
    };
    let pairs = SETTINGS.iter().filter(|(name, _)| matches(name)).count();
    reply::map(client, pairs);
    for (name, value) in SETTINGS {
        if matches(name) {
            reply::bulk_text(client, name);
            if name == b"maxmemory" {
                let memory = kv.table.heap.capacity() as i64;
                reply::header(client, b'$', number::length(memory) as i64);
                client.write_number(memory);
                client.write_bytes(b"\r\n");
            } else {
                reply::bulk_text(client, value);
            }
        }
    }
}

#[inline(never)]
fn about_commands(client: &mut Client<'_>, mut arguments: Arguments) {
    const COUNT: u64 = word(b"COUNT");
    const DOCS: u64 = word(b"DOCS");
    const INFO: u64 = word(b"INFO");
    const LIST: u64 = word(b"LIST");
    if arguments.left() == 0 {
        return reply::array(client, 0);
    }
    let what = arguments.next();
    match keyword(what) {
        COUNT if arguments.left() == 0 => reply::integer(client, COMMANDS),
        COUNT => reply::wrong_subcommand_arguments(client, COMMAND, COUNT),
        // Clients take these for hints, and do without.
        DOCS => reply::map(client, 0),
        INFO | LIST => reply::array(client, 0),
        _ => unknown_subcommand(client, what, b"COMMAND"),
    }
}

/// Answers with text that one thread puts together.
#[inline(never)]
fn compose(client: &mut Client<'_>, write: impl FnOnce(&mut Text)) {
    let (group, heap) = (client.on().group(), client.heap());
    let block = client.allocate(2048);
    if block.is_none() {
        return reply::out_of_memory(client);
    }
    let [length] = group.leader_only(|| {
        let mut text = Text::new(heap.memory(block));
        write(&mut text);
        [text.length() as u64]
    });
    reply::bulk(client, heap.memory(block).first(length as usize));
    group.barrier();
    if group.is_leader() {
        heap.free(block);
    }
}

#[inline(never)]
fn info(kv: &mut Kv, client: &mut Client<'_>) {
    kv.publish_counts(client.on());
    let memory = client.memory();
    let table = &kv.table;
    let (begin, port) = (kv.begin, kv.store.port);
    compose(client, |text| {
        let up = gpunet_device::simt::now_ns().saturating_sub(begin) / 1_000_000_000;
        let open =
            memory.counted(Counter::Accepted).saturating_sub(memory.counted(Counter::Closed));
        let keys = table.counted(Word::Keys);
        // Of clients, too: nothing is lost there either.
        let used = table.heap.used() + memory.heap().used();
        text.text(b"# Server\r\nredis_version:").text(REDIS_VERSION);
        text.text(b"\r\nserver_name:gpunet-kv\r\nredis_mode:standalone\r\ntcp_port:");
        text.number(u64::from(port)).text(b"\r\nuptime_in_seconds:").number(up);
        text.text(b"\r\n\r\n# Clients\r\nconnected_clients:").number(open);
        text.text(b"\r\nmaxclients:").number(u64::from(memory.connections));
        text.text(b"\r\n\r\n# Memory\r\nused_memory:").number(used);
        text.text(b"\r\nmaxmemory:").number(table.heap.capacity());
        text.text(b"\r\n\r\n# Stats\r\ntotal_connections_received:");
        text.number(memory.counted(Counter::Accepted)).text(b"\r\ntotal_commands_processed:");
        text.number(memory.counted(Counter::Requests)).text(b"\r\nrejected_connections:");
        text.number(memory.counted(Counter::Refused)).text(b"\r\nreclaimed_connections:");
        text.number(memory.counted(Counter::Reclaimed)).text(b"\r\nlate_connections:");
        text.number(memory.counted(Counter::Late)).text(b"\r\nexpired_keys:");
        text.number(table.counted(Word::Expired)).text(b"\r\nkeyspace_hits:");
        text.number(table.counted(Word::Hits)).text(b"\r\nkeyspace_misses:");
        text.number(table.counted(Word::Misses)).text(b"\r\n\r\n# Keyspace\r\n");
        if keys > 0 {
            text.text(b"db0:keys=").number(keys).text(b",expires=0,avg_ttl=0\r\n");
        }
    });
}
