//! The soak's kernel: groups that call and groups that answer, connection after connection.
//!
//! What happens on a connection is in its [`Terms`], which the caller sends ahead of all else, so
//! that both ends know how many bytes come when, and can make and check each of them. Either end
//! may be a group of GPU threads or a program. The two take turns; then one of them ends it:
//!
//! ```text
//!   caller   terms, up(0) ──▶          up(1) ──▶          ...  and the ending,
//!   answerer              ◀── down(0)         ◀── down(1)      as the terms have it
//! ```
//!
//! A group goes on until its connection is over, well or not, and notes how far it came; the host
//! knows what was to happen and judges.

use gpunet_device::calls::SHUT_WR;
use gpunet_device::simt::{self, WARP};
use gpunet_device::{
    Errno, Group, Handle, Listener, On, Shared, SharedBuf, SocketAddr, Stream, kernel_arg, kernels,
};
use gpunet_pattern as pattern;

/// Bytes of [`Terms`] on the wire.
pub const TERMS_BYTES: usize = 72;
/// The first word of terms.
const MAGIC: u64 = 0x6b61_6f73_7465_6e67;

/// A result: received bytes were not the pattern's.
pub const WRONG_BYTES: i64 = -1_000_000;
/// A result: the stream ended before all bytes had come.
pub const EARLY_END: i64 = -1_000_001;
/// A result: bytes came where the end should have been.
pub const TOO_MANY_BYTES: i64 = -1_000_002;

/// The caller ends its side and waits for the other's end; the answerer closes at the caller's.
pub const CALLER_ENDS: u64 = 0;
/// The other way round: the answerer ends its side first.
pub const ANSWERER_ENDS: u64 = 1;
/// The caller ends its side, the answerer then sends the tail and closes.
pub const HALF_CLOSE: u64 = 2;
/// The caller sends the tail and closes at once, without waiting for anything.
pub const GONE: u64 = 3;
/// The caller, a program, sends the tail and ends its side; all the while the answerer sends back
/// what comes. Then the answerer closes.
pub const ECHO: u64 = 4;
/// No connection: the group that gets these terms has done its job.
pub const QUIT: u64 = 5;

kernel_arg! {
    /// What both ends of a connection know.
    #[derive(Debug)]
    pub struct Terms {
        /// Where its outcomes go.
        pub index: u64,
        /// Seed of all its bytes and lengths; 32 bits.
        pub seed: u64,
        /// Turns.
        pub turns: u64,
        /// Most bytes that the caller sends in a turn; 0: it sends none.
        pub most_up: u64,
        /// Most bytes that the answerer sends in a turn; likewise.
        pub most_down: u64,
        /// Most bytes that are sent once the turns are over, if the ending has any; likewise.
        pub most_tail: u64,
        /// One of [`CALLER_ENDS`] and its siblings.
        pub ending: u64,
        /// How long one call of a kernel may wait, nanoseconds.
        pub timeout_ns: u64,
    }
}

