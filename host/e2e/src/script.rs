//! Scripts: what a group of GPU threads does, and what each step must come to.
//!
//! Each method appends one op with the result it must have if all goes well. [`Script::expect`]
//! and its siblings change the last one. A kernel stops at the first op that comes to something
//! else, and the job says which it was.

mod ring;

use std::ops::Range;
use std::time::Duration;

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::{MSG_PEEK, SOCK_STREAM};
use gpunet_device::{Domain, Errno, Handle, SocketAddr};
use gpunet_e2e_kernels::op::{Code, GUARD, Op, Register, Space};

use crate::limits::timeout;
use crate::nets::RING;

/// All that there is.
pub const ALL: u64 = u64::MAX;

/// The seed of all bytes that no test asks another for.
pub const SEED: u64 = 7;

/// Handles are positive.
const HANDLE: (i64, i64) = (1, i64::MAX);

/// What one group does.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub(crate) ops: Vec<Op>,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) registers: Vec<(u32, Register)>,
    /// How long ops may take, by place.
    pub(crate) limits: Vec<(usize, Range<Duration>)>,
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2)
}

impl Script {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn op(
        &mut self,
        code: Code,
        register: u32,
        arguments: [u64; 3],
        good: (i64, i64),
    ) -> &mut Self {
        let [a, b, c] = arguments;
        self.ops.push(Op {
            code: code as u32,
            register,
            a,
            b,
            c,
            length: 0,
            seed: SEED,
            space: Space::Global as u32,
            offset: GUARD as u32,
            flags: 0,
            reserved: 0,
            least: good.0,
            most: good.1,
        });
        self
    }

    fn last(&mut self) -> &mut Op {
        self.ops.last_mut().expect("there is an op to change")
    }

    fn with_length(&mut self, length: u64) -> &mut Self {
        self.last().length = length;
        self
    }

    /// Keeps an address for ops to name.
    pub fn address(&mut self, address: SocketAddr) -> u64 {
        self.addresses.push(address);
        self.addresses.len() as u64 - 1
    }

    /// The place of the last op, to find its outcome by.
    #[must_use]
    pub fn mark(&self) -> usize {
        self.ops.len() - 1
    }

    /// A register holds this handle from the start.
    pub fn given(&mut self, register: u32, handle: Handle) -> &mut Self {
        self.registers.push((register, Register { handle: handle.0, sent: 0, received: 0 }));
        self
    }

    // What the last op must come to, and how.

    /// The last op comes to just this.
    pub fn expect(&mut self, result: i64) -> &mut Self {
        self.between(result, result)
    }

    /// The last op fails so.
    pub fn errno(&mut self, errno: Errno) -> &mut Self {
        self.expect(errno.negative())
    }

    /// The last op comes to something from `least` to `most`.
    pub fn between(&mut self, least: i64, most: i64) -> &mut Self {
        let op = self.last();
        (op.least, op.most) = (least, most);
        self
    }

    /// The last op may come to anything.
    pub fn any(&mut self) -> &mut Self {
        self.between(i64::MIN + 1, i64::MAX)
    }

    /// The last op takes so long; most times are [`at_once`](crate::at_once) or [`about`](crate::about).
    pub fn takes(&mut self, limits: Range<Duration>) -> &mut Self {
        let place = self.mark();
        self.limits.push((place, limits));
        self
    }

    /// The last op's buffer lies there.
    pub fn space(&mut self, space: Space) -> &mut Self {
        self.last().space = space as u32;
        self
    }

    /// The last op's buffer starts that far into its space.
    pub fn at(&mut self, offset: u32) -> &mut Self {
        self.last().offset = offset;
        self
    }

    /// The last op's pattern has this seed.
    pub fn seed(&mut self, seed: u64) -> &mut Self {
        self.last().seed = seed;
        self
    }

    /// The last op has these flags.
    pub fn flags(&mut self, flags: u32) -> &mut Self {
        self.last().flags = flags;
        self
    }

    // Making sockets.

    /// `gsocket` for a byte stream.
    pub fn socket(&mut self, register: u32, domain: Domain) -> &mut Self {
        self.socket_of(register, domain as i32, SOCK_STREAM, 0)
    }

