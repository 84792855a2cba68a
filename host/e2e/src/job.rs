//! Jobs: scripts that are launched on a net, awaited with a deadline, and checked.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use gpunet_device::calls::PollFd;
use gpunet_device::{Event, SocketAddr};
use gpunet_e2e_kernels::op::{
    Code, GUARD, NOT_RUN, Op, Outcome, Program, Register, Space, Span, WRONG_BYTES,
};
use gpunet_e2e_kernels::{script_block, script_thread, script_warp};
use gpunet_host::gpu::{Buffer, Dim3};
use gpunet_host::{Launch, LaunchError, Net, Shape, Task, WaitError};

use crate::limits::{deadline, eventually, soon};
use crate::memory::{Flags, buffer, nowhere};
use crate::script::{Script, names_address, places};

/// Which threads run a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A block.
    Block,
    /// A warp.
    Warp,
    /// A single thread.
    Thread,
}

/// Scripts to be launched together.
pub struct Job {
    who: Who,
    threads: Dim3,
    scripts: Vec<Script>,
    flags: Option<Arc<Flags>>,
    deadline: Duration,
}

impl Job {
    /// A script for each block of so many threads.
    pub fn blocks(threads: impl Into<Dim3>) -> Self {
        Self::new(Who::Block, threads)
    }

    /// A script for each warp of blocks of so many threads.
    pub fn warps(threads: impl Into<Dim3>) -> Self {
        Self::new(Who::Warp, threads)
    }

    /// A script for each thread of blocks of so many.
    pub fn threads(threads: impl Into<Dim3>) -> Self {
        Self::new(Who::Thread, threads)
    }

    /// A job for such groups, in blocks of so many threads.
    pub fn new(who: Who, threads: impl Into<Dim3>) -> Self {
        let threads = threads.into();
        Self { who, threads, scripts: Vec::new(), flags: None, deadline: deadline() }
    }

    /// One more script, for the next group.
    #[must_use]
    pub fn script(mut self, script: &Script) -> Self {
        self.scripts.push(script.clone());
        self
    }

    /// Flags that others see, too.
    #[must_use]
    pub fn flags(mut self, flags: &Arc<Flags>) -> Self {
        self.flags = Some(Arc::clone(flags));
        self
    }

    /// May run so long.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Launches, waits, checks.
    pub fn run(self, net: &Net) -> Finished {
        self.start(net).finish()
    }

    /// Launches.
    ///
    /// # Panics
    /// When the launch is refused.
    pub fn start(self, net: &Net) -> Started<'_> {
        self.try_start(net).expect("the scripts launch")
    }

    /// Launches.
    ///
    /// # Errors
    /// A launch that is refused.
    pub fn try_start(self, net: &Net) -> Result<Started<'_>, LaunchError> {
        let threads = u32::try_from(self.threads.count()).unwrap_or(u32::MAX);
        let groups = match self.who {
            Who::Block => 1,
            Who::Warp => threads.div_ceil(32),
            Who::Thread => threads,
        };
        let blocks = u32::try_from(self.scripts.len()).unwrap_or(u32::MAX).div_ceil(groups);
        self.try_start_as(net, blocks, groups)
    }

    fn try_start_as(self, net: &Net, blocks: u32, groups: u32) -> Result<Started<'_>, LaunchError> {
        let gpu = net.gpu();
        let parts = Parts::new(&self.scripts);
        let (mut ops, mut spans, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        let each = parts.registers as usize;
        let mut registers = vec![Register::default(); each * self.scripts.len()];
        for (rank, script) in self.scripts.iter().enumerate() {
            spans.push(Span { first: ops.len() as u64, count: script.ops.len() as u64 });
            let base = addresses.len() as u64;
            ops.extend(script.ops.iter().map(|op| {
                let moved = Code::from_number(op.code).is_some_and(names_address);
                Op { a: if moved { op.a + base } else { op.a }, ..*op }
            }));
            addresses.extend(&script.addresses);
            for (at, register) in &script.registers {
                registers[rank * each + *at as usize] = *register;
            }
        }
        let idle = vec![Outcome { result: NOT_RUN, elapsed_ns: 0 }; ops.len()];
        let flags = self.flags.clone().unwrap_or_else(|| Arc::new(Flags::new(gpu)));
        let outcomes = buffer(gpu, &idle);
        let addresses = buffer(gpu, &addresses);
        let program = Program::launch_arg(
            &buffer(gpu, &ops),
            &buffer(gpu, &spans),
            &outcomes,
            &buffer(gpu, &registers),
            parts.registers,
            &gpu.buffer::<PollFd>(registers.len()).expect("GPU memory"),
            &gpu.buffer::<Event>(registers.len()).expect("GPU memory"),
            &addresses,
            &gpu.buffer::<u8>(parts.memory as usize * self.scripts.len()).expect("GPU memory"),
            parts.memory,
            parts.shared,
            flags.shared(),
            nowhere(),
        );
        let shared = u32::try_from(parts.shared * u64::from(groups)).unwrap_or(u32::MAX);
        let shape = Shape::new(blocks, self.threads).shared_memory(shared);
        let kernel = match self.who {
            Who::Block => script_block,
            Who::Warp => script_warp,
            Who::Thread => script_thread,
        };
        let launch = net.launch(kernel, shape, (program,))?;
        let (scripts, deadline) = (self.scripts, self.deadline);
        let kernel = Detached { launch, outcomes, addresses, _flags: flags, scripts, deadline };
        Ok(Started { net, kernel })
    }
}

