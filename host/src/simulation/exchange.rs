//! Both ends of p2p streams that know what comes next: messages of drawn lengths, sent and received in
//! all the ways that the calls have, and the endings of a stream. The answering end sends back what it
//! got, and the other compares.

use std::sync::Arc;

use gpunet_device::abi::errno::Errno;
use gpunet_device::calls::{MSG_DONTWAIT, MSG_PEEK, POLLIN, POLLOUT, PollFd};
use gpunet_device::poller::{Event, Poller};
use gpunet_device::{Group, On, SharedBuf, SocketAddr, Stream, calls, simulation};

use super::group_calls::{broadcast_by_leader, close, receive_in_place, send_in_place};
use super::peers::pattern;
use super::plan::Plan;
use super::script::{Ending, Receives, Script, Sends};

/// One end of a stream.
struct End<'p, G: Group> {
    on: On<G>,
    plan: &'p Plan,
    stream: Stream<G>,
    poller: Option<Poller<G>>,
    buffer: SharedBuf,
}

/// Memory of a group beside its bytes, that it polls with.
const POLL_BYTES: usize = 64;
/// That, and what the alignment of a buffer takes.
pub(crate) const EDGE_BYTES: usize = POLL_BYTES + 16;

impl<'p, G: Group> End<'p, G> {
    fn new(on: On<G>, plan: &'p Plan, stream: Stream<G>, watches: bool) -> Result<Self, Errno> {
        let poller = watches.then(|| {
            let poller = Poller::new(on)?;
            let events = POLLIN | POLLOUT;
            plan.timed(on, "watch", || poller.add(stream.handle(), events, 7))?;
            Ok(poller)
        });
        let buffer = plan.buffer();
        let buffer = buffer.first(buffer.len().saturating_sub(POLL_BYTES));
        Ok(Self { on, plan, stream, poller: poller.transpose()?, buffer })
    }

    /// Memory of the group beside its buffer.
    fn beside(&self) -> SharedBuf {
        let whole = self.plan.buffer();
        whole.slice(self.buffer.len(), POLL_BYTES)
    }

    /// Waits until the poller reports something.
    fn wait(&self) -> Result<(), Errno> {
        let events = self.beside().cast::<Event>();
        let Some(poller) = &self.poller else { return self.poll(POLLIN | POLLOUT) };
        let wait = || poller.wait(events, self.plan.timeout_ns);
        self.plan.timed(self.on, "wait", wait).map(|_| ())
    }

    /// Waits until the stream is ready.
    fn poll(&self, events: u16) -> Result<(), Errno> {
        let entries = self.beside().cast::<PollFd>().first(1);
        let (net, group) = (self.on.net(), self.on.group());
        group.barrier();
        if group.is_leader() {
            let entry = PollFd { handle: self.stream.handle(), events, revents: 0, reserved: 0 };
            entries.set(0, entry);
        }
        group.barrier();
        let ms = (self.plan.timeout_ns / 1_000_000) as i64;
        let ready = self.plan.timed(self.on, "poll", || calls::gpoll(net, group, entries, ms));
        match Errno::check(ready)? {
            0 => Err(Errno::ETIMEDOUT),
            _ => Ok(()),
        }
    }

    /// One call of a receive.
    fn receive_once(&self, how: Receives, to: SharedBuf) -> Result<usize, Errno> {
        let (on, plan, stream) = (self.on, self.plan, &self.stream);
        let (net, group, handle) = (on.net(), on.group(), stream.handle());
        let once = |flags: u32| {
            let got = plan.timed(on, "recv", || calls::grecv(net, group, handle, to, flags));
            Errno::check(got).map(|got| got as usize)
        };
        match how {
            Receives::Whole => plan.timed(on, "read", || stream.read(to)),
            Receives::Parts => {
                let part = (to.len() / 5).max(5);
                plan.timed(on, "read", || stream.read(to.first(part)))
            }
            Receives::Peeked => {
                let seen = once(MSG_PEEK)?;
                if seen == 0 {
                    return Ok(0);
                }
                group.barrier();
                let got = plan.timed(on, "read", || stream.read(to.first(seen)))?;
                if got != seen {
                    plan.complain(on, &format!("{seen} bytes were seen, {got} were there"));
                }
                Ok(got)
            }
            Receives::Slice => receive_in_place(on, stream, to),
            Receives::Polled => {
                self.poll(POLLIN)?;
                match once(MSG_DONTWAIT) {
                    Err(Errno::EAGAIN) => {
                        plan.complain(on, "a poll reported bytes that were not there");
                        Err(Errno::EAGAIN)
                    }
                    got => got,
                }
            }
            Receives::Watched => loop {
                match once(MSG_DONTWAIT) {
                    Err(Errno::EAGAIN | Errno::EBUSY) => self.wait()?,
                    got => return got,
                }
            },
        }
    }

    /// Receives so many bytes, or fewer at the end.
    fn receive(&self, how: Receives, length: usize) -> Result<usize, Errno> {
        let mut got = 0;
        while got < length {
            self.on.group().barrier();
            let rest = self.buffer.slice(got, length - got);
            match self.receive_once(how, rest)? {
                0 => break,
                more => got += more,
            }
        }
        self.on.group().barrier();
        Ok(got)
    }

