//! A p2p stream whose other end writes into the inbox as no kernel of this library would: tails, heads and
//! units of its choice. A kernel that receives reads and writes nothing outside its inbox, its ring and
//! its buffer, and comes back with bytes or an error; one that sends fills no more than the space there is.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpunet_device::abi::bits::{P2P_PACKET_BYTES, P2P_PACKET_UNITS, Progress, Unit};
use gpunet_device::abi::descriptor::{Inboxes, RingLocation};
use gpunet_device::abi::layout::{
    HEAD_AT, Layout, P2P_INBOX_BYTES, P2P_INBOX_WORDS, PAGE_BYTES, TAIL_AT, UNITS_AT,
};
use gpunet_device::abi::net::WINDOW;
use gpunet_device::calls::{self, MSG_DONTWAIT, MSG_PEEK, POLLIN, PollFd};
use gpunet_device::{Errno, Group as _, Handle, Net, SharedBuf, Stream, simt};

use super::entry::{Entry, Owner, Wishes};
use super::stream::StreamPhase;
use crate::gpu::{Arena, EmulatedOptions, Gpu, GpuChoice, LaunchSpec, WaitOutcome};
use crate::memory::{ControlMemory, HostControl, Memory};
use crate::transport::{RingSizes, Rings};

const RING: u32 = 8192;
const BASE: u64 = 1 << 57 | 5 << 33;
/// What stands wherever nobody may write.
const CANARY: u8 = 0xA5;
/// How long a call waits.
const TIMEOUT_NS: u64 = 3_000_000;
/// Shared memory of a block, and where the buffer lies in it.
const SHARED_BYTES: u32 = 16 << 10;
const BUFFER_AT: usize = 4096;

// Inbox and ring of this end, then of the other, each between pages that are nobody's.
const OWN_INBOX: usize = PAGE_BYTES;
const OWN_RING: usize = OWN_INBOX + P2P_INBOX_BYTES + PAGE_BYTES;
const PEER_INBOX: usize = OWN_RING + RING as usize + PAGE_BYTES;
const PEER_RING: usize = PEER_INBOX + P2P_INBOX_BYTES + PAGE_BYTES;
const ARENA: usize = PEER_RING + RING as usize + PAGE_BYTES;

/// A net with one end of a stream.
struct End {
    gpu: Gpu,
    memory: Memory,
    arena: Arena,
    handle: Handle,
}

impl End {
    /// The other end has written that tail, and units that begin there.
    fn new(tail: Progress, units_begin: u64) -> Self {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let layout = Layout { shards: 1, socket_slots: 1, request_slots: 1 };
        let control = HostControl::new(&gpu, &layout, ControlMemory::Host).expect("words");
        let window = gpu.arena_window().expect("a window");
        let minute = 60_000_000_000;
        let memory = Memory::new(&gpu, layout, control, 4096, false, Some(&window), minute);
        let memory = memory.expect("memory");
        let arena = gpu.arena(ARENA).expect("memory");
        arena.write(0, &[CANARY; ARENA]).expect("it is there");
        for (at, tail) in [(OWN_INBOX, tail), (PEER_INBOX, Progress::new(BASE, 0))] {
            let mut words = [Unit::new(0x4141_4141, units_begin).0; P2P_INBOX_WORDS];
            words[..UNITS_AT].fill(0);
            (words[TAIL_AT], words[HEAD_AT]) = (tail.0, Progress::new(BASE, 0).0);
            let bytes = words.map(u64::to_ne_bytes);
            arena.write(at, bytes.as_flattened()).expect("it is there");
        }
        let handle = Handle::new(0, 0, 1);
        let wishes =
            Wishes { rings: RingSizes { receive: RING, send: RING }, timeout_ns: TIMEOUT_NS };
        let mut made = Entry::new(handle, 0, Owner::Host, wishes, None);
        let ring = |at: usize| {
            let offset = arena.offset() + at as u64;
            RingLocation { region: WINDOW, offset, capacity: RING, base: BASE }
        };
        let page = |at: usize| ((arena.offset() as usize + at) / PAGE_BYTES) as u32;
        let rings = Rings { receive: ring(OWN_RING), send: ring(PEER_RING) };
        let inboxes = Inboxes { own: page(OWN_INBOX), peer: page(PEER_INBOX), one_gpu: true };
        made.channel.use_rings(&memory, (rings, inboxes));
        made.start_stream(StreamPhase::Open);
        made.publish(&memory);
        Self { gpu, memory, arena, handle }
    }

