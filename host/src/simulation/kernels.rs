//! What the blocks of a scene run: echo servers and clients, in the same words as any kernel.
//!
//! All threads of a group run this together, so nothing here draws numbers: variety comes from
//! the plan and from counters that are the same in all of them.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{
    Group, Handle, Listener, Net, On, SharedBuf, SocketAddr, Stream, Thread, Warp, calls, simt,
};

use super::exchange::{self, Script};
use super::open_streams::OpenStreams;
use super::peers::pattern;
use super::workers::{self, Job};
use super::{log, was_notified};

/// Bytes of shared memory that a block needs, and of it a group that shares the block with others.
pub(crate) const SHARED_BYTES: u32 = 8 << 10;
pub(crate) const GROUP_BYTES: usize = 1 << 10;
/// Where threads receive by themselves that otherwise receive with their block.
const ALONE_AT: usize = 7 << 10;

/// Who makes calls together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    Blocks,
    Warps,
    Threads,
}

/// What blocks that share a socket know of one another.
#[derive(Default)]
pub(crate) struct Common {
    handle: AtomicU64,
    /// Bytes sent and received, by the block that sent them.
    sent: [AtomicU64; 4],
    received: [AtomicU64; 4],
    sending: AtomicU64,
    receiving: AtomicU64,
}

/// What a launch does.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) net: Net,
    /// How long a call may wait.
    pub(crate) timeout_ns: u64,
    /// How long an accept may.
    pub(crate) accept_ns: u64,
    pub(crate) work: Work,
    pub(crate) grouping: Grouping,
    pub(crate) common: Arc<Common>,
    /// Launches that may still connect to the kernels' own listener.
    pub(crate) callers: Arc<AtomicU64>,
    /// Bytes moved by one call, where the buffer begins, and whether rings are used in place.
    pub(crate) piece: usize,
    pub(crate) offset: usize,
    pub(crate) in_place: bool,
    /// Where a block shares a socket, what part of it also receives by itself, with no barrier in
    /// between.
    pub(crate) alone: Option<Grouping>,
    /// Errors may come: a peer breaks off, or the launch is stopped.
    pub(crate) excused: bool,
    pub(crate) complaints: Arc<Mutex<Vec<String>>>,
}

/// The kinds of work.
#[derive(Clone)]
pub(crate) enum Work {
    /// Accept, and echo each stream to its end, until nobody comes any more.
    Serve { listener: Handle },
    /// Connect to a port and have `total` bytes echoed, `rounds` times.
    Ask { port: u16, total: u64, rounds: u64, first_stream: u64 },
    /// All blocks send on one socket and receive the echo from it, `total` bytes each.
    Share { port: u16, total: u64 },
    /// Accept, and do an end of the script with each stream.
    Answer { listener: Handle, script: Arc<Script> },
    /// Connect to a port and do the other end, so many times.
    Exchange { port: u16, script: Arc<Script>, streams: u64 },
    /// What a launch does that shares sockets with others.
    Job { queue: Arc<OpenStreams>, job: Job },
}

/// What each thread runs.
pub(crate) fn run(plan: &Plan) {
    match plan.grouping {
        Grouping::Blocks => act(plan.net.block(), plan),
        Grouping::Warps => act(plan.net.warp(), plan),
        Grouping::Threads => act(plan.net.thread(), plan),
    }
}

fn act<G: Group>(on: On<G>, plan: &Plan) {
    match plan.work {
        Work::Serve { listener } => serve(on, plan, listener, |stream| {
            let outcome = echo(on, plan, &stream);
            close(on, plan, stream);
            outcome
        }),
        Work::Answer { listener, ref script } => {
            serve(on, plan, listener, |stream| exchange::answer(on, plan, stream, script));
        }
        Work::Job { ref queue, ref job } => workers::work(on, plan, queue, job),
        Work::Exchange { port, ref script, streams } => {
            for stream in 0..streams {
                let group = u64::from(simt::position().block) * 64 + plan.member() as u64;
                let number = 400 + group * streams + stream;
                if let Err(errno) = exchange::ask(on, plan, port, script, number)
                    && !plan.excused
                    && errno != Errno::ENFILE
                {
                    plan.complain(on, &format!("kernel client {number}: {errno}"));
                }
            }
        }
        Work::Share { port, total } => {
            if let Err(errno) = share(on, plan, port, total)
                && !plan.excused
            {
                plan.complain(on, &format!("blocks that share a socket: {errno}"));
            }
        }
        Work::Ask { port, total, rounds, first_stream } => {
            for round in 0..rounds {
                let position = simt::position();
                let group = u64::from(position.block) * 64 + plan.member() as u64;
                let stream = first_stream + group * rounds + round;
                // A table that is full is for the program to deal with.
                if let Err(errno) = ask(on, plan, port, total, stream)
                    && !plan.excused
                    && errno != Errno::ENFILE
                {
                    plan.complain(on, &format!("kernel client {stream}: {errno}"));
                }
            }
        }
    }
}

