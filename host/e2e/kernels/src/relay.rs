//! The relay: both ends of a p2p stream are kernels, and the suites' peers are programs. One
//! warp passes bytes between such a stream (far) and an ordinary socket of the peer's (near).
//!
//! ```text
//!   peer ◀── system socket ──▶ near │ relay │ far ◀── p2p stream ─────▶ kernel under test
//! ```
//!
//! The host writes [jobs](Relay) into a queue; the kernel does them, without ever waiting for
//! one socket, and ends when there has been nothing to do for a while. An end of stream on one socket
//! ends sending on the other; both are closed when both directions are over, or one socket fails.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::{
    self, MSG_DONTWAIT, POLLOUT, PollFd, SHUT_WR, SOCK_NONBLOCK, SOCK_STREAM,
};
use gpunet_device::{
    Errno, Group, Handle, Net, Shared, SharedBuf, SocketAddr, Warp, kernel_arg, kernels, simt,
};

/// Words of the queue ahead of the jobs: how many there are, and whether to stop.
pub const COUNT: usize = 0;
/// Not 0: close everything and end.
pub const STOP: usize = 1;
/// What the last socket that failed said: a negative error number, for the words of a test that fails.
pub const FAILURE: usize = 2;
/// Where the jobs begin.
pub const FIRST_JOB: usize = 3;

/// Words of a job: what it is, written last by the host, and cleared by the kernel.
pub const KIND: usize = 0;
/// The near socket of a call, or the listener.
pub const HANDLE: usize = 1;
/// What it came to: 1, or a negative error number.
pub const RESULT: usize = 2;
/// Not 0: the system is to hold few bytes for a listener's peers.
pub const NARROW: usize = 3;
/// Whom to call: far for a call, near for each that a listener accepts.
pub const ADDRESS: usize = 4;
/// All of them.
pub const JOB_WORDS: usize = ADDRESS + 14;

/// To connect a far socket for a near one.
pub const CALL: u64 = 1;
/// To accept far sockets, and connect a near one for each.
pub const LISTEN: u64 = 2;
/// The same, begun.
pub const LISTENING: u64 = 3;
/// To close a listener.
pub const CLOSE: u64 = 4;

/// Bytes on their way in one direction of one pair.
pub const PIECE: usize = 2048;

/// How long there is nothing to do before the kernel ends.
const IDLE_NS: u64 = 200_000_000;
/// What an option holds to go by TCP: see `TransportChoice`.
const BY_TCP: u64 = 1;
/// A system buffer that holds little.
const LITTLE: u64 = 4096;

kernel_arg! {
    /// One direction of a pair.
    #[derive(Default)]
    pub struct Flow {
        /// What of its buffer is to be sent.
        pub begin: u64,
        /// Where that ends.
        pub end: u64,
        /// Not 0: nothing more goes in this direction.
        pub over: u64,
    }
}

kernel_arg! {
    /// Two sockets.
    #[derive(Default)]
    pub struct Pair {
        /// One of the stages below.
        pub stage: u64,
        /// The peer's side.
        pub near: u64,
        /// The side of the kernel under test.
        pub far: u64,
        /// The call that it is for.
        pub job: u64,
        /// From near to far.
        pub out: Flow,
        /// From far to near.
        pub back: Flow,
    }
}

const FREE: u64 = 0;
const CONNECTING: u64 = 1;
const OPEN: u64 = 2;

kernel_arg! {
    /// What the relay works on.
    pub struct Relay {
        /// Shared with the host: see the constants above.
        pub queue: Shared<u64>,
        /// The kernel's own; zero at first.
        pub pairs: Shared<Pair>,
        /// Two pieces for each pair.
        pub buffers: Shared<u8>,
        /// Room for one.
        pub poll: Shared<PollFd>,
    }
}

kernels! {
    /// Relays until there is nothing to do, by one block of one warp.
    pub fn relay(net: Net, work: Relay) {
        let group = net.warp().group();
        Relaying { net, group, work: &work }.run();
    }
}

struct Relaying<'w> {
    net: Net,
    group: Warp,
    work: &'w Relay,
}

