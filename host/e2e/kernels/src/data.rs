//! Ops that move bytes: fill, send, receive, check.

use gpunet_device::calls::{self, MSG_DONTWAIT, MSG_PEEK};
use gpunet_device::{Borrowed, Errno, Group, Handle, SharedBuf, Stream};
use gpunet_support::pattern;

use crate::op::{GUARD, LOCAL_BYTES, Op, Space, WRONG_BYTES};
use crate::receiver::Receiver;
use crate::script::{Script, number};

/// What bytes around a buffer are before a receive.
const UNTOUCHED: u8 = 0xEE;

/// Fills a buffer with the pattern, all threads together.
#[inline(always)]
pub(crate) fn fill<G: Group>(group: G, buffer: SharedBuf, seed: u64, position: u64) {
    fill_at(group, buffer.len(), seed, position, |at, byte| buffer.set(at, byte));
}

#[inline(always)]
pub(crate) fn fill_at<G: Group>(
    group: G,
    length: usize,
    seed: u64,
    position: u64,
    set: impl Fn(usize, u8),
) {
    let mut at = group.rank();
    while at < length {
        set(at, pattern::byte(seed, position + at as u64));
        at += group.size();
    }
}

/// Whether a buffer differs from the pattern, in the calling thread's share.
#[inline(always)]
pub(crate) fn differs<G: Group>(group: G, buffer: SharedBuf, seed: u64, position: u64) -> bool {
    differs_at(group, buffer.len(), seed, position, |at| buffer.get(at))
}

#[inline(always)]
pub(crate) fn differs_at<G: Group>(
    group: G,
    length: usize,
    seed: u64,
    position: u64,
    get: impl Fn(usize) -> Option<u8>,
) -> bool {
    let mut different = false;
    let mut at = group.rank();
    while at < length {
        different |= get(at) != Some(pattern::byte(seed, position + at as u64));
        at += group.size();
    }
    different
}

