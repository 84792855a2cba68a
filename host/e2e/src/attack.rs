//! Attacks: hostile kernels, launched on a net and awaited.

use std::time::Duration;

use gpunet_device::{Handle, SocketAddr};
use gpunet_e2e_kernels::hostile::{
    ANSWERS, Attack as Argument, Mutation, REPORT, SOCKETS, UNANSWERED, WORDS, hostile_any,
    hostile_own, hostile_probe,
};
use gpunet_host::{Net, Shape};

use crate::memory::{buffer, regions};
use crate::transport::scaled_time;

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
        Self { blocks: 1, limit: scaled_time(Duration::from_secs(2)), ..self.clone() }
            .run(net, Which::Probe)
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
        let ended = launch.wait_for(self.limit + Duration::from_secs(30));
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

#[derive(Clone, Copy)]
enum Which {
    Own,
    Any,
    Probe,
}
