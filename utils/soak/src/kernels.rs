//! The kernels of a round: launched on a net, awaited with a deadline, read out.

use std::time::Duration;

use anyhow::{Context as _, Result};
use gpunet_device::Handle;
use gpunet_e2e_kernels::soak::{
    ANSWERS, CALLS, Call, Job, Outcome, Work, soak_block, soak_thread, soak_warp,
};
use gpunet_host::gpu::Buffer;
use gpunet_host::{Launch, Net, Shape, Task, WaitError};

use crate::plan::{Layout, Who, nanoseconds, timeout};

/// A launch and the memory that it works on.
pub(crate) struct Kernels {
    launch: Launch,
    done: Buffer<Outcome>,
    called: Buffer<Outcome>,
    answered: Buffer<Outcome>,
}

/// What became of a launch.
pub(crate) struct Results {
    /// Of groups.
    pub(crate) done: Vec<Outcome>,
    /// Of calls, by index.
    pub(crate) called: Vec<Outcome>,
    /// Of answers, by index.
    pub(crate) answered: Vec<Outcome>,
}

impl Kernels {
    /// Groups that answer what a listener brings, until each is asked to quit.
    pub(crate) fn answer(
        net: &Net,
        layout: &Layout,
        listener: Handle,
        connections: usize,
        stall: Duration,
    ) -> Result<Self> {
        let job = Job {
            kind: ANSWERS,
            first: 0,
            count: 0,
            timeout_ns: nanoseconds(timeout()),
            in_rings: layout.in_rings.into(),
            stall_ns: nanoseconds(stall),
        };
        let jobs = vec![job; layout.groups as usize];
        Self::start(net, layout, &jobs, &[], listener, connections)
    }

    /// Groups that make calls, some each.
    pub(crate) fn call(
        net: &Net,
        layout: &Layout,
        calls: &[Call],
        connections: usize,
    ) -> Result<Self> {
        let each = (calls.len() as u64).div_ceil(layout.groups.max(1)).max(1);
        let all = calls.len() as u64;
        let jobs: Vec<_> = (0..layout.groups)
            .map(|group| Job {
                kind: CALLS,
                first: group * each,
                count: all.saturating_sub(group * each).min(each),
                timeout_ns: nanoseconds(timeout()),
                in_rings: layout.in_rings.into(),
                stall_ns: 0,
            })
            .collect();
        Self::start(net, layout, &jobs, calls, Handle::NONE, connections)
    }

    fn start(
        net: &Net,
        layout: &Layout,
        jobs: &[Job],
        calls: &[Call],
        listener: Handle,
        connections: usize,
    ) -> Result<Self> {
        let gpu = net.gpu();
        let (jobs_there, calls_there) = (gpu.buffer(jobs.len())?, gpu.buffer(calls.len())?);
        jobs_there.write(0, jobs)?;
        calls_there.write(0, calls)?;
        let done = gpu.buffer(layout.groups as usize)?;
        let (called, answered) = (gpu.buffer(connections)?, gpu.buffer(connections)?);
        let shared_each = u64::from(layout.shared_each);
        let work = Work::launch_arg(
            &jobs_there,
            &calls_there,
            &done,
            &called,
            &answered,
            listener,
            shared_each,
        );
        let (kernel, in_block) = match layout.who {
            Who::Block => (soak_block, 1),
            Who::Warp => (soak_warp, layout.threads.div_ceil(32)),
            Who::Thread => (soak_thread, layout.threads),
        };
        let blocks = (layout.groups as u32).div_ceil(in_block);
        let shape = Shape::new(blocks, layout.threads).shared_memory(layout.shared_each * in_block);
        let launch = net.launch(kernel, shape, (work,)).context("launching")?;
        Ok(Self { launch, done, called, answered })
    }

    /// Stops the kernel.
    pub(crate) fn abort(&self) {
        self.launch.abort();
    }

    /// Waits for its end.
    pub(crate) fn wait_timeout(&self, time: Duration) -> Result<(), WaitError> {
        self.launch.wait_timeout(time)
    }

    /// What became of it, once it has ended.
    pub(crate) fn results(&self) -> Result<Results> {
        Ok(Results {
            done: self.done.to_vec()?,
            called: self.called.to_vec()?,
            answered: self.answered.to_vec()?,
        })
    }
}
