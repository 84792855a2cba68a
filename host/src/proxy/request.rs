//! Answers to the requests of kernels. Everything in a request is untrusted.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::list_bytes;
use gpunet_device::abi::message::{MAX_TEXT, Operation, Reply, Request};
use gpunet_device::abi::option::SocketOption;
use gpunet_device::poller::EVENT_BYTES;
use gpunet_device::{Domain, Handle, SocketAddr};

use super::accepting::make_room;
use super::closing::{Closer, Closing};
use super::connecting::Connecting;
use super::context::Context;
use super::entry::{Drains, Entry, Owner, Phase, Role, Wishes};
use super::notices::Notices;
use super::options;
use super::poller::Poller;
use super::schedule::News;
use super::shared::{Readiness, Shared};
use super::sockets::Sockets;
use super::stream::StreamPhase;
use super::visit::Visit;
use super::watchers::Watch;
use crate::lock::lock;
use crate::pool::Account;
use crate::settings::config::MAX_BACKLOG;
use crate::transport::{Direction, Endpoint, Socket as _};

/// Refused calls of a proxy thread that are logged; the rest are counted.
const LOGGED_DENIALS: u64 = 100;

/// What a request comes to: a number and an address, or an error.
type Answer = Result<(u64, SocketAddr), Errno>;

const NOTHING: Answer = Ok((0, SocketAddr::NONE));

/// The sockets of a shard, as requests use them.
pub(super) struct Requests<'a> {
    pub(super) sockets: &'a mut Sockets,
    pub(super) io: &'a mut dyn Readiness,
}

