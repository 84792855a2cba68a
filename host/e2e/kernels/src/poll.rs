//! Ops that wait for several sockets: `gpoll` and pollers.

use gpunet_device::calls::{self, PollFd};
use gpunet_device::{Errno, Handle, Poller};

use crate::op::Op;
use crate::receiver::Receiver;
use crate::script::{Script, number};

impl<G: Receiver> Script<'_, G> {
    #[inline(never)]
    pub(crate) fn poll_set(&self, op: &Op) -> i64 {
        let handle = Handle(self.register(op.register).handle);
        if self.group.is_leader() {
            // What an earlier poll found must not be taken for this one's.
            let stale = u16::MAX;
            let entry = PollFd { handle, events: op.b as u16, revents: stale, reserved: 0 };
            self.polls.set(op.a as usize, entry);
        }
        self.group.barrier();
        0
    }

    #[inline(never)]
    pub(crate) fn poll(&self, op: &Op) -> i64 {
        loop {
            let sockets = self.polls.first(op.a as usize);
            let ready = calls::gpoll(self.net, self.group, sockets, op.b as i64);
            // As long as it finds something, where it is to be asked for ever.
            if ready <= 0 || op.c == 0 {
                return ready;
            }
        }
    }

    #[inline(never)]
    pub(crate) fn poll_result(&self, op: &Op) -> i64 {
        self.polls.get(op.a as usize).map_or(Errno::EFAULT.negative(), |p| i64::from(p.revents))
    }

    #[inline(never)]
    pub(crate) fn poller_new(&mut self, op: &Op) -> i64 {
        match Poller::new(self.on) {
            Ok(poller) => {
                let handle = poller.handle().0 as i64;
                self.poller = Some(poller);
                if op.a == 1 { self.keep(op.register, handle) } else { handle }
            }
            Err(errno) => errno.negative(),
        }
    }

    #[inline(never)]
    pub(crate) fn poller_watch(&self, op: &Op, add: bool) -> i64 {
        let Some(poller) = &self.poller else { return Errno::EBADF.negative() };
        let socket = Handle(self.register(op.register).handle);
        let done = if add { poller.add(socket, op.a as u16, op.b) } else { poller.remove(socket) };
        number(done.map(|()| 0))
    }

    #[inline(never)]
    pub(crate) fn poller_wait(&self, op: &Op) -> i64 {
        let Some(poller) = &self.poller else { return Errno::EBADF.negative() };
        number(poller.wait(self.events.first(op.a as usize), op.b).map(|count| count as u64))
    }

    #[inline(never)]
    pub(crate) fn poller_event(&self, op: &Op) -> i64 {
        self.events
            .get(op.a as usize)
            .map_or(Errno::EFAULT.negative(), |event| (event.token << 16 | event.events) as i64)
    }

    #[inline(never)]
    pub(crate) fn poller_accept(&self, op: &Op) -> i64 {
        let Some(poller) = &self.poller else { return Errno::EBADF.negative() };
        let listener = Handle(self.register(op.register).handle);
        for turn in 0..op.b {
            let place = op.a + turn;
            let handle = calls::gaccept(self.net, self.group, listener);
            if self.keep(place as u32, handle) < 0 {
                return handle;
            }
            if let Err(errno) = poller.add(Handle(handle as u64), op.c as u16, place) {
                return errno.negative();
            }
        }
        op.b as i64
    }

    #[inline(never)]
    pub(crate) fn poller_serve(&self, op: &Op) -> i64 {
        let Some(poller) = &self.poller else { return Errno::EBADF.negative() };
        let mut echoed = 0;
        let mut closed = 0;
        while closed < op.a {
            let count = match poller.wait(self.events, op.b) {
                Ok(count) => count,
                Err(errno) => return errno.negative(),
            };
            for at in 0..count {
                let token = self.events.get(at).map_or(0, |event| event.token);
                let handle = Handle(self.register(token as u32).handle);
                match self.echo_what_waits(op, handle) {
                    Ok((bytes, ended)) => {
                        echoed += bytes;
                        if ended {
                            closed += 1;
                            calls::gclose(self.net, self.group, handle);
                        }
                    }
                    // Its event was in the ring of another proxy thread when it was closed.
                    Err(Errno::EBADF) => {}
                    Err(errno) => return errno.negative(),
                }
            }
            // All threads have read the events before the next wait overwrites them.
            self.group.barrier();
        }
        echoed as i64
    }
}
