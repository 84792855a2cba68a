//! A script that runs: its registers, buffers and addresses, as each thread of its group sees them.

use gpunet_device::calls::PollFd;
use gpunet_device::{Errno, Event, Net, On, Poller, Shared, SharedBuf, SocketAddr, simt};

use crate::op::{Program, Register};
use crate::receiver::Receiver;

/// A script that runs, as each thread of its group sees it.
pub(crate) struct Script<'n, G: Receiver> {
    pub(crate) on: On<G>,
    pub(crate) net: Net,
    pub(crate) group: G,
    pub(crate) program: &'n Program,
    registers: Shared<Register>,
    pub(crate) polls: Shared<PollFd>,
    pub(crate) events: Shared<Event>,
    pub(crate) memory: SharedBuf,
    pub(crate) shared: SharedBuf,
    pub(crate) poller: Option<Poller<G>>,
}

/// A call's return value.
#[inline(always)]
pub(crate) fn number(result: Result<u64, Errno>) -> i64 {
    result.map_or_else(Errno::negative, |value| value as i64)
}

impl<'n, G: Receiver> Script<'n, G> {
    /// Script `rank` of the program; the group is the block's number `in_block`.
    #[inline(always)]
    pub(crate) fn new(on: On<G>, program: &'n Program, rank: usize, in_block: usize) -> Self {
        let each = program.registers_each as usize;
        let memory_each = program.memory_each as usize;
        let shared_each = program.shared_each as usize;
        Self {
            on,
            net: on.net(),
            group: on.group(),
            program,
            registers: program.registers.slice(rank * each, each),
            polls: program.polls.slice(rank * each, each),
            events: program.events.slice(rank * each, each),
            memory: program.memory.slice(rank * memory_each, memory_each),
            shared: simt::shared_memory().slice(in_block * shared_each, shared_each),
            poller: None,
        }
    }

    #[inline(always)]
    pub(crate) fn register(&self, at: u32) -> Register {
        self.registers.get(at as usize).unwrap_or_default()
    }

    /// The leader writes what all threads read after it.
    #[inline(always)]
    pub(crate) fn set_register(&self, at: u32, register: Register) {
        self.group.barrier();
        if self.group.is_leader() {
            self.registers.set(at as usize, register);
        }
        self.group.barrier();
    }

    /// Keeps a new handle, unless it is an error.
    #[inline(always)]
    pub(crate) fn keep(&self, at: u32, result: i64) -> i64 {
        if let Ok(handle) = Errno::check(result) {
            self.set_register(at, Register { handle, sent: 0, received: 0 });
        }
        result
    }

    #[inline(always)]
    pub(crate) fn address(&self, at: u64) -> SocketAddr {
        self.program.addresses.get(at as usize).unwrap_or(SocketAddr::NONE)
    }

    #[inline(always)]
    pub(crate) fn sleep_until(&self, until_ns: u64) {
        if self.group.is_leader() {
            while simt::now_ns() < until_ns {
                simt::pause();
            }
        }
        self.group.barrier();
    }
}