impl Requests<'_> {
    /// Answers a request, at once.
    pub(super) fn answer(&mut self, request: &Request) -> Reply {
        match self.carry_out(request) {
            Ok((number, address)) => Reply::new(0, number, &address),
            Err(errno) => {
                tracing::trace!(operation = ?request.operation(), %errno, "request refused");
                Reply::new(errno.negative(), 0, &SocketAddr::NONE)
            }
        }
    }

    fn carry_out(&mut self, request: &Request) -> Answer {
        let handle = request.handle();
        match request.operation().ok_or(Errno::EOPNOTSUPP)? {
            Operation::Socket => self.make_socket(request),
            Operation::Bind => self.bind(handle, &request.address()),
            Operation::Listen => self.listen(handle, request.number(0)),
            Operation::Connect => self.connect(handle, &request.address()),
            Operation::Shutdown => self.shutdown(handle, request.number(0)),
            Operation::Close => self.close(handle),
            Operation::PeerName => {
                let entry = open(self.sockets, handle)?.entry;
                if !entry.is_open() {
                    return Err(Errno::ENOTCONN);
                }
                let carrier = entry.socket.as_ref().and_then(Endpoint::carrier);
                Ok((0, carrier.ok_or(Errno::EOPNOTSUPP)?.peer_addr()?))
            }
            Operation::SocketName => {
                let entry = open(self.sockets, handle)?.entry;
                Ok((0, entry.socket.as_ref().ok_or(Errno::EOPNOTSUPP)?.local_addr()?))
            }
            Operation::SetOption => {
                let entry = open(self.sockets, handle)?.entry;
                options::set(entry, request.number(0), request.number(1)).and(NOTHING)
            }
            Operation::GetOption => {
                let entry = open(self.sockets, handle)?.entry;
                Ok((options::get(entry, request.number(0))?, SocketAddr::NONE))
            }
            Operation::Time => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok((since.as_nanos() as u64, SocketAddr::NONE))
            }
            Operation::Print => print(&self.sockets.context, request),
            Operation::Poller => self.make_poller(request),
            Operation::Watch => self.watch(request),
            Operation::WatchList => self.watch_list(handle),
        }
    }

    /// A new socket of the launch that asks, if the net's policy lets it have one more.
    fn make(
        &mut self,
        request: &Request,
        socket: impl FnOnce(&Shared) -> Result<Option<Endpoint>, Errno>,
    ) -> Result<Entry, Errno> {
        let (launch, shared) = (request.launch(), Arc::clone(&self.sockets.context.shared));
        if !shared.launches.runs(launch) {
            // It would own the socket for ever.
            return Err(Errno::EINVAL);
        }
        let socket = socket(&shared)?;
        let limits = &shared.policy.limits;
        if !limits.acquire_socket() {
            return Err(denied(&self.sockets.context, "socket", Handle::NONE, &SocketAddr::NONE));
        }
        let mut handle = shared.pool.allocate_handle(Account::Own);
        if handle.is_err() && make_room(self.sockets, self.io) {
            handle = shared.pool.allocate_handle(Account::Own);
        }
        let handle = handle.inspect_err(|_| limits.release_socket())?;
        let (index, wishes) = (shared.index(handle), Wishes::of(&shared.config));
        let mut made = Entry::new(handle, index, Owner::Launch(launch), wishes, socket);
        made.counted = true;
        Ok(made)
    }

    /// A new socket is published, and its shard has it before its kernel.
    fn start(&mut self, mut made: Entry) -> Answer {
        let handle = made.handle;
        made.publish(self.sockets.context.memory());
        self.sockets.hand_over(made, self.io);
        Ok((handle.0, SocketAddr::NONE))
    }

    fn make_socket(&mut self, request: &Request) -> Answer {
        const STREAM: u64 = 1;
        const TCP: u64 = 6;
        let domain = u16::try_from(request.number(0)).ok().and_then(Domain::from_number);
        let domain = domain.ok_or(Errno::EAFNOSUPPORT)?;
        let protocol = request.number(2);
        let known = protocol == 0 || (protocol == TCP && domain != Domain::Unix);
        if request.number(1) != STREAM || !known {
            return Err(Errno::EPROTONOSUPPORT);
        }
        let made = self.make(request, |shared| shared.transports.make(domain).map(Some))?;
        self.start(made)
    }

    fn make_poller(&mut self, request: &Request) -> Answer {
        let mut made = self.make(request, |_| Ok(None))?;
        let shared = &self.sockets.context.shared;
        let (memory, reserved) = (&shared.memory, shared.config.reserved as usize);
        made.role = Role::Poller(Box::<Poller>::default());
        // Without the reserved ones, which would double it where there is a power of two of others: an event
        // that finds no room is owed.
        let events = memory.layout().sockets().saturating_sub(reserved).max(1) * EVENT_BYTES;
        let word = memory.receive_head(made.channel.index).load();
        let capacity = u32::try_from(events).map_err(|_| Errno::ENOBUFS);
        let ring = capacity.and_then(|capacity| shared.ring(capacity, word));
        made.channel.receive = ring.inspect_err(|_| made.give_back(shared))?;
        self.start(made)
    }

    /// Memory for a poller's list of p2p streams, which it keeps.
    fn watch_list(&mut self, poller: Handle) -> Answer {
        let Visit { entry, context, .. } = open(self.sockets, poller)?;
        let Role::Poller(poller) = &mut entry.role else { return Err(Errno::EINVAL) };
        if poller.list.is_none() {
            let bytes = list_bytes(context.memory().layout().sockets());
            let bytes = u32::try_from(bytes).map_err(|_| Errno::ENOBUFS)?;
            poller.list = context.shared.transports.kernel_memory(bytes).transpose()?;
        }
        let page = poller.list.as_ref().map_or(0, |list| u64::from(list.page()) + 1);
        Ok((page, SocketAddr::NONE))
    }

    fn watch(&mut self, request: &Request) -> Answer {
        let (poller, socket) = (request.handle(), Handle(request.number(0)));
        let events = u16::try_from(request.number(1)).map_err(|_| Errno::EINVAL)?;
        let token = request.number(2);
        let shards = self.sockets.context.memory().layout().shards;
        if !poller.is_well_formed() || poller.shard() >= shards {
            return Err(Errno::EBADF);
        }
        let here = poller.shard() as usize == self.sockets.context.id;
        if here && open(self.sockets, poller)?.entry.phase() != Phase::Polling {
            return Err(Errno::EINVAL);
        }
        if open(self.sockets, socket)?.entry.phase() == Phase::Polling {
            return Err(Errno::EINVAL);
        }
        match events {
            0 => Notices(self.sockets).end_watch(socket, poller),
            _ => Notices(self.sockets).begin_watch(socket, Watch { poller, events, token }),
        }
        NOTHING
    }

    fn bind(&mut self, handle: Handle, address: &SocketAddr) -> Answer {
        let Visit { entry, context, .. } = open(self.sockets, handle)?;
        if entry.phase() != Phase::Fresh {
            return Err(Errno::EINVAL);
        }
        permit_bind(context, entry, address)?.bind(address)?;
        entry.bound = true;
        NOTHING
    }

    fn listen(&mut self, handle: Handle, backlog: u64) -> Answer {
        let Visit { entry, context, .. } = open(self.sockets, handle)?;
        if entry.phase() != Phase::Fresh {
            return Err(Errno::EINVAL);
        }
        let backlog = backlog.clamp(1, u64::from(MAX_BACKLOG)) as u32;
        let share = backlog.min(context.shared.config.unaccepted);
        let word = context.memory().receive_head(entry.channel.index).load();
        let mut socket = entry.socket.as_mut().ok_or(Errno::EOPNOTSUPP)?;
        if !entry.bound {
            // It is bound by listening, as the system likes, or was by a connect that has failed.
            let local = socket.local_addr()?;
            socket = permit_bind(context, entry, &local)?;
        }
        let ring = context.shared.ring(share * 8, word)?;
        // The system's queue is as long as was asked for, though few are accepted ahead.
        let listens = socket.listen(backlog);
        listens.inspect_err(|_| context.shared.pool.free_ring(&ring.location))?;
        entry.start_listening(&context.shared, ring, share);
        entry.publish(context.memory());
        if let Some(mut visit) = self.sockets.visit(handle) {
            visit.watch_descriptor(self.io);
        }
        NOTHING
    }

    fn connect(&mut self, handle: Handle, address: &SocketAddr) -> Answer {
        let mut visit = open(self.sockets, handle)?;
        let (entry, context) = (&mut *visit.entry, &*visit.context);
        match (entry.phase(), entry.channel.endings.failure) {
            (Phase::Fresh, _) => {}
            // The error was reported to who waited or asked for it: as with the system's sockets, this is
            // another attempt. The kernel has not been given the rings of the last one.
            (Phase::Connecting, Some(_)) if !entry.channel.endings.violated => {
                entry.channel.release(&context.shared);
                entry.channel.endings = Default::default();
                entry.role = Role::Fresh;
                entry.publish(context.memory());
            }
            (Phase::Connecting, failure) => return Err(failure.unwrap_or(Errno::EALREADY)),
            (Phase::Open, _) => return Err(Errno::EISCONN),
            _ => return Err(Errno::EOPNOTSUPP),
        }
        if !context.shared.policy.may_connect(address) {
            return Err(denied(context, "connect", handle, address));
        }
        let begun = Connecting(&mut visit).begin(address)?;
        let done = begun == Ok(true);
        let phase = if done { StreamPhase::Open } else { StreamPhase::Connecting };
        visit.entry.start_stream(phase);
        visit.entry.channel.rings_may_change = !done;
        if done {
            visit.context.counters.connected.add(1);
        }
        visit.entry.publish(visit.context.memory());
        visit.forget_tail();
        visit.watch_descriptor(self.io);
        if begun.is_err() {
            Connecting(&mut visit).again(*address);
        }
        NOTHING
    }

    fn shutdown(&mut self, handle: Handle, how: u64) -> Answer {
        let mut visit = open(self.sockets, handle)?;
        let (receive, send) = match how {
            0 => (true, false),
            1 => (false, true),
            2 => (true, true),
            _ => return Err(Errno::EINVAL),
        };
        let (entry, context) = (&mut *visit.entry, &*visit.context);
        let socket = entry.socket.as_mut().ok_or(Errno::ENOTCONN)?;
        match &entry.role {
            // Those that wait to be accepted by the system are refused.
            Role::Listener(_) if receive => socket.shutdown(Direction::Receive)?,
            Role::Stream(stream) if stream.phase == StreamPhase::Open => {
                if receive {
                    // A peer that is gone already has ended it.
                    let _ = socket.shutdown(Direction::Receive);
                }
            }
            _ => return Err(Errno::ENOTCONN),
        }
        if receive {
            entry.channel.endings.receive = true;
            entry.channel.publish_receive(context.memory());
            // Others may watch it.
            visit.schedule.report(entry, News::READABLE);
        }
        if send && let Some(mut pump) = entry.pump(context) {
            // The kernel has published all it sent before it asked.
            pump.load_last_tail();
            entry.channel.endings.finish_send = true;
            entry.channel.publish_send(context.memory());
            visit.send();
        }
        NOTHING
    }

    fn close(&mut self, handle: Handle) -> Answer {
        let drains = |visit: Visit<'_>| visit.entry.drains != Drains::No;
        if self.sockets.visit(handle).is_some_and(drains) {
            // The host has closed it meanwhile; the kernel has both of its locks, for good.
            self.sockets.context.shared.drain.left_by_kernel(handle);
        }
        open(self.sockets, handle)?;
        let mut closing = Closing { sockets: self.sockets, io: self.io };
        closing.close(handle, Closer::Kernel);
        // The kernel's next request may need the slot.
        closing.finish(handle);
        NOTHING
    }
}