impl Relaying<'_> {
    #[inline(always)]
    fn run(&self) {
        let mut last = simt::now_ns();
        loop {
            let mut progressed = self.do_jobs();
            let mut busy = false;
            for at in 0..self.work.pairs.len() {
                let Some(mut pair) = self.work.pairs.get(at) else { break };
                if pair.stage == FREE {
                    continue;
                }
                busy = true;
                progressed |= self.go_on(at, &mut pair);
                self.keep(at, pair);
            }
            if progressed || busy {
                last = simt::now_ns();
            }
            if !progressed && self.group.is_leader() {
                simt::pause();
            }
            let stop = self.read(STOP);
            let idle = u64::from(simt::now_ns().saturating_sub(last) > IDLE_NS);
            let [stop, idle] = self.group.broadcast([stop, idle]);
            if stop != 0 {
                return self.close_all();
            }
            if idle != 0 {
                return;
            }
        }
    }

    /// A word of the queue, for the leader; others get 0.
    #[inline(always)]
    fn read(&self, at: usize) -> u64 {
        if self.group.is_leader() { self.work.queue.get(at).unwrap_or(0) } else { 0 }
    }

    #[inline(always)]
    fn write(&self, at: usize, value: u64) {
        if self.group.is_leader() {
            self.work.queue.set(at, value);
        }
        self.group.barrier();
    }

    /// The leader writes what all threads read after it.
    #[inline(always)]
    fn keep(&self, at: usize, pair: Pair) {
        self.group.barrier();
        if self.group.is_leader() {
            self.work.pairs.set(at, pair);
        }
        self.group.barrier();
    }

    #[inline(never)]
    fn do_jobs(&self) -> bool {
        let [count] = self.group.broadcast([self.read(COUNT)]);
        let mut progressed = false;
        for job in 0..count as usize {
            let at = FIRST_JOB + job * JOB_WORDS;
            let kind = self.read(at + KIND);
            // Behind the kind: it was written last.
            let handle = self.read(at + HANDLE);
            let [kind, handle] = self.group.broadcast([kind, handle]);
            progressed |= match kind {
                CALL => self.call(job, at, Handle(handle)),
                LISTEN => {
                    let on = SocketOption::NonBlocking;
                    calls::gsetsockopt(self.net, self.group, Handle(handle), on, 1);
                    self.write(at + KIND, LISTENING);
                    true
                }
                LISTENING => self.accept(at, Handle(handle)),
                CLOSE => {
                    calls::gclose(self.net, self.group, Handle(handle));
                    self.write(at + KIND, 0);
                    true
                }
                _ => false,
            };
        }
        progressed
    }

    /// The address of a job.
    #[inline(always)]
    fn address(&self, at: usize) -> SocketAddr {
        let word = |index| self.work.queue.get(at + ADDRESS + index).unwrap_or(0);
        SocketAddr::from_words(&core::array::from_fn(word))
    }

    /// A pair that nobody has.
    #[inline(always)]
    fn free(&self) -> Option<usize> {
        (0..self.work.pairs.len())
            .find(|at| self.work.pairs.get(*at).is_some_and(|pair| pair.stage == FREE))
    }

    /// Begins a call; not yet where there is no pair for it.
    #[inline(never)]
    fn call(&self, job: usize, at: usize, near: Handle) -> bool {
        let Some(slot) = self.free() else { return false };
        let address = self.address(at);
        self.write(at + KIND, 0);
        let domain = address.domain().map_or(0, |domain| domain as i32);
        let kind = SOCK_STREAM | SOCK_NONBLOCK;
        let made = calls::gsocket(self.net, self.group, domain, kind, 0);
        let far = Handle(made.max(0) as u64);
        let begun =
            if made < 0 { made } else { calls::gconnect(self.net, self.group, far, &address) };
        let begun = if begun == Errno::EINPROGRESS.negative() { 0 } else { begun };
        if begun < 0 {
            calls::gclose(self.net, self.group, near);
            calls::gclose(self.net, self.group, far);
            self.write(at + RESULT, begun as u64);
            return true;
        }
        let (near, far, job) = (near.0, far.0, job as u64);
        self.keep(slot, Pair { stage: CONNECTING, near, far, job, ..Pair::default() });
        true
    }

    /// Accepts a far socket and connects a near one, which is at this machine and waits for it.
    #[inline(never)]
    fn accept(&self, at: usize, listener: Handle) -> bool {
        let Some(slot) = self.free() else { return false };
        let accepted = calls::gaccept(self.net, self.group, listener);
        if accepted < 0 {
            return false;
        }
        let (net, group) = (self.net, self.group);
        let address = self.address(at);
        let domain = address.domain().map_or(0, |domain| domain as i32);
        let far = Handle(accepted as u64);
        let near = Handle(calls::gsocket(net, group, domain, SOCK_STREAM, 0).max(0) as u64);
        calls::gsetsockopt(net, group, near, SocketOption::Transport, BY_TCP);
        let [narrow] = group.broadcast([self.read(at + NARROW)]);
        if narrow != 0 {
            calls::gsetsockopt(net, group, near, SocketOption::SystemSendBuffer, LITTLE);
        }
        if calls::gconnect(net, group, near, &address) < 0 {
            calls::gclose(net, group, near);
            calls::gclose(net, group, far);
            return true;
        }
        let (near, far) = (near.0, far.0);
        self.keep(slot, Pair { stage: OPEN, near, far, ..Pair::default() });
        true
    }

    /// Does for a pair what can be done without waiting. Whether that was anything.
    #[inline(never)]
    fn go_on(&self, at: usize, pair: &mut Pair) -> bool {
        if pair.stage == CONNECTING {
            return self.connect(pair);
        }
        let (near, far) = (Handle(pair.near), Handle(pair.far));
        let buffer = |flow| self.work.buffers.slice((2 * at + flow) * PIECE, PIECE);
        let out = self.pass(&mut pair.out, near, far, buffer(0));
        let back = self.pass(&mut pair.back, far, near, buffer(1));
        let failed = out.is_err() || back.is_err();
        if let Some(error) = out.err().or(back.err()) {
            self.write(FAILURE, error as u64);
        }
        if failed || (pair.out.over != 0 && pair.back.over != 0) {
            self.close(pair);
            return true;
        }
        out == Ok(true) || back == Ok(true)
    }

    /// Looks whether a call has come about.
    #[inline(never)]
    fn connect(&self, pair: &mut Pair) -> bool {
        let far = Handle(pair.far);
        if self.group.is_leader() {
            let entry = PollFd { handle: far, events: POLLOUT, revents: 0, reserved: 0 };
            self.work.poll.set(0, entry);
        }
        if calls::gpoll(self.net, self.group, self.work.poll, 0) != 1 {
            return false;
        }
        let error = calls::ggetsockopt(self.net, self.group, far, SocketOption::Error);
        let result = if error == 0 { 1 } else { (-error.abs()) as u64 };
        if error == 0 {
            pair.stage = OPEN;
        } else {
            self.close(pair);
        }
        self.write(FIRST_JOB + pair.job as usize * JOB_WORDS + RESULT, result);
        true
    }

    /// Passes bytes on. An error is one of the socket that they come from: all is over then. One to
    /// whom nothing can be sent may still have sent something.
    #[inline(never)]
    fn pass(
        &self,
        flow: &mut Flow,
        from: Handle,
        to: Handle,
        buffer: SharedBuf,
    ) -> Result<bool, i64> {
        if flow.over != 0 {
            return Ok(false);
        }
        let (net, group) = (self.net, self.group);
        let later = Errno::EAGAIN.negative();
        let mut progressed = false;
        if flow.begin == flow.end {
            match calls::grecv(net, group, from, buffer, MSG_DONTWAIT) {
                0 => {
                    calls::gshutdown(net, group, to, SHUT_WR);
                    flow.over = 1;
                    return Ok(true);
                }
                got if got == later => return Ok(false),
                got if got < 0 => return Err(got),
                got => *flow = Flow { begin: 0, end: got as u64, over: 0 },
            }
            progressed = true;
        }
        let rest = buffer.slice(flow.begin as usize, (flow.end - flow.begin) as usize);
        match calls::gsend(net, group, to, rest, MSG_DONTWAIT) {
            sent if sent == later => {}
            sent if sent < 0 => {
                self.write(FAILURE, sent as u64);
                flow.over = 1;
                progressed = true;
            }
            sent => {
                flow.begin += sent as u64;
                progressed = true;
            }
        }
        Ok(progressed)
    }

    #[inline(never)]
    fn close(&self, pair: &mut Pair) {
        calls::gclose(self.net, self.group, Handle(pair.near));
        calls::gclose(self.net, self.group, Handle(pair.far));
        pair.stage = FREE;
    }

    #[inline(never)]
    fn close_all(&self) {
        for at in 0..self.work.pairs.len() {
            let Some(mut pair) = self.work.pairs.get(at) else { return };
            if pair.stage != FREE {
                self.close(&mut pair);
            }
        }
    }
}
