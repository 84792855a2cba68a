//! Two ends of a connection, of one library or the other, that send and receive whole transfers.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rsocket_shim::load::Libraries;
use rsocket_shim::protocol::Settings;
use rsocket_shim::stock::{Readiness, StockSocket};
use rsocket_shim::stream::{Buffer, Buffers, Listener, Next, State, Stream, Work};
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
    /// Waits until all that was given is with the device.
    fn finish(&mut self) -> anyhow::Result<()>;
    /// Takes the completions that have come.
    fn look(&mut self) -> anyhow::Result<()>;
    /// Disconnects.
    fn close(self: Box<Self>) -> anyhow::Result<()>;
    /// What the library says that it has done so far, if it does.
    fn work(&self) -> Option<Work>;
    /// Where the program keeps what it sends, and what it receives.
    fn memory(&self) -> [Range<u64>; 2];
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

    /// Sending returns only then.
    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn look(&mut self) -> anyhow::Result<()> {
        let wanted = Readiness { readable: true, ..Readiness::default() };
        self.socket.poll(wanted, Some(Duration::ZERO))?;
        Ok(())
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.socket.close()?)
    }

    fn work(&self) -> Option<Work> {
        None
    }

    fn memory(&self) -> [Range<u64>; 2] {
        let from = self.room.as_ptr().addr() as u64;
        let range = from..from + self.room.len() as u64;
        [range.clone(), range]
    }
}

/// Our stream. The program's memory is the rings.
pub(crate) struct Ours {
    stream: Stream,
    memory: [Arc<HostMemory>; 2],
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

fn rings(domain: &Domain) -> anyhow::Result<(Buffers, [Arc<HostMemory>; 2])> {
    let pages = || HostMemory::allocate(RING as usize).map(Arc::new).context("no memory");
    let memory = [pages()?, pages()?];
    let ring = |index: usize, access| -> anyhow::Result<Buffer> {
        let region = Arc::new(Region::register(domain, memory[index].clone(), access)?);
        Ok(Buffer { region, offset: 0, capacity: RING, base: 0 })
    };
    let buffers = Buffers { send: ring(0, Access::Source)?, receive: ring(1, Access::Target)? };
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

    fn finish(&mut self) -> anyhow::Result<()> {
        while self.stream.sent() < self.tail {
            self.wait()?;
        }
        Ok(())
    }

    fn look(&mut self) -> anyhow::Result<()> {
        self.flow()
    }

    fn close(mut self: Box<Self>) -> anyhow::Result<()> {
        while !self.stream.leave() {
            let mut descriptor =
                [PollFd::from_borrowed_fd(self.stream.descriptor(), PollFlags::IN)];
            poll(&mut descriptor, None)?;
        }
        Ok(())
    }

    fn work(&self) -> Option<Work> {
        Some(self.stream.work())
    }

    fn memory(&self) -> [Range<u64>; 2] {
        self.memory.each_ref().map(|memory| match memory.place() {
            Place::Host { address, length } => address..address + length as u64,
            _ => 0..0,
        })
    }
}
