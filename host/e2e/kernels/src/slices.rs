//! Ops that use the ring itself: peek and consume, reserve and commit, and copies of both.

use gpunet_device::simt;

use crate::data::{differs, differs_at, fill, fill_at};
use crate::op::{GUARD, LOCAL_BYTES, Op, Space, WRONG_BYTES};
use crate::receiver::Receiver;
use crate::script::Script;

impl<G: Receiver> Script<'_, G> {
    #[inline(never)]
    pub(crate) fn peek(&self, op: &Op) -> i64 {
        let position = self.register(op.register).received;
        let stream = self.stream(op);
        let mut used = 0;
        let result = match stream.peek(op.a as usize) {
            Ok(Some(peek)) => {
                let [first, second] = peek.pieces();
                let behind = position + first.len() as u64;
                let wrong =
                    differs_at(self.group, first.len(), op.seed, position, |at| first.get(at))
                        | differs_at(self.group, second.len(), op.seed, behind, |at| {
                            second.get(at)
                        });
                let length = peek.len();
                let whole = first.len() + second.len() == length;
                if op.b > 0 {
                    used = op.b.min(length as u64);
                    peek.consume(used as usize);
                } else {
                    drop(peek);
                }
                if self.group.any(wrong || !whole) { WRONG_BYTES } else { length as i64 }
            }
            Ok(None) => 0,
            Err(errno) => errno.negative(),
        };
        self.count_transfer(op, 0, used);
        result
    }

    #[inline(never)]
    pub(crate) fn reserve(&self, op: &Op) -> i64 {
        let position = self.register(op.register).sent;
        let stream = self.stream(op);
        let mut used = 0;
        let result = match stream.reserve(op.a as usize, op.b as usize) {
            Ok(space) => {
                let [first, second] = space.pieces();
                let behind = position + first.len() as u64;
                fill_at(self.group, first.len(), op.seed, position, |at, byte| first.set(at, byte));
                fill_at(self.group, second.len(), op.seed, behind, |at, byte| second.set(at, byte));
                let length = space.len();
                if op.c > 0 {
                    used = op.c.min(length as u64);
                    space.commit(used as usize);
                } else {
                    drop(space);
                }
                length as i64
            }
            Err(errno) => errno.negative(),
        };
        self.count_transfer(op, used, 0);
        result
    }

    #[inline(never)]
    pub(crate) fn hold(&self, op: &Op, past: Option<u64>) -> i64 {
        let stream = self.stream(op);
        if op.a == 0 {
            match stream.peek(1) {
                Ok(peek) => {
                    let stayed = self.stay(op, past);
                    drop(peek);
                    stayed
                }
                Err(errno) => errno.negative(),
            }
        } else {
            match stream.reserve(1, 1) {
                Ok(space) => {
                    let stayed = self.stay(op, past);
                    drop(space);
                    stayed
                }
                Err(errno) => errno.negative(),
            }
        }
    }

    fn stay(&self, op: &Op, past: Option<u64>) -> i64 {
        let seen = past.map_or(0, |flag| {
            self.set_flag(flag + 1, 1);
            self.until_flag(flag, 1, op.c)
        });
        self.sleep_until(simt::now_ns() + op.b);
        seen.min(0)
    }

    #[inline(never)]
    pub(crate) fn peek_copy(&self, op: &Op) -> i64 {
        let position = self.register(op.register).received;
        let (stream, buffer) = (self.stream(op), self.buffer(op));
        let peek = match stream.peek(op.a as usize) {
            Ok(Some(peek)) => peek,
            Ok(None) => return 0,
            Err(errno) => return errno.negative(),
        };
        let copied = peek.copy_to(op.b as usize, buffer);
        // What a thread checks others have copied.
        self.group.barrier();
        let wrong = differs(self.group, buffer.first(copied), op.seed, position + op.b);
        // Nothing is there, and nothing is copied.
        let beyond = peek.copy_to(peek.len(), buffer) + peek.copy_to(usize::MAX, buffer);
        let used = op.c.min(peek.len() as u64);
        peek.consume(used as usize);
        if self.group.any(wrong || beyond != 0) {
            return WRONG_BYTES;
        }
        self.count_transfer(op, 0, used);
        copied as i64
    }

    #[inline(never)]
    pub(crate) fn reserve_copy(&self, op: &Op) -> i64 {
        let position = self.register(op.register).sent;
        let (stream, buffer) = (self.stream(op), self.buffer(op));
        let (length, split) = (op.length as usize, op.b as usize);
        let space = match stream.reserve(length, length) {
            Ok(space) => space,
            Err(errno) => return errno.negative(),
        };
        let copied = if op.space == Space::Local as u32 {
            let mut own = [0_u8; LOCAL_BYTES];
            let bytes = own.iter_mut().skip(GUARD).take(length);
            for (at, byte) in bytes.enumerate() {
                *byte = gpunet_support::pattern::byte(op.seed, position + at as u64);
            }
            let bytes = own.get(GUARD..GUARD + length).unwrap_or(&[]);
            let (first, second) = bytes.split_at_checked(split).unwrap_or((bytes, &[]));
            space.copy_from(split, second) + space.copy_from(0, first)
        } else {
            fill(self.group, buffer, op.seed, position);
            self.group.barrier();
            // The second part first: each goes where it belongs.
            let second = space.copy_from(split, buffer.slice(split, buffer.len()));
            second + space.copy_from(0, buffer.first(split))
        };
        let beyond = space.copy_from(space.len(), buffer) + space.copy_from(usize::MAX, buffer);
        let used = if beyond == 0 { copied } else { 0 };
        space.commit(used);
        self.count_transfer(op, used as u64, 0);
        used as i64
    }
}