/// A length from 1 to `most`, or 0 where that is 0.
#[inline(always)]
const fn drawn(seed: u64, number: u64, most: u64) -> u64 {
    if most == 0 {
        return 0;
    }
    let mixed = (seed << 20 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    1 + (mixed >> 24) % most
}

impl Terms {
    /// Bytes that the caller sends in a turn.
    #[inline(always)]
    pub const fn up(&self, turn: u64) -> u64 {
        drawn(self.seed, 3 * turn, self.most_up)
    }

    /// Bytes that the answerer sends in a turn.
    #[inline(always)]
    pub const fn down(&self, turn: u64) -> u64 {
        drawn(self.seed, 3 * turn + 1, self.most_down)
    }

    /// Bytes that are sent once the turns are over.
    #[inline(always)]
    pub const fn tail(&self) -> u64 {
        drawn(self.seed, 2, self.most_tail)
    }

    /// Seed of what the caller sends.
    #[inline(always)]
    pub const fn up_seed(&self) -> u64 {
        self.seed
    }

    /// Seed of what the answerer sends.
    #[inline(always)]
    pub const fn down_seed(&self) -> u64 {
        self.seed ^ 0x5A5A_5A5A
    }

    /// As they go over the wire, little endian.
    #[inline(always)]
    pub const fn to_words(&self) -> [u64; TERMS_BYTES / 8] {
        let Self { index, seed, turns, most_up, most_down, most_tail, ending, timeout_ns } = *self;
        [MAGIC, index, seed, turns, most_up, most_down, most_tail, ending, timeout_ns]
    }

    /// From the wire; none when they are no terms.
    #[inline(always)]
    pub const fn from_words(words: [u64; TERMS_BYTES / 8]) -> Option<Self> {
        let [magic, index, seed, turns, most_up, most_down, most_tail, ending, timeout_ns] = words;
        if magic != MAGIC {
            return None;
        }
        Some(Self { index, seed, turns, most_up, most_down, most_tail, ending, timeout_ns })
    }
}

kernel_arg! {
    /// A connection that a group makes.
    pub struct Call {
        /// Where to.
        pub to: SocketAddr,
        /// What happens on it.
        pub terms: Terms,
        /// Capacity of each ring.
        pub ring: u64,
        /// Not 0: the socket is left open when it should be closed, for the host to close.
        pub leaves: u64,
    }
}

/// What a group is there for: to answer, until it is told to quit.
pub const ANSWERS: u64 = 1;
/// What a group is there for: to make its calls.
pub const CALLS: u64 = 2;

kernel_arg! {
    /// What a group does.
    pub struct Job {
        /// [`ANSWERS`] or [`CALLS`]; 0: nothing.
        pub kind: u64,
        /// Its first call, and how many it has.
        pub first: u64,
        /// How many calls it has.
        pub count: u64,
        /// How long the terms of a connection may take to come, nanoseconds.
        pub timeout_ns: u64,
        /// Not 0: bytes are read and written in the rings themselves.
        pub in_rings: u64,
        /// For the self-check: how long the first receive of a connection takes, whatever comes.
        pub stall_ns: u64,
    }
}

kernel_arg! {
    /// What became of one end of a connection, or of a whole job.
    #[derive(Debug)]
    pub struct Outcome {
        /// Not 0 once it is over. (Memory is zero before.)
        pub is_over: u64,
        /// 0 when all went well, a negative error number, or one of the results above.
        pub result: i64,
        /// Bytes that went into the stream, without the terms.
        pub sent: u64,
        /// Bytes that came and were right, without the terms.
        pub received: u64,
        /// The longest that one call took.
        pub longest_ns: u64,
        /// Of a job: connections that broke before their terms had come.
        pub strays: u64,
    }
}

kernel_arg! {
    /// Everything that a launch works on.
    pub struct Work {
        /// A job for each group.
        pub jobs: Shared<Job>,
        /// The calls of all groups.
        pub calls: Shared<Call>,
        /// Outcomes of jobs.
        pub done: Shared<Outcome>,
        /// Outcomes of calls, by index.
        pub called: Shared<Outcome>,
        /// Outcomes of answers, by index.
        pub answered: Shared<Outcome>,
        /// What is answered.
        pub listener: Handle,
        /// Bytes of shared memory for each group.
        pub shared_each: u64,
    }
}

kernels! {
    /// A job for each block.
    pub fn soak_block(net: Net, work: Work) {
        run(net.block(), &work, simt::position().block as usize, 0);
    }

    /// A job for each warp.
    pub fn soak_warp(net: Net, work: Work) {
        let position = simt::position();
        let (warps, warp) = (position.threads.div_ceil(WARP), position.thread / WARP);
        run(net.warp(), &work, (position.block * warps + warp) as usize, warp as usize);
    }

    /// A job for each thread.
    pub fn soak_thread(net: Net, work: Work) {
        let position = simt::position();
        let rank = position.block * position.threads + position.thread;
        run(net.thread(), &work, rank as usize, position.thread as usize);
    }
}

/// Does the job of group `rank`, which is the block's number `in_block`.
#[inline(always)]
fn run<G: Group>(on: On<G>, work: &Work, rank: usize, in_block: usize) {
    let Some(job) = work.jobs.get(rank) else { return };
    let each = work.shared_each as usize;
    let buffer = simt::shared_memory().slice(in_block * each, each);
    let done = if job.kind == ANSWERS {
        answer_all(on, work, &job, buffer)
    } else if job.kind == CALLS {
        call_all(on, work, &job, buffer)
    } else {
        Outcome::OVER
    };
    if on.group().is_leader() {
        work.done.set(rank, done);
    }
}

impl Outcome {
    const OVER: Self =
        Self { is_over: 1, result: 0, sent: 0, received: 0, longest_ns: 0, strays: 0 };
}

/// Makes the calls of a job, one after the other.
#[inline(never)]
fn call_all<G: Group>(on: On<G>, work: &Work, job: &Job, buffer: SharedBuf) -> Outcome {
    let mut done = Outcome::OVER;
    for at in job.first..job.first + job.count {
        let Some(call) = work.calls.get(at as usize) else { break };
        let begin = simt::now_ns();
        let mut outcome = Outcome::OVER;
        match connect(on, &call) {
            Ok(stream) => {
                let took = simt::now_ns() - begin;
                outcome = End::new(&stream, on, job, &call.terms, true, buffer, took).call();
                if call.leaves != 0 {
                    let _ = stream.into_handle();
                }
            }
            Err(errno) => {
                outcome.result = errno.negative();
                outcome.longest_ns = simt::now_ns() - begin;
            }
        }
        if on.group().is_leader() {
            work.called.set(call.terms.index as usize, outcome);
        }
        done.longest_ns = done.longest_ns.max(outcome.longest_ns);
        if outcome.result == Errno::ECANCELED.negative() {
            break;
        }
    }
    done
}

/// Connects. The connecting itself may take as long as the net allows.
#[inline(always)]
fn connect<G: Group>(on: On<G>, call: &Call) -> Result<Stream<G>, Errno> {
    let stream = Stream::connect_with_rings(on, &call.to, call.ring, call.ring)?;
    limit(&stream, call.terms.timeout_ns)?;
    Ok(stream)
}

/// Limits how long a call on the stream may wait.
#[inline(always)]
fn limit<G: Group>(stream: &Stream<G>, timeout_ns: u64) -> Result<(), Errno> {
    stream.set_read_timeout(timeout_ns)?;
    stream.set_write_timeout(timeout_ns)
}

/// Answers one connection after the other until it is told to quit, or to stop.
#[inline(never)]
fn answer_all<G: Group>(on: On<G>, work: &Work, job: &Job, buffer: SharedBuf) -> Outcome {
    // The listener is the host's: not closed here.
    let listener = Listener::borrow(on, work.listener);
    let mut done = Outcome::OVER;
    loop {
        let stream = match listener.accept() {
            Ok(stream) => stream,
            Err(Errno::ECONNABORTED) => continue,
            Err(errno) => {
                done.result = errno.negative();
                return done;
            }
        };
        match greet(on.group(), &stream, job, buffer) {
            Ok(Some(terms)) if terms.ending == QUIT => return done,
            Ok(Some(terms)) => {
                let outcome = End::new(&stream, on, job, &terms, false, buffer, 0).answer();
                if on.group().is_leader() {
                    work.answered.set(terms.index as usize, outcome);
                }
                done.longest_ns = done.longest_ns.max(outcome.longest_ns);
            }
            Ok(None) => done.result = WRONG_BYTES,
            Err(Errno::ECANCELED) => {
                done.result = Errno::ECANCELED.negative();
                return done;
            }
            Err(_) => done.strays += 1,
        }
    }
}

/// Receives the terms; none when what came are no terms.
#[inline(always)]
fn greet<G: Group>(
    group: G,
    stream: &Stream<G>,
    job: &Job,
    buffer: SharedBuf,
) -> Result<Option<Terms>, Errno> {
    limit(stream, job.timeout_ns)?;
    stream.read_exact(buffer.first(TERMS_BYTES))?;
    let words = buffer.cast::<u64>();
    let terms = Terms::from_words(core::array::from_fn(|at| words.get(at).unwrap_or(0)));
    // All threads have read the terms before the buffer takes something else.
    group.barrier();
    if let Some(terms) = &terms {
        limit(stream, terms.timeout_ns)?;
    }
    Ok(terms)
}

/// One end of a connection, as each thread of its group sees it.
struct End<'s, G: Group> {
    stream: &'s Stream<G>,
    group: G,
    terms: Terms,
    is_caller: bool,
    in_rings: bool,
    stall_ns: u64,
    buffer: SharedBuf,
    outcome: Outcome,
}

