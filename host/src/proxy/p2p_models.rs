//! Models of p2p streams: kernels at both ends of one. As those in `models`, whose small net this is, with a
//! stream between two of its slots.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use gpunet_device::abi::bits::{Progress, Unit};
use gpunet_device::abi::descriptor::{Inboxes, RingLocation};
use gpunet_device::abi::layout::{HEAD_AT, P2P_INBOX_WORDS, PAGE_BYTES, TAIL_AT, UNITS_AT};
use gpunet_device::abi::model::{self, Weakness};
use gpunet_device::abi::net::WINDOW;
use gpunet_device::calls;
use gpunet_device::channel::model as channel;
use gpunet_device::{Errno, Handle, SocketAddr, Thread};

use super::entry::{Entry, Owner};
use super::models::{BASE, RING, Small, WISHES, holds};
use super::stream::StreamPhase;
use super::tests::NoEpoll;
use crate::gpu::{Arena, EmulatedOptions, Gpu, GpuChoice};
use crate::pool::Account;
use crate::transport::{
    Carrier, Direction, Endpoint, KernelStream, PeerEnding, Rings, Socket, Stream, Transport,
};

/// The other end's proxy, which says nothing.
struct Peer;

impl KernelStream for Peer {
    fn rings(&mut self) -> Option<(Rings, Inboxes)> {
        None
    }

    fn receive_ending(&mut self) -> Result<PeerEnding, Errno> {
        Ok(PeerEnding::default())
    }

    fn abandon(&mut self) {}
}

impl Socket for Peer {
    fn transport(&self) -> Transport {
        Transport::P2p
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(SocketAddr::NONE)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Stream for Peer {
    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(SocketAddr::NONE)
    }

    fn shutdown(&mut self, _: Direction) -> Result<(), Errno> {
        Ok(())
    }
}

/// A net with a p2p stream.
struct P2pNet {
    small: Small,
    ends: [Handle; 2],
    _arena: Arena,
}

impl P2pNet {
    fn new() -> Self {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let window = gpu.arena_window().expect("a window");
        let arena = gpu.arena(4 * PAGE_BYTES).expect("memory");
        let mut small = Small::on(&gpu, 2, Some(&window));
        // Each end has a page for its inbox and one for its ring.
        let at = |end: usize, page: usize| (2 * end + page) * PAGE_BYTES;
        for end in 0..2 {
            let mut words = [Unit::blank(BASE).0; P2P_INBOX_WORDS];
            words[..UNITS_AT].fill(0);
            words[TAIL_AT] = Progress::new(BASE, 0).0;
            words[HEAD_AT] = Progress::new(BASE, 0).0;
            let bytes = words.map(u64::to_ne_bytes);
            arena.write(at(end, 0), bytes.as_flattened()).expect("it is there");
            let on_gpu = |page| window.base.wrapping_add(arena.offset() as usize + at(end, page));
            model::knows_words(on_gpu(0).cast(), P2P_INBOX_WORDS);
            model::knows_bytes(on_gpu(1), RING as usize);
        }
        let ring = |end: usize| {
            let offset = arena.offset() + at(end, 1) as u64;
            RingLocation { region: WINDOW, offset, capacity: RING, base: BASE }
        };
        let page = |end| (arena.offset() as usize + at(end, 0)) / PAGE_BYTES;
        let shared = Arc::clone(&small.shard.sockets.context.shared);
        let ends = [0, 1].map(|end| {
            let handle = shared.pool.allocate_handle(Account::Own).expect("a slot");
            let socket = Endpoint::from(Carrier::Kernels(Box::new(Peer)));
            let index = shared.index(handle);
            let mut made = Entry::new(handle, index, Owner::Host, WISHES, Some(socket));
            let (own, peer) = (page(end) as u32, page(1 - end) as u32);
            let rings = Rings { receive: ring(end), send: ring(1 - end) };
            made.channel.use_rings(&shared.memory, (rings, Inboxes { own, peer, one_gpu: true }));
            made.start_stream(StreamPhase::Open);
            made.publish(&shared.memory);
            small.shard.adopt(made, &mut NoEpoll::default());
            handle
        });
        Self { small, ends, _arena: arena }
    }
}

#[test]
fn two_groups_send_on_one_stream() {
    // One as soon as the other has left the direction, and the other end receives all of it.
    holds(3, &[Weakness::StoreRelease], || {
        let P2pNet { small, ends: [near, far], _arena } = P2pNet::new();
        let net = small.net;
        // Their records: who meets while they are made is beyond loom, as who meets at a lock.
        for end in [near, far] {
            channel::rings(net, end).expect("it is open");
        }
        let other = loom::thread::spawn(move || {
            assert_eq!(calls::gsend(net, Thread, near, &[7; 2][..], 0), 2);
        });
        channel::until_sent(net, near, BASE + 2).expect("it is open");
        assert_eq!(calls::gsend(net, Thread, near, &[7; 3][..], 0), 3);
        let mut got = 0;
        while got < 5 {
            let mut buffer = [0; 8];
            let bytes = calls::grecv(net, Thread, far, &mut buffer[..], 0);
            assert!(bytes > 0 && buffer[..bytes as usize].iter().all(|byte| *byte == 7));
            got += bytes as u64;
        }
        other.join().expect("it has sent");
    });
}

#[test]
fn packets_and_the_ring() {
    // A packet, a message by the ring and another packet, once all before it was taken: the reader takes
    // each from the units or all that was announced from the ring, in order and whole.
    let weaknesses = [Weakness::StoreRelease, Weakness::LoadAcquire, Weakness::Tags];
    holds(2, &weaknesses, || {
        let P2pNet { small, ends: [near, far], _arena } = P2pNet::new();
        let net = small.net;
        // As above.
        for end in [near, far] {
            channel::rings(net, end).expect("it is open");
        }
        let sender = loom::thread::spawn(move || {
            channel::send_packet(net, near, &[1, 2, 3]).expect("it is open");
            assert_eq!(calls::gsend(net, Thread, near, &[4, 5][..], 0), 2);
            channel::send_packet(net, near, &[6, 7]).expect("it is open");
        });
        let mut got: Vec<u8> = Vec::new();
        while got.len() < 7 {
            let mut buffer = [0; 8];
            let bytes = channel::receive_whole(net, far, &mut buffer).expect("it is open");
            got.extend(&buffer[..bytes]);
            if bytes == 0 {
                loom::thread::yield_now();
            }
        }
        assert_eq!(got, [1, 2, 3, 4, 5, 6, 7]);
        sender.join().expect("it has sent");
    });
}
