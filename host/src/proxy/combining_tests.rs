//! What a kernel may see of words on a write-combining mapping of GPU memory, whose stores reach it
//! in any order between two store fences: the shard's own code over a processor that delays and
//! reverses them (`memory/model.rs`).

use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use gpunet_device::Handle;
use gpunet_device::abi::bits::Progress;
use gpunet_device::abi::descriptor::{Kind, SocketDescriptor, Status};
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::message::{Operation, Request};

use super::entry::{Entry, Owner, Wishes};
use super::shard::Shard;
use super::shared::Shared;
use super::tests::{Harness, NoEpoll};
use crate::gpu::Gpu;
use crate::memory::model::combined;
use crate::memory::{ControlMemory, HostControl, Memory};
use crate::settings::policy::Policy;
use crate::transport::RingSizes;

/// Where the connection of a harness lies.
const SOCKET: usize = 1;

/// A shard with an open connection, and its peer.
fn shard() -> (Shard, NoEpoll, UnixStream) {
    shard_with(HostControl::combining)
}

fn shard_with(
    control: impl FnOnce(&Gpu, &gpunet_device::abi::layout::Layout) -> HostControl,
) -> (Shard, NoEpoll, UnixStream) {
    let Harness { mut shard, connection, peer } = Harness::with(Policy::open(), control);
    let mut io = NoEpoll::default();
    shard.adopt(connection, &mut io);
    shard.turn(0, &mut io);
    (shard, io, peer)
}

/// Works while a kernel looks: the data that it saw when it first saw the flag is the data that
/// stands there in the end, and nothing lingers.
fn published<D: PartialEq + std::fmt::Debug + 'static>(
    shared: &Arc<Shared>,
    flag: impl Fn(&Memory) -> bool + 'static,
    data: fn(&Memory) -> D,
    work: impl FnOnce(),
) {
    assert!(!flag(&shared.memory), "nothing is published yet");
    let before = data(&shared.memory);
    let first = Rc::new(RefCell::new(None));
    let kernel = {
        let (shared, first) = (Arc::clone(shared), Rc::clone(&first));
        move || {
            if flag(&shared.memory) {
                first.borrow_mut().get_or_insert_with(|| data(&shared.memory));
            }
        }
    };
    let (fences, lingering) = combined(kernel, work);
    assert!(fences > 0);
    assert_eq!(lingering, 0, "stores that have not left the processor");
    let now = data(&shared.memory);
    assert_ne!(now, before, "there is data to be seen");
    assert_eq!(first.take(), Some(now), "the data is there with the flag");
}

#[test]
fn who_sees_the_number_of_a_reply_sees_the_reply() {
    let (mut shard, mut io, _peer) = shard();
    let shared = Arc::clone(&shard.sockets.context.shared);
    shared.launches.set(0, true);
    let request = Request::new(Operation::Poller, 0, Handle::NONE, [0; 4]);
    shared.memory.request(0).write(&request.0);
    shared.memory.request_sequence(0).store_release(1);
    published(
        &shared,
        |memory| memory.reply_sequence(0).seen() == 1,
        |memory| memory.reply(0).seen(),
        || {
            shard.turn(1, &mut io);
        },
    );
}

#[test]
fn who_sees_a_packet_announced_sees_its_units() {
    let (mut shard, mut io, mut peer) = shard();
    let shared = Arc::clone(&shard.sockets.context.shared);
    peer.write_all(b"a packet").expect("the pair holds it");
    published(
        &shared,
        |memory| Progress(memory.live(SOCKET).get(0).seen()).is_packet(),
        |memory| memory.receive_units(SOCKET).seen(),
        || {
            shard.ready(Handle::new(0, 1, 1).0);
            shard.turn(1, &mut io);
        },
    );
}

#[test]
fn who_sees_a_failure_sees_which() {
    for side in [0, 1] {
        let (mut shard, _io, _peer) = shard();
        let shared = Arc::clone(&shard.sockets.context.shared);
        published(
            &shared,
            move |memory| Progress(memory.live(SOCKET).get(side).seen()).has_failed(),
            |memory| Status(memory.live(SOCKET).get(2).seen()).errno(),
            || {
                let connection =
                    shard.sockets.table.find(Handle::new(0, 1, 1)).expect("it is open");
                connection.channel.fail(Errno::ECONNRESET, &shard.sockets.context);
            },
        );
    }
}

#[test]
fn a_descriptor_is_never_seen_half_changed() {
    let (shard, _io, _peer) = shard();
    let shared = Arc::clone(&shard.sockets.context.shared);
    let old = shared.memory.descriptor(SOCKET).seen();
    let torn = Rc::new(Cell::new(false));
    let kernel = {
        let (shared, torn) = (Arc::clone(&shared), Rc::clone(&torn));
        move || {
            let seen = shared.memory.descriptor(SOCKET).seen();
            torn.set(torn.get() || (seen[0] == old[0] && seen != old));
        }
    };
    let wishes = Wishes { rings: RingSizes { receive: 4096, send: 4096 }, timeout_ns: 9 };
    let mut next = Entry::new(Handle::new(0, 1, 2), SOCKET, Owner::Host, wishes, None);
    let (_, lingering) = combined(kernel, || next.publish(&shared.memory));
    assert_eq!((lingering, torn.get()), (0, false));
    let new = SocketDescriptor::from_words(&shared.memory.descriptor(SOCKET).seen())
        .expect("a descriptor");
    assert_eq!((new.generation, new.kind, new.timeout_ns), (2, Kind::Fresh, 9));

    // And with the new word 0 all is new: the descriptor, and what it promises of the live words.
    published(
        &shared,
        |memory| {
            memory.descriptor(SOCKET).get(0).seen()
                == SocketDescriptor::changing(3) | Kind::Fresh as u64
        },
        |memory| (memory.descriptor(SOCKET).seen(), memory.live(SOCKET).seen()),
        || {
            let wishes = Wishes { timeout_ns: 10, ..wishes };
            let handle = Handle::new(0, 1, 3);
            let mut third = Entry::new(handle, SOCKET, Owner::Host, wishes, None);
            third.channel.receive.ours += 128;
            third.publish(&shared.memory);
        },
    );
}

#[test]
fn a_heartbeat_does_not_linger_and_is_not_read_back() {
    let (mut shard, mut io, _peer) = shard();
    let memory = &shard.sockets.context.shared.memory;
    let before = memory.last_beat(0);
    // What the supervisor sees comes from beside the mapping.
    let (_, lingering) = combined(|| {}, || memory.beat(0, before + 1));
    assert_eq!((lingering, memory.last_beat(0)), (1, before + 1));
    let (_, lingering) = combined(
        || {},
        || {
            shard.turn(1, &mut io);
        },
    );
    assert_eq!(lingering, 0, "the turn has sent it");
}

#[test]
fn other_memory_pays_for_no_fence() {
    for wish in [ControlMemory::Host, ControlMemory::Gpu] {
        let (mut shard, mut io, mut peer) =
            shard_with(|gpu, layout| HostControl::new(gpu, layout, wish).expect("control memory"));
        peer.write_all(b"a packet").expect("the pair holds it");
        let (fences, _) = combined(
            || {},
            || {
                shard.ready(Handle::new(0, 1, 1).0);
                shard.turn(1, &mut io);
            },
        );
        assert_eq!((fences, shard.sockets.context.counters.received_packets.get()), (0, 1));
        assert!(shard.sockets.context.shared.memory.last_beat(0) > 0);
    }
}
