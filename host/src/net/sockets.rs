//! Sockets that the program makes for kernels, hands over and takes back.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Handle, SocketAddr};

use super::{ANSWER, Net};
use crate::error::{DownError, GpuError, SocketError};
use crate::lock::lock;
use crate::pool::Account;
use crate::proxy::entry::{Entry, Owner, Wishes};
use crate::proxy::message::{Message, Released};
use crate::proxy::stream::StreamPhase;
use crate::settings::config::{BACKLOG, MAX_BACKLOG};
use crate::transport::{self, Endpoint, RingRegion, Socket as _};

/// How [`Net::listen_with`] listens; a new one as [`Net::listen`] does.
///
/// ```
/// # use gpunet_host::ListenOptions;
/// let options = ListenOptions::new().backlog(1024).reuse_port(true);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct ListenOptions {
    backlog: u32,
    reuse_port: bool,
    only_v6: Option<bool>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ListenOptions {
    /// A backlog of 512, a port of its own, and IPv4 beside IPv6 as the system has it.
    pub const fn new() -> Self {
        Self { backlog: BACKLOG, reuse_port: false, only_v6: None }
    }

    /// Connections that the system keeps for kernels to accept, 1 to 4096; it may keep fewer
    /// (`net.core.somaxconn`).
    pub const fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }

    /// SO_REUSEPORT: shares the port with listeners of the same user that say so, too, also in other
    /// processes; the system spreads connections over them. RDMA has no such thing.
    pub const fn reuse_port(mut self, share: bool) -> Self {
        self.reuse_port = share;
        self
    }

    /// IPV6_V6ONLY: whether an IPv6 listener leaves IPv4 peers alone; `[::]` takes both on most
    /// systems unless it is set.
    pub const fn only_v6(mut self, only: bool) -> Self {
        self.only_v6 = Some(only);
        self
    }

    /// What is to be set before bind.
    fn socket_options(self) -> impl Iterator<Item = (SocketOption, u64)> {
        let reuse_port = self.reuse_port.then_some((SocketOption::ReusePort, 1));
        let only_v6 = self.only_v6.map(|only| (SocketOption::V6Only, u64::from(only)));
        reuse_port.into_iter().chain(only_v6)
    }
}

impl Net {
    /// Listens at an address, for kernels to accept from. Its handle, and the address with the
    /// port that the system chose. The port is this listener's alone: a second one gets EADDRINUSE.
    ///
    /// # Errors
    /// What the system says to bind or listen; a net whose kernel has faulted.
    pub fn listen(
        &self,
        address: impl Into<SocketAddr>,
    ) -> Result<(Handle, SocketAddr), SocketError> {
        self.listen_with(address, ListenOptions::new())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`listen`](Self::listen), and options that the address does not have.
    pub fn listen_with(
        &self,
        address: impl Into<SocketAddr>,
        options: ListenOptions,
    ) -> Result<(Handle, SocketAddr), SocketError> {
        self.check_alive()?;
        if !(1..=MAX_BACKLOG).contains(&options.backlog) {
            return Err(SocketError::Backlog(options.backlog));
        }
        let address = address.into();
        let failed =
            |call| move |errno| SocketError::Listen { address: Box::new(address), call, errno };
        let domain = address.domain().ok_or(Errno::EAFNOSUPPORT).map_err(failed("socket"))?;
        let mut socket = self.shared.transports.make(domain).map_err(failed("socket"))?;
        for (option, value) in options.socket_options() {
            socket.set_option(option, value).map_err(failed("setsockopt"))?;
        }
        socket.bind(&address).map_err(failed("bind"))?;
        socket.listen(options.backlog).map_err(failed("listen"))?;
        let bound = socket.local_addr().map_err(failed("getsockname"))?;
        Ok((self.adopt(socket, Some(options.backlog), "listen")?, bound))
    }

    /// Hands a connected or listening socket of the program over to kernels. It stays open when
    /// kernels end, and [`take_back`](Self::take_back) returns it.
    ///
    /// # Errors
    /// A socket that is no stream, or is neither connected nor listening; a full table.
    pub fn hand_over(&self, socket: impl Into<OwnedFd>) -> Result<Handle, SocketError> {
        self.check_alive()?;
        let failed = |errno| SocketError::Call { call: "hand_over", errno };
        let (socket, listens) = transport::adopt(socket.into()).map_err(failed)?;
        self.adopt(socket, listens.then_some(BACKLOG), "hand_over")
    }