    /// Sends the first bytes of the buffer.
    fn send(&self, how: Sends, length: usize) -> Result<(), Errno> {
        let (on, plan, stream) = (self.on, self.plan, &self.stream);
        let bytes = self.buffer.first(length);
        on.group().barrier();
        match how {
            Sends::Whole => plan.timed(on, "write", || stream.write_all(bytes)),
            Sends::Parts => {
                let part = length.div_ceil(3).max(1);
                (0..length).step_by(part).try_for_each(|at| {
                    plan.timed(on, "write", || stream.write_all(bytes.slice(at, part)))
                })
            }
            Sends::Slice => send_in_place(on, stream, bytes),
            Sends::Polled => {
                let (net, group, handle) = (on.net(), on.group(), stream.handle());
                let mut sent = 0;
                while sent < length {
                    let rest = bytes.slice(sent, length);
                    let call = || calls::gsend(net, group, handle, rest, MSG_DONTWAIT);
                    match Errno::check(plan.timed(on, "send", call)) {
                        Ok(more) => sent += more as usize,
                        Err(Errno::EAGAIN | Errno::EBUSY) if self.poller.is_some() => {
                            self.wait()?
                        }
                        Err(Errno::EAGAIN | Errno::EBUSY) => self.poll(POLLOUT)?,
                        Err(errno) => return Err(errno),
                    }
                }
                Ok(())
            }
        }
    }

    /// Both ends pass over bytes: who called sends first.
    fn skip(&self, bytes: u64, sends_first: bool) -> Result<(), Errno> {
        let (on, handle) = (self.on, self.stream.handle());
        for sends in [sends_first, !sends_first] {
            let skipped = broadcast_by_leader(on, || {
                let skip = if sends { simulation::skip_send } else { simulation::skip_receive };
                skip(on.net(), handle, bytes).map_or_else(|errno| errno.0 as u64, |()| 0)
            });
            if skipped != 0 {
                return Err(Errno(skipped as i32));
            }
        }
        Ok(())
    }

    /// Sees that the other end sends no more.
    fn expect_end(&self, who: &str) -> Result<(), Errno> {
        let end = self.receive_once(Receives::Whole, self.buffer.first(16))?;
        if end != 0 {
            self.plan.complain(self.on, &format!("{who}: {end} bytes too many"));
        }
        Ok(())
    }

    fn close(self) {
        let Self { on, plan, stream, poller, .. } = self;
        drop(poller);
        close(on, plan, stream);
    }
}

/// The end that calls.
pub(crate) fn ask<G: Group>(
    on: On<G>,
    plan: &Plan,
    port: u16,
    script: &Arc<Script>,
    number: u64,
) -> Result<(), Errno> {
    let address = SocketAddr::v4([127, 0, 0, 1], port);
    let connected = || Stream::connect(on, &address).map(Stream::into_handle);
    let stream = Stream::from_handle(on, plan.timed(on, "connect", connected)?);
    let end = End::new(on, plan, stream, script.watches[0])?;
    let (rank, size) = (on.group().rank(), on.group().size());
    let mut sent = 0;
    let fill = |length: usize, sent: u64| {
        on.group().barrier();
        for index in (rank..length).step_by(size) {
            end.buffer.set(index, pattern(number, sent + index as u64));
        }
    };
    for round in &script.rounds {
        let length = round.length.min(script.most);
        for message in 0..round.messages {
            fill(length, sent + (message * length) as u64);
            end.send(round.sends[0], length)?;
        }
        for _ in 0..round.messages {
            let got = end.receive(round.receives[0], length)?;
            if got < length {
                if !plan.excused {
                    plan.complain(on, &format!("kernel client {number}: the echo ended early"));
                }
                end.close();
                return Ok(());
            }
            for index in (rank..length).step_by(size) {
                let at = sent + index as u64;
                if end.buffer.get(index) != Some(pattern(number, at)) {
                    plan.complain_alone(&format!("kernel client {number}: byte {at} is wrong"));
                }
            }
            sent += length as u64;
        }
        if round.skips > 0 {
            end.skip(round.skips, true)?;
        }
    }
    match script.ending {
        Ending::Shutdown => {
            plan.timed(on, "shutdown", || end.stream.shutdown(1))?;
            let more = end.send(Sends::Whole, 1);
            if more != Err(Errno::EPIPE) && !plan.excused {
                plan.complain(on, &format!("a send behind a shutdown gave {more:?}"));
            }
            end.expect_end("kernel client")?;
        }
        Ending::Close => {}
        Ending::SendAndClose => {
            let length = script.last_length();
            fill(length, sent);
            end.send(Sends::Whole, length)?;
        }
        Ending::Answered => end.expect_end("kernel client")?,
    }
    end.close();
    Ok(())
}

/// The end that answers.
pub(crate) fn answer<G: Group>(
    on: On<G>,
    plan: &Plan,
    stream: Stream<G>,
    script: &Arc<Script>,
) -> Result<(), Errno> {
    let end = End::new(on, plan, stream, script.watches[1])?;
    let outcome = answer_all(&end, script);
    end.close();
    outcome
}

fn answer_all<G: Group>(end: &End<'_, G>, script: &Script) -> Result<(), Errno> {
    let early = |got: usize| {
        if !end.plan.excused {
            end.plan.complain(end.on, &format!("kernel server: the end came after {got} bytes"));
        }
        Ok(())
    };
    for round in &script.rounds {
        let length = round.length.min(script.most);
        for _ in 0..round.messages {
            let got = end.receive(round.receives[1], length)?;
            if got < length {
                return early(got);
            }
            end.send(round.sends[1], length)?;
        }
        if round.skips > 0 {
            end.skip(round.skips, false)?;
        }
    }
    if script.ending == Ending::SendAndClose {
        let length = script.last_length();
        let got = end.receive(Receives::Parts, length)?;
        if got < length {
            return early(got);
        }
    }
    if script.ending != Ending::Answered {
        end.expect_end("kernel server")?;
    }
    Ok(())
}
