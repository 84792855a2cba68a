//! A request slot that a hostile kernel has claimed, or that nobody else uses.

use gpunet_device::abi::handle::Handle;
use gpunet_device::abi::message::{Operation, REPLY_WORDS, REQUEST_WORDS, Reply, Request};
use gpunet_device::abi::word::Word;
use gpunet_device::simt;
use gpunet_device::{Net, Shared};

use super::{Attack, word};

/// States of a slot's lock, as `request.rs` of the device crate has them.
const FREE: u64 = 0;
const CLAIMED: u64 = 1;

/// Where a slot's words stand.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    request_at: usize,
    number_at: usize,
    reply_at: usize,
    reply_number_at: usize,
    lock_at: usize,
    gpu_control: Shared<u64>,
    host_control: Shared<u64>,
    records: Shared<u64>,
}

impl Slot {
    /// The slot with that number.
    pub(crate) fn at(net: Net, attack: &Attack, slot: usize) -> Self {
        let layout = net.layout();
        Self {
            request_at: layout.request(slot),
            number_at: layout.request_sequence(slot),
            reply_at: layout.reply(slot),
            reply_number_at: layout.reply_sequence(slot),
            lock_at: layout.slot_record(slot),
            gpu_control: attack.gpu_control,
            host_control: attack.host_control,
            records: attack.records,
        }
    }

    /// Claims it, as a correct kernel would; whether it was free.
    pub(crate) fn claim(&self) -> bool {
        word(self.records, self.lock_at).is_some_and(|lock| lock.compare_exchange(FREE, CLAIMED))
    }

    /// Leaves it so that a correct kernel can use it: the last number is one that follows the
    /// last correct one, and was answered. A slot that is not answered stays claimed.
    pub(crate) fn release(&self, net: Net, limit_ns: u64) {
        let (Some(lock), Some(last)) =
            (word(self.records, self.lock_at), word(self.records, self.lock_at + 1))
        else {
            return;
        };
        let mut number = last.load() + 1;
        // Only a change is a request.
        if self.number().is_some_and(|word| word.load() == number) {
            number += 1;
        }
        if self.ask_time(net, number, limit_ns) {
            last.store(number);
            lock.store_release(FREE);
        }
    }

    /// A number after the one that stands there, and not one that was answered last.
    pub(crate) fn fresh_number(&self) -> Option<u64> {
        let next = self.number()?.load().wrapping_add(1);
        let answered = word(self.host_control, self.reply_number_at)?.load();
        Some(if next == answered { next.wrapping_add(1) } else { next })
    }

    /// The number of the request.
    pub(crate) fn number(&self) -> Option<Word> {
        word(self.gpu_control, self.number_at)
    }

    /// A word of the request.
    pub(crate) fn request(&self, at: usize) -> Option<Word> {
        word(self.gpu_control, self.request_at + at % REQUEST_WORDS)
    }

    /// Waits for the reply to a number.
    pub(crate) fn reply(&self, number: u64, limit_ns: u64) -> Option<Reply> {
        let answered = word(self.host_control, self.reply_number_at)?;
        let until = simt::now_ns() + limit_ns;
        while answered.load_acquire() != number {
            if simt::now_ns() > until {
                return None;
            }
            simt::pause();
        }
        let mut reply = Reply([0; REPLY_WORDS]);
        for (at, to) in reply.0.iter_mut().enumerate() {
            *to = word(self.host_control, self.reply_at + at)?.load();
        }
        Some(reply)
    }

    /// Asks for something under that number and waits for the reply.
    pub(crate) fn ask(&self, request: &Request, number: u64, limit_ns: u64) -> Option<Reply> {
        for (at, value) in request.0.iter().enumerate() {
            self.request(at)?.store(*value);
        }
        self.number()?.store_release(number);
        self.reply(number, limit_ns)
    }

    /// Asks for the time, which is always answered; whether it was, with a time.
    pub(crate) fn ask_time(&self, net: Net, number: u64, limit_ns: u64) -> bool {
        let request = Request::new(Operation::Time, net.launch(), Handle::NONE, [0; 4]);
        let reply = self.ask(&request, number, limit_ns);
        reply.is_some_and(|reply| reply.result() == 0 && reply.number() != 0)
    }
}