    /// `gsocket` with these numbers.
    pub fn socket_of(&mut self, register: u32, domain: i32, kind: i32, protocol: i32) -> &mut Self {
        let numbers = [domain as u64, kind as u64, protocol as u64];
        self.op(Code::Socket, register, numbers, HANDLE)
    }

    /// `gbind`.
    pub fn bind(&mut self, register: u32, address: SocketAddr) -> &mut Self {
        let address = self.address(address);
        self.op(Code::Bind, register, [address, 0, 0], (0, 0))
    }

    /// `glisten`.
    pub fn listen(&mut self, register: u32, backlog: i32) -> &mut Self {
        self.op(Code::Listen, register, [backlog as u64, 0, 0], (0, 0))
    }

    /// `gaccept` from a listener into a register.
    pub fn accept(&mut self, listener: u32, into: u32) -> &mut Self {
        self.op(Code::Accept, listener, [into.into(), 0, 0], HANDLE)
    }

    /// `gconnect`.
    pub fn connect(&mut self, register: u32, address: SocketAddr) -> &mut Self {
        let address = self.address(address);
        self.op(Code::Connect, register, [address, 0, 0], (0, 0))
    }

    /// `Listener::bind`.
    pub fn listener(&mut self, register: u32, address: SocketAddr) -> &mut Self {
        let address = self.address(address);
        self.op(Code::ListenerBind, register, [address, 0, 0], HANDLE)
    }

    /// `Stream::connect_with_rings`.
    pub fn stream(&mut self, register: u32, address: SocketAddr) -> &mut Self {
        self.stream_with_rings(register, address, RING)
    }

    /// `Stream::connect_with_rings`.
    pub fn stream_with_rings(&mut self, register: u32, to: SocketAddr, ring: u32) -> &mut Self {
        let address = self.address(to);
        self.op(Code::StreamConnect, register, [address, ring.into(), 0], HANDLE)
    }

    // Bytes.

    /// `gsend` of that many bytes.
    pub fn send(&mut self, register: u32, length: u64) -> &mut Self {
        let all = length as i64;
        self.op(Code::Send, register, [0; 3], (all, all)).with_length(length)
    }

    /// `grecv` of at least one byte, at most that many.
    pub fn recv(&mut self, register: u32, length: u64) -> &mut Self {
        self.op(Code::Recv, register, [0; 3], (1, length as i64)).with_length(length)
    }

    /// `grecv` with MSG_PEEK again and again, as long as it finds something.
    pub fn peek_for_ever(&mut self, register: u32, length: u64) -> &mut Self {
        self.op(Code::Recv, register, [1, 0, 0], (0, 0)).with_length(length).flags(MSG_PEEK)
    }

    /// `Stream::write_all`, in pieces.
    pub fn send_all(&mut self, register: u32, total: u64, piece: u64) -> &mut Self {
        let all = total as i64;
        self.op(Code::SendAll, register, [total, 0, 0], (all, all)).with_length(piece)
    }

    /// `grecv` in pieces until all have come.
    pub fn recv_all(&mut self, register: u32, total: u64, piece: u64) -> &mut Self {
        let all = total as i64;
        self.op(Code::RecvAll, register, [total, 0, 0], (all, all)).with_length(piece)
    }

    /// `Stream::read_exact`.
    pub fn read_exact(&mut self, register: u32, length: u64) -> &mut Self {
        let all = length as i64;
        self.op(Code::ReadExact, register, [0; 3], (all, all)).with_length(length)
    }

    /// Sends back what comes, to the end.
    pub fn echo(&mut self, register: u32, piece: u64) -> &mut Self {
        self.op(Code::Echo, register, [0; 3], (0, i64::MAX)).with_length(piece)
    }

    /// `gsend` of nothing, with these flags.
    pub fn send_flags(&mut self, register: u32, flags: u32) -> &mut Self {
        self.op(Code::SendFlags, register, [flags.into(), 0, 0], (0, 0))
    }

    /// `grecv` of nothing, with these flags.
    pub fn recv_flags(&mut self, register: u32, flags: u32) -> &mut Self {
        self.op(Code::RecvFlags, register, [flags.into(), 0, 0], (0, 0))
    }

    // Ending, options, names.

    /// `gshutdown`.
    pub fn shutdown(&mut self, register: u32, how: i32) -> &mut Self {
        self.op(Code::Shutdown, register, [how as u64, 0, 0], (0, 0))
    }