impl<'s, G: Group> End<'s, G> {
    #[inline(always)]
    fn new(
        stream: &'s Stream<G>,
        on: On<G>,
        job: &Job,
        terms: &Terms,
        is_caller: bool,
        buffer: SharedBuf,
        longest_ns: u64,
    ) -> Self {
        let outcome = Outcome { longest_ns, ..Outcome::OVER };
        let (group, in_rings, stall_ns) = (on.group(), job.in_rings != 0, job.stall_ns);
        Self { stream, group, terms: *terms, is_caller, in_rings, stall_ns, buffer, outcome }
    }

    #[inline(always)]
    fn call(mut self) -> Outcome {
        let result = self.greet_and_call();
        self.outcome.result = result.err().unwrap_or(0);
        self.outcome
    }

    #[inline(always)]
    fn answer(mut self) -> Outcome {
        let result = self.turns_and_end();
        self.outcome.result = result.err().unwrap_or(0);
        self.outcome
    }

    #[inline(always)]
    fn greet_and_call(&mut self) -> Result<(), i64> {
        let words = self.buffer.cast::<u64>();
        if self.group.is_leader() {
            for (at, word) in self.terms.to_words().iter().enumerate() {
                words.set(at, *word);
            }
        }
        let begin = simt::now_ns();
        let sent = self.stream.write_all(self.buffer.first(TERMS_BYTES));
        self.took(begin);
        sent.map_err(Errno::negative)?;
        self.turns_and_end()
    }