    /// Has a block of so many threads run a kernel, which finishes in time. `meanwhile`: while it runs.
    fn run(
        &self,
        threads: u32,
        kernel: impl Fn() + Send + Sync + 'static,
        meanwhile: impl FnOnce(),
    ) {
        let spec = LaunchSpec {
            module: "tests".into(),
            kernel: "hostile".into(),
            grid: 1.into(),
            block: threads.into(),
            shared_bytes: SHARED_BYTES,
            params: Vec::new(),
            entry: Arc::new(kernel),
        };
        let running = self.gpu.launch(spec).expect("it fits");
        meanwhile();
        assert_eq!(
            running.wait(Some(gpunet_support::testing::hang_limit(Duration::from_secs(6)))),
            Ok(WaitOutcome::Finished)
        );
    }

    /// Has blocks of so many threads receive in all ways; what is wrong.
    fn receive(&self, threads: u32) -> Vec<String> {
        let wrong = Arc::new(Mutex::new(Vec::new()));
        let (net, handle) = (self.memory.device_net(0, 1), self.handle);
        let noted = Arc::clone(&wrong);
        let begun = Instant::now();
        self.run(threads, move || receive_in_all_ways(net, handle, &noted), || ());
        let mut wrong = wrong.lock().expect("nobody panics with it").clone();
        if begun.elapsed() > gpunet_support::testing::hang_limit(Duration::from_secs(3)) {
            wrong.push(format!("it took {:?}", begun.elapsed()));
        }
        wrong.extend(self.strange_bytes());
        wrong
    }

    /// Has a block of so many threads send so many bytes; what the call says.
    fn send(&self, threads: u32, length: usize) -> i64 {
        let (net, handle) = (self.memory.device_net(0, 1), self.handle);
        let sent = Arc::new(AtomicI64::new(0));
        let noted = Arc::clone(&sent);
        let send = move || {
            let (group, buffer) = (net.block().group(), simt::shared_memory());
            let sent = calls::gsend(net, group, handle, buffer.first(length), 0);
            noted.store(sent, Ordering::Relaxed);
        };
        self.run(threads, send, || ());
        sent.load(Ordering::Relaxed)
    }

    /// How far the kernel says that it has received.
    fn head(&self) -> u64 {
        let mut head = [0; 8];
        self.arena.read(PEER_INBOX + 8 * HEAD_AT, &mut head).expect("it is there");
        Progress(u64::from_ne_bytes(head)).count()
    }

    /// Where something was written that is nobody's, or the other end's alone.
    fn strange_bytes(&self) -> Option<String> {
        let mut bytes = vec![0; ARENA];
        self.arena.read(0, &mut bytes).expect("it is there");
        let nobodys = [
            0..OWN_INBOX,
            OWN_INBOX + P2P_INBOX_BYTES..OWN_RING,
            OWN_RING + RING as usize..PEER_INBOX,
            PEER_INBOX + P2P_INBOX_BYTES..ARENA,
        ];
        let strange = nobodys.into_iter().flatten().find(|at| bytes[*at] != CANARY)?;
        Some(format!("byte {strange} of the arena was written"))
    }
}

/// What each thread of the block runs.
fn receive_in_all_ways(net: Net, handle: Handle, wrong: &Mutex<Vec<String>>) {
    let (on, shared) = (net.block(), simt::shared_memory());
    let group = on.group();
    let complain = |text: String| {
        if group.is_leader() {
            wrong.lock().expect("nobody panics with it").push(text);
        }
    };
    let cover = |byte: u8| {
        group.barrier();
        for at in (group.rank()..shared.len()).step_by(group.size()) {
            shared.set(at, byte);
        }
        group.barrier();
    };
    let untouched = |buffer: SharedBuf| {
        group.barrier();
        let inside = BUFFER_AT..BUFFER_AT + buffer.len();
        let outside = (0..shared.len()).filter(|at| !inside.contains(at));
        outside.into_iter().all(|at| shared.get(at) == Some(CANARY))
    };
    for length in [1, 5, 300, P2P_PACKET_BYTES + 100] {
        for flags in [MSG_PEEK | MSG_DONTWAIT, MSG_PEEK, MSG_DONTWAIT, 0] {
            let buffer = shared.slice(BUFFER_AT, length);
            cover(CANARY);
            let got = calls::grecv(net, group, handle, buffer, flags);
            if got > length as i64 {
                complain(format!("a buffer of {length} bytes got {got}"));
            }
            if !untouched(buffer) {
                complain(format!("{got} of {length} bytes went beyond the buffer"));
            }
        }
    }
    // A slice of the ring, and what a poll says of it.
    let stream = Stream::from_handle(on, handle);
    if let Ok(Some(peek)) = stream.peek(1) {
        if peek.len() > RING as usize {
            complain(format!("a slice has {} bytes", peek.len()));
        }
        peek.consume(1);
    }
    let entries = shared.cast::<PollFd>().first(1);
    if group.is_leader() {
        entries.set(0, PollFd { handle, events: POLLIN, revents: 0, reserved: 0 });
    }
    group.barrier();
    let polled = calls::gpoll(net, group, entries, 1);
    if !(0..=1).contains(&polled) {
        complain(format!("a poll gave {polled}"));
    }
    let _ = stream.into_handle();
}

