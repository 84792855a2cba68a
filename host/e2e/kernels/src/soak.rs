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
//! knows what was to happen and checks it.

use gpunet_device::simt::{self, WARP};
use gpunet_device::{
    Errno, Group, Handle, Listener, On, Shared, SharedBuf, SocketAddr, Stream, kernel_arg, kernels,
};

mod end;
mod terms;

use end::End;
pub use terms::{ANSWERER_ENDS, CALLER_ENDS, ECHO, GONE, HALF_CLOSE, QUIT, TERMS_BYTES, Terms};

/// A result: received bytes were not the pattern's.
pub const WRONG_BYTES: i64 = -1_000_000;
/// A result: the stream ended before all bytes had come.
pub const EARLY_END: i64 = -1_000_001;
/// A result: bytes came where the end should have been.
pub const TOO_MANY_BYTES: i64 = -1_000_002;

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

/// What a group is there for: to answer, until it is asked to quit.
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

/// Answers one connection after the other until it is asked to quit, or is stopped.
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
        match handshake(on.group(), &stream, job, buffer) {
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
fn handshake<G: Group>(
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