    #[inline(always)]
    fn turns_and_end(&mut self) -> Result<(), i64> {
        let terms = self.terms;
        for turn in 0..terms.turns {
            self.pass(true, terms.up(turn))?;
            self.pass(false, terms.down(turn))?;
        }
        let shut = |this: &Self| this.stream.shutdown(SHUT_WR).map_err(Errno::negative);
        match terms.ending {
            ANSWERER_ENDS if self.is_caller => self.receive_end(),
            ANSWERER_ENDS => {
                shut(self)?;
                self.receive_end()
            }
            GONE => {
                self.pass(true, terms.tail())?;
                if self.is_caller { Ok(()) } else { self.receive_end() }
            }
            HALF_CLOSE if self.is_caller => {
                shut(self)?;
                self.receive(terms.tail())?;
                self.receive_end()
            }
            HALF_CLOSE => {
                self.receive_end()?;
                self.send(terms.tail())
            }
            ECHO if !self.is_caller => {
                self.echo(terms.tail())?;
                self.receive_end()
            }
            _ if self.is_caller => {
                shut(self)?;
                self.receive_end()
            }
            _ => self.receive_end(),
        }
    }

    /// So many bytes up (from the caller), or down.
    #[inline(always)]
    fn pass(&mut self, up: bool, bytes: u64) -> Result<(), i64> {
        if up == self.is_caller { self.send(bytes) } else { self.receive(bytes) }
    }

    #[inline(always)]
    fn took(&mut self, begin: u64) {
        self.outcome.longest_ns = self.outcome.longest_ns.max(simt::now_ns() - begin);
    }

    /// A piece of the buffer: other lengths and other alignments each time.
    #[inline(always)]
    fn piece(&self, position: u64, most: u64) -> SharedBuf {
        let seed = self.terms.seed;
        let start = drawn(seed, position ^ 0x0FF5, 16) as usize - 1;
        let longest = (self.buffer.len() - start) as u64;
        self.buffer.slice(start, drawn(seed, position, longest).min(most) as usize)
    }

    #[inline(never)]
    fn send(&mut self, bytes: u64) -> Result<(), i64> {
        let seed = if self.is_caller { self.terms.up_seed() } else { self.terms.down_seed() };
        let end = self.outcome.sent + bytes;
        while self.outcome.sent < end {
            let position = self.outcome.sent;
            let piece = self.piece(position, end - position);
            let begin;
            let sent = if self.in_rings {
                begin = simt::now_ns();
                self.stream.reserve(1, piece.len()).map(|space| {
                    let [first, second] = space.pieces();
                    let behind = position + first.len() as u64;
                    each(self.group, first.len(), |at| first.set(at, byte(seed, position, at)));
                    each(self.group, second.len(), |at| second.set(at, byte(seed, behind, at)));
                    let length = space.len();
                    space.commit(length);
                    length
                })
            } else {
                each(self.group, piece.len(), |at| piece.set(at, byte(seed, position, at)));
                begin = simt::now_ns();
                self.stream.write(piece)
            };
            self.took(begin);
            self.outcome.sent += sent.map_err(Errno::negative)? as u64;
        }
        Ok(())
    }

