//! Two ends of a connection, of one library or the other, that send and receive whole transfers.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use anyhow::ensure;
use rsocket_shim::load::Libraries;
use rsocket_shim::protocol::Settings;
use rsocket_shim::stock::StockSocket;
use rsocket_shim::stream::{Buffer, Buffers, Listener, Next, State, Stream};
use rsocket_shim::verbs::{Access, Device, Domain, HostMemory, Memory, Place, Region};
use rustix::event::{PollFd, PollFlags, poll};

/// Bytes of a ring of ours: as stock rsocket's buffers.
const RING: u32 = 131_072;

/// One end.
pub(crate) trait Side: Send {
    /// Gives so many bytes to the library.
    fn send(&mut self, bytes: usize) -> anyhow::Result<()>;
    /// Takes so many bytes.
    fn receive(&mut self, bytes: usize) -> anyhow::Result<()>;
    /// Says goodbye. Writes of the stream so far, as the library counts them, if it does.
    fn close(self: Box<Self>) -> anyhow::Result<Option<u64>>;
    /// Where the program keeps what it sends and receives.
    fn memory(&self) -> Vec<Range<u64>>;
}

/// Stock rsocket.
pub(crate) struct Stock {
    socket: StockSocket,
    room: Vec<u8>,
}

impl Stock {
    /// Both ends.
    pub(crate) fn pair(
        libraries: &'static Libraries,
        local: SocketAddr,
        largest: usize,
    ) -> anyhow::Result<[Box<dyn Side>; 2]> {
        let listener = StockSocket::new(libraries, local)?;
        listener.bind(local)?;
        listener.listen(1)?;
        let address = listener.local_address()?;
        let accepting = std::thread::spawn(move || listener.accept());
        let one = StockSocket::new(libraries, local)?;
        one.connect(address)?;
        let (other, _) = accepting.join().expect("accepting does not panic")?;
        Ok([one, other]
            .map(|socket| Box::new(Self { socket, room: vec![1; largest] }) as Box<dyn Side>))
    }
}

impl Side for Stock {
    fn send(&mut self, bytes: usize) -> anyhow::Result<()> {
        let mut from = 0;
        while from < bytes {
            from += self.socket.send(&self.room[from..bytes])?;
        }
        Ok(())
    }

    fn receive(&mut self, bytes: usize) -> anyhow::Result<()> {
        let mut to = 0;
        while to < bytes {
            let length = self.socket.receive(&mut self.room[to..bytes])?;
            ensure!(length > 0, "the peer left");
            to += length;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> anyhow::Result<Option<u64>> {
        self.socket.close()?;
        Ok(None)
    }

    fn memory(&self) -> Vec<Range<u64>> {
        let from = self.room.as_ptr().addr() as u64;
        vec![from..from + self.room.len() as u64]
    }
}

/// Our stream. The program's memory is the rings.
pub(crate) struct Ours {
    stream: Stream,
    memory: Vec<Arc<HostMemory>>,
    tail: u64,
    head: u64,
}

impl Ours {
    /// Both ends.
    pub(crate) fn pair(
        libraries: &'static Libraries,
        local: SocketAddr,
    ) -> anyhow::Result<[Box<dyn Side>; 2]> {
        let domain = Domain::allocate(&Device::at(libraries, local)?)?;
        let listener = Listener::bind(libraries, local)?;
        listener.listen(1)?;
        let address = listener.local_address().expect("it is bound");
        let (buffers, memory) = rings(&domain)?;
        let stream = Stream::connect(&domain, Some(local), address, buffers, Settings::default())?;
        let mut one = Self { stream, memory, tail: 0, head: 0 };
        let request = loop {
            if let Some(request) = listener.next()? {
                break request;
            }
            let descriptors = [one.stream.descriptor(), listener.descriptor()];
            let mut descriptors = descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            poll(&mut descriptors, None)?;
            let _ = one.stream.progress()?;
        };
        let (buffers, memory) = rings(&domain)?;
        let stream = Stream::accept(request, &domain, buffers, Settings::default())?;
        let other = Self { stream, memory, tail: 0, head: 0 };
        while one.stream.state() != State::Open {
            one.wait()?;
        }
        Ok([Box::new(one), Box::new(other)])
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let mut descriptor = [PollFd::from_borrowed_fd(self.stream.descriptor(), PollFlags::IN)];
        poll(&mut descriptor, None)?;
        while self.stream.progress()? == Next::Again {}
        Ok(())
    }

    fn flow(&mut self) -> anyhow::Result<()> {
        while self.stream.flow()? == Next::Again {}
        Ok(())
    }
}

fn rings(domain: &Domain) -> anyhow::Result<(Buffers, Vec<Arc<HostMemory>>)> {
    let mut memory = Vec::new();
    let mut ring = |access| -> anyhow::Result<Buffer> {
        let pages = Arc::new(HostMemory::allocate(RING as usize).expect("memory for a ring"));
        memory.push(Arc::clone(&pages));
        let region = Arc::new(Region::register(domain, pages, access)?);
        Ok(Buffer { region, offset: 0, capacity: RING, base: 0 })
    };
    let buffers = Buffers { send: ring(Access::Source)?, receive: ring(Access::Target)? };
    Ok((buffers, memory))
}

impl Side for Ours {
    fn send(&mut self, bytes: usize) -> anyhow::Result<()> {
        let mut left = bytes as u64;
        loop {
            let space = u64::from(RING) - (self.tail - self.stream.sent());
            let count = space.min(left);
            self.tail += count;
            left -= count;
            self.stream.offer(self.tail)?;
            self.flow()?;
            if left == 0 {
                return Ok(());
            }
            if self.stream.sent() + u64::from(RING) == self.tail {
                self.wait()?;
            }
        }
    }

    fn receive(&mut self, bytes: usize) -> anyhow::Result<()> {
        let mut left = bytes as u64;
        loop {
            self.flow()?;
            let count = (self.stream.arrived() - self.head).min(left);
            self.head += count;
            left -= count;
            if self.stream.wants_head() {
                self.stream.consumed(self.head)?;
                self.flow()?;
            }
            if left == 0 {
                return Ok(());
            }
            if self.stream.arrived() == self.head {
                ensure!(!self.stream.is_peer_done(), "the peer left");
                self.wait()?;
            }
        }
    }

    fn close(mut self: Box<Self>) -> anyhow::Result<Option<u64>> {
        let writes = self.stream.work().writes;
        while !self.stream.leave() {
            self.wait()?;
        }
        Ok(Some(writes))
    }

    fn memory(&self) -> Vec<Range<u64>> {
        let places = self.memory.iter().map(|memory| memory.place());
        places
            .filter_map(|place| match place {
                Place::Host { address, length } => Some(address..address + length as u64),
                _ => None,
            })
            .collect()
    }
}
