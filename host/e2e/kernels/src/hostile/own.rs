//! The attack that keeps to its own words: sockets that it opened, slots that it claimed.

use gpunet_device::abi::bits::{PACKET_UNITS, Progress, Unit};
use gpunet_device::abi::descriptor::{DESCRIPTOR_WORDS, SocketDescriptor};
use gpunet_device::abi::layout::Layout;
use gpunet_device::abi::message::{Operation, REQUEST_WORDS, Request};
use gpunet_device::abi::option::SocketOption;
use gpunet_device::abi::word::Word;
use gpunet_device::calls::{self, SOCK_STREAM};
use gpunet_device::{Domain, Errno, Handle, Net, SocketAddr, Thread, simt};
use gpunet_support::pattern::Draw;

use super::mutate::{self, How, Mutation, What};
use super::slot::Slot;
use super::{ANSWERS, Attack, Past, REPORT, SOCKETS, UNANSWERED, WORDS, begin, word};

/// Sockets that an attacking block has at a time.
const OWN: usize = 8;
/// Request slots that it takes for itself.
const SLOTS: usize = 3;
/// Mutations between two looks at what has ended.
const ROUND: u64 = 32;
/// How long a reply may take that is waited for.
const REPLY_NS: u64 = 2_000_000_000;

/// An attacking block.
struct Attacker<'a> {
    net: Net,
    layout: Layout,
    attack: &'a Attack,
    rank: usize,
    sockets: [Handle; OWN],
    /// Whether a socket is the program's, and not to be closed.
    given: [bool; OWN],
    /// A handle that a reply brought, which is closed before the next one is kept.
    asked_for: Handle,
    slots: [Option<Slot>; SLOTS],
    past: Past,
    report: [u64; REPORT],
}

/// Runs one block's attack.
pub(super) fn run(net: Net, attack: &Attack) {
    let (rank, mut rng) = begin(attack);
    let mut this = Attacker {
        net,
        layout: net.layout(),
        attack,
        rank,
        sockets: [Handle::NONE; OWN],
        given: [false; OWN],
        asked_for: Handle::NONE,
        slots: [None; SLOTS],
        past: Past::default(),
        report: [0; REPORT],
    };
    this.claim_slots();
    this.take_given();
    let until = simt::now_ns() + attack.limit_ns;
    for step in 0.. {
        if this.report[WORDS] >= attack.words || simt::now_ns() > until {
            break;
        }
        if step % ROUND == 0 {
            this.open_sockets();
        }
        let mutation = mutate::next(attack, &mut rng, step, What::OWN);
        this.report[WORDS] += this.carry_out(&mutation).unwrap_or(0);
        if step % 4 == 0 {
            simt::pause();
        }
    }
    for at in 0..OWN {
        this.close(at);
    }
    this.close_asked_for();
    for slot in this.slots.iter().flatten() {
        slot.release(net, REPLY_NS);
    }
    for (at, value) in this.report.into_iter().enumerate() {
        attack.reports.set(rank * REPORT + at, value);
    }
}