    #[inline(never)]
    fn receive(&mut self, bytes: u64) -> Result<(), i64> {
        let seed = if self.is_caller { self.terms.down_seed() } else { self.terms.up_seed() };
        let end = self.outcome.received + bytes;
        while self.outcome.received < end {
            let position = self.outcome.received;
            let begin = simt::now_ns();
            self.stall(begin);
            let piece = self.piece(position, end - position);
            let mut wrong = false;
            let got = if self.in_rings {
                self.stream.peek(1).map(|peek| {
                    let Some(peek) = peek else { return 0 };
                    let most = (end - position).min(peek.len() as u64) as usize;
                    let [first, second] = peek.pieces();
                    let behind = position + first.len() as u64;
                    each(self.group, first.len().min(most), |at| {
                        wrong |= first.get(at) != Some(byte(seed, position, at));
                    });
                    each(self.group, most.saturating_sub(first.len()), |at| {
                        wrong |= second.get(at) != Some(byte(seed, behind, at));
                    });
                    peek.consume(most);
                    most
                })
            } else {
                let got = self.stream.read(piece);
                each(self.group, got.unwrap_or(0), |at| {
                    wrong |= piece.get(at) != Some(byte(seed, position, at));
                });
                got
            };
            self.took(begin);
            let got = got.map_err(Errno::negative)?;
            // Also a barrier: the buffer may be overwritten behind it.
            if self.group.any(wrong) {
                return Err(WRONG_BYTES);
            }
            if got == 0 {
                return Err(EARLY_END);
            }
            self.outcome.received += got as u64;
        }
        Ok(())
    }

    /// Receives so many bytes, and sends each piece back before it takes the next.
    #[inline(never)]
    fn echo(&mut self, bytes: u64) -> Result<(), i64> {
        let seed = self.terms.up_seed();
        let end = self.outcome.received + bytes;
        while self.outcome.received < end {
            let position = self.outcome.received;
            let piece = self.piece(position, end - position);
            let begin = simt::now_ns();
            let got = self.stream.read(piece);
            self.took(begin);
            let piece = piece.first(got.map_err(Errno::negative)?);
            if piece.is_empty() {
                return Err(EARLY_END);
            }
            let mut wrong = false;
            each(self.group, piece.len(), |at| {
                wrong |= piece.get(at) != Some(byte(seed, position, at));
            });
            if self.group.any(wrong) {
                return Err(WRONG_BYTES);
            }
            self.outcome.received += piece.len() as u64;
            let mut back = 0;
            while back < piece.len() {
                let begin = simt::now_ns();
                let sent = self.stream.write(piece.slice(back, usize::MAX));
                self.took(begin);
                back += sent.map_err(Errno::negative)?;
            }
            self.outcome.sent += piece.len() as u64;
        }
        Ok(())
    }

    /// The stream must be over.
    #[inline(always)]
    fn receive_end(&mut self) -> Result<(), i64> {
        let begin = simt::now_ns();
        let got = self.stream.read(self.buffer.first(1));
        self.took(begin);
        if got.map_err(Errno::negative)? == 0 { Ok(()) } else { Err(TOO_MANY_BYTES) }
    }

    /// The planted fault of the self-check: a receive that takes too long.
    #[inline(always)]
    fn stall(&mut self, begin: u64) {
        if self.stall_ns > 0 && self.group.is_leader() {
            while simt::now_ns() - begin < self.stall_ns {
                simt::pause();
            }
        }
        self.stall_ns = 0;
        self.group.barrier();
    }
}

#[inline(always)]
fn byte(seed: u64, position: u64, at: usize) -> u8 {
    pattern::byte(seed, position + at as u64)
}

/// Runs `f` for the calling thread's share of `length` places.
#[inline(always)]
fn each<G: Group>(group: G, length: usize, mut f: impl FnMut(usize)) {
    let mut at = group.rank();
    while at < length {
        f(at);
        at += group.size();
    }
}
