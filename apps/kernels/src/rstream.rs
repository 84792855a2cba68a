//! The other end of `rstream`, the tool of librdmacm that measures streams: a block plays its server
//! or its client, so that the stock tool can drive a kernel.
//!
//! On one connection there are tests. Each begins with 16 bytes from the client and 16 back. Then,
//! as often as there are iterations, all transfers go from the client to the server and as many
//! come back. Byte `p` of a direction is `p` modulo 256, counted over everything that is sent.

use gpunet_device::calls::{MSG_DONTWAIT, POLLIN, POLLOUT, PollFd, gpoll, grecv, gsend};
use gpunet_device::{
    Block, Errno, Group, Handle, Listener, Net, Shared, SharedBuf, SocketAddr, Stream, kernel_arg,
    kernels, simt,
};

use crate::echo::transport_of;

/// Bytes of the synchronisation before each test.
const SYNC: u64 = 16;
/// After so many bytes the pattern repeats.
const PERIOD: usize = 256;

/// Calls wait.
pub const BLOCKING: u64 = 0;
/// Calls are tried until they need not wait.
pub const NON_BLOCKING: u64 = 1;
/// It is waited by polling, and only then called.
pub const ASYNC: u64 = 2;

kernel_arg! {
    /// One connection.
    pub struct Session {
        /// Where the server is; of no meaning to a server.
        pub server: SocketAddr,
        /// Capacity of each ring of a client.
        pub ring: u64,
        /// How long one call may wait, nanoseconds.
        pub timeout_ns: u64,
        /// [`BLOCKING`], [`NON_BLOCKING`] or [`ASYNC`].
        pub mode: u64,
        /// 1 to check what arrives.
        pub verify: u64,
        /// Bytes that went out on connections before this one.
        pub sent: u64,
        /// Bytes that came in there.
        pub received: u64,
    }
}

kernel_arg! {
    /// What to do on a connection.
    pub struct Test {
        /// Bytes of a transfer.
        pub bytes: u64,
        /// Transfers in each direction and iteration.
        pub transfers: u64,
        /// Iterations.
        pub iterations: u64,
    }
}

kernel_arg! {
    /// What became of a test.
    pub struct TestOutcome {
        /// 1 once it was tried.
        pub tried: u64,
        /// 0 when all went well, else a negative error number; EIO: a wrong byte arrived.
        pub result: i64,
        /// Nanoseconds behind the synchronisation.
        pub elapsed_ns: u64,
        /// Bytes that went out so far, as [`Session::sent`] counts them.
        pub sent: u64,
        /// Bytes that came in so far; with `verify`, the position of what is wrong.
        pub received: u64,
        /// How the connection went: the option `Transport`, negative where that is unknown.
        pub transport: i64,
        /// Where its rings lay: the option `Placement`, likewise.
        pub placement: i64,
    }
}

kernels! {
    /// Connects and runs the tests; one block. `outcomes` has a place for each.
    pub fn rstream_client(
        net: Net,
        session: Session,
        tests: Shared<Test>,
        outcomes: Shared<TestOutcome>,
    ) {
        let stream =
            Stream::connect_with_rings(net.block(), &session.server, session.ring, session.ring);
        let _ = run(net, stream, true, &session, tests, outcomes);
    }

    /// Accepts one connection and runs the tests; one block. Returns once the client has left.
    pub fn rstream_server(
        net: Net,
        listener: Handle,
        session: Session,
        tests: Shared<Test>,
        outcomes: Shared<TestOutcome>,
    ) {
        let listener = Listener::borrow(net.block(), listener);
        let mut accepted = listener.accept();
        while let Err(Errno::ECONNABORTED) = accepted {
            accepted = listener.accept();
        }
        if let Some(mut connection) = run(net, accepted, false, &session, tests, outcomes) {
            // Who closes first could have the client take the end for an error: its last bytes may
            // still be on the way.
            while let Ok(1..) = connection.receive_some(connection.inbox) {}
        }
    }
}

/// A connection under way.
struct Connection {
    net: Net,
    stream: Stream,
    mode: u64,
    timeout_ns: u64,
    verify: bool,
    /// For `gpoll`.
    polled: Shared<PollFd>,
    /// Two periods of the pattern and more: from any place of the first, a long piece.
    pattern: SharedBuf,
    inbox: SharedBuf,
    sent: u64,
    received: u64,
}

/// Runs the tests until one fails; the connection if none did.
#[inline(always)]
fn run(
    net: Net,
    stream: Result<Stream, Errno>,
    is_client: bool,
    session: &Session,
    tests: Shared<Test>,
    outcomes: Shared<TestOutcome>,
) -> Option<Connection> {
    let group = net.block().group();
    let mut outcome = TestOutcome {
        tried: 1,
        result: 0,
        elapsed_ns: 0,
        sent: session.sent,
        received: session.received,
        transport: -1,
        placement: -1,
    };
    let mut connection = match stream.and_then(|stream| Connection::new(net, stream, session)) {
        Ok(connection) => connection,
        Err(errno) => {
            outcome.result = errno.negative();
            if group.is_leader() {
                outcomes.set(0, outcome);
            }
            return None;
        }
    };
    (outcome.transport, outcome.placement) = transport_of(net, connection.stream.handle());
    let mut at = 0;
    while let Some(test) = tests.get(at) {
        let result = connection.test(is_client, &test);
        outcome.result = result.map_or_else(Errno::negative, |_| 0);
        outcome.elapsed_ns = result.unwrap_or(0);
        (outcome.sent, outcome.received) = (connection.sent, connection.received);
        if group.is_leader() {
            outcomes.set(at, outcome);
        }
        if result.is_err() {
            return None;
        }
        at += 1;
    }
    Some(connection)
}