    /// `gclose`.
    pub fn close(&mut self, register: u32) -> &mut Self {
        self.op(Code::Close, register, [0; 3], (0, 0))
    }

    /// `gsetsockopt`.
    pub fn set(&mut self, register: u32, option: SocketOption, value: u64) -> &mut Self {
        self.op(Code::SetOption, register, [option as u64, value, 0], (0, 0))
    }

    /// `ggetsockopt`, which must give this.
    pub fn get(&mut self, register: u32, option: SocketOption, value: i64) -> &mut Self {
        self.op(Code::GetOption, register, [option as u64, 0, 0], (value, value))
    }

    /// The receive time-out.
    pub fn receive_timeout(&mut self, register: u32, time: Duration) -> &mut Self {
        self.set(register, SocketOption::ReceiveTimeout, ns(time))
    }

    /// The send time-out.
    pub fn send_timeout(&mut self, register: u32, time: Duration) -> &mut Self {
        self.set(register, SocketOption::SendTimeout, ns(time))
    }

    /// `ggetpeername`, which must give this.
    pub fn peer_name(&mut self, register: u32, address: SocketAddr) -> &mut Self {
        let address = self.address(address);
        self.op(Code::PeerName, register, [address, 0, 0], (1, 1))
    }

    /// `ggetsockname`, which must give this.
    pub fn socket_name(&mut self, register: u32, address: SocketAddr) -> &mut Self {
        let address = self.address(address);
        self.op(Code::SocketName, register, [address, 0, 0], (1, 1))
    }

    /// `ggetsockname`, kept for the host at the place that comes back.
    pub fn keep_name(&mut self, register: u32) -> usize {
        let place = self.address(SocketAddr::NONE);
        self.op(Code::KeepName, register, [place, 0, 0], (0, i64::from(u16::MAX)));
        place as usize
    }

    // Polls.

    /// Puts a socket into the poll set.
    pub fn poll_set(&mut self, place: u64, register: u32, events: u16) -> &mut Self {
        self.op(Code::PollSet, register, [place, events.into(), 0], (0, 0))
    }

    /// `gpoll`, which must find so many.
    pub fn poll(&mut self, places: u64, timeout_ms: i64, ready: i64) -> &mut Self {
        self.op(Code::Poll, 0, [places, timeout_ms as u64, 0], (ready, ready))
    }

    /// `gpoll` again and again, as long as it finds something.
    pub fn poll_for_ever(&mut self, places: u64) -> &mut Self {
        self.op(Code::Poll, 0, [places, 0, 1], (0, 0))
    }

    /// What the poll must have found.
    pub fn found(&mut self, place: u64, events: u16) -> &mut Self {
        let events = i64::from(events);
        self.op(Code::PollResult, 0, [place, 0, 0], (events, events))
    }

    /// `Poller::new`.
    pub fn poller(&mut self) -> &mut Self {
        self.op(Code::PollerNew, 0, [0; 3], HANDLE)
    }

    /// The same, with its handle in a register.
    pub fn poller_in(&mut self, register: u32) -> &mut Self {
        self.op(Code::PollerNew, register, [1, 0, 0], HANDLE)
    }

    /// `Poller::add`.
    pub fn poller_add(&mut self, register: u32, events: u16, token: u64) -> &mut Self {
        self.op(Code::PollerAdd, register, [events.into(), token, 0], (0, 0))
    }

    /// `Poller::remove`.
    pub fn poller_remove(&mut self, register: u32) -> &mut Self {
        self.op(Code::PollerRemove, register, [0; 3], (0, 0))
    }

    /// `Poller::wait` for at least one event.
    pub fn poller_wait(&mut self, most: u64, timeout: Duration) -> &mut Self {
        self.op(Code::PollerWait, 0, [most, ns(timeout), 0], (1, most as i64))
    }

    /// What the wait must have brought.
    pub fn event(&mut self, place: u64, token: u64, events: u16) -> &mut Self {
        let event = (token << 16) as i64 | i64::from(events);
        self.op(Code::PollerEvent, 0, [place, 0, 0], (event, event))
    }