    /// Takes in a stream, or a listener with that backlog, for that call.
    fn adopt(
        &self,
        socket: Endpoint,
        backlog: Option<u32>,
        call: &'static str,
    ) -> Result<Handle, SocketError> {
        self.check_faults()?;
        let failed = |errno| SocketError::Call { call, errno };
        let shared = &self.shared;
        let wishes = Wishes::of(&shared.config);
        let handle = shared.pool.allocate_handle(Account::Own).map_err(failed)?;
        let index = shared.index(handle);
        let mut made = Entry::new(handle, index, Owner::Host, wishes, Some(socket));
        let rings = if let Some(backlog) = backlog {
            let share = backlog.min(shared.config.unaccepted);
            let word = shared.memory.receive_head(index).load();
            shared.ring(share * 8, word).map(|ring| made.start_listening(shared, ring, share))
        } else {
            made.start_stream(StreamPhase::Open);
            made.channel.allocate(shared, Account::Own, RingRegion::Host, wishes.rings)
        };
        rings.inspect_err(|_| made.give_back(shared)).map_err(failed)?;
        made.publish(&shared.memory);
        let shard = handle.shard() as usize;
        shared.send(shard, Message::Adopt(Box::new(made)));
        // A fault since then has closed listeners before this one was there.
        self.check_faults().inspect_err(|_| shared.send(shard, Message::Close(handle)))?;
        Ok(handle)
    }

    /// No kernel would ever use a socket of a net that launches no more.
    pub(super) fn check_faults(&self) -> Result<(), DownError> {
        match self.gpu.lost() {
            // Of another net's kernel, perhaps, before the supervisor has looked.
            Some(cause) => Err(GpuError::ContextLost { cause }.into()),
            None if lock(&self.launches).faulted => Err(DownError::Faulted),
            None => Ok(()),
        }
    }

    /// Closes a socket, whoever made it and whoever uses it: what is unsent is sent, and calls and
    /// operations on it that begin afterwards return EBADF.
    ///
    /// # Errors
    /// A handle that names none.
    pub fn close(&self, handle: Handle) -> Result<(), SocketError> {
        self.check_process()?;
        let unknown = SocketError::Call { call: "close", errno: Errno::EBADF };
        if handle.shard() as usize >= self.shared.queues.len() {
            return Err(unknown);
        }
        let (done, answer) = mpsc::channel();
        let message = Message::CloseForProgram { handle, done };
        self.shared.send(handle.shard() as usize, message);
        match answer.recv_timeout(ANSWER) {
            Ok(()) => Ok(()),
            Err(RecvTimeoutError::Timeout) => Err(self.no_answer("close")),
            Err(RecvTimeoutError::Disconnected) => {
                self.check_alive()?;
                Err(unknown)
            }
        }
    }

    /// Takes a socket back from kernels, once none runs on this net and no queue is open: the system's socket, and
    /// bytes that had arrived and that no kernel has read. What is unsent is sent first.
    ///
    /// # Errors
    /// A kernel still runs, the handle names no open stream or listener, or the peer does not
    /// take what is unsent within the linger time.
    pub fn take_back(&self, handle: Handle) -> Result<Released, SocketError> {
        self.check_process()?;
        // A queue without work keeps what it knows of the socket, too.
        if self.control.running.load(Ordering::Acquire) > 0 || self.shared.launches.any_runs() {
            return Err(SocketError::Busy);
        }
        if handle.shard() as usize >= self.shared.queues.len() {
            return Err(SocketError::Call { call: "take_back", errno: Errno::EBADF });
        }
        let deadline = Instant::now() + Duration::from_nanos(self.shared.config.linger_ns);
        loop {
            let (to, answer) = mpsc::channel();
            self.shared.send(handle.shard() as usize, Message::Release { handle, to });
            let answer = answer.recv_timeout(ANSWER).map_err(|_| self.no_answer("take_back"))?;
            match answer {
                Err(Errno::EAGAIN) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                answer => {
                    return answer.map_err(|errno| SocketError::Call { call: "take_back", errno });
                }
            }
        }
    }
}
