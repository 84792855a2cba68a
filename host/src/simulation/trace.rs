//! What happened, for a person who reads why a seed failed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::Range;

use gpunet_device::abi::bits::PACKET_UNITS;
use gpunet_device::abi::layout::{INBOX_WORDS, Layout, P2P_INBOX_BYTES, UNITS_AT};

use super::history::ByAddress;

/// Accesses that are kept unless `GPUNET_SIMULATION_ACCESSES` says how many, and calls and events.
const ACCESSES: usize = 150;
const SAID: usize = 1000;

/// Something that happened.
pub(crate) enum Entry {
    /// A word was read.
    Load { at: usize, value: u64, acquire: bool },
    /// A word was written.
    Store { at: usize, value: u64, release: bool },
    /// A word was exchanged, or found not to be the expected one.
    Exchange { at: usize, found: u64, new: u64 },
    /// Anything else.
    Said(String),
}

/// The last of what happened.
pub(crate) struct Trace {
    /// Accesses that are kept.
    kept: usize,
    accesses: RefCell<VecDeque<(u64, usize, Entry)>>,
    said: RefCell<VecDeque<(u64, usize, Entry)>>,
    /// What each actor has read last, by word: polling that finds nothing new is left out.
    read: RefCell<ByAddress<(usize, usize), u64>>,
    names: RefCell<Names>,
    /// Inboxes of p2p streams.
    inboxes: RefCell<Vec<usize>>,
}

/// Where the words of a net lie.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) gpu_control: usize,
    pub(crate) host_control: usize,
    pub(crate) records: usize,
    pub(crate) layout: Option<Layout>,
    /// Actors: 0 is the proxy, these are the launches' threads: first actor, threads of a block.
    pub(crate) launches: Vec<(Range<usize>, u32)>,
}

impl Default for Trace {
    fn default() -> Self {
        let kept = std::env::var("GPUNET_SIMULATION_ACCESSES").ok().and_then(|n| n.parse().ok());
        Self {
            kept: kept.unwrap_or(ACCESSES),
            accesses: RefCell::default(),
            said: RefCell::default(),
            read: RefCell::default(),
            names: RefCell::default(),
            inboxes: RefCell::default(),
        }
    }
}

impl Trace {
    pub(crate) fn set_names(&self, names: Names) {
        *self.names.borrow_mut() = names;
    }

    pub(crate) fn add_inbox(&self, at: usize) {
        self.inboxes.borrow_mut().push(at);
    }

    pub(crate) fn remove_inbox(&self, at: usize) {
        self.inboxes.borrow_mut().retain(|inbox| *inbox != at);
    }

    pub(crate) fn add(&self, now_ns: u64, actor: usize, entry: Entry) {
        if matches!(entry, Entry::Store { at, .. } | Entry::Load { at, .. } if self.is_heartbeat(at))
        {
            return;
        }
        if let Entry::Load { at, value, .. } = entry
            && self.read.borrow_mut().insert((actor, at), value) == Some(value)
        {
            return;
        }
        let (entries, kept) = match entry {
            Entry::Said(_) => (&self.said, SAID),
            _ => (&self.accesses, self.kept),
        };
        let mut entries = entries.borrow_mut();
        if entries.len() == kept {
            entries.pop_front();
        }
        entries.push_back((now_ns, actor, entry));
    }

    pub(crate) fn log(&self, now_ns: u64, actor: usize, text: String) {
        self.add(now_ns, actor, Entry::Said(text));
    }

    /// Whether it is a proxy's heartbeat, or what groups pass on of one.
    pub(crate) fn is_heartbeat(&self, at: usize) -> bool {
        self.names.borrow().is_heartbeat(at)
    }

    /// What a word is called.
    pub(crate) fn name(&self, at: usize) -> String {
        let inboxes = self.inboxes.borrow();
        let inside = |start: &usize| (*start..*start + P2P_INBOX_BYTES).contains(&at);
        let Some(number) = inboxes.iter().position(inside) else {
            return self.names.borrow().word(at);
        };
        let word = (at - inboxes[number]) / 8;
        let counters = ["tail", "head", "status"].get(word);
        match (counters, word.checked_sub(UNITS_AT)) {
            (Some(name), _) => format!("{name} of p2p inbox {number}"),
            (None, Some(unit)) => format!("unit {unit} of p2p inbox {number}"),
            (None, None) => format!("word {word} of p2p inbox {number}"),
        }
    }

