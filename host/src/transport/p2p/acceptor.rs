//! The p2p part of a listener: calls of this machine's kernels, and the handshakes that follow.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use gpunet_device::{Domain, SocketAddr};

use super::super::ready_set::{AT_ONCE, ReadySet};
use super::super::system::Registration;
use super::super::{Acceptor, Carrier, RingRegion, RingSizes, Socket, Transport};
use super::handshake::{Handshake, Progressed, TIMEOUT};
use super::names::Names;
use super::shared::P2p;
use super::stream::P2pStream;

/// Handshakes that a listener has under way. More wait in its queue ...
const MOST_HANDSHAKES: usize = 256;
/// ... until the oldest has taken so long, and has to go.
const PROMPT: Duration = Duration::from_millis(250);
/// Calls that a listener takes in one turn.
const CALLS: usize = 32;
/// Keys in the listener's set: of the queue of calls, and of handshakes from the second on. Those
/// below are other acceptors'.
const CALLS_KEY: u64 = 16;

/// See the module.
pub(super) struct P2pAcceptor {
    p2p: Arc<P2p>,
    registration: Box<dyn Registration>,
    domain: Domain,
    address: SocketAddr,
    /// By key, so that the oldest comes first; with when it began.
    handshakes: BTreeMap<u64, (Box<Handshake>, Duration)>,
    next_key: u64,
    next: Option<Box<P2pStream>>,
    /// Something waits that was not looked at, and which no edge will report.
    more: bool,
    /// What the listener waits on.
    set: Arc<ReadySet>,
}

impl P2pAcceptor {
    pub(super) fn new(
        p2p: Arc<P2p>,
        registration: Box<dyn Registration>,
        domain: Domain,
        address: SocketAddr,
        set: Arc<ReadySet>,
    ) -> Result<Self, Errno> {
        set.add(registration.descriptor(), CALLS_KEY)?;
        let handshakes = BTreeMap::new();
        let (next_key, next, more) = (CALLS_KEY + 1, None, false);
        Ok(Self { p2p, registration, domain, address, handshakes, next_key, next, more, set })
    }

