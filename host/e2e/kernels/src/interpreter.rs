//! The interpreter: one group, one script, op after op.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::simt::{self, WARP};
use gpunet_device::{Errno, Handle, ListenOptions, Listener, On, SocketAddr, calls, kernels};

use crate::op::{Code, Op, Outcome, Program};
use crate::receiver::Receiver;
use crate::script::{Script, number};

kernels! {
    /// Does nothing, and needs no memory for it.
    pub fn idle(net: Net) {
        let _ = net;
    }

    /// A script for each block.
    pub fn script_block(net: Net, program: Program) {
        let block = simt::position().block as usize;
        run(net.block(), &program, block, 0);
    }

    /// A script for each warp.
    pub fn script_warp(net: Net, program: Program) {
        let position = simt::position();
        let warps = position.threads.div_ceil(WARP);
        let warp = position.thread / WARP;
        run(net.warp(), &program, (position.block * warps + warp) as usize, warp as usize);
    }

    /// A script for each thread.
    pub fn script_thread(net: Net, program: Program) {
        let position = simt::position();
        let group = position.block * position.threads + position.thread;
        run(net.thread(), &program, group as usize, position.thread as usize);
    }
}

/// Letters that `Print` can have, more than a line takes.
const MAX_LETTERS: usize = 256;