impl<G: Receiver> Script<'_, G> {
    #[inline(always)]
    fn space(&self, op: &Op) -> SharedBuf {
        if op.space == Space::Shared as u32 { self.shared } else { self.memory }
    }

    #[inline(always)]
    pub(crate) fn buffer(&self, op: &Op) -> SharedBuf {
        self.space(op).slice(op.offset as usize, op.length as usize)
    }

    #[inline(always)]
    pub(crate) fn stream(&self, op: &Op) -> Borrowed<Stream<G>> {
        Stream::borrow(self.on, Handle(self.register(op.register).handle))
    }

    #[inline(always)]
    pub(crate) fn count_transfer(&self, op: &Op, sent: u64, received: u64) {
        let mut register = self.register(op.register);
        register.sent += sent;
        register.received += received;
        self.set_register(op.register, register);
    }

    #[inline(never)]
    pub(crate) fn send(&self, op: &Op) -> i64 {
        let register = self.register(op.register);
        let handle = Handle(register.handle);
        let sent = if op.space == Space::Local as u32 {
            let mut own = [0_u8; LOCAL_BYTES];
            let (start, length) = (op.offset as usize, op.length as usize);
            let Some(bytes) = own.get_mut(start..start + length) else {
                return Errno::EFAULT.negative();
            };
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = pattern::byte(op.seed, register.sent + at as u64);
            }
            calls::gsend(self.net, self.group, handle, &*bytes, op.flags)
        } else {
            let buffer = self.buffer(op);
            fill(self.group, buffer, op.seed, register.sent);
            calls::gsend(self.net, self.group, handle, buffer, op.flags)
        };
        self.count_transfer(op, u64::try_from(sent).unwrap_or(0), 0);
        sent
    }

    #[inline(never)]
    pub(crate) fn receive(&self, op: &Op) -> i64 {
        let register = self.register(op.register);
        let handle = Handle(register.handle);
        let (got, wrong) = if op.space == Space::Local as u32 {
            let mut own = [UNTOUCHED; LOCAL_BYTES];
            let (start, length) = (op.offset as usize, op.length as usize);
            let Some(bytes) = own.get_mut(start..start + length) else {
                return Errno::EFAULT.negative();
            };
            let got = self.group.receive_local(self.net, handle, bytes, op.flags);
            let end = start + usize::try_from(got).unwrap_or(0);
            let mut wrong = false;
            for (at, byte) in own.iter().enumerate() {
                wrong |= *byte
                    != if at < start || at >= end {
                        UNTOUCHED
                    } else {
                        pattern::byte(op.seed, register.received + (at - start) as u64)
                    };
            }
            (got, wrong)
        } else {
            let buffer = self.buffer(op);
            // As long as it finds something, where it is to be asked for ever.
            if op.a == 1 {
                loop {
                    let got = calls::grecv(self.net, self.group, handle, buffer, op.flags);
                    if got <= 0 {
                        return got;
                    }
                }
            }
            let before = GUARD.min(op.offset as usize);
            let around =
                self.space(op).slice(op.offset as usize - before, before + buffer.len() + GUARD);
            let mut at = self.group.rank();
            while at < around.len() {
                around.set(at, UNTOUCHED);
                at += self.group.size();
            }
            let got = calls::grecv(self.net, self.group, handle, buffer, op.flags);
            let bytes = usize::try_from(got).unwrap_or(0);
            let mut wrong = differs(self.group, buffer.first(bytes), op.seed, register.received);
            let mut at = self.group.rank();
            while at < around.len() {
                let inside = at >= before && at < before + bytes;
                wrong |= !inside && around.get(at) != Some(UNTOUCHED);
                at += self.group.size();
            }
            (got, wrong)
        };
        if self.group.any(wrong) {
            return WRONG_BYTES;
        }
        if op.flags & MSG_PEEK == 0 {
            self.count_transfer(op, 0, u64::try_from(got).unwrap_or(0));
        }
        got
    }

    #[inline(never)]
    pub(crate) fn send_all(&self, op: &Op) -> i64 {
        let stream = self.stream(op);
        let begin = self.register(op.register).sent;
        let mut done = 0;
        let mut outcome = Ok(());
        while done < op.a && outcome.is_ok() {
            let piece = self.buffer(op).first((op.a - done) as usize);
            // The pieces before this one may still be read by other threads.
            self.group.barrier();
            fill(self.group, piece, op.seed, begin + done);
            outcome = stream.write_all(piece);
            if outcome.is_ok() {
                done += piece.len() as u64;
            }
        }
        self.count_transfer(op, done, 0);
        outcome.map_or_else(Errno::negative, |()| done as i64)
    }

    #[inline(never)]
    pub(crate) fn receive_all(&self, op: &Op) -> i64 {
        let register = self.register(op.register);
        let mut done = 0;
        let mut failure = 0;
        while done < op.a {
            let piece = self.buffer(op).first((op.a - done) as usize);
            let handle = Handle(register.handle);
            let got = calls::grecv(self.net, self.group, handle, piece, op.flags);
            if got <= 0 {
                failure = got;
                break;
            }
            let wrong =
                differs(self.group, piece.first(got as usize), op.seed, register.received + done);
            if self.group.any(wrong) {
                failure = WRONG_BYTES;
                break;
            }
            done += got as u64;
        }
        self.count_transfer(op, 0, done);
        if failure < 0 { failure } else { done as i64 }
    }

    #[inline(never)]
    pub(crate) fn read_exact(&self, op: &Op) -> i64 {
        let received = self.register(op.register).received;
        let buffer = self.buffer(op);
        let stream = self.stream(op);
        let read = stream.read_exact(buffer);
        if let Err(errno) = read {
            return errno.negative();
        }
        if self.group.any(differs(self.group, buffer, op.seed, received)) {
            return WRONG_BYTES;
        }
        self.count_transfer(op, 0, buffer.len() as u64);
        buffer.len() as i64
    }

    #[inline(never)]
    pub(crate) fn echo(&self, op: &Op) -> i64 {
        let stream = self.stream(op);
        let buffer = self.buffer(op);
        let mut total = 0;
        let outcome = loop {
            match stream.read(buffer) {
                Ok(0) => break Ok(()),
                Ok(bytes) => {
                    if let Err(errno) = stream.write_all(buffer.first(bytes)) {
                        break Err(errno);
                    }
                    total += bytes as i64;
                }
                Err(errno) => break Err(errno),
            }
        };
        outcome.map_or_else(Errno::negative, |()| total)
    }

    /// Takes all there is on a socket without waiting and sends it back. The bytes, and whether
    /// the peer has closed.
    #[inline(always)]
    pub(crate) fn echo_what_waits(&self, op: &Op, handle: Handle) -> Result<(u64, bool), Errno> {
        let buffer = self.buffer(op);
        let mut total = 0;
        loop {
            match calls::grecv(self.net, self.group, handle, buffer, MSG_DONTWAIT) {
                0 => return Ok((total, true)),
                got if got == Errno::EAGAIN.negative() => return Ok((total, false)),
                got => {
                    let bytes = Errno::check(got)?;
                    let piece = buffer.first(bytes as usize);
                    let sent = calls::gsend(self.net, self.group, handle, piece, 0);
                    if Errno::check(sent)? != bytes {
                        return Err(Errno::EIO);
                    }
                    total += bytes;
                }
            }
        }
    }

    #[inline(never)]
    pub(crate) fn with_flags(&self, op: &Op, sending: bool) -> i64 {
        let handle = Handle(self.register(op.register).handle);
        let nothing = self.memory.first(0);
        let flags = op.a as u32;
        if sending {
            calls::gsend(self.net, self.group, handle, nothing, flags)
        } else {
            calls::grecv(self.net, self.group, handle, nothing, flags)
        }
    }

    #[inline(never)]
    pub(crate) fn connect_stream(&self, op: &Op) -> i64 {
        let address = self.address(op.a);
        let made = Stream::connect_with_rings(self.on, &address, op.b, op.b);
        let handle = made.map(|stream| stream.into_handle().0);
        self.keep(op.register, number(handle))
    }
}
