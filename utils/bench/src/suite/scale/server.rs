//! A net with connections of the clients' process, some of them active, some in a passive state, and the
//! kernel that serves them.
//!
//! The connections are handed over, so that they outlive launches: while another net is measured, no
//! kernel runs on this one, and its threads sleep.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use gpunet_bench_kernels::scale::{READY, SHARED_MEMORY, close_unsent, connect_p2p, serve_many};
use gpunet_device::Errno;
use gpunet_host::{Gpu, Net, NetBuilder, Shape, Task, TransportChoice};

use super::super::Serving;
use super::clients::{Clients, Group};
use super::process::NetThreads;
use crate::memory::{Memory, Watched};

/// Capacity of each ring.
pub(super) const RING: u32 = 4 << 10;
/// How long a kernel may take until it waits, or has done what it was launched for, beside what each
/// socket may take.
const KERNEL: Duration = Duration::from_secs(20);
/// What one socket may take of a kernel's time, or of the proxy's.
const SOCKET: Duration = Duration::from_millis(10);
/// How long a kernel's call may wait.
const CALL: Duration = Duration::from_secs(60);
/// How long a closed socket may take to send what is unsent: longer than the suite runs.
const LINGER: Duration = Duration::from_secs(3600);
/// How long blocks have waited when a measurement begins.
const WAITED: Duration = Duration::from_millis(5);
/// What a client may receive of a socket that lingers, before the system rounds it up.
const SMALL_BUFFER: usize = 1024;
/// Sockets beside connections: a listener, and two pollers for each block.
const OTHER_SOCKETS: u32 = 16;

/// What a passive connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Passive {
    /// It is open, and nothing has come.
    Idle,
    /// Its receive ring is full, and more has come.
    Full,
    /// It is in the poller of a block that serves others, and nothing has come.
    Watched,
    /// It is in a poller whose events nobody takes; its event is there, and more has come.
    Owed,
    /// The kernel has closed it, and its peer does not read what is unsent.
    Lingering,
    /// It is a kernel-to-kernel stream in the poller of a block that serves others, and nothing has come.
    P2p,
}

impl Passive {
    /// Sockets of the net that each one has.
    const fn sockets(self) -> u32 {
        if matches!(self, Self::P2p) { 2 } else { 1 }
    }
}

/// What a net is made for.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// Connections that are served.
    pub(super) active: usize,
    /// Others, and what they do.
    pub(super) passive: usize,
    pub(super) state: Passive,
    pub(super) blocks: u32,
}

/// A net with its connections.
pub(super) struct Server {
    net: Net,
    load: Load,
    /// Active ones first, then those that a launch adds to a poller.
    sockets: Memory,
    watched: u64,
    owed: u64,
    states: Watched,
    active: Group,
    passive: Option<Group>,
    pub(super) threads: NetThreads,
}

impl Server {
    /// Makes the net with `settings`, opens all connections and brings them into their state.
    pub(super) fn new(
        gpu: &Gpu,
        clients: &mut Clients,
        load: Load,
        settings: impl Fn(NetBuilder) -> NetBuilder,
    ) -> Result<Self> {
        let before: BTreeSet<u64> = NetThreads::before()?;
        let net = settings(builder(gpu, load)).build()?;
        let threads = NetThreads::since(&before)?;
        let states = Watched::new(gpu, load.blocks as usize)?;
        let (active, mut sockets) = connect(&net, clients, load.active, 0)?;
        let mut passive = None;
        let (mut watched, mut owed) = (load.active as u64, 0);
        if load.passive > 0 && load.state == Passive::P2p {
            sockets.extend(p2p(gpu, &net, load.passive)?);
            watched += load.passive as u64;
        } else if load.passive > 0 {
            let buffer = if load.state == Passive::Lingering { SMALL_BUFFER } else { 0 };
            let (group, handles) = connect(&net, clients, load.passive, buffer)?;
            passive = Some(group);
            match load.state {
                Passive::Idle | Passive::P2p => {}
                Passive::Full => fill(&net, clients, group, load.passive)?,
                Passive::Watched => watched += load.passive as u64,
                Passive::Owed => {
                    owed += load.passive as u64;
                    clients.send(group, load.passive, 1)?;
                }
                Passive::Lingering => close(gpu, &net, &handles, load, &states)?,
            }
            sockets.extend(handles);
        }
        let memory = Memory::new(gpu, 8 * sockets.len().max(1))?;
        memory.write(&sockets)?;
        let sockets = memory;
        Ok(Self { net, load, sockets, watched, owed, states, active, passive, threads })
    }

    /// Launches the kernel, waits until all its blocks wait, measures on the active connections, and ends
    /// the launch.
    pub(super) fn with_kernel<T>(
        &self,
        clients: &mut Clients,
        measure: impl FnOnce(&mut Clients, Group) -> Result<T>,
    ) -> Result<T> {
        clear(&self.states);
        let shape = Shape::new(self.load.blocks, 32).shared_memory(SHARED_MEMORY);
        let (sockets, states) = (self.sockets.words(), self.states.words());
        let arguments = (sockets, self.watched, self.owed, states);
        let serving = Serving(self.net.launch(serve_many, shape, arguments)?);
        ready(&self.states, self.load, "the server")?;
        if let Some(group) = self.passive.filter(|_| self.owed > 0) {
            // The event of each is in the ring: this is owed until somebody takes it.
            clients.send(group, self.load.passive, 1)?;
        }
        std::thread::sleep(WAITED);
        let measured = measure(clients, self.active);
        // The server's error says more than the client that lost it.
        check(&self.states, "the server")?;
        let measured = measured?;
        serving.stop()?;
        let open = self.net.statistics().sockets;
        let wanted = self.load.passive as u64 * u64::from(self.load.state.sockets());
        ensure!(open >= wanted, "{open} sockets are open, {wanted} were to be passive");
        Ok(measured)
    }