/// How much each group needs.
struct Parts {
    registers: u64,
    memory: u64,
    shared: u64,
}

impl Parts {
    fn new(scripts: &[Script]) -> Self {
        let most = |of: &dyn Fn(&Op) -> u64| {
            scripts.iter().flat_map(|script| &script.ops).map(of).max().unwrap_or(0)
        };
        let bytes = |space: Space| {
            let end = move |op: &Op| u64::from(op.offset) + op.length + GUARD as u64;
            most(&|op| if op.space == space as u32 && op.length > 0 { end(op) } else { 0 })
                .next_multiple_of(16)
        };
        let given = scripts.iter().flat_map(|script| &script.registers);
        let given = given.map(|(at, _)| u64::from(*at) + 1).max().unwrap_or(0);
        Self {
            registers: most(&places).max(given).max(1),
            memory: bytes(Space::Global).max(64),
            shared: bytes(Space::Shared),
        }
    }
}

/// Scripts that run.
pub struct Started<'n> {
    net: &'n Net,
    kernel: Detached,
}

/// Scripts that run, whatever becomes of their net.
pub struct Detached {
    launch: Launch,
    outcomes: Buffer<Outcome>,
    addresses: Buffer<SocketAddr>,
    /// Which kernels may set as long as they run.
    _flags: Arc<Flags>,
    scripts: Vec<Script>,
    deadline: Duration,
}

impl Started<'_> {
    /// The launch.
    pub fn launch(&self) -> &Launch {
        &self.kernel.launch
    }

    /// Waits until a script has set a flag; what it came to.
    ///
    /// # Panics
    /// When all scripts have ended without it, or the deadline passes.
    pub fn until(&self, flags: &Flags, flag: usize) -> u64 {
        let over = || flags.get(flag) != 0 || self.launch().is_finished();
        let seen = eventually(over) && flags.get(flag) != 0;
        if !seen {
            let wrong = self.kernel.read().wrong().join("\n");
            panic!("flag {flag} was not set:\n{wrong}\n{}", describe(self.net));
        }
        flags.get(flag)
    }

    /// Lets go of the net.
    #[must_use]
    pub fn detach(self) -> Detached {
        self.kernel
    }

    /// Waits for the end and checks that every op came to what it must.
    ///
    /// # Panics
    /// When the deadline passes, the kernel fails, or an op came to something else.
    pub fn finish(self) -> Finished {
        let (ended, finished) = self.end();
        if let Err(error) = ended {
            panic!("the kernel failed: {error}\n{}", finished.wrong().join("\n"));
        }
        finished.check();
        finished
    }

    /// Waits for the end, however it is.
    ///
    /// # Panics
    /// When the deadline passes.
    pub fn end(self) -> (Result<(), WaitError>, Finished) {
        self.kernel.end_with(|| describe(self.net))
    }
}

impl Detached {
    /// The launch.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Waits for the end, however it is.
    ///
    /// # Panics
    /// When the deadline passes.
    pub fn end(self) -> (Result<(), WaitError>, Finished) {
        self.end_with(String::new)
    }

