//! Steps that use the ring itself, and listeners with options.

use std::time::Duration;

use gpunet_device::{ListenOptions, SocketAddr};
use gpunet_e2e_kernels::op::Code;

use super::{HANDLE, Script, ns};

use crate::limits::timeout;
use crate::nets::RING;

impl Script {
    /// Then the steps of another script that names no address.
    pub fn append(&mut self, other: &Self) -> &mut Self {
        self.ops.extend_from_slice(&other.ops);
        self
    }

    /// `Stream::peek` at so many bytes or more, of which some are consumed.
    pub fn peek(&mut self, register: u32, least: u64, consume: u64) -> &mut Self {
        let good = (least.max(1) as i64, i64::MAX);
        self.op(Code::Peek, register, [least, consume, 0], good)
    }

    /// `Stream::reserve` of space, of which some is filled and committed.
    pub fn reserve(&mut self, register: u32, least: u64, most: u64, commit: u64) -> &mut Self {
        let good = (least.max(1) as i64, most.min(i64::MAX as u64) as i64);
        self.op(Code::Reserve, register, [least, most, commit], good)
    }

    /// Holds received bytes in the ring for so long.
    pub fn hold_peek(&mut self, register: u32, time: Duration) -> &mut Self {
        self.op(Code::Hold, register, [0, ns(time), 0], (0, 0))
    }

    /// Holds received bytes in the ring until a flag is set, and for so long after it. The next flag says that it
    /// holds them.
    pub fn hold_peek_past(&mut self, register: u32, flag: usize, time: Duration) -> &mut Self {
        let numbers = [0, ns(time), ns(timeout())];
        self.op(Code::HoldPast, register, numbers, (0, 0)).with_length(flag as u64)
    }

    /// The same with space in the ring.
    pub fn hold_reserve_past(&mut self, register: u32, flag: usize, time: Duration) -> &mut Self {
        let numbers = [1, ns(time), ns(timeout())];
        self.op(Code::HoldPast, register, numbers, (0, 0)).with_length(flag as u64)
    }

    /// `Peek::copy_to` of so many bytes behind `offset`, of all that have come; `consume` are consumed.
    pub fn peek_copy(
        &mut self,
        register: u32,
        offset: u64,
        length: u64,
        consume: u64,
    ) -> &mut Self {
        let (least, all) = ((offset + length).max(1), length as i64);
        self.op(Code::PeekCopy, register, [least, offset, consume], (all, all)).with_length(length)
    }

    /// `Reserve::copy_from` of so many bytes in two parts.
    pub fn reserve_copy(&mut self, register: u32, length: u64, split: u64) -> &mut Self {
        let all = length as i64;
        self.op(Code::ReserveCopy, register, [0, split, 0], (all, all)).with_length(length)
    }

    /// `Listener::bind_with`.
    pub fn listener_with(
        &mut self,
        register: u32,
        address: SocketAddr,
        options: ListenOptions,
    ) -> &mut Self {
        let address = self.address(address);
        let ListenOptions { backlog, reuse_port, nonblocking, only_v6 } = options;
        let flags = u64::from(reuse_port) + 2 * u64::from(nonblocking) + 4 * u64::from(only_v6);
        self.op(Code::ListenerBindWith, register, [address, backlog as u64, flags], HANDLE)
    }

    /// `Stream::connect_with_rings` to an address that [`Script::keep_name`] has kept.
    pub fn stream_to_kept(&mut self, register: u32, name: usize) -> &mut Self {
        let arguments = [name as u64, RING.into(), 0];
        self.op(Code::StreamConnect, register, arguments, HANDLE)
    }

    /// `Listener::accept` of a borrowed listener into a register.
    pub fn borrow_accept(&mut self, listener: u32, into: u32) -> &mut Self {
        self.op(Code::BorrowAccept, listener, [into.into(), 0, 0], HANDLE)
    }
}