    /// Ends the connections, then the net: a socket that lingers does so no longer.
    pub(super) fn end(self, clients: &mut Clients) -> Result<()> {
        for group in self.passive.into_iter().chain([self.active]) {
            clients.close(group)?;
        }
        Ok(())
    }
}

fn builder(gpu: &Gpu, load: Load) -> NetBuilder {
    let connections = load.active as u32 + load.passive as u32 * load.state.sockets();
    let sockets = connections + 2 * load.blocks + OTHER_SOCKETS;
    // A poller's ring holds an event of each socket, a listener's 512 handles.
    let events = (u64::from(sockets) * 16).next_power_of_two().max(u64::from(RING));
    let pollers = 2 * u64::from(load.blocks) * events;
    let rings = u64::from(connections + OTHER_SOCKETS) * 2 * u64::from(RING);
    let transport = match load.state {
        Passive::P2p => TransportChoice::Local,
        _ => TransportChoice::Tcp,
    };
    Net::builder(gpu)
        .sockets(sockets)
        .ring(RING)
        .ring_memory(rings + pollers)
        .timeout(CALL)
        .linger(LINGER)
        .transport(transport)
}

/// Opens connections of the clients' process, and hands this end of each over to the net.
fn connect(
    net: &Net,
    clients: &mut Clients,
    count: usize,
    receive_buffer: usize,
) -> Result<(Group, Vec<u64>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let group = clients.open(listener.local_addr()?.port(), count, receive_buffer)?;
    let deadline = Instant::now() + KERNEL + SOCKET * count as u32;
    let mut handles = Vec::with_capacity(count);
    while handles.len() < count {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nodelay(true)?;
                handles.push(net.hand_over(stream)?.0);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if Instant::now() > deadline {
                    // What the clients say is the reason.
                    clients.opened(0)?;
                    bail!("{} of {count} connections came in time", handles.len());
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            Err(error) => return Err(error.into()),
        }
    }
    clients.opened(count)?;
    Ok((group, handles))
}

/// Has clients send more than a ring holds, and waits until all rings are full.
fn fill(net: &Net, clients: &mut Clients, group: Group, count: usize) -> Result<()> {
    clients.send(group, count, 2 * RING as usize)?;
    let wanted = count as u64 * u64::from(RING);
    let deadline = Instant::now() + KERNEL + SOCKET * count as u32;
    loop {
        let received = net.statistics().received_bytes;
        if received >= wanted {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{received} of {wanted} bytes filled rings in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Has a kernel close sockets with unsent bytes, and checks that they are there.
fn close(gpu: &Gpu, net: &Net, handles: &[u64], load: Load, states: &Watched) -> Result<()> {
    let sockets = Memory::new(gpu, 8 * handles.len())?;
    sockets.write(handles)?;
    clear(states);
    let shape = Shape::new(load.blocks, 32).shared_memory(SHARED_MEMORY);
    let arguments = (sockets.words(), states.words());
    let closing = Serving(net.launch(close_unsent, shape, arguments)?);
    ready(states, load, "the kernel that closes")?;
    closing.0.wait_timeout(KERNEL)?;
    let open = net.dump()?;
    let lingering = open.iter().filter(|socket| socket.state == "closing").count();
    ensure!(lingering >= handles.len(), "{lingering} of {} sockets linger", handles.len());
    Ok(())
}

/// Kernel-to-kernel streams: the handles of their accepted ends.
fn p2p(gpu: &Gpu, net: &Net, count: usize) -> Result<Vec<u64>> {
    let (listener, address) = net.listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let accepted = Memory::new(gpu, 8 * count)?;
    let states = Watched::new(gpu, 1)?;
    let shape = Shape::new(1, 32).shared_memory(SHARED_MEMORY);
    let (transport, ring) = (TransportChoice::Local as u64, u64::from(RING));
    let (to, state) = (accepted.words(), states.words());
    let arguments = (listener, address, transport, ring, to, state);
    let connecting = Serving(net.launch(connect_p2p, shape, arguments)?);
    let load = Load { active: 0, passive: count, state: Passive::P2p, blocks: 1 };
    ready(&states, load, "the kernel that connects")?;
    connecting.0.wait_timeout(KERNEL)?;
    accepted.read(count)
}

fn clear(states: &Watched) {
    states.all().for_each(|state| state.store(0, Ordering::Release));
}

/// Waits until all blocks are ready.
fn ready(states: &Watched, load: Load, what: &str) -> Result<()> {
    let sockets = (load.active + load.passive) as u32;
    let deadline = Instant::now() + KERNEL + SOCKET * sockets;
    let blocks = load.blocks as usize;
    while states.all().take(blocks).any(|state| state.load(Ordering::Acquire) == 0) {
        check(states, what)?;
        ensure!(Instant::now() < deadline, "{what} is not ready in time");
        std::thread::sleep(Duration::from_millis(1));
    }
    check(states, what)
}

/// Whether no block has failed.
fn check(states: &Watched, what: &str) -> Result<()> {
    for (block, state) in states.all().enumerate() {
        match state.load(Ordering::Acquire) {
            0 | READY => {}
            state => bail!("{what}, block {block}: {}", Errno(-state.cast_signed() as i32)),
        }
    }
    Ok(())
}