    fn end_with(self, state: impl FnOnce() -> String) -> (Result<(), WaitError>, Finished) {
        let ended = self.launch.wait_timeout(self.deadline);
        if matches!(ended, Err(WaitError::StillRunning { .. })) {
            let state = state();
            self.launch.abort();
            let aborted = self.launch.wait_timeout(soon());
            let finished = self.read();
            panic!(
                "the kernel ran longer than {:?} (after an abort: {aborted:?})\n{}\n{state}",
                self.deadline,
                finished.wrong().join("\n"),
            );
        }
        (ended, self.read())
    }

    fn read(&self) -> Finished {
        let all = self.outcomes.to_vec().expect("the outcomes");
        let addresses = self.addresses.to_vec().expect("the addresses");
        let (mut at, mut address_at) = (0, 0);
        let mut outcomes = Vec::new();
        let mut names = Vec::new();
        for script in &self.scripts {
            outcomes.push(all[at..at + script.ops.len()].to_vec());
            at += script.ops.len();
            names.push(addresses[address_at..address_at + script.addresses.len()].to_vec());
            address_at += script.addresses.len();
        }
        Finished { scripts: self.scripts.clone(), outcomes, names }
    }
}

/// The state of a net, for a test that fails.
fn describe(net: &Net) -> String {
    let mut text = format!("{:#?}\n", net.statistics());
    match net.dump() {
        Ok(sockets) => {
            for socket in sockets {
                let _ = writeln!(text, "{socket:?}");
            }
        }
        Err(error) => {
            let _ = writeln!(text, "no dump: {error}");
        }
    }
    text
}

/// Scripts that have ended, with what came of them.
#[derive(Debug)]
pub struct Finished {
    scripts: Vec<Script>,
    /// By script and place in it.
    pub outcomes: Vec<Vec<Outcome>>,
    /// The addresses of each script, with those that were kept.
    pub names: Vec<Vec<SocketAddr>>,
}

impl Finished {
    /// What one op came to.
    #[must_use]
    pub fn result(&self, script: usize, place: usize) -> i64 {
        self.outcomes[script][place].result
    }

    /// How long one op took.
    #[must_use]
    pub fn elapsed(&self, script: usize, place: usize) -> Duration {
        Duration::from_nanos(self.outcomes[script][place].elapsed_ns)
    }

    /// Checks that every op came to what it must, in time.
    ///
    /// # Panics
    /// When one did not.
    pub fn check(&self) {
        let mut wrong = self.wrong();
        if let (false, Some(error)) = (wrong.is_empty(), crate::relay::last_failure()) {
            wrong.push(format!("the last error of a socket of the relay: {}", in_words(error)));
        }
        assert!(wrong.is_empty(), "scripts went wrong:\n{}", wrong.join("\n"));
    }

    /// What went wrong, in words: the first op of each script that did.
    #[must_use]
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (rank, script) in self.scripts.iter().enumerate() {
            let bad = self.outcomes[rank]
                .iter()
                .zip(&script.ops)
                .position(|(outcome, op)| outcome.result < op.least || outcome.result > op.most);
            if let Some(at) = bad {
                let op = &script.ops[at];
                wrong.push(format!(
                    "script {rank}, op {at} of {}: {:?} on register {} (a {}, b {}, c {}, length \
                     {}) came to {}, not to {}..={}",
                    script.ops.len(),
                    Code::from_number(op.code),
                    op.register,
                    op.a,
                    op.b,
                    op.c,
                    op.length,
                    in_words(self.outcomes[rank][at].result),
                    in_words(op.least),
                    in_words(op.most),
                ));
                continue;
            }
            for (at, limits) in &script.limits {
                let elapsed = self.elapsed(rank, *at);
                if !limits.contains(&elapsed) {
                    let code = Code::from_number(script.ops[*at].code);
                    wrong.push(format!(
                        "script {rank}, op {at}: {code:?} took {elapsed:?}, not {limits:?}"
                    ));
                }
            }
        }
        wrong
    }
}

/// An op's result.
pub(crate) fn in_words(result: i64) -> String {
    match result {
        NOT_RUN => "nothing (it was not reached)".to_owned(),
        WRONG_BYTES => "wrong bytes".to_owned(),
        0.. => result.to_string(),
        _ => format!("{:?}", gpunet_device::Errno(i32::try_from(-result).unwrap_or(0))),
    }
}