/// A socket of a shard that is not closed.
fn open(sockets: &mut Sockets, handle: Handle) -> Result<Visit<'_>, Errno> {
    let visit = sockets.visit(handle);
    visit.filter(|visit| !visit.entry.is_closing()).ok_or(Errno::EBADF)
}

/// The socket of an entry, if the net's policy lets a kernel bind the address.
fn permit_bind<'a>(
    context: &Context,
    entry: &'a mut Entry,
    address: &SocketAddr,
) -> Result<&'a mut Endpoint, Errno> {
    let socket = entry.socket.as_mut().ok_or(Errno::EOPNOTSUPP)?;
    let v6_only = socket.option(SocketOption::V6Only).is_ok_and(|only| only != 0);
    if context.shared.policy.may_bind(address, v6_only) {
        Ok(socket)
    } else {
        Err(denied(context, "bind", entry.handle, address))
    }
}

/// Counts and logs a call that the policy refuses.
fn denied(context: &Context, call: &str, handle: Handle, address: &SocketAddr) -> Errno {
    context.counters.denied.add(1);
    // A kernel that tries for ever does not fill the log.
    if context.counters.denied.get() <= LOGGED_DENIALS {
        tracing::warn!(handle = handle.0, %address, "the policy refused a kernel's {call}");
    }
    Errno::EACCES
}

/// Hands a line to the printer.
fn print(context: &Context, request: &Request) -> Answer {
    let length = usize::try_from(request.number(0)).map_err(|_| Errno::EINVAL)?;
    if length > MAX_TEXT {
        return Err(Errno::EINVAL);
    }
    let bytes: Vec<u8> = (0..length).map(|at| request.text_byte(at)).collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let printer = lock(&context.shared.printer);
    match printer.try_send((request.launch(), text)) {
        Ok(()) => context.counters.printed.add(1),
        // Nothing waits for a slow terminal.
        Err(_) => context.counters.print_dropped.add(1),
    }
    NOTHING
}
