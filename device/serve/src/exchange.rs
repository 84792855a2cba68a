//! What a protocol sees of a connection: input, a place for the answer, a state of its own.

use gpunet_device::buf::Plain;
use gpunet_device::{Group, On, SharedBuf};

use crate::heap::{Block, Heap};
use crate::memory::Memory;
use crate::output::Output;

/// How a protocol parses and answers.
pub trait Protocol<G: Group> {
    /// What is kept for each connection; all zero when it is accepted. `u64` where nothing is needed.
    type State: Plain;

    /// Answers the request at the beginning of [`Exchange::input`], which is never empty. All threads
    /// of the group call it and do the same.
    fn answer(&mut self, exchange: &mut Exchange<'_, G, Self::State>) -> Step;

    /// Called now and then when nothing is to be answered, at least every [`Options::tick_ns`], by all
    /// threads of the group.
    ///
    /// [`Options::tick_ns`]: crate::Options::tick_ns
    fn tick(&mut self, on: On<G>, memory: Memory) {
        let _ = (on, memory);
    }

    /// A connection is refused for a reason that its client should know: what is written here goes out as far as
    /// the client takes it at once, and the connection ends. There is no input. Called by all threads.
    fn refused(&mut self, exchange: &mut Exchange<'_, G, Self::State>, why: Refusal) {
        let _ = (exchange, why);
    }

    /// A connection is closed; what its state names is given back here. Called by all threads.
    fn closed(&mut self, on: On<G>, memory: Memory, state: Self::State) {
        let _ = (on, memory, state);
    }
}

/// Why a connection ends that did nothing forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Others need the memory that it keeps, or there is none for its request or for the answers that it does
    /// not read.
    NoMemory,
    /// Its request is larger than [`Options::most_request`](crate::Options::most_request).
    TooLarge,
    /// Its request did not come within [`Options::request_timeout_ns`](crate::Options::request_timeout_ns).
    TooSlow,
    /// There are as many connections as the server has room for.
    TooMany,
}

/// What [`Protocol::answer`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It answered a request of so many bytes, at least one: they are dropped from the input.
    Consumed(usize),
    /// The request is incomplete; so many bytes are known to be needed in all (0: not known).
    More(usize),
    /// Call again with the same input, once the client has taken all answers: there was not enough
    /// room for this one. [`Protocol::State`] says how far it got.
    Again,
    /// The connection ends once all answers are sent.
    Close,
}

/// One request of a connection.
pub struct Exchange<'a, G: Group, S: Plain> {
    pub(crate) input: SharedBuf,
    pub(crate) ended: bool,
    pub(crate) number: u32,
    pub(crate) memory: Memory,
    pub(crate) output: &'a mut Output<G>,
    /// What the protocol keeps for this connection. The same in all threads.
    pub state: S,
}

impl<G: Group, S: Plain> Exchange<'_, G, S> {
    /// What was received and not consumed.
    #[inline(always)]
    pub fn input(&self) -> SharedBuf {
        self.input
    }

    /// Where that byte stands first in the input.
    pub fn find(&self, byte: u8) -> Option<usize> {
        (0..self.input.len()).find(|at| self.input.get(*at) == Some(byte))
    }

    /// Whether the client sends no more: an incomplete request stays so.
    #[inline(always)]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The connection's number among those open at the time.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The net and the group.
    #[inline(always)]
    pub fn on(&self) -> On<G> {
        self.output.on
    }

    /// The server's memory.
    #[inline(always)]
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// The heap.
    #[inline(always)]
    pub fn heap(&self) -> Heap {
        self.output.heap
    }

    /// A block of the heap for this request; [`Block::NONE`] if there is none. Connections that keep more than
    /// that give theirs up for it. All threads call it; one gives it back ([`Heap::free`]).
    pub fn allocate(&mut self, bytes: usize) -> Block {
        self.output.allocate(bytes)
    }

    /// Whether earlier answers wait for the client to read.
    #[inline(always)]
    pub fn is_blocked(&self) -> bool {
        self.output.is_blocked()
    }

    /// Answers with these bytes of memory that all threads of the group share.
    #[inline(always)]
    pub fn write(&mut self, bytes: SharedBuf) {
        self.output.write(bytes);
    }

    /// Answers with these bytes; every thread brings the same.
    #[inline(always)]
    pub fn write_bytes(&mut self, bytes: &[u8]) {
        self.output.write_bytes(bytes);
    }

    /// Answers with `length` bytes, at most 512; each thread works out those that it writes.
    #[inline(always)]
    pub fn write_with(&mut self, length: usize, byte: impl Fn(usize) -> u8) {
        self.output.write_with(length, byte);
    }

    /// Answers with a number in decimal digits.
    #[inline(always)]
    pub fn write_number(&mut self, number: i64) {
        self.output.write_number(number);
    }
}