impl Connection {
    #[inline(always)]
    fn new(net: Net, stream: Stream, session: &Session) -> Result<Self, Errno> {
        stream.set_read_timeout(session.timeout_ns)?;
        stream.set_write_timeout(session.timeout_ns)?;
        let memory = simt::shared_memory();
        let buffers = memory.slice(64, memory.len());
        let half = buffers.len() / 2;
        if half < 2 * PERIOD {
            return Err(Errno::EINVAL);
        }
        let pattern = buffers.first(half);
        let mut at = Block.rank();
        while at < pattern.len() {
            pattern.set(at, at as u8);
            at += Block.size();
        }
        Ok(Self {
            net,
            stream,
            mode: session.mode,
            timeout_ns: session.timeout_ns,
            verify: session.verify != 0,
            polled: memory.first(64).cast::<PollFd>().first(1),
            pattern,
            inbox: buffers.slice(half, half),
            sent: session.sent,
            received: session.received,
        })
    }

    /// Runs a test: how long it took behind the synchronisation.
    #[inline(always)]
    fn test(&mut self, is_client: bool, test: &Test) -> Result<u64, Errno> {
        self.transfers(is_client, 1, SYNC)?;
        self.transfers(!is_client, 1, SYNC)?;
        let start = simt::now_ns();
        for _ in 0..test.iterations {
            self.transfers(is_client, test.transfers, test.bytes)?;
            self.transfers(!is_client, test.transfers, test.bytes)?;
        }
        Ok(simt::now_ns() - start)
    }

    #[inline(always)]
    fn transfers(&mut self, sending: bool, count: u64, bytes: u64) -> Result<(), Errno> {
        for _ in 0..count {
            if sending {
                self.send(bytes)?;
            } else {
                self.receive(bytes)?;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn send(&mut self, bytes: u64) -> Result<(), Errno> {
        let mut left = bytes;
        while left > 0 {
            let begin = self.sent as usize % PERIOD;
            let most = left.min((self.pattern.len() - PERIOD) as u64) as usize;
            let sent = self.send_some(self.pattern.slice(begin, most))?;
            self.sent += sent;
            left -= sent;
        }
        Ok(())
    }

    #[inline(never)]
    fn receive(&mut self, bytes: u64) -> Result<(), Errno> {
        let mut left = bytes;
        while left > 0 {
            let room = self.inbox.first(left.min(self.inbox.len() as u64) as usize);
            let got = self.receive_some(room)?;
            if got == 0 {
                return Err(Errno::ECONNRESET);
            }
            if self.verify && Block.any(!self.holds(room.first(got as usize))) {
                return Err(Errno::EIO);
            }
            self.received += got;
            left -= got;
        }
        Ok(())
    }

    /// Whether this thread's share of what arrived is the pattern.
    #[inline(always)]
    fn holds(&self, bytes: SharedBuf) -> bool {
        let mut same = true;
        let mut at = Block.rank();
        while let Some(byte) = bytes.get(at) {
            same &= byte == (self.received as usize).wrapping_add(at) as u8;
            at += Block.size();
        }
        same
    }

    #[inline(always)]
    fn send_some(&mut self, from: SharedBuf) -> Result<u64, Errno> {
        let (net, handle) = (self.net, self.stream.handle());
        match self.mode {
            BLOCKING => self.stream.write_all(from).map(|()| from.len() as u64),
            _ => self.polled(POLLOUT, || gsend(net, Block, handle, from, MSG_DONTWAIT)),
        }
    }

    #[inline(always)]
    fn receive_some(&mut self, into: SharedBuf) -> Result<u64, Errno> {
        let (net, handle) = (self.net, self.stream.handle());
        match self.mode {
            BLOCKING => self.stream.read(into).map(|got| got as u64),
            _ => self.polled(POLLIN, || grecv(net, Block, handle, into, MSG_DONTWAIT)),
        }
    }

    /// Calls until the call need not wait, with a poll before it or after.
    #[inline(always)]
    fn polled(&mut self, events: u16, mut call: impl FnMut() -> i64) -> Result<u64, Errno> {
        let begin = simt::now_ns();
        let timeout_ms = (self.timeout_ns / 1_000_000) as i64;
        if self.mode == ASYNC {
            self.poll(events, timeout_ms)?;
        }
        loop {
            match Errno::check(call()) {
                Err(Errno::EAGAIN) => {}
                done => return done,
            }
            // Threads' clocks differ, and all have to do the same.
            if Block.any(simt::now_ns() - begin > self.timeout_ns) {
                return Err(Errno::ETIMEDOUT);
            }
            // A look, which also ends when the kernel is stopped.
            self.poll(events, if self.mode == ASYNC { timeout_ms } else { 0 })?;
        }
    }

    #[inline(never)]
    fn poll(&mut self, events: u16, timeout_ms: i64) -> Result<(), Errno> {
        if Block.is_leader() {
            let entry = PollFd { handle: self.stream.handle(), events, ..PollFd::default() };
            self.polled.set(0, entry);
        }
        Errno::check(gpoll(self.net, Block, self.polled, timeout_ms)).map(drop)
    }
}