    /// The last calls and events, then the last accesses, a line each.
    pub(crate) fn to_text(&self) -> String {
        let names = self.names.borrow();
        let mut text = String::new();
        let (said, accesses) = (self.said.borrow(), self.accesses.borrow());
        for (now, actor, entry) in said.iter().chain(accesses.iter()) {
            let who = names.actor(*actor);
            let _ = write!(text, "{:>12.3} us  {who:<22} ", *now as f64 / 1000.0);
            let _ = match entry {
                Entry::Load { at, value, acquire } => {
                    let how = if *acquire { "acquires" } else { "reads" };
                    writeln!(text, "{how} {} = {value:#x}", self.name(*at))
                }
                Entry::Store { at, value, release } => {
                    let how = if *release { "releases" } else { "writes" };
                    writeln!(text, "{how} {} = {value:#x}", self.name(*at))
                }
                Entry::Exchange { at, found, new } => {
                    writeln!(text, "exchanges {}: {found:#x}, {new:#x}", self.name(*at))
                }
                Entry::Said(said) => writeln!(text, "{said}"),
            };
        }
        text
    }
}

impl Names {
    fn actor(&self, actor: usize) -> String {
        if actor == 0 {
            return "proxy".to_owned();
        }
        for (number, (actors, threads)) in self.launches.iter().enumerate() {
            if actors.contains(&actor) {
                let rank = actor - actors.start;
                let threads = *threads as usize;
                return format!(
                    "launch {number} block {} thread {}",
                    rank / threads,
                    rank % threads
                );
            }
        }
        format!("actor {actor}")
    }

    fn is_heartbeat(&self, at: usize) -> bool {
        self.layout.is_some_and(|layout| {
            (0..layout.shards as usize)
                .any(|shard| at == self.host_control + 8 * layout.heartbeat(shard))
                || (layout.heartbeat_relay(0)..layout.records_words())
                    .contains(&(at.wrapping_sub(self.records) / 8))
        })
    }

    fn word(&self, at: usize) -> String {
        let Some(layout) = &self.layout else { return format!("{at:#x}") };
        let inside = |start: usize, words: usize| {
            (start..start + words * 8).contains(&at).then(|| (at - start) / 8)
        };
        let sockets = layout.sockets();
        if let Some(word) = inside(self.gpu_control, layout.gpu_control_words()) {
            for socket in 0..sockets {
                if word == layout.send_tail(socket) {
                    return format!("send tail of slot {socket}");
                }
                if word == layout.receive_head(socket) {
                    return format!("receive head of slot {socket}");
                }
                let units = layout.send_units(socket);
                if (units..units + PACKET_UNITS).contains(&word) {
                    return format!("unit {} that slot {socket} sends", word - units);
                }
            }
            for slot in 0..layout.all_request_slots() {
                if word == layout.request_sequence(slot) {
                    return format!("number of request {slot}");
                }
                let request = layout.request(slot);
                if (request..request + 32).contains(&word) {
                    return format!("word {} of request {slot}", word - request);
                }
            }
            return format!("GPU word {word}");
        }
        if let Some(word) = inside(self.host_control, layout.host_control_words()) {
            for socket in 0..sockets {
                let live = layout.inbox(socket);
                let named = ["receive tail", "send head", "status"];
                if let Some(name) = word.checked_sub(live).and_then(|at| named.get(at)) {
                    return format!("{name} of slot {socket}");
                }
                let inbox = layout.inbox(socket);
                if (inbox..inbox + INBOX_WORDS).contains(&word) {
                    return format!("inbox word {} of slot {socket}", word - inbox);
                }
            }
            for slot in 0..layout.all_request_slots() {
                if word == layout.reply_sequence(slot) {
                    return format!("number of reply {slot}");
                }
                let reply = layout.reply(slot);
                if (reply..reply + 16).contains(&word) {
                    return format!("word {} of reply {slot}", word - reply);
                }
            }
            for shard in 0..layout.shards as usize {
                if word == layout.heartbeat(shard) {
                    return format!("heartbeat {shard}");
                }
            }
            return format!("CPU word {word}");
        }
        if let Some(word) = inside(self.records, layout.records_words()) {
            return format!("record word {word}");
        }
        "ring word".to_owned()
    }
}
