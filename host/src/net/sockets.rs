//! Sockets that the program makes for kernels, hands over and takes back.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gpunet_device::abi::errno::Errno;
use gpunet_device::{Handle, SocketAddr};

use super::{ANSWER, Net, NetError};
use crate::pool::Account;
use crate::proxy::entry::{Entry, Owner, Wishes};
use crate::proxy::message::{Message, Released};
use crate::proxy::stream::StreamPhase;
use crate::settings::config::BACKLOG;
use crate::transport::{self, Endpoint, RingRegion};

impl Net {
    /// Listens at an address, for kernels to accept from. Its handle, and the address with the
    /// port that the system chose.
    ///
    /// # Errors
    /// What the system says to bind or listen.
    pub fn listen(&self, address: impl Into<SocketAddr>) -> Result<(Handle, SocketAddr), NetError> {
        let address = address.into();
        let failed = |call| move |errno| NetError::Socket { call, errno };
        let domain = address.domain().ok_or(Errno::EAFNOSUPPORT).map_err(failed("listen"))?;
        let mut socket = self.shared.transports.make(domain).map_err(failed("socket"))?;
        socket.bind(&address).map_err(failed("bind"))?;
        socket.listen(BACKLOG).map_err(failed("listen"))?;
        let bound = socket.local_addr().map_err(failed("getsockname"))?;
        Ok((self.adopt(socket, true)?, bound))
    }

    /// Hands a connected or listening socket of the program over to kernels. It stays open when
    /// kernels end, and [`take_back`](Self::take_back) returns it.
    ///
    /// # Errors
    /// A socket that is no stream, or is neither connected nor listening; a full table.
    pub fn hand_over(&self, socket: impl Into<OwnedFd>) -> Result<Handle, NetError> {
        let failed = |errno| NetError::Socket { call: "hand_over", errno };
        let (socket, listens) = transport::adopt(socket.into()).map_err(failed)?;
        self.adopt(socket, listens)
    }

    fn adopt(&self, socket: Endpoint, listens: bool) -> Result<Handle, NetError> {
        self.check_alive()?;
        let failed = |errno| NetError::Socket { call: "hand_over", errno };
        let shared = &self.shared;
        let wishes = Wishes::of(&shared.config);
        let handle = shared.pool.take_handle(Account::Own).map_err(failed)?;
        let index = shared.index(handle);
        let mut made = Entry::new(handle, index, Owner::Host, wishes, Some(socket));
        let rings = if listens {
            let share = shared.config.unaccepted;
            let word = shared.memory.receive_head(index).load();
            shared.ring(share * 8, word).map(|ring| made.start_listening(shared, ring, share))
        } else {
            made.start_stream(StreamPhase::Open);
            made.take_rings(shared, Account::Own, RingRegion::Host)
        };
        if let Err(errno) = rings {
            made.give_back(shared);
            return Err(failed(errno));
        }
        made.publish(&shared.memory);
        shared.tell(handle.shard() as usize, Message::Adopt(Box::new(made)));
        Ok(handle)
    }

    /// Takes a socket back from kernels, once none runs on this net: the system's socket, and
    /// bytes that had arrived and that no kernel has read. What is unsent is sent first.
    ///
    /// # Errors
    /// A kernel still runs, the handle names no open stream or listener, or the peer does not
    /// take what is unsent within the linger time.
    pub fn take_back(&self, handle: Handle) -> Result<Released, NetError> {
        if self.control.running.load(Ordering::Acquire) > 0 {
            return Err(NetError::Busy);
        }
        if handle.shard() as usize >= self.shared.inboxes.len() {
            return Err(NetError::Socket { call: "take_back", errno: Errno::EBADF });
        }
        let deadline = Instant::now() + Duration::from_nanos(self.shared.config.linger_ns);
        loop {
            let (to, answer) = mpsc::channel();
            self.shared.tell(handle.shard() as usize, Message::Release { handle, to });
            let answer = answer.recv_timeout(ANSWER).map_err(|_| self.silent("take_back"))?;
            match answer {
                Err(Errno::EAGAIN) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                answer => {
                    return answer.map_err(|errno| NetError::Socket { call: "take_back", errno });
                }
            }
        }
    }
}