#[test]
fn a_tail_of_any_length_is_bytes_or_an_error() {
    let most = u64::MAX >> 3;
    let behind = [0, 1, 3, 256, 257, 4096, 4097, 5000, 8191, 8192, 8193, 1 << 20, 1 << 31, 1 << 32];
    let counts = behind.map(|behind| BASE + behind).into_iter();
    let counts = counts.chain([BASE + (1 << 32) + 5, BASE - 1, BASE - 4096, 0, 1, most - 1, most]);
    let flags = [0, Progress::ENDED, Progress::ENDED | Progress::FAILED];
    let mut wrong = Vec::new();
    for (number, count) in counts.enumerate() {
        // All units have the tag of where the reader stands, or that of an earlier packet.
        for units_begin in [BASE, BASE - 1] {
            let ending = flags[number % flags.len()];
            for flags in [Progress::PACKET, Progress::PACKET | ending, 0] {
                let threads = [1, 32, 64][(number + flags as usize) % 3];
                let tail = Progress::new(count, flags);
                let end = End::new(tail, units_begin);
                let found = end.receive(threads);
                let length = count.wrapping_sub(BASE);
                let case = format!("{} behind, flags {flags}", length as i64);
                wrong.extend(found.into_iter().map(|what| format!("{case}: {what}")));
                // What is whole is received, and what no packet can be is not.
                let is_packet = tail.is_packet();
                let whole = !is_packet || units_begin == BASE;
                let most = if is_packet { P2P_PACKET_BYTES as u64 } else { RING.into() };
                let expected = (1..=most).contains(&length) && whole;
                // A warp compares 32 bits of a counter, and takes what such a peer has put there.
                let either = is_packet && length >> 32 != 0;
                if (end.head() > BASE) != expected && !either {
                    wrong.push(format!("{case}: the head is at {}", end.head() - BASE));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An end to which the first unit of a packet has come, and no other will.
fn with_the_first_unit() -> End {
    let end = End::new(Progress::new(BASE + 4096, Progress::PACKET), BASE - 1);
    let first = Unit::new(7, BASE).0.to_ne_bytes();
    end.arena.write(OWN_INBOX + 8 * UNITS_AT, &first).expect("it is there");
    const { assert!(P2P_PACKET_UNITS > 1) };
    end
}

#[test]
fn who_asks_for_the_rest_of_a_packet_again_and_again_sees_that_it_was_stopped() {
    for threads in [1, 32, 64] {
        let end = with_the_first_unit();
        let (net, handle) = (end.memory.device_net(0, 1), end.handle);
        let last = Arc::new(AtomicI64::new(0));
        let (noted, begun) = (Arc::clone(&last), Instant::now());
        let ask = move || {
            let (group, buffer) = (net.block().group(), simt::shared_memory());
            let mut got = 0;
            // The leader's clock counts.
            while group.broadcast([begun.elapsed().as_secs()])[0] < 30 {
                got = calls::grecv(net, group, handle, buffer, MSG_DONTWAIT);
                if got != Errno::EAGAIN.negative() {
                    break;
                }
            }
            noted.store(got, Ordering::Relaxed);
        };
        end.run(threads, ask, || end.memory.stop(0, Errno::ECANCELED));
        assert_eq!(last.load(Ordering::Relaxed), Errno::ECANCELED.negative());
        assert_eq!(end.head(), BASE, "nothing was received");
    }
}

#[test]
fn a_packet_that_never_comes_as_a_whole_ends_with_an_error() {
    let end = with_the_first_unit();
    for threads in [1, 32, 64] {
        assert_eq!(end.receive(threads), [] as [String; 0]);
        assert_eq!(end.head(), BASE, "nothing was received");
    }
}

#[test]
fn a_head_of_another_stream_is_no_space() {
    let sent: i64 = 5000;
    // Its lower half is that of a head which leaves space. Or it is ahead of all that is sent.
    let of_others = [BASE - (1 << 33) + 8192, BASE - (1 << 32) + 5000, BASE + (1 << 33) + 4096];
    for head in of_others.into_iter().chain([BASE + 20_000, 0]) {
        for threads in [1, 32, 64] {
            let end = End::new(Progress::new(BASE, 0), BASE - 1);
            assert_eq!(end.send(threads, sent as usize), sent);
            let word = Progress::new(head, 0).0.to_ne_bytes();
            end.arena.write(OWN_INBOX + 8 * HEAD_AT, &word).expect("it is there");
            let more = end.send(threads, 12_000);
            let left = i64::from(RING) - sent;
            assert!(more <= left, "{more} bytes into {left}: {threads} threads, head {head}");
        }
    }
}
