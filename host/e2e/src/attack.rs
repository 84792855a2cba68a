//! Attacks: hostile kernels, launched on a net and awaited.

use std::time::Duration;

use gpunet_device::{Handle, SocketAddr};
use gpunet_e2e_kernels::hostile::packets::{
    ERROR, RECEIVED, RECEIVER_REPORT, SpoiledCount, TOOK_NS, TwoLengths, UNSENT,
    announce_two_lengths, receive_by_two_warps, receive_two_lengths, spoil_count,
};
use gpunet_e2e_kernels::hostile::{
    ANSWERS, Attack as Argument, Mutation, REPORT, SOCKETS, UNANSWERED, WORDS, hostile_any,
    hostile_own, hostile_probe,
};
use gpunet_host::{Net, Shape, Task};
use gpunet_support::testing::hang_limit;

use crate::limits::{deadline, timeout};
use crate::memory::{buffer, regions};
use crate::transport::any_port;

/// What a hostile kernel is to do.
#[derive(Clone, Debug)]
pub struct Attack {
    /// Blocks that attack at the same time.
    pub blocks: u32,
    /// What all numbers are drawn from.
    pub seed: u64,
    /// What to do; empty: the kernel draws.
    pub program: Vec<Mutation>,
    /// Words that are written in all.
    pub words: u64,
    /// How long it may take.
    pub limit: Duration,
    /// Sockets of the program to spoil.
    pub given: Vec<Handle>,
    /// Where its streams connect.
    pub sink: SocketAddr,
    /// Where its listeners bind.
    pub home: SocketAddr,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Words written.
    pub words: u64,
    /// Sockets that the kernel opened.
    pub sockets: u64,
    /// Requests that were answered.
    pub answers: u64,
    /// Requests that were not answered in time.
    pub unanswered: u64,
}

impl Attack {
    /// Spoils words of the kernel's own sockets and slots.
    #[must_use]
    pub fn own(&self, net: &Net) -> Report {
        self.run(net, Which::Own)
    }

    /// Spoils any word that the kernel shares with the proxy.
    #[must_use]
    pub fn any(&self, net: &Net) -> Report {
        self.run(net, Which::Any)
    }

    /// Asks each proxy thread of the net for something.
    #[must_use]
    pub fn probe(&self, net: &Net) -> Report {
        Self { blocks: 1, limit: timeout(), ..self.clone() }.run(net, Which::Probe)
    }

    fn run(&self, net: &Net, which: Which) -> Report {
        let gpu = net.gpu();
        let [gpu_control, host_control, rings, records] = regions(net);
        let program = buffer(gpu, &self.program);
        let given: Vec<u64> = self.given.iter().map(|handle| handle.0).collect();
        let given = buffer(gpu, &given);
        let reports = gpu.buffer::<u64>(REPORT * self.blocks as usize).expect("GPU memory");
        let argument = Argument::launch_arg(
            gpu_control,
            host_control,
            rings,
            records,
            &program,
            &given,
            self.sink,
            self.home,
            self.seed,
            self.words.div_ceil(u64::from(self.blocks)),
            u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX / 2),
            &reports,
        );
        let kernel = match which {
            Which::Own => hostile_own,
            Which::Any => hostile_any,
            Which::Probe => hostile_probe,
        };
        let launch = net.launch(kernel, Shape::new(self.blocks, 1), (argument,));
        let launch = launch.expect("the attack launches");
        let ended = launch.wait_timeout(self.limit + deadline());
        ended.expect("the attack ends");
        let all = reports.to_vec().expect("the reports");
        let sum = |at: usize| all.chunks(REPORT).map(|report| report[at]).sum();
        Report {
            words: sum(WORDS),
            sockets: sum(SOCKETS),
            answers: sum(ANSWERS),
            unanswered: sum(UNANSWERED),
        }
    }
}

/// What a receiver came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes in all.
    pub bytes: u64,
    /// Of these: bytes that its own buffer had held.
    pub unsent: u64,
    /// The error number that ended it; 0: the stream's end did.
    pub error: u64,
    /// Packets that its peer has announced.
    pub packets: u64,
}

/// A block of so many threads receives packets that a peer, by a p2p stream, announces under two lengths at
/// once.
///
/// # Panics
/// When a launch fails or does not end.
#[must_use]
pub fn announced_twice(net: &Net, peer: &Net, threads: u32, lengths: [u64; 2]) -> Received {
    let (listener, address) = net.listen(any_port()).expect("a port");
    let report = buffer(net.gpu(), &[0_u64; RECEIVER_REPORT]);
    let packets = buffer(peer.gpu(), &[0_u64]);
    let [.., records] = regions(peer);
    let limit = hang_limit(Duration::from_millis(500));
    let limit_ns = u64::try_from(limit.as_nanos()).expect("it is short");
    let [short, long] = lengths;
    let work = TwoLengths::launch_arg(records, address, short, long, 1000, limit_ns, &packets);
    let shape = Shape::new(1, threads).shared_memory(long as u32);
    let receiver = net.launch(receive_two_lengths, shape, (listener, &report)).expect("it starts");
    let hostile = peer.launch(announce_two_lengths, Shape::new(1, 1), (work,)).expect("it starts");
    hostile.wait_timeout(limit + deadline()).expect("the peer ends");
    receiver.wait_timeout(limit + deadline()).expect("the receiver ends");
    let report = report.to_vec().expect("its words");
    Received {
        bytes: report[RECEIVED],
        unsent: report[UNSENT],
        error: report[ERROR],
        packets: packets.to_vec().expect("its word")[0],
    }
}

/// Two groups receive a byte each of a peer, by a p2p stream, that spoils the count of what was received for
/// some seconds after the first: how many bytes came, the error number of the one that failed, and whether
/// the second one came long before the peer stopped.
///
/// # Panics
/// When a launch fails or does not end.
#[must_use]
pub fn count_spoiled(net: &Net, peer: &Net) -> (u64, u64, bool) {
    let (listener, address) = net.listen(any_port()).expect("a port");
    let report = buffer(net.gpu(), &[0_u64; RECEIVER_REPORT]);
    let [.., records] = regions(peer);
    let limit = hang_limit(Duration::from_millis(300));
    let limit_ns = u64::try_from(limit.as_nanos()).expect("it is short");
    let work = SpoiledCount::launch_arg(records, address, limit_ns);
    let shape = Shape::new(1, 64).shared_memory(2);
    let receiver = net.launch(receive_by_two_warps, shape, (listener, &report)).expect("it starts");
    let hostile = peer.launch(spoil_count, Shape::new(1, 1), (work,)).expect("it starts");
    receiver.wait_timeout(limit + deadline()).expect("the receiver ends");
    hostile.wait_timeout(limit + deadline()).expect("the peer ends");
    let report = report.to_vec().expect("its words");
    (report[RECEIVED], report[ERROR], report[TOOK_NS] < limit_ns / 2)
}

#[derive(Clone, Copy)]
enum Which {
    Own,
    Any,
    Probe,
}
