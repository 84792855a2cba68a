//! What the tests of this folder stand on: places with RDMA, and ends of streams whose kernels
//! publish and read bytes that are known in advance.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpunet_support::testing::{hang_limit, slowness};
use rsocket_shim::protocol::Settings;
use rsocket_shim::stream::{Buffer, Buffers, Listener, Next, Request, State, Stream, StreamError};
use rsocket_shim::verbs::{Access, Device, Domain, HostMemory, Region};
use rustix::event::{Timespec, epoll};

use crate::common::{self, libraries};

/// How long nothing may happen where something must.
pub(crate) fn timeout() -> Duration {
    hang_limit(Duration::from_secs(4))
}
/// How long nothing happens where all has come to rest.
const REST: Duration = Duration::from_millis(400);

/// An address with RDMA, port 0, and a domain of its device.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    pub(crate) domain: Domain,
}

impl Place {
    pub(crate) fn v4() -> Self {
        Self::at(common::v4())
    }

    pub(crate) fn v6() -> Self {
        Self::at(common::v6())
    }

    fn at(address: SocketAddr) -> Self {
        let device = Device::at(libraries(), address).unwrap();
        Self { address, domain: Domain::allocate(&device).unwrap() }
    }

    /// A listener on any port, and where it listens.
    pub(crate) fn listen(&self) -> (Listener, SocketAddr) {
        let listener = Listener::bind(libraries(), self.address).unwrap();
        listener.listen(256).unwrap();
        let address = listener.local_address().unwrap();
        (listener, address)
    }

    /// Begins to connect.
    pub(crate) fn connect(&self, peer: SocketAddr, shape: Shape) -> End {
        let (buffers, [sends, receives]) = shape.rings(self);
        let stream =
            Stream::connect(&self.domain, Some(self.address), peer, buffers, shape.settings);
        End::new(stream.unwrap(), sends, receives)
    }

    /// Accepts.
    pub(crate) fn accept(&self, request: Request, shape: Shape) -> Result<End, StreamError> {
        let (buffers, [sends, receives]) = shape.rings(self);
        let stream = Stream::accept(request, &self.domain, buffers, shape.settings)?;
        Ok(End::new(stream, sends, receives))
    }

    /// Two ends that are open, first the one that connected.
    pub(crate) fn pair(&self, client: Shape, server: Shape) -> (End, End) {
        let (listener, address) = self.listen();
        let mut client = self.connect(address, client);
        let mut server = self.accept(next_request(&listener, &mut client), server).unwrap();
        drive(&mut [&mut client, &mut server], |ends| ends.iter().all(|end| end.is_open()));
        (client, server)
    }
}

/// Waits for a request while a stream is connecting.
pub(crate) fn next_request(listener: &Listener, client: &mut End) -> Request {
    let waiting = Edges::new(&[listener.descriptor(), client.stream.descriptor()]);
    loop {
        if let Some(request) = listener.next().unwrap() {
            return request;
        }
        for _ in waiting.wait(timeout()) {
            client.look();
            assert_eq!(client.error, None);
        }
    }
}

/// Sizes of an end.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) send: (u32, u64),
    pub(crate) receive: (u32, u64),
    pub(crate) settings: Settings,
}

impl Shape {
    /// Two rings of a capacity, whose streams begin at positions.
    pub(crate) fn new(capacity: u32, send_base: u64, receive_base: u64) -> Self {
        let settings = Settings::default();
        Self { send: (capacity, send_base), receive: (capacity, receive_base), settings }
    }

    /// With queues of a size.
    pub(crate) fn queues(mut self, size: u16) -> Self {
        (self.settings.send_queue, self.settings.receive_queue) = (size, size);
        self
    }

    pub(crate) fn rings(&self, place: &Place) -> (Buffers, [Ring; 2]) {
        let make = |(capacity, base): (u32, u64), access| {
            // A ring need not begin where its region does.
            let offset = 64;
            let memory = Arc::new(HostMemory::allocate(offset + capacity as usize).unwrap());
            let region = Region::register(&place.domain, memory.clone(), access).unwrap();
            let buffer = Buffer { region: Arc::new(region), offset, capacity, base };
            (buffer, Ring { memory, offset, capacity: capacity.into(), base, at: base, goal: base })
        };
        let (send, sends) = make(self.send, Access::Source);
        let (receive, receives) = make(self.receive, Access::Target);
        (Buffers { send, receive }, [sends, receives])
    }
}

impl Default for Shape {
    fn default() -> Self {
        Self::new(65536, 0, 0)
    }
}

/// A ring as its kernel knows it.
pub(crate) struct Ring {
    memory: Arc<HostMemory>,
    offset: usize,
    capacity: u64,
    base: u64,
    /// What was published, or read.
    at: u64,
    /// Where the kernel stops.
    goal: u64,
}

impl Ring {
    /// Bytes that were published, or read.
    pub(crate) fn count(&self) -> u64 {
        self.at - self.base
    }

    fn spans(&self, count: u64) -> [(usize, usize); 2] {
        let place = self.at & (self.capacity - 1);
        let first = count.min(self.capacity - place);
        [(self.offset + place as usize, first as usize), (self.offset, (count - first) as usize)]
    }

    fn publish(&mut self, count: u64) {
        let bytes = stream_bytes(self.count(), count as usize);
        let [(place, first), (start, second)] = self.spans(count);
        assert!(self.memory.write(place, &bytes[..first]));
        assert!(second == 0 || self.memory.write(start, &bytes[first..]));
        self.at += count;
    }

    fn read(&mut self, count: u64) {
        let mut bytes = vec![0; count as usize];
        let [(place, first), (start, second)] = self.spans(count);
        assert!(self.memory.read(place, &mut bytes[..first]));
        assert!(second == 0 || self.memory.read(start, &mut bytes[first..]));
        let from = self.count();
        assert!(bytes == stream_bytes(from, bytes.len()), "wrong in {from} + {count}");
        self.at += count;
    }
}