impl Plan {
    /// Any thread complains.
    pub(super) fn complain_alone(&self, text: &str) {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    /// The group's leader complains for all.
    pub(super) fn complain<G: Group>(&self, on: On<G>, text: &str) {
        if on.group().is_leader() {
            self.complain_alone(text);
        }
    }

    /// Makes a call and sees how long it takes: at most its time-out and a fifth, or 50 ms more.
    pub(super) fn timed<G: Group, R>(&self, on: On<G>, name: &str, call: impl FnOnce() -> R) -> R
    where
        R: Debug,
    {
        let begin = simt::now_ns();
        let leads = on.group().is_leader();
        if leads {
            log(format!("calls {name}"));
        }
        let result = call();
        let took = simt::now_ns() - begin;
        if leads {
            log(format!("{name} gives {result:?} after {} us", took / 1000));
        }
        let limit = if name == "accept" { self.accept_ns } else { self.timeout_ns };
        let limit = limit + (limit / 5).max(50_000_000);
        if took > limit {
            self.complain(on, &format!("{name} took {took} ns, its limit is {limit}"));
        }
        result
    }

    /// Which group of its block the calling thread belongs to.
    pub(super) fn member(&self) -> usize {
        let thread = simt::position().thread as usize;
        match self.grouping {
            Grouping::Blocks => 0,
            Grouping::Warps => thread / simt::WARP as usize,
            Grouping::Threads => thread,
        }
    }

    pub(super) fn buffer(&self) -> SharedBuf {
        let start = self.offset + self.member() * GROUP_BYTES;
        let most = if self.grouping == Grouping::Blocks { usize::MAX } else { GROUP_BYTES - 16 };
        simt::shared_memory().slice(start, self.piece.min(most))
    }
}

fn serve<G: Group>(
    on: On<G>,
    plan: &Plan,
    listener: Handle,
    work: impl Fn(Stream<G>) -> Result<(), Errno>,
) {
    let listener = Listener::from_handle(on, listener);
    let _ = listener.set(SocketOption::ReceiveTimeout, plan.accept_ns);
    let calling = || plan.callers.load(Ordering::Relaxed);
    loop {
        let accepted = || listener.accept().map(Stream::into_handle);
        match plan.timed(on, "accept", accepted) {
            Ok(handle) => {
                let stream = Stream::from_handle(on, handle);
                if let Err(errno) = work(stream)
                    && !plan.excused
                {
                    plan.complain(on, &format!("kernel server: {errno}"));
                }
            }
            // A kernel may take long between two connections: what it reads moves nothing, and then virtual
            // time passes fast.
            Err(Errno::ETIMEDOUT) if broadcast_by_leader(on, calling) > 0 => {}
            Err(Errno::ETIMEDOUT | Errno::EAGAIN | Errno::ECANCELED) => break,
            Err(errno) => {
                plan.complain(on, &format!("accept gave {errno}"));
                break;
            }
        }
    }
    let _ = listener.into_handle();
}

/// Closes a stream, and sees that its handle is dead.
pub(super) fn close<G: Group>(on: On<G>, plan: &Plan, stream: Stream<G>) {
    let handle = stream.into_handle();
    let closed = plan.timed(on, "close", || calls::gclose(on.net(), on.group(), handle));
    if closed < 0 && !plan.excused {
        plan.complain(on, &format!("close gave {closed}"));
    }
    let stale = calls::grecv(on.net(), on.group(), handle, plan.buffer(), calls::MSG_DONTWAIT);
    if stale != i64::from(-Errno::EBADF.0) && !plan.excused {
        plan.complain(on, &format!("a closed handle gave {stale}"));
    }
}

fn echo<G: Group>(on: On<G>, plan: &Plan, stream: &Stream<G>) -> Result<(), Errno> {
    loop {
        let buffer = plan.buffer();
        let bytes = receive(on, plan, stream, buffer)?;
        if bytes == 0 {
            return plan.timed(on, "shutdown", || stream.shutdown(1));
        }
        send(on, plan, stream, buffer.first(bytes))?;
    }
}

/// Receives some bytes, by a copy or out of the ring.
fn receive<G: Group>(
    on: On<G>,
    plan: &Plan,
    stream: &Stream<G>,
    buffer: SharedBuf,
) -> Result<usize, Errno> {
    if !plan.in_place {
        return plan.timed(on, "read", || stream.read(buffer));
    }
    receive_in_place(on, stream, buffer)
}

/// Receives out of the ring.
pub(super) fn receive_in_place<G: Group>(
    on: On<G>,
    stream: &Stream<G>,
    buffer: SharedBuf,
) -> Result<usize, Errno> {
    let Some(peek) = stream.peek(1)? else { return Ok(0) };
    let (rank, size) = (on.group().rank(), on.group().size());
    let mut at = 0;
    for piece in peek.pieces() {
        for index in 0..piece.len() {
            if (at + index) % size == rank
                && let Some(byte) = piece.get(index)
            {
                buffer.set(at + index, byte);
            }
        }
        at += piece.len();
    }
    let bytes = at.min(buffer.len());
    peek.consume(bytes);
    Ok(bytes)
}

fn send<G: Group>(
    on: On<G>,
    plan: &Plan,
    stream: &Stream<G>,
    bytes: SharedBuf,
) -> Result<(), Errno> {
    if !plan.in_place {
        return plan.timed(on, "write", || stream.write_all(bytes));
    }
    send_in_place(on, stream, bytes)
}

/// Sends by the ring itself.
pub(super) fn send_in_place<G: Group>(
    on: On<G>,
    stream: &Stream<G>,
    bytes: SharedBuf,
) -> Result<(), Errno> {
    let mut sent = 0;
    while sent < bytes.len() {
        let space = stream.reserve(1, bytes.len() - sent)?;
        let (rank, size) = (on.group().rank(), on.group().size());
        let mut at = 0;
        for piece in space.pieces() {
            for index in 0..piece.len() {
                if (at + index) % size == rank
                    && let Some(byte) = bytes.get(sent + at + index)
                {
                    piece.set(index, byte);
                }
            }
            at += piece.len();
        }
        let filled = at.min(bytes.len() - sent);
        space.commit(filled);
        sent += filled;
    }
    Ok(())
}

fn ask<G: Group>(on: On<G>, plan: &Plan, port: u16, total: u64, number: u64) -> Result<(), Errno> {
    let address = SocketAddr::v4([127, 0, 0, 1], port);
    let connected = || Stream::connect(on, &address).map(Stream::into_handle);
    let stream = Stream::from_handle(on, plan.timed(on, "connect", connected)?);
    let (rank, size) = (on.group().rank(), on.group().size());
    let mut sent = 0;
    while sent < total {
        let buffer = plan.buffer().first((total - sent) as usize);
        let mut index = rank;
        while index < buffer.len() {
            buffer.set(index, pattern(number, sent + index as u64));
            index += size;
        }
        on.group().barrier();
        send(on, plan, &stream, buffer)?;
        let mut got = 0;
        while got < buffer.len() {
            on.group().barrier();
            let bytes = receive(on, plan, &stream, buffer.first(buffer.len() - got))?;
            if bytes == 0 {
                if !plan.excused {
                    plan.complain(on, &format!("kernel client {number}: the echo ended early"));
                }
                return Ok(());
            }
            on.group().barrier();
            for index in 0..bytes {
                let at = sent + (got + index) as u64;
                let byte = buffer.get(index).unwrap_or(0);
                if byte != pattern(number, at) {
                    plan.complain(on, &format!("kernel client {number}: byte {at} is wrong"));
                    return Ok(());
                }
            }
            got += bytes;
        }
        on.group().barrier();
        sent += buffer.len() as u64;
    }
    plan.timed(on, "shutdown", || stream.shutdown(1))?;
    let end = receive(on, plan, &stream, plan.buffer())?;
    if end != 0 {
        plan.complain(on, &format!("kernel client {number}: {end} bytes too many"));
    }
    close(on, plan, stream);
    Ok(())
}

/// What the group's leader says, to all of it.
pub(super) fn broadcast_by_leader<G: Group>(on: On<G>, f: impl FnOnce() -> u64) -> u64 {
    let word = if on.group().is_leader() { f() } else { 0 };
    on.group().broadcast([word])[0]
}

/// Block 0 connects; all send bytes that say who sent them, and receive what comes back.
fn share<G: Group>(on: On<G>, plan: &Plan, port: u16, total: u64) -> Result<(), Errno> {
    const FAILED: u64 = u64::MAX;
    let common = &plan.common;
    let position = simt::position();
    let (mine, blocks) = (position.block as usize, u64::from(position.blocks));
    if mine == 0 {
        let address = SocketAddr::v4([127, 0, 0, 1], port);
        let connected = || Stream::connect(on, &address).map(Stream::into_handle);
        let connected = plan.timed(on, "connect", connected);
        common.handle.store(connected.map_or(FAILED, |handle| handle.0), Ordering::Relaxed);
        connected?;
    }
    // Counted on the one that connects.
    let handle = loop {
        match broadcast_by_leader(on, || common.handle.load(Ordering::Relaxed)) {
            0 => simt::pause(),
            FAILED => return Ok(()),
            handle => break Handle(handle),
        }
    };
    was_notified();
    let stream = Stream::from_handle(on, handle);
    let outcome = share_stream(on, plan, &stream, total, mine, blocks);
    let handle = stream.into_handle();
    if broadcast_by_leader(on, || common.receiving.fetch_add(1, Ordering::Relaxed)) + 1 == blocks {
        was_notified();
        close(on, plan, Stream::from_handle(on, handle));
        let read = |counts: &[AtomicU64; 4]| counts.each_ref().map(|c| c.load(Ordering::Relaxed));
        let (sent, received) = (read(&common.sent), read(&common.received));
        if sent != received && !plan.excused {
            plan.complain(on, &format!("sent by blocks: {sent:?}, received: {received:?}"));
        }
    }
    outcome
}

fn share_stream<G: Group>(
    on: On<G>,
    plan: &Plan,
    stream: &Stream<G>,
    total: u64,
    mine: usize,
    blocks: u64,
) -> Result<(), Errno> {
    let common = &plan.common;
    let leads = on.group().is_leader();
    let (rank, size) = (on.group().rank(), on.group().size());
    let buffer = plan.buffer();
    let mut sent = 0;
    while sent < total {
        let piece = buffer.first((total - sent) as usize);
        on.group().barrier();
        let mut index = rank;
        while index < piece.len() {
            piece.set(index, mine as u8 + 1);
            index += size;
        }
        on.group().barrier();
        plan.timed(on, "write", || stream.write_all(piece))?;
        sent += piece.len() as u64;
    }
    if leads {
        common.sent[mine].fetch_add(total, Ordering::Relaxed);
    }
    if broadcast_by_leader(on, || common.sending.fetch_add(1, Ordering::Relaxed)) + 1 == blocks {
        was_notified();
        plan.timed(on, "shutdown", || stream.shutdown(1))?;
    }
    loop {
        let got = plan.timed(on, "read", || stream.read(buffer))?;
        if got == 0 {
            return Ok(());
        }
        let (alone, more) = receive_alone(on, plan, stream);
        on.group().barrier();
        let bytes = (0..got).filter_map(|index| buffer.get(index));
        for byte in bytes.chain((0..more).filter_map(|index| alone.get(index))) {
            match common.received.get(usize::from(byte).wrapping_sub(1)) {
                Some(count) if leads => drop(count.fetch_add(1, Ordering::Relaxed)),
                Some(_) => {}
                None => plan.complain(on, &format!("nobody has sent a byte {byte}")),
            }
        }
        on.group().barrier();
    }
}

/// The block's first warp or thread receives what is there; how much, in all threads.
fn receive_alone<G: Group>(on: On<G>, plan: &Plan, stream: &Stream<G>) -> (SharedBuf, usize) {
    let buffer = simt::shared_memory().slice(ALONE_AT, GROUP_BYTES).first(plan.piece);
    let (net, handle, thread) = (on.net(), stream.handle(), simt::position().thread);
    let got = match plan.alone {
        Some(Grouping::Warps) if thread < simt::WARP => {
            calls::grecv(net, Warp, handle, buffer, calls::MSG_DONTWAIT)
        }
        Some(Grouping::Threads) if thread == 0 => {
            calls::grecv(net, Thread, handle, buffer, calls::MSG_DONTWAIT)
        }
        _ => 0,
    };
    // Nothing there, or the direction is taken.
    let idle = [Errno::EAGAIN, Errno::EBUSY].map(|errno| i64::from(-errno.0));
    if got < 0 && !idle.contains(&got) && !plan.excused && thread == 0 {
        plan.complain(on, &format!("a part of a block that receives got {got}"));
    }
    (buffer, on.group().broadcast([got.max(0) as u64])[0] as usize)
}