    /// Goes on with the handshakes, until one has become a stream.
    fn turn(&mut self, sizes: RingSizes) -> Result<(), Errno> {
        if self.next.is_some() {
            return Ok(());
        }
        self.more = true;
        self.drop_overdue();
        // Those that wait first: they need no descriptors, and give some back.
        let ready = self.set.ready()?;
        for key in &ready {
            if let Some((handshake, begun)) = self.handshakes.remove(key) {
                self.turn_one(*key, handshake, begun);
            }
            if self.next.is_some() {
                return Ok(());
            }
        }
        for _ in 0..CALLS {
            if !self.has_room() {
                return Ok(());
            }
            let Some(socket) = self.registration.next()? else {
                self.more = ready.len() == AT_ONCE;
                return Ok(());
            };
            let names = Names { domain: self.domain, own: self.address, peer: SocketAddr::NONE };
            let channel = self.p2p.channel(socket);
            match Handshake::answer(Arc::clone(&self.p2p), channel, names, sizes) {
                Ok(handshake) => {
                    let key = self.next_key;
                    self.next_key += 1;
                    self.set.add(handshake.as_fd(), key)?;
                    self.turn_one(key, handshake, self.p2p.system.now());
                }
                Err(errno) => self.p2p.refusals.log(|left_out| {
                    tracing::warn!(%errno, left_out, "a p2p stream was refused");
                }),
            }
            if self.next.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn turn_one(&mut self, key: u64, handshake: Box<Handshake>, begun: Duration) {
        match handshake.turn() {
            Ok(Progressed::Later(handshake)) => {
                self.handshakes.insert(key, (handshake, begun));
            }
            Ok(Progressed::Done(stream)) => {
                if let Some(descriptor) = stream.descriptor() {
                    self.set.remove(descriptor);
                }
                self.next = Some(stream);
            }
            Err(errno) => self.p2p.refusals.log(|left_out| {
                tracing::info!(%errno, left_out, "a p2p stream did not come about");
            }),
        }
    }

    fn drop_overdue(&mut self) {
        let now = self.p2p.system.now();
        while let Some(oldest) = self.handshakes.first_entry() {
            if now.saturating_sub(oldest.get().1) < TIMEOUT {
                break;
            }
            oldest.remove();
        }
    }

    /// Whether there is room for one more handshake.
    fn has_room(&mut self) -> bool {
        if self.handshakes.len() < MOST_HANDSHAKES {
            return true;
        }
        let now = self.p2p.system.now();
        let is_slow = |begun: Duration| now.saturating_sub(begun) >= PROMPT;
        let slow = self.handshakes.first_entry().filter(|it| is_slow(it.get().1));
        slow.map(|oldest| oldest.remove()).is_some()
    }
}

impl Socket for P2pAcceptor {
    fn transport(&self) -> Transport {
        Transport::P2p
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(self.address)
    }

    /// None: it is in the listener's set already, with its handshakes.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Acceptor for P2pAcceptor {
    fn region(&mut self, sizes: RingSizes) -> Result<Option<RingRegion>, Errno> {
        self.turn(sizes)?;
        Ok(self.next.as_ref().map(|_| RingRegion::Window))
    }

    fn accept(&mut self) -> Result<Option<Carrier>, Errno> {
        match self.next.take() {
            Some(stream) => Ok(Some(Carrier::Kernels(stream))),
            // Tried again a little later: no edge will come for who waits already.
            None if self.more => Err(Errno::ENOBUFS),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::linux::Linux;
    use super::*;
    use crate::gpu::{EmulatedOptions, Gpu, GpuChoice};

    /// Has it look at its calls; how many handshakes it then has.
    fn look(acceptor: &mut P2pAcceptor) -> usize {
        assert_eq!(acceptor.region(RingSizes { receive: 4096, send: 4096 }), Ok(None));
        acceptor.handshakes.len()
    }

    fn age(acceptor: &mut P2pAcceptor, count: usize, by: Duration) {
        for (_, begun) in acceptor.handshakes.values_mut().take(count) {
            *begun = begun.checked_sub(by).expect("the clock runs longer");
        }
    }

    #[test]
    fn calls_are_taken_as_there_is_room() {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let p2p = Arc::new(P2p::new(&Linux, &gpu, 64 << 20).expect("it works"));
        let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = held.local_addr().expect("it has one").into();
        let registration = p2p.registry.listen(&address, false, false).expect("nobody has it");
        let set = Arc::new(ReadySet::new(&Linux).expect("a set"));
        let domain = Domain::V4;
        let mut acceptor =
            P2pAcceptor::new(Arc::clone(&p2p), registration, domain, address, set).expect("one");
        let call = |_| p2p.registry.call(&address).expect("it works").expect("it listens");
        let idle: Vec<_> = (0..MOST_HANDSHAKES + 1).map(call).collect();
        for turn in 1..=MOST_HANDSHAKES / CALLS {
            assert_eq!(look(&mut acceptor), turn * CALLS);
            assert_eq!(acceptor.accept().err(), Some(Errno::ENOBUFS), "more calls wait");
        }
        // All of them are young, and one waits behind them.
        assert_eq!(look(&mut acceptor), MOST_HANDSHAKES);
        assert_eq!(acceptor.accept().err(), Some(Errno::ENOBUFS));
        age(&mut acceptor, 1, PROMPT);
        assert_eq!(look(&mut acceptor), MOST_HANDSHAKES);
        // That one found room, and idle ones cost nothing.
        let before = super::super::tests::RECEIVED.get();
        assert_eq!(look(&mut acceptor), MOST_HANDSHAKES);
        assert_eq!(super::super::tests::RECEIVED.get(), before);
        age(&mut acceptor, MOST_HANDSHAKES, TIMEOUT);
        assert_eq!(look(&mut acceptor), 0, "they are over");
        assert!(matches!(acceptor.accept(), Ok(None)));
        drop(idle);
    }
}
