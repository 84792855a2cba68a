//! What the blocks of a scene run: echo servers and clients, in the same words as any kernel.
//!
//! All threads of a group run this together, so nothing here draws numbers: variety comes from
//! the plan and from counters that are the same in all of them.

use std::sync::atomic::{AtomicU64, Ordering};

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{
    Group, Handle, Listener, On, SharedBuf, SocketAddr, Stream, Thread, Warp, calls, simt,
};

use super::group_calls::{broadcast_by_leader, close, receive_in_place, send_in_place};
use super::grouping::Grouping;
use super::peers::pattern;
use super::plan::{GROUP_BYTES, Plan, Work};
use super::{exchange, was_notified, workers};

/// Where threads receive by themselves that otherwise receive with their block.
const ALONE_AT: usize = 7 << 10;

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