    /// Accepts connections into registers and watches them.
    pub fn poller_accept(
        &mut self,
        listener: u32,
        first: u32,
        count: u64,
        events: u16,
    ) -> &mut Self {
        let all = count as i64;
        let numbers = [first.into(), count, events.into()];
        self.op(Code::PollerAccept, listener, numbers, (all, all))
    }

    /// Echoes on the poller's sockets until so many were closed.
    pub fn poller_serve(&mut self, closed: u64, piece: u64) -> &mut Self {
        let numbers = [closed, ns(timeout()), 0];
        self.op(Code::PollerServe, 0, numbers, (0, i64::MAX)).with_length(piece)
    }

    /// Drops the poller.
    pub fn poller_close(&mut self) -> &mut Self {
        self.op(Code::PollerClose, 0, [0; 3], (0, 0))
    }

    // The rest.

    /// `ggettimeofday`.
    pub fn time(&mut self) -> &mut Self {
        self.op(Code::Time, 0, [0; 3], (1, i64::MAX))
    }

    /// `gprint` of so many letters, of which so many are taken.
    pub fn print(&mut self, letters: u64, taken: i64) -> &mut Self {
        self.op(Code::Print, 0, [letters, 0, 0], (taken, taken))
    }

    /// Does nothing for so long.
    pub fn sleep(&mut self, time: Duration) -> &mut Self {
        self.op(Code::Sleep, 0, [ns(time), 0, 0], (0, 0))
    }

    /// Waits until a flag is set.
    pub fn wait_flag(&mut self, flag: usize) -> &mut Self {
        let numbers = [flag as u64, 1, ns(timeout())];
        self.op(Code::WaitFlag, 0, numbers, (1, i64::MAX))
    }

    /// Sets a flag.
    pub fn set_flag(&mut self, flag: usize) -> &mut Self {
        self.op(Code::SetFlag, 0, [flag as u64, 1, 0], (0, 0))
    }

    /// Waits until a flag has come to a number.
    pub fn wait_count(&mut self, flag: usize, number: u64) -> &mut Self {
        let numbers = [flag as u64, number, ns(timeout())];
        self.op(Code::WaitFlag, 0, numbers, (1, i64::MAX))
    }

    /// Sets a flag to a number.
    pub fn set_count(&mut self, flag: usize, number: u64) -> &mut Self {
        self.op(Code::SetFlag, 0, [flag as u64, number, 0], (0, 0))
    }

    /// Waits for a handle in a flag and takes it.
    pub fn receive_handle(&mut self, register: u32, flag: usize) -> &mut Self {
        let numbers = [flag as u64, 1, ns(timeout())];
        self.op(Code::ReceiveHandle, register, numbers, HANDLE)
    }

    /// Puts a handle into a flag.
    pub fn give_handle(&mut self, register: u32, flag: usize) -> &mut Self {
        self.op(Code::GiveHandle, register, [flag as u64, 0, 0], (0, 0))
    }

    /// Copies a register.
    pub fn copy(&mut self, from: u32, to: u32) -> &mut Self {
        self.op(Code::Copy, to, [from.into(), 0, 0], (0, 0))
    }

    /// Faults, in the manner that the op's code describes.
    pub fn fault(&mut self, how: u64) -> &mut Self {
        self.op(Code::Fault, 0, [how, 1000, 0], (0, 0))
    }

    /// Breaks the rules of groups, in the manner that the kernel's `wrong.rs` describes.
    pub fn diverge(&mut self, register: u32, how: u64) -> &mut Self {
        self.op(Code::Diverge, register, [how, 0, 0], (0, 0)).any()
    }
}

/// Whether the first argument of an op is an address.
pub(crate) fn names_address(code: Code) -> bool {
    matches!(
        code,
        Code::Bind
            | Code::Connect
            | Code::ListenerBind
            | Code::StreamConnect
            | Code::PeerName
            | Code::SocketName
            | Code::KeepName
    )
}

/// Registers, places of the poll set or events that an op reaches.
pub(crate) fn places(op: &Op) -> u64 {
    let others = match Code::from_number(op.code) {
        Some(Code::Accept | Code::Copy | Code::PollSet | Code::PollerEvent) => op.a + 1,
        Some(Code::PollerWait) => op.a,
        Some(Code::PollerAccept) => op.a + op.b,
        _ => 0,
    };
    others.max(u64::from(op.register) + 1)
}
