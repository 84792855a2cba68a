//! Ops that do what a kernel must not: faults, and threads of a group that disagree.

use gpunet_device::calls;
use gpunet_device::{Errno, Handle, SocketAddr, Stream, simt};

use crate::op::Op;
use crate::receiver::Receiver;
use crate::script::Script;

impl<G: Receiver> Script<'_, G> {
    /// Faults: by a panic (0), an index beyond an array (1), a bad address (2).
    #[inline(always)]
    pub(crate) fn fault(&self, op: &Op) -> i64 {
        match op.a {
            0 => panic!("a fault was asked for"),
            1 => {
                let array = [1_i64, 2, 3];
                array[op.b as usize]
            }
            _ => {
                self.program.nowhere.set(0, 1);
                0
            }
        }
    }

    /// Breaks the rules: differing arguments (0), differing calls (1), a barrier that not all
    /// threads reach (2), barriers at different places (3), a buffer of a thread's own (4), differing
    /// addresses (5), a buffer of a thread's own given to a stream (6).
    #[inline(always)]
    #[allow(clippy::if_same_then_else, reason = "the two barriers stand at different places")]
    pub(crate) fn diverge(&self, op: &Op) -> i64 {
        let rank = self.group.rank();
        let handle = Handle(self.register(op.register).handle);
        match op.a {
            0 => calls::glisten(self.net, self.group, handle, rank as i32),
            1 if rank == 1 => calls::gshutdown(self.net, self.group, handle, 1),
            1 => calls::gclose(self.net, self.group, handle),
            2 => {
                if rank != 1 {
                    simt::block_barrier();
                }
                0
            }
            3 => {
                if rank == 1 {
                    simt::block_barrier();
                } else {
                    simt::block_barrier();
                }
                0
            }
            4 => calls::gsend(self.net, self.group, handle, self.memory.slice(rank, 4), 0),
            5 => {
                let address = SocketAddr::v4([127, 0, 0, 1], 1 + rank as u16);
                calls::gconnect(self.net, self.group, handle, &address)
            }
            6 => {
                let stream = Stream::borrow(self.on, handle);
                match stream.write_all(self.memory.slice(rank, 4)) {
                    Ok(()) => 4,
                    Err(errno) => errno.negative(),
                }
            }
            _ => Errno::EINVAL.negative(),
        }
    }
}