/// Whether two addresses are the same. Word by word: `==` on byte arrays becomes a call of
/// `memcmp`, which PTX has not.
#[inline(always)]
fn same(one: &SocketAddr, other: &SocketAddr) -> bool {
    let (one, other) = (one.to_words(), other.to_words());
    one.iter().zip(&other).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

/// Runs script `rank` of the program; the group is the block's number `in_block`.
#[inline(always)]
fn run<G: Receiver>(on: On<G>, program: &Program, rank: usize, in_block: usize) {
    let Some(span) = program.scripts.get(rank) else { return };
    let mut script = Script::new(on, program, rank, in_block);
    for at in span.first..span.first + span.count {
        let Some(op) = program.ops.get(at as usize) else { return };
        let begin = simt::now_ns();
        let result = script.step(&op);
        if script.group.is_leader() {
            let elapsed_ns = simt::now_ns() - begin;
            program.outcomes.set(at as usize, Outcome { result, elapsed_ns });
        }
        // No thread is still reading what the next op may write.
        script.group.barrier();
        if result < op.least || result > op.most {
            return;
        }
    }
}

impl<G: Receiver> Script<'_, G> {
    #[inline(always)]
    fn step(&mut self, op: &Op) -> i64 {
        let Some(code) = Code::from_number(op.code) else { return Errno::EINVAL.negative() };
        let (net, group) = (self.net, self.group);
        let handle = Handle(self.register(op.register).handle);
        match code {
            Code::Socket => {
                let made = calls::gsocket(net, group, op.a as i32, op.b as i32, op.c as i32);
                self.keep(op.register, made)
            }
            Code::Bind => calls::gbind(net, group, handle, &self.address(op.a)),
            Code::Listen => calls::glisten(net, group, handle, op.a as i32),
            Code::Accept => self.keep(op.a as u32, calls::gaccept(net, group, handle)),
            Code::Connect => calls::gconnect(net, group, handle, &self.address(op.a)),
            Code::ListenerBind => {
                let made = Listener::bind(self.on, &self.address(op.a));
                self.keep(op.register, number(made.map(|listener| listener.into_handle().0)))
            }
            Code::StreamConnect => self.connect_stream(op),
            Code::Send => self.send(op),
            Code::Recv => self.receive(op),
            Code::SendAll => self.send_all(op),
            Code::RecvAll => self.receive_all(op),
            Code::ReadExact => self.read_exact(op),
            Code::Peek => self.peek(op),
            Code::Reserve => self.reserve(op),
            Code::Echo => self.echo(op),
            Code::Shutdown => calls::gshutdown(net, group, handle, op.a as i32),
            Code::Close => calls::gclose(net, group, handle),
            Code::SetOption => match SocketOption::from_number(op.a as u32) {
                Some(option) => calls::gsetsockopt(net, group, handle, option, op.b),
                None => Errno::ENOPROTOOPT.negative(),
            },
            Code::GetOption => match SocketOption::from_number(op.a as u32) {
                Some(option) => calls::ggetsockopt(net, group, handle, option),
                None => Errno::ENOPROTOOPT.negative(),
            },
            Code::PeerName => {
                let name = calls::ggetpeername(net, group, handle);
                number(name.map(|name| u64::from(same(&name, &self.address(op.a)))))
            }
            Code::SocketName => {
                let name = calls::ggetsockname(net, group, handle);
                number(name.map(|name| u64::from(same(&name, &self.address(op.a)))))
            }
            Code::KeepName => self.keep_name(op, handle),
            Code::PollSet => self.poll_set(op),
            Code::Poll => self.poll(op),
            Code::PollResult => self.poll_result(op),
            Code::PollerNew => self.poller_new(op),
            Code::PollerAdd => self.poller_watch(op, true),
            Code::PollerRemove => self.poller_watch(op, false),
            Code::PollerWait => self.poller_wait(op),
            Code::PollerEvent => self.poller_event(op),
            Code::PollerAccept => self.poller_accept(op),
            Code::PollerServe => self.poller_serve(op),
            Code::PollerClose => {
                self.poller = None;
                0
            }
            Code::Time => calls::ggettimeofday(net, group),
            Code::Print => self.print(op),
            Code::Sleep => {
                self.sleep_until(simt::now_ns() + op.a);
                0
            }
            Code::WaitFlag => self.until_flag(op.a, op.b, op.c),
            Code::ReceiveHandle => self.keep(op.register, self.until_flag(op.a, op.b, op.c)),
            Code::SetFlag => self.set_flag(op.a, op.b),
            Code::GiveHandle => self.set_flag(op.a, handle.0),
            Code::Copy => {
                self.set_register(op.register, self.register(op.a as u32));
                0
            }
            Code::Fault => self.fault(op),
            Code::Diverge => self.diverge(op),
            Code::Hold => self.hold(op, None),
            Code::HoldPast => self.hold(op, Some(op.length)),
            Code::SendFlags => self.with_flags(op, true),
            Code::RecvFlags => self.with_flags(op, false),
            Code::PeekCopy => self.peek_copy(op),
            Code::ReserveCopy => self.reserve_copy(op),
            Code::ListenerBindWith => self.bind_with(op),
            Code::BorrowAccept => {
                let accepted = Listener::borrow(self.on, handle).accept();
                self.keep(op.a as u32, number(accepted.map(|stream| stream.into_handle().0)))
            }
        }
    }

    #[inline(never)]
    fn bind_with(&self, op: &Op) -> i64 {
        let options = ListenOptions {
            backlog: op.b as i32,
            reuse_port: op.c & 1 != 0,
            nonblocking: op.c & 2 != 0,
            only_v6: op.c & 4 != 0,
        };
        let made = Listener::bind_with(self.on, &self.address(op.a), options);
        self.keep(op.register, number(made.map(|listener| listener.into_handle().0)))
    }

    #[inline(never)]
    fn keep_name(&self, op: &Op, handle: Handle) -> i64 {
        match calls::ggetsockname(self.net, self.group, handle) {
            Ok(name) => {
                if self.group.is_leader() {
                    self.program.addresses.set(op.a as usize, name);
                }
                self.group.barrier();
                i64::from(name.port())
            }
            Err(errno) => errno.negative(),
        }
    }

    #[inline(never)]
    fn print(&self, op: &Op) -> i64 {
        let mut letters = [0_u8; MAX_LETTERS];
        for (at, letter) in letters.iter_mut().enumerate() {
            *letter = b'a' + (at % 26) as u8;
        }
        let line = letters.get(..op.a as usize).unwrap_or(&letters);
        calls::gprint(self.net, self.group, line)
    }

    /// Waits until a flag is `least` or more, and no longer than it says; its value.
    pub(crate) fn until_flag(&self, flag: u64, least: u64, limit_ns: u64) -> i64 {
        let mut seen = 0;
        if self.group.is_leader() {
            let until = simt::now_ns() + limit_ns;
            seen = loop {
                match self.program.flags.get(flag as usize) {
                    Some(value) if value >= least => break value as i64,
                    _ if simt::now_ns() > until => break Errno::ETIMEDOUT.negative(),
                    _ => simt::pause(),
                }
            };
        }
        self.group.broadcast([seen as u64])[0] as i64
    }

    #[inline(always)]
    pub(crate) fn set_flag(&self, flag: u64, value: u64) -> i64 {
        if self.group.is_leader() {
            self.program.flags.set(flag as usize, value);
        }
        self.group.barrier();
        0
    }
}
