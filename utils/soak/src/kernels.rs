//! The kernels of a round: launched on a net, awaited with a deadline, read out.

use std::time::Duration;

use anyhow::{Context as _, Result};
use gpunet_device::Handle;
use gpunet_e2e_kernels::soak::{
    ANSWERS, CALLS, Call, Duty, Outcome, Work, soak_block, soak_thread, soak_warp,
};
use gpunet_host::{Launch, LaunchError, Net, Shape};

use crate::memory::Array;
use crate::plan::{Layout, PATIENCE, Who, nanoseconds};

/// A launch and the memory that it works on.
pub(crate) struct Kernels {
    launch: Launch,
    done: Array<Outcome>,
    called: Array<Outcome>,
    answered: Array<Outcome>,
    // Read by the kernel as long as it runs.
    _duties: Array<Duty>,
    _calls: Array<Call>,
}

/// What became of a launch.
pub(crate) struct Results {
    /// Of groups.
    pub(crate) done: Vec<Outcome>,
    /// Of calls, by place.
    pub(crate) called: Vec<Outcome>,
    /// Of answers, by place.
    pub(crate) answered: Vec<Outcome>,
}

impl Kernels {
    /// Groups that answer what a listener brings, until each is told to quit.
    pub(crate) fn answer(
        net: &Net,
        layout: &Layout,
        listener: Handle,
        places: usize,
        stall: Duration,
    ) -> Result<Self> {
        let duty = Duty {
            kind: ANSWERS,
            first: 0,
            count: 0,
            timeout_ns: nanoseconds(PATIENCE),
            in_rings: layout.in_rings.into(),
            stall_ns: nanoseconds(stall),
        };
        let duties = vec![duty; layout.groups as usize];
        Self::start(net, layout, &duties, &[], listener, places)
    }

    /// Groups that make calls, some each.
    pub(crate) fn call(net: &Net, layout: &Layout, calls: &[Call], places: usize) -> Result<Self> {
        let each = (calls.len() as u64).div_ceil(layout.groups.max(1)).max(1);
        let all = calls.len() as u64;
        let duties: Vec<_> = (0..layout.groups)
            .map(|group| Duty {
                kind: CALLS,
                first: group * each,
                count: all.saturating_sub(group * each).min(each),
                timeout_ns: nanoseconds(PATIENCE),
                in_rings: layout.in_rings.into(),
                stall_ns: 0,
            })
            .collect();
        Self::start(net, layout, &duties, calls, Handle::NONE, places)
    }

    fn start(
        net: &Net,
        layout: &Layout,
        duties: &[Duty],
        calls: &[Call],
        listener: Handle,
        places: usize,
    ) -> Result<Self> {
        let gpu = net.gpu();
        let duties = Array::of(gpu, duties)?;
        let calls = Array::of(gpu, calls)?;
        let done = Array::zeroed(gpu, layout.groups as usize)?;
        let called = Array::zeroed(gpu, places)?;
        let answered = Array::zeroed(gpu, places)?;
        let work = Work {
            duties: duties.shared(),
            calls: calls.shared(),
            done: done.shared(),
            called: called.shared(),
            answered: answered.shared(),
            listener,
            shared_each: layout.shared_each.into(),
        };
        let (kernel, in_block) = match layout.who {
            Who::Block => (soak_block, 1),
            Who::Warp => (soak_warp, layout.threads.div_ceil(32)),
            Who::Thread => (soak_thread, layout.threads),
        };
        let blocks = (layout.groups as u32).div_ceil(in_block);
        let shape = Shape::new(blocks, layout.threads).shared_memory(layout.shared_each * in_block);
        let launch = net.launch(kernel, shape, (work,)).context("launching")?;
        Ok(Self { launch, done, called, answered, _duties: duties, _calls: calls })
    }

    /// Tells the kernel to stop.
    pub(crate) fn abort(&self) {
        self.launch.abort();
    }

    /// Waits for its end.
    pub(crate) fn wait_for(&self, time: Duration) -> Result<(), LaunchError> {
        self.launch.wait_for(time)
    }

    /// What became of it, once it has ended.
    pub(crate) fn results(&self) -> Result<Results> {
        Ok(Results {
            done: self.done.read()?,
            called: self.called.read()?,
            answered: self.answered.read()?,
        })
    }
}
