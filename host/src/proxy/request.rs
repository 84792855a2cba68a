//! Answers to the requests of kernels. Everything in a request is untrusted.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::message::{MAX_TEXT, Operation, Reply, Request};
use gpunet_device::abi::option::SocketOption;
use gpunet_device::planted::{Bug, planted};
use gpunet_device::poller::EVENT_BYTES;
use gpunet_device::{Domain, Handle, SocketAddr};

use super::closing::Closer;
use super::connection::{Connection, Owner, Phase, Wishes};
use super::shard::Shard;
use super::shared::Readiness;
use super::watch::Watch;
use crate::pool::LARGEST_RING;
use crate::transport::Direction;

/// Refused calls of a proxy thread that are logged; the rest are counted.
const LOGGED_DENIALS: u64 = 100;

/// The longest queue a listener may have.
const MAX_BACKLOG: u64 = 4096;

/// What a request comes to: a number and an address, or an error.
type Answer = Result<(u64, SocketAddr), Errno>;

const NOTHING: Answer = Ok((0, SocketAddr::NONE));

impl Shard {
    /// Answers a request, at once.
    pub(crate) fn answer(
        &mut self,
        request: &Request,
        now_ns: u64,
        io: &mut dyn Readiness,
    ) -> Reply {
        match self.carry_out(request, now_ns, io) {
            Ok((number, address)) => Reply::new(0, number, &address),
            Err(errno) => {
                tracing::trace!(operation = ?request.operation(), %errno, "request refused");
                Reply::new(errno.negative(), 0, &SocketAddr::NONE)
            }
        }
    }