/// What every stream carries.
pub(crate) fn stream_bytes(from: u64, count: usize) -> Vec<u8> {
    let byte = |position: u64| (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8;
    (from..from + count as u64).map(byte).collect()
}

/// A stream with its kernel.
pub(crate) struct End {
    pub(crate) stream: Stream,
    pub(crate) sends: Ring,
    pub(crate) receives: Ring,
    /// Most bytes that are published and read at once.
    pub(crate) piece: u64,
    pub(crate) error: Option<StreamError>,
    /// Wake-ups so far.
    pub(crate) woken: u64,
}

impl End {
    fn new(stream: Stream, sends: Ring, receives: Ring) -> Self {
        Self { stream, sends, receives, piece: u64::MAX, error: None, woken: 0 }
    }

    /// The kernel sends and reads so many more bytes.
    pub(crate) fn will(&mut self, send: u64, read: u64) {
        self.sends.goal += send;
        self.receives.goal += read;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.stream.state() == State::Open
    }

    /// Whether the kernel has sent and read what it will.
    pub(crate) fn is_content(&self) -> bool {
        self.stream.sent() == self.sends.goal && self.receives.at == self.receives.goal
    }

    /// Bytes that have arrived and were not read.
    pub(crate) fn unread(&self) -> u64 {
        self.stream.arrived() - self.receives.at
    }

    /// The error's number, once there is one.
    pub(crate) fn errno(&self) -> Option<i32> {
        self.error.as_ref().map(StreamError::errno)
    }

    fn note(&mut self, next: Result<Next, StreamError>) -> bool {
        match next {
            Ok(next) => next == Next::Again,
            Err(error) => {
                self.error.get_or_insert(error);
                false
            }
        }
    }

    /// The kernel does what it can. Whether there may be more.
    pub(crate) fn step(&mut self) -> bool {
        if self.error.is_some() {
            return self.read();
        }
        let mut moved = self.read();
        let space = self.sends.capacity - (self.sends.at - self.stream.sent());
        let count = space.min(self.sends.goal - self.sends.at).min(self.piece);
        if self.is_open() && count > 0 {
            self.sends.publish(count);
            self.stream.offer(self.sends.at).unwrap();
            moved = true;
        }
        if self.stream.wants_head() {
            self.stream.consumed(self.receives.at).unwrap();
        }
        let next = self.stream.flow();
        // One that has just failed has nothing left to wake anybody with.
        self.note(next) || moved || self.error.is_some()
    }

    fn read(&mut self) -> bool {
        let count = self.unread().min(self.receives.goal - self.receives.at).min(self.piece);
        self.receives.read(count);
        count > 0
    }

    /// The descriptor was readable.
    pub(crate) fn look(&mut self) -> bool {
        self.woken += 1;
        let next = self.stream.progress();
        self.note(next)
    }
}

/// Descriptors that wake up at edges.
pub(crate) struct Edges(std::os::fd::OwnedFd, usize);

impl Edges {
    pub(crate) fn new(descriptors: &[BorrowedFd<'_>]) -> Self {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        for (index, descriptor) in descriptors.iter().enumerate() {
            epoll::add(&set, descriptor, epoll::EventData::new_u64(index as u64), flags).unwrap();
        }
        Self(set, descriptors.len())
    }

    /// Which have woken up; none after the limit.
    pub(crate) fn poll(&self, limit: Duration) -> Vec<usize> {
        let limit = Timespec::try_from(limit).unwrap();
        let mut events = Vec::with_capacity(self.1.max(1));
        epoll::wait(&self.0, rustix::buffer::spare_capacity(&mut events), Some(&limit)).unwrap();
        events.iter().map(|event| event.data.u64() as usize).collect()
    }

    /// As before, and something must.
    pub(crate) fn wait(&self, limit: Duration) -> Vec<usize> {
        let woken = self.poll(limit);
        assert!(!woken.is_empty(), "no wake-up within {limit:?}");
        woken
    }
}

/// Every kernel does what it can. Whether there may be more.
fn step_all(ends: &mut [&mut End]) -> bool {
    let mut more = false;
    for end in ends {
        more |= end.step();
    }
    more
}

/// Has ends go on until something is so. They sleep when they cannot.
pub(crate) fn drive(ends: &mut [&mut End], mut done: impl FnMut(&mut [&mut End]) -> bool) {
    let descriptors: Vec<_> = ends.iter().map(|end| end.stream.descriptor()).collect();
    let edges = Edges::new(&descriptors);
    let begun = Instant::now();
    // What is done may be that they are given more to do.
    while !done(ends) {
        assert!(begun.elapsed() < 6 * timeout(), "it never ends");
        if step_all(ends) {
            continue;
        }
        for index in edges.wait(timeout()) {
            while ends[index].look() {}
        }
    }
}

/// Has ends go on until nothing happens any more.
pub(crate) fn settle(ends: &mut [&mut End]) {
    let descriptors: Vec<_> = ends.iter().map(|end| end.stream.descriptor()).collect();
    let edges = Edges::new(&descriptors);
    loop {
        while step_all(ends) {}
        let woken = edges.poll(REST * slowness().min(4));
        if woken.is_empty() {
            return;
        }
        for index in woken {
            while ends[index].look() {}
        }
    }
}

/// Until both have sent and read what they will.
pub(crate) fn exchange(one: &mut End, other: &mut End) {
    drive(&mut [one, other], |ends| {
        for end in ends.iter() {
            assert_eq!(end.error, None);
        }
        ends.iter().all(|end| end.is_content())
    });
}