impl Attacker<'_> {
    fn claim_slots(&mut self) {
        let all = self.layout.all_request_slots();
        let mut next = 0;
        // From the middle on: correct kernels begin with the first ones.
        for offset in 0..all {
            let slot = Slot::at(self.net, self.attack, (all / 2 + offset) % all);
            if next < SLOTS && slot.claim() {
                // A correct kernel's last request is not asked again.
                for at in 0..REQUEST_WORDS {
                    if let Some(word) = slot.request(at) {
                        word.store(0);
                    }
                }
                self.slots[next] = Some(slot);
                next += 1;
            }
        }
    }

    /// Takes this block's share of the program's sockets.
    fn take_given(&mut self) {
        let blocks = simt::position().blocks as usize;
        for at in 0..OWN / 2 {
            if let Some(handle) = self.attack.given.get(self.rank + at * blocks) {
                self.sockets[at] = Handle(handle);
                self.given[at] = true;
            }
        }
    }

    /// Opens a socket in each place that has none: streams to the sink, every fourth a listener
    /// with a connection to it.
    fn open_sockets(&mut self) {
        for at in 0..OWN {
            if self.sockets[at] != Handle::NONE {
                continue;
            }
            let made = calls::gsocket(self.net, Thread, Domain::V4 as i32, SOCK_STREAM, 0);
            let Ok(handle) = Errno::check(made) else { continue };
            let handle = Handle(handle);
            self.report[SOCKETS] += 1;
            self.sockets[at] = handle;
            let timeout = SocketOption::SendTimeout;
            calls::gsetsockopt(self.net, Thread, handle, timeout, REPLY_NS);
            if at % 4 == 3 {
                calls::gbind(self.net, Thread, handle, &self.attack.home);
                calls::glisten(self.net, Thread, handle, 4);
                let name = calls::ggetsockname(self.net, Thread, handle);
                self.connect(at - 1, name.unwrap_or(SocketAddr::NONE));
            } else {
                calls::gconnect(self.net, Thread, handle, &self.attack.sink);
            }
        }
    }

    /// Replaces a socket by one that connects there.
    fn connect(&mut self, at: usize, address: SocketAddr) {
        if self.given[at] {
            return;
        }
        self.close(at);
        let made = calls::gsocket(self.net, Thread, Domain::V4 as i32, SOCK_STREAM, 0);
        if let Ok(handle) = Errno::check(made) {
            self.report[SOCKETS] += 1;
            self.sockets[at] = Handle(handle);
            calls::gconnect(self.net, Thread, Handle(handle), &address);
        }
    }

    /// Closes a socket of its own, by the call or, where that knows better, by a request.
    fn close(&mut self, at: usize) {
        let handle = self.sockets[at];
        if handle == Handle::NONE || self.given[at] {
            return;
        }
        self.sockets[at] = Handle::NONE;
        if calls::gclose(self.net, Thread, handle) < 0 {
            self.ask_to_close(handle);
        }
    }

    fn ask_to_close(&mut self, handle: Handle) {
        let Some(slot) = self.slots.iter().flatten().next().copied() else { return };
        let Some(number) = slot.fresh_number() else { return };
        let request = Request::new(Operation::Close, self.net.launch(), handle, [0; 4]);
        self.count(slot.ask(&request, number, REPLY_NS).is_some());
    }

    fn close_asked_for(&mut self) {
        if self.asked_for != Handle::NONE {
            let handle = core::mem::take(&mut self.asked_for);
            self.ask_to_close(handle);
        }
    }

    fn count(&mut self, answered: bool) {
        self.report[if answered { ANSWERS } else { UNANSWERED }] += 1;
    }

    /// Does what a mutation says; how many words were written.
    fn carry_out(&mut self, mutation: &Mutation) -> Option<u64> {
        let at = mutation.target as usize % OWN;
        let mut handle = self.sockets[at];
        if mutation.at.is_multiple_of(5) && self.asked_for != Handle::NONE {
            // A poller, it may be.
            handle = self.asked_for;
        }
        let what = mutate::what(mutation);
        if what == What::Turnover {
            self.close(at);
            return Some(0);
        }
        let slot = self.slots[mutation.target as usize % SLOTS];
        match what {
            What::RequestWord => {
                let request = slot?.request(mutation.at as usize)?;
                // The handle is never one that might be somebody else's.
                let own = mutation.at as usize % REQUEST_WORDS == 1;
                if own {
                    request.store(self.some_handle(mutation).0);
                } else {
                    self.spoil(request, mutation);
                }
                Some(1)
            }
            What::RequestNumber => Some(self.publish(slot?, mutation)?),
            What::Request => self.request(slot?, mutation, REQUEST_WORDS),
            What::HalfRequest => {
                self.request(slot?, mutation, mutation.at as usize % REQUEST_WORDS)
            }
            _ if handle == Handle::NONE => None,
            _ => self.spoil_socket(handle, what, mutation),
        }
    }

    /// Writes a word as the mutation says.
    fn spoil(&mut self, word: Word, mutation: &Mutation) {
        let now = word.load();
        word.store(How::value(mutation.how, now, mutation.value, &self.past));
        self.past.note(now);
    }

    fn spoil_socket(&mut self, handle: Handle, what: What, mutation: &Mutation) -> Option<u64> {
        let (attack, layout) = (self.attack, self.layout);
        let index = handle.shard() as usize * layout.socket_slots as usize + handle.slot() as usize;
        let tail = word(attack.gpu_control, layout.send_tail(index))?;
        let first_unit = layout.send_units(index);
        match what {
            What::Head => {
                self.spoil(word(attack.gpu_control, layout.receive_head(index))?, mutation)
            }
            What::Unit => {
                let at = mutation.at as usize % PACKET_UNITS;
                self.spoil(word(attack.gpu_control, first_unit + at)?, mutation);
            }
            What::Packet => {
                let mut rng = Draw::new(mutation.value, 0);
                let now = Progress(tail.load()).count();
                let (length, flags) = (1 + rng.below(280), rng.below(8));
                let missing = mutation.at as usize % (2 * PACKET_UNITS);
                for at in 0..PACKET_UNITS {
                    let begin = now ^ u64::from(at == missing);
                    let value = Unit::new(rng.next() as u32, begin).0;
                    word(attack.gpu_control, first_unit + at)?.store(value);
                }
                self.past.note(tail.load());
                tail.store(Progress::new(now.wrapping_add(length), flags).0);
                return Some(1 + PACKET_UNITS as u64);
            }
            What::Ring => {
                // Where the proxy says the ring is; what is written there is the socket's own.
                let mut descriptor = [0; DESCRIPTOR_WORDS];
                for (at, to) in descriptor.iter_mut().enumerate() {
                    *to = word(attack.host_control, layout.descriptor(index) + at)?.load();
                }
                let ring = SocketDescriptor::from_words(&descriptor)?.send;
                let words = u64::from(ring.capacity / 8);
                if words == 0 || descriptor[0] >> 8 != u64::from(handle.generation()) {
                    return None;
                }
                let at = ring.offset / 8 + u64::from(mutation.at) % words;
                self.spoil(word(attack.rings, at as usize)?, mutation);
            }
            _ => self.spoil(tail, mutation),
        }
        Some(1)
    }

    /// A handle of its own, or one that is nobody's.
    fn some_handle(&self, mutation: &Mutation) -> Handle {
        let mut rng = Draw::new(mutation.value, 1);
        let own = self.sockets[mutation.target as usize % OWN];
        match rng.below(8) {
            0 => Handle(own.0 ^ (1 << (28 + rng.below(32)))),
            1 => Handle(own.0 | 1 << 62),
            2 => Handle(own.0 | u64::from(Handle::MAX_SLOTS - 1)),
            3 => self.asked_for,
            _ => own,
        }
    }

    /// Fills `words` words of a slot with a request that is nearly right, and publishes it.
    fn request(&mut self, slot: Slot, mutation: &Mutation, words: usize) -> Option<u64> {
        let mut rng = Draw::new(mutation.value, 0);
        let mut odd = |usual: u64, range: u64| match rng.below(8) {
            0 => rng.next(),
            1 => u64::MAX,
            2 => rng.below(1 << 20),
            3 => usual,
            _ => rng.below(range),
        };
        let operation = odd(1, 16) as u32;
        let launch = if odd(0, 4) == 1 { odd(0, 300) as u32 } else { self.net.launch() };
        // Domain, kind and protocol; backlog; direction; option and value; socket and events.
        let numbers = [odd(2, 20), odd(1, 3), odd(0, 20), odd(0, 4)];
        let mut request = Request([0; REQUEST_WORDS]);
        request.0[0] = u64::from(operation) | u64::from(launch) << 32;
        request.0[1] = self.some_handle(mutation).0;
        request.0[2..6].copy_from_slice(&numbers);
        let is_watch = Operation::from_number(operation) == Some(Operation::Watch);
        if is_watch {
            request.0[2] = self.sockets[rng.below(OWN as u64) as usize].0;
        }
        request = match rng.below(3) {
            0 => request.with_address(&self.attack.sink),
            1 => request.with_address(&self.attack.home),
            _ => {
                for at in 6..REQUEST_WORDS {
                    request.0[at] = rng.next();
                }
                request
            }
        };
        for (at, value) in request.0.iter().take(words).enumerate() {
            slot.request(at)?.store(*value);
        }
        Some(words as u64 + self.publish(slot, mutation)?)
    }

    /// Publishes whatever stands in a slot, under a number of the mutation's; how many words were
    /// written.
    fn publish(&mut self, slot: Slot, mutation: &Mutation) -> Option<u64> {
        let number = slot.number()?;
        let now = number.load();
        let operation = Operation::from_number(slot.request(0)?.load() as u32);
        let makes = matches!(operation, Some(Operation::Socket | Operation::Poller));
        // Some are waited for; one that brings a socket always is, so that it can be closed.
        let next = match makes {
            true => slot.fresh_number()?,
            false => How::value(mutation.how, now, mutation.value, &self.past),
        };
        self.past.note(now);
        number.store_release(next);
        if next != now && (makes || mutation.at.is_multiple_of(4)) {
            let reply = slot.reply(next, REPLY_NS);
            self.count(reply.is_some());
            if let Some(reply) = reply.filter(|reply| makes && reply.result() == 0) {
                self.close_asked_for();
                self.asked_for = Handle(reply.number());
            }
        }
        Some(1)
    }
}
