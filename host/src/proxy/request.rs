//! Answers to the requests of kernels. Everything in a request is untrusted.

use std::time::{SystemTime, UNIX_EPOCH};

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::message::{MAX_TEXT, Operation, Reply, Request};
use gpunet_device::abi::option::SocketOption;
use gpunet_device::planted::{Bug, planted};
use gpunet_device::poller::EVENT_BYTES;
use gpunet_device::{Domain, Handle, SocketAddr};

use super::entry::{Closer, Entry, Owner, Phase, Role, Wishes};
use super::poller::{Poller, Watch};
use super::shard::Shard;
use super::shared::Readiness;
use super::stream::StreamPhase;
use crate::pool::{Account, LARGEST_RING};
use crate::settings::config::MAX_BACKLOG;
use crate::transport::Direction;

/// Refused calls of a proxy thread that are logged; the rest are counted.
const LOGGED_DENIALS: u64 = 100;

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
                let entry = self.open(handle)?;
                if entry.phase() != Phase::Fresh {
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
                if self.table.find(handle).is_some_and(|entry| entry.drains) {
                    // The host has closed it meanwhile; the kernel has both of its locks, for good.
                    self.context.shared.drain.left_by_kernel(handle);
                }
                self.open(handle)?;
                self.close(handle, Closer::Kernel, now_ns);
                // The kernel's next request may need the slot.
                self.finish(handle, now_ns, io);
                NOTHING
            }
            Operation::PeerName => {
                let entry = self.open(handle)?;
                if !matches!(entry.phase(), Phase::Open) {
                    return Err(Errno::ENOTCONN);
                }
                let socket = entry.socket.as_ref().ok_or(Errno::EOPNOTSUPP)?;
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
    fn open(&mut self, handle: Handle) -> Result<&mut Entry, Errno> {
        self.table.find(handle).filter(|entry| !entry.is_closing()).ok_or(Errno::EBADF)
    }

    /// The launch that asks; EINVAL for one that does not run, which would own the socket for ever.
    fn owner(&self, request: &Request) -> Result<Owner, Errno> {
        let launch = request.launch();
        if self.context.shared.launches.runs(launch) {
            Ok(Owner::Launch(launch))
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// A slot for a kernel's socket, if the net's policy lets it have one more.
    fn allocate_handle(&self) -> Result<Handle, Errno> {
        let limits = &self.context.shared.policy.limits;
        if !limits.acquire_socket() {
            return Err(self.denied("socket", Handle::NONE, &SocketAddr::NONE));
        }
        self.context
            .shared
            .pool
            .allocate_handle(Account::Own)
            .inspect_err(|_| limits.release_socket())
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
        let socket = self.context.shared.transports.make(domain)?;
        let handle = self.allocate_handle()?;
        let index = self.context.shared.index(handle);
        let mut entry =
            Entry::new(handle, index, owner, Wishes::of(&self.context.shared.config), Some(socket));
        entry.counted = true;
        entry.publish(&self.context.shared.memory);
        self.hand_over(entry, io);
        Ok((handle.0, SocketAddr::NONE))
    }

    fn make_poller(&mut self, request: &Request, io: &mut dyn Readiness) -> Answer {
        let owner = self.owner(request)?;
        let handle = self.allocate_handle()?;
        let shared = &self.context.shared;
        let (index, memory) = (shared.index(handle), &shared.memory);
        let mut entry = Entry::new(handle, index, owner, Wishes::of(&shared.config), None);
        entry.counted = true;
        entry.role = Role::Poller(Box::<Poller>::default());
        // Without the reserved ones, which would double it where there is a power of two of others: an event
        // that finds no room is owed.
        let sockets =
            memory.layout().sockets().saturating_sub(self.context.shared.config.reserved as usize);
        let events = sockets.max(1) * EVENT_BYTES;
        let ring = u32::try_from(events)
            .map_err(|_| Errno::ENOBUFS)
            .and_then(|capacity| shared.ring(capacity, memory.receive_head(index).load()));
        match ring {
            Ok(ring) => entry.channel.receive = ring,
            Err(errno) => {
                entry.give_back(shared);
                return Err(errno);
            }
        }
        entry.publish(memory);
        self.hand_over(entry, io);
        Ok((handle.0, SocketAddr::NONE))
    }

    fn watch(&mut self, request: &Request) -> Answer {
        let (poller, socket) = (request.handle(), Handle(request.number(0)));
        let events = u16::try_from(request.number(1)).map_err(|_| Errno::EINVAL)?;
        let token = request.number(2);
        let shards = self.context.memory().layout().shards;
        if !poller.is_well_formed() || poller.shard() >= shards {
            return Err(Errno::EBADF);
        }
        let here = poller.shard() as usize == self.context.id;
        if here && self.open(poller)?.phase() != Phase::Polling {
            return Err(Errno::EINVAL);
        }
        if self.open(socket)?.phase() == Phase::Polling {
            return Err(Errno::EINVAL);
        }
        match events {
            0 => self.end_watch(socket, poller),
            _ => self.begin_watch(socket, Watch { poller, events, token }),
        }
        NOTHING
    }

    fn listen(&mut self, handle: Handle, backlog: u64, io: &mut dyn Readiness) -> Answer {
        let entry = self.open(handle)?;
        if entry.phase() != Phase::Fresh {
            return Err(Errno::EINVAL);
        }
        // One that was not bound is bound by listening, as the system likes.
        let local = entry.socket.as_ref().ok_or(Errno::EOPNOTSUPP)?.local_addr()?;
        if local.to_ip().is_some_and(|ip| ip.port() == 0) {
            self.permit_bind(handle, &local)?;
        }
        let shared = &self.context.shared;
        let entry = self.table.find(handle).ok_or(Errno::EBADF)?;
        let backlog = backlog.clamp(1, u64::from(MAX_BACKLOG)) as u32;
        let socket = entry.socket.as_mut().ok_or(Errno::EOPNOTSUPP)?;
        let share = backlog.min(shared.config.unaccepted);
        let word = shared.memory.receive_head(entry.channel.index).load();
        let ring = shared.ring(share * 8, word)?;
        // The system's queue is as long as was asked for, though few are accepted ahead.
        if let Err(errno) = socket.listen(backlog) {
            shared.pool.free_ring(&ring.location);
            return Err(errno);
        }
        entry.start_listening(shared, ring, share);
        entry.publish(&shared.memory);
        self.watch_descriptor(handle, io);
        NOTHING
    }

    /// Whether the net's policy lets a kernel bind the address.
    fn permit_bind(&mut self, handle: Handle, address: &SocketAddr) -> Result<(), Errno> {
        let socket = self.open(handle)?.socket.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        let v6_only = socket.option(SocketOption::V6Only).is_ok_and(|only| only != 0);
        if self.context.shared.policy.may_bind(address, v6_only) {
            Ok(())
        } else {
            Err(self.denied("bind", handle, address))
        }
    }

    /// Counts and logs a call that the policy refuses.
    fn denied(&self, call: &str, handle: Handle, address: &SocketAddr) -> Errno {
        self.context.counters.denied.add(1);
        // A kernel that tries for ever does not fill the log.
        if self.context.counters.denied.get() <= LOGGED_DENIALS {
            tracing::warn!(handle = handle.0, %address, "the policy refused a kernel's {call}");
        }
        Errno::EACCES
    }

    fn connect(&mut self, handle: Handle, address: &SocketAddr, io: &mut dyn Readiness) -> Answer {
        self.open(handle)?;
        let entry = self.table.find(handle).ok_or(Errno::EBADF)?;
        match entry.phase() {
            Phase::Fresh => {}
            // The error was reported to who waited or asked for it: as with the system's sockets, this is
            // another attempt. The kernel has not been given the rings of the last one.
            Phase::Connecting if entry.channel.failure.is_some() && !entry.channel.violated => {
                entry.give_rings(&self.context.shared);
                entry.role = Role::Fresh;
                entry.channel.failure = None;
                (entry.channel.receive_ended, entry.channel.send_ended) = (false, false);
                entry.publish(self.context.memory());
            }
            Phase::Connecting => return Err(entry.channel.failure.unwrap_or(Errno::EALREADY)),
            Phase::Open => return Err(Errno::EISCONN),
            _ => return Err(Errno::EOPNOTSUPP),
        }
        if !self.context.shared.policy.may_connect(address) {
            return Err(self.denied("connect", handle, address));
        }
        let begun = self.begin_connect(handle, address)?;
        let (again, done) = (begun.is_err(), begun == Ok(true));
        let entry = self.table.find(handle).ok_or(Errno::EBADF)?;
        entry.start_stream(if done { StreamPhase::Open } else { StreamPhase::Connecting });
        entry.channel.rings_may_change = !done;
        if done {
            self.context.counters.connected.add(1);
        }
        entry.publish(self.context.memory());
        self.forget_tail(handle);
        self.watch_descriptor(handle, io);
        if again {
            self.connect_again(handle, *address);
        }
        NOTHING
    }

    fn shutdown(&mut self, handle: Handle, how: u64) -> Answer {
        let (receive, send) = match how {
            0 => (true, false),
            1 => (false, true),
            2 => (true, true),
            _ => {
                self.open(handle)?;
                return Err(Errno::EINVAL);
            }
        };
        self.open(handle)?;
        let context = &self.context;
        let entry = self.table.find(handle).ok_or(Errno::EBADF)?;
        let slot = handle.slot() as usize;
        match entry.phase() {
            Phase::Open => {}
            Phase::Listening if receive => {
                if let Some(socket) = &mut entry.socket {
                    // Those that wait to be accepted by the system are refused.
                    socket.shutdown(Direction::Receive)?;
                }
                entry.channel.receive_ended = true;
                entry.channel.publish_receive(context.memory());
                self.notify_readable(slot);
                return NOTHING;
            }
            _ => return Err(Errno::ENOTCONN),
        }
        if receive {
            if let Some(socket) = &mut entry.socket {
                // A peer that is gone already has ended it.
                let _ = socket.shutdown(Direction::Receive);
            }
            entry.channel.receive_ended = true;
            entry.channel.publish_receive(context.memory());
        }
        if send {
            // The kernel has published all it sent before it asked.
            entry.load_last_tail(context);
            entry.channel.finish_send = true;
            entry.channel.publish_send(context.memory());
            self.pump_send(slot);
        }
        if receive {
            // Others may watch it.
            self.notify_readable(slot);
        }
        NOTHING
    }

    fn set_option(&mut self, handle: Handle, option: u64, value: u64) -> Answer {
        let option = option_of(option)?;
        let entry = self.open(handle)?;
        let ring = || match u32::try_from(value) {
            Ok(bytes @ 1..=LARGEST_RING) => Ok(bytes),
            _ => Err(Errno::EINVAL),
        };
        let early = matches!(entry.phase(), Phase::Fresh | Phase::Listening);
        match option {
            SocketOption::ReceiveRing | SocketOption::SendRing if !early => {
                return Err(Errno::EISCONN);
            }
            SocketOption::ReceiveRing => entry.wishes.receive_ring = ring()?,
            SocketOption::SendRing => entry.wishes.send_ring = ring()?,
            SocketOption::Detached => {
                if value > 1 {
                    return Err(Errno::EINVAL);
                }
                let detached = value == 1 && !planted(Bug::DetachedForgotten);
                entry.owner = if detached { Owner::Host } else { Owner::AnyLaunch };
            }
            _ => {
                let socket = entry.socket.as_mut().ok_or(Errno::EOPNOTSUPP)?;
                socket.set_option(option, value)?;
            }
        }
        NOTHING
    }

    fn option(&mut self, handle: Handle, option: u64) -> Result<u64, Errno> {
        let option = option_of(option)?;
        let entry = self.open(handle)?;
        let capacity = |capacity: u32, wish: u32| {
            u64::from(if capacity == 0 { crate::pool::ring_capacity(wish) } else { capacity })
        };
        let stream = entry.phase() == Phase::Open;
        let wishes = entry.wishes;
        Ok(match option {
            SocketOption::ReceiveRing if stream => {
                capacity(entry.channel.receive.location.capacity, wishes.receive_ring)
            }
            SocketOption::ReceiveRing => capacity(0, wishes.receive_ring),
            SocketOption::SendRing => {
                capacity(entry.channel.send.location.capacity, wishes.send_ring)
            }
            SocketOption::Detached => u64::from(entry.owner == Owner::Host),
            _ => entry.socket.as_ref().ok_or(Errno::EOPNOTSUPP)?.option(option)?,
        })
    }

    fn print(&mut self, request: &Request) -> Answer {
        let length = usize::try_from(request.number(0)).map_err(|_| Errno::EINVAL)?;
        if length > MAX_TEXT {
            return Err(Errno::EINVAL);
        }
        let bytes: Vec<u8> = (0..length).map(|at| request.text_byte(at)).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let printer =
            self.context.shared.printer.lock().unwrap_or_else(|poison| poison.into_inner());
        match printer.try_send((request.launch(), text)) {
            Ok(()) => self.context.counters.printed.add(1),
            // Nothing waits for a slow terminal.
            Err(_) => self.context.counters.print_dropped.add(1),
        }
        NOTHING
    }
}

fn option_of(number: u64) -> Result<SocketOption, Errno> {
    u32::try_from(number).ok().and_then(SocketOption::from_number).ok_or(Errno::ENOPROTOOPT)
}