    fn carry_out(&mut self, request: &Request, now_ns: u64, io: &mut dyn Readiness) -> Answer {
        let handle = request.handle();
        match request.operation().ok_or(Errno::EOPNOTSUPP)? {
            Operation::Socket => self.make_socket(request, io),
            Operation::Bind => {
                let connection = self.open(handle)?;
                if connection.phase != Phase::Fresh {
                    return Err(Errno::EINVAL);
                }
                let address = request.address();
                self.permit_bind(handle, &address)?;
                let socket = self.open(handle)?.socket.as_mut().ok_or(Errno::EOPNOTSUPP)?;
                socket.bind(&address)?;
                NOTHING
            }
            Operation::Listen => self.listen(handle, request.number(0), io),
            Operation::Connect => self.connect(handle, &request.address(), io),
            Operation::Shutdown => self.shutdown(handle, request.number(0)),
            Operation::Close => {
                // One that the host has closed meanwhile: the kernel has both of its locks, for good.
                self.drained(handle);
                self.open(handle)?;
                self.close(handle, Closer::Kernel, now_ns);
                // The kernel's next request may need the place.
                self.finish(handle, now_ns, io);
                NOTHING
            }
            Operation::PeerName => {
                let connection = self.open(handle)?;
                if !matches!(connection.phase, Phase::Open) {
                    return Err(Errno::ENOTCONN);
                }
                let socket = connection.socket.as_ref().ok_or(Errno::EOPNOTSUPP)?;
                Ok((0, socket.peer_addr()?))
            }
            Operation::SocketName => {
                let socket = self.open(handle)?.socket.as_ref().ok_or(Errno::EOPNOTSUPP)?;
                Ok((0, socket.local_addr()?))
            }
            Operation::SetOption => self.set_option(handle, request.number(0), request.number(1)),
            Operation::GetOption => {
                let value = self.option(handle, request.number(0))?;
                Ok((value, SocketAddr::NONE))
            }
            Operation::Time => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok((since.as_nanos() as u64, SocketAddr::NONE))
            }
            Operation::Print => self.print(request),
            Operation::Poller => self.make_poller(request, io),
            Operation::Watch => self.watch(request),
        }
    }

    /// An open socket of this shard.
    fn open(&mut self, handle: Handle) -> Result<&mut Connection, Errno> {
        match self.find(handle) {
            Some(connection) if !matches!(connection.phase, Phase::Closing { .. }) => {
                Ok(connection)
            }
            _ => Err(Errno::EBADF),
        }
    }

    /// The launch that asks; EINVAL for one that does not run, which would own the socket for ever.
    fn owner(&self, request: &Request) -> Result<Owner, Errno> {
        let launch = request.launch();
        if self.shared.launches.runs(launch) {
            Ok(Owner::Launch(launch))
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// A place for a kernel's socket, if the net's policy lets it have one more.
    fn take_handle(&self) -> Result<Handle, Errno> {
        let limits = &self.shared.policy.limits;
        if !limits.take_socket() {
            return Err(self.denied("socket", Handle::NONE, &SocketAddr::NONE));
        }
        self.shared.pool.take_handle().inspect_err(|_| limits.give_socket())
    }

    fn make_socket(&mut self, request: &Request, io: &mut dyn Readiness) -> Answer {
        const STREAM: u64 = 1;
        const TCP: u64 = 6;
        let domain = u16::try_from(request.number(0)).ok().and_then(Domain::from_number);
        let domain = domain.ok_or(Errno::EAFNOSUPPORT)?;
        let protocol = request.number(2);
        let known = protocol == 0 || (protocol == TCP && domain != Domain::Unix);
        if request.number(1) != STREAM || !known {
            return Err(Errno::EPROTONOSUPPORT);
        }
        let owner = self.owner(request)?;
        let socket = self.shared.transports.make(domain)?;
        let handle = self.take_handle()?;
        let index = self.shared.index(handle);
        let mut connection =
            Connection::new(handle, index, owner, Wishes::of(&self.shared.config), Some(socket));
        connection.counted = true;
        connection.publish(&self.shared.memory);
        self.place(connection, io);
        Ok((handle.0, SocketAddr::NONE))
    }

    fn make_poller(&mut self, request: &Request, io: &mut dyn Readiness) -> Answer {
        let owner = self.owner(request)?;
        let shared = Arc::clone(&self.shared);
        let handle = self.take_handle()?;
        let index = shared.index(handle);
        let mut poller =
            Connection::new(handle, index, owner, Wishes::of(&self.shared.config), None);
        poller.counted = true;
        poller.phase = Phase::Polling;
        let events = shared.memory.layout().sockets() * EVENT_BYTES;
        let capacity = u32::try_from(events).map_err(|_| Errno::ENOBUFS)?;
        match shared.ring(capacity, shared.memory.receive_head(index).load()) {
            Ok(ring) => poller.receive = ring,
            Err(errno) => {
                poller.give_back(&shared);
                return Err(errno);
            }
        }
        poller.publish(&shared.memory);
        self.place(poller, io);
        Ok((handle.0, SocketAddr::NONE))
    }

    fn watch(&mut self, request: &Request) -> Answer {
        let (poller, socket) = (request.handle(), Handle(request.number(0)));
        let events = u16::try_from(request.number(1)).map_err(|_| Errno::EINVAL)?;
        let token = request.number(2);
        let known = poller.is_well_formed() && poller.shard() < self.shared.memory.layout().shards;
        if !known {
            return Err(Errno::EBADF);
        }
        if poller.shard() as usize == self.id && self.open(poller)?.phase != Phase::Polling {
            return Err(Errno::EINVAL);
        }
        let connection = self.open(socket)?;
        if connection.phase == Phase::Polling {
            return Err(Errno::EINVAL);
        }
        let before = connection.watch;
        if events == 0 {
            if before.is_some_and(|watch| watch.poller == poller) {
                connection.watch = None;
            }
            self.notify(poller, socket, token, 0);
            return NOTHING;
        }
        connection.watch = Some(Watch { poller, events, token });
        self.watch_direct(socket);
        let ready = self.open(socket)?.readiness();
        // A socket has one watcher, and the one before would keep it in its table for ever. Where it
        // is the same, an event that is in the ring has the old token; all it told of follows anew.
        if let Some(before) = before {
            self.notify(before.poller, socket, before.token, 0);
        }
        self.tell_watcher(
            socket.place() as usize,
            if planted(Bug::ReadyNotTold) { 0 } else { ready },
        );
        NOTHING
    }

    fn listen(&mut self, handle: Handle, backlog: u64, io: &mut dyn Readiness) -> Answer {
        let shared = Arc::clone(&self.shared);
        let connection = self.open(handle)?;
        if connection.phase != Phase::Fresh {
            return Err(Errno::EINVAL);
        }
        // One that was not bound is bound by listening, as the system likes.
        let local = connection.socket.as_ref().ok_or(Errno::EOPNOTSUPP)?.local_addr()?;
        if local.to_ip().is_some_and(|ip| ip.port() == 0) {
            self.permit_bind(handle, &local)?;
        }
        let connection = self.open(handle)?;
        let backlog = backlog.clamp(1, MAX_BACKLOG) as u32;
        let socket = connection.socket.as_mut().ok_or(Errno::EOPNOTSUPP)?;
        let word = shared.memory.receive_head(connection.index).load();
        let ring = shared.ring(backlog * 8, word)?;
        if let Err(errno) = socket.listen(backlog) {
            shared.pool.give_ring(&ring.place);
            return Err(errno);
        }
        connection.receive = ring;
        connection.start_listening(backlog);
        connection.publish(&shared.memory);
        self.watch_descriptor(handle, io);
        NOTHING
    }

    /// Whether the net's policy lets a kernel bind the address.
    fn permit_bind(&mut self, handle: Handle, address: &SocketAddr) -> Result<(), Errno> {
        let socket = self.open(handle)?.socket.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        let v6_only = socket.option(SocketOption::V6Only).is_ok_and(|only| only != 0);
        if self.shared.policy.may_bind(address, v6_only) {
            Ok(())
        } else {
            Err(self.denied("bind", handle, address))
        }
    }

    /// Counts and logs a call that the policy refuses.
    fn denied(&self, call: &str, handle: Handle, address: &SocketAddr) -> Errno {
        self.counters.denied.add(1);
        // A kernel that tries for ever does not fill the log.
        if self.counters.denied.get() <= LOGGED_DENIALS {
            tracing::warn!(handle = handle.0, %address, "the policy refused a kernel's {call}");
        }
        Errno::EACCES
    }

    fn connect(&mut self, handle: Handle, address: &SocketAddr, io: &mut dyn Readiness) -> Answer {
        let shared = Arc::clone(&self.shared);
        let counters = Arc::clone(&self.counters);
        let connection = self.open(handle)?;
        match connection.phase {
            Phase::Fresh => {}
            // The error was told to who waited or asked for it: as with the system's sockets, this is
            // another attempt. The kernel has not been given the rings of the last one.
            Phase::Connecting if connection.failure.is_some() && !connection.violated => {
                connection.give_rings(&shared);
                (connection.failure, connection.phase) = (None, Phase::Fresh);
                (connection.receive_ended, connection.send_ended) = (false, false);
                connection.publish(&shared.memory);
            }
            Phase::Connecting => return Err(connection.failure.unwrap_or(Errno::EALREADY)),
            Phase::Open => return Err(Errno::EISCONN),
            _ => return Err(Errno::EOPNOTSUPP),
        }
        if !shared.policy.may_connect(address) {
            return Err(self.denied("connect", handle, address));
        }
        let begun = self.begin_connect(handle, address)?;
        let (again, done) = (begun.is_err(), begun == Ok(true));
        let connection = self.open(handle)?;
        connection.phase = if done { Phase::Open } else { Phase::Connecting };
        connection.rings_may_change = !done;
        if done {
            counters.connected.add(1);
        }
        connection.publish(&shared.memory);
        self.forget_tail(handle);
        self.watch_descriptor(handle, io);
        if again {
            self.connect_again(handle, *address);
        }
        NOTHING
    }

    fn shutdown(&mut self, handle: Handle, how: u64) -> Answer {
        let shared = Arc::clone(&self.shared);
        let counters = Arc::clone(&self.counters);
        let connection = self.open(handle)?;
        let (receive, send) = match how {
            0 => (true, false),
            1 => (false, true),
            2 => (true, true),
            _ => return Err(Errno::EINVAL),
        };
        match connection.phase {
            Phase::Open => {}
            Phase::Listening if receive => {
                if let Some(socket) = &mut connection.socket {
                    // Those that wait to be accepted by the system are refused.
                    socket.shutdown(Direction::Receive)?;
                }
                connection.receive_ended = true;
                connection.publish_receive(&shared.memory);
                self.tell_of_receiving(handle.place() as usize);
                return NOTHING;
            }
            _ => return Err(Errno::ENOTCONN),
        }
        if receive {
            if let Some(socket) = &mut connection.socket {
                // A peer that is gone already has ended it.
                let _ = socket.shutdown(Direction::Receive);
            }
            connection.receive_ended = true;
            connection.publish_receive(&shared.memory);
        }
        if send {
            // The kernel has published all it sent before it asked.
            connection.take_last_tail(&shared.memory, &counters);
            connection.finish_send = true;
            connection.publish_send(&shared.memory);
            self.send_now(handle);
        }
        if receive {
            // Others may watch it.
            self.tell_of_receiving(handle.place() as usize);
        }
        NOTHING
    }

    fn set_option(&mut self, handle: Handle, option: u64, value: u64) -> Answer {
        let option = option_of(option)?;
        let connection = self.open(handle)?;
        let ring = || match u32::try_from(value) {
            Ok(bytes @ 1..=LARGEST_RING) => Ok(bytes),
            _ => Err(Errno::EINVAL),
        };
        let early = matches!(connection.phase, Phase::Fresh | Phase::Listening);
        match option {
            SocketOption::ReceiveRing | SocketOption::SendRing if !early => {
                return Err(Errno::EISCONN);
            }
            SocketOption::ReceiveRing => connection.wishes.receive_ring = ring()?,
            SocketOption::SendRing => connection.wishes.send_ring = ring()?,
            SocketOption::Detached => {
                if value > 1 {
                    return Err(Errno::EINVAL);
                }
                let detached = value == 1 && !planted(Bug::DetachedForgotten);
                connection.owner = if detached { Owner::Host } else { Owner::AnyLaunch };
            }
            _ => {
                let socket = connection.socket.as_mut().ok_or(Errno::EOPNOTSUPP)?;
                socket.set_option(option, value)?;
            }
        }
        NOTHING
    }

    fn option(&mut self, handle: Handle, option: u64) -> Result<u64, Errno> {
        let option = option_of(option)?;
        let connection = self.open(handle)?;
        let capacity = |capacity: u32, wish: u32| {
            u64::from(if capacity == 0 { crate::pool::ring_capacity(wish) } else { capacity })
        };
        let stream = connection.phase == Phase::Open;
        let wishes = connection.wishes;
        Ok(match option {
            SocketOption::ReceiveRing if stream => {
                capacity(connection.receive.place.capacity, wishes.receive_ring)
            }
            SocketOption::ReceiveRing => capacity(0, wishes.receive_ring),
            SocketOption::SendRing => capacity(connection.send.place.capacity, wishes.send_ring),
            SocketOption::Detached => u64::from(connection.owner == Owner::Host),
            _ => connection.socket.as_ref().ok_or(Errno::EOPNOTSUPP)?.option(option)?,
        })
    }

    fn print(&mut self, request: &Request) -> Answer {
        let length = usize::try_from(request.number(0)).map_err(|_| Errno::EINVAL)?;
        if length > MAX_TEXT {
            return Err(Errno::EINVAL);
        }
        let bytes: Vec<u8> = (0..length).map(|at| request.text_byte(at)).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let printer = self.shared.printer.lock().unwrap_or_else(|poison| poison.into_inner());
        match printer.try_send((request.launch(), text)) {
            Ok(()) => self.counters.printed.add(1),
            // Nothing waits for a slow terminal.
            Err(_) => self.counters.print_dropped.add(1),
        }
        NOTHING
    }
}

fn option_of(number: u64) -> Result<SocketOption, Errno> {
    u32::try_from(number).ok().and_then(SocketOption::from_number).ok_or(Errno::ENOPROTOOPT)
}
