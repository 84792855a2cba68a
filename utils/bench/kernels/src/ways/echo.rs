//! Servers that receive from their streams in turns: what comes in goes back out. Each group serves a number of
//! connections at a time, and the next ones once one of them has ended, until it is stopped.

use gpunet_device::calls::MSG_DONTWAIT;
use gpunet_device::{
    Block, Errno, Group, Handle, Listener, On, Shared, SharedBuf, Stream, Thread, Warp, kernels,
    simt,
};

use super::Service;
use super::call::{Asking, Blocking, Call, MOST_STREAMS, SLOTS, Slices};

kernels! {
    /// Blocking calls of a block.
    pub fn way_block(net: Net, work: Service) {
        serve::<Block, Blocking>(net.block(), &work);
    }

    /// Blocking calls of a warp.
    pub fn way_warp(net: Net, work: Service) {
        serve::<Warp, Blocking>(net.warp(), &work);
    }

    /// Blocking calls of a thread.
    pub fn way_thread(net: Net, work: Service) {
        serve::<Thread, Blocking>(net.thread(), &work);
    }

    /// Calls of a block on non-blocking sockets.
    pub fn way_nonblocking(net: Net, work: Service) {
        serve::<Block, Asking<0>>(net.block(), &work);
    }

    /// Calls of a warp on non-blocking sockets.
    pub fn way_nonblocking_warp(net: Net, work: Service) {
        serve::<Warp, Asking<0>>(net.warp(), &work);
    }

    /// Calls of a thread on non-blocking sockets.
    pub fn way_nonblocking_thread(net: Net, work: Service) {
        serve::<Thread, Asking<0>>(net.thread(), &work);
    }

    /// Calls of a block with MSG_DONTWAIT.
    pub fn way_dontwait(net: Net, work: Service) {
        serve::<Block, Asking<MSG_DONTWAIT>>(net.block(), &work);
    }

    /// Slices of a block.
    pub fn way_slices(net: Net, work: Service) {
        serve::<Block, Slices>(net.block(), &work);
    }

    /// Slices of a warp.
    pub fn way_slices_warp(net: Net, work: Service) {
        serve::<Warp, Slices>(net.warp(), &work);
    }

    /// Slices of a thread.
    pub fn way_slices_thread(net: Net, work: Service) {
        serve::<Thread, Slices>(net.thread(), &work);
    }
}

/// The streams that a group serves, by their handles in shared memory.
#[derive(Clone, Copy)]
struct Streams<G: Group> {
    on: On<G>,
    handles: Shared<u64>,
    count: usize,
}

impl<G: Group> Streams<G> {
    #[inline(always)]
    fn handle(self, at: usize) -> Handle {
        Handle(self.handles.get(at).unwrap_or(Handle::NONE.0))
    }

    /// Accepts all of them.
    #[inline(always)]
    fn accept<C: Call<G>>(self, listener: &Listener<G>) -> Result<(), Errno> {
        let mut at = 0;
        while at < self.count {
            let stream = match listener.accept() {
                Ok(stream) => stream,
                Err(Errno::ECONNABORTED) => continue,
                Err(errno) => return Err(errno),
            };
            C::prepare(&stream)?;
            let handle = stream.into_handle();
            if self.on.group().is_leader() {
                self.handles.set(at, handle.0);
            }
            at += 1;
        }
        self.on.group().barrier();
        Ok(())
    }

    /// Closes all of them.
    #[inline(always)]
    fn close(self) {
        for at in 0..self.count {
            drop(Stream::from_handle(self.on, self.handle(at)));
        }
        self.on.group().barrier();
    }
}

#[inline(always)]
fn serve<G: Group, C: Call<G>>(on: On<G>, work: &Service) {
    let memory = simt::shared_memory();
    let buffer = memory.slice(SLOTS, usize::MAX);
    let count = (work.streams as usize).clamp(1, MOST_STREAMS);
    let streams = Streams { on, handles: memory.first(SLOTS).cast::<u64>(), count };
    let listener = Listener::borrow(on, work.listener);
    while streams.accept::<C>(&listener).is_ok() {
        // That a client has left is no error.
        let _ = echo::<G, C>(streams, buffer, work.bytes as usize);
        streams.close();
    }
}

/// Echoes messages until a stream ends.
#[inline(always)]
fn echo<G: Group, C: Call<G>>(
    streams: Streams<G>,
    buffer: SharedBuf,
    bytes: usize,
) -> Result<(), Errno> {
    let (mut at, mut handle, mut got) = (0, streams.handle(0), 0);
    loop {
        let stream = Stream::borrow(streams.on, handle);
        // A server of one stream may block on it.
        let received = match C::ASKS && streams.count > 1 {
            true => C::try_receive(&stream, buffer),
            false => C::receive(&stream, buffer),
        };
        let turn_is_over = match received {
            Ok(0) => return Ok(()),
            Ok(more) => {
                C::send(&stream, buffer.first(more))?;
                got += more;
                got >= bytes
            }
            Err(Errno::EAGAIN) => {
                simt::pause();
                true
            }
            Err(errno) => return Err(errno),
        };
        if turn_is_over && streams.count > 1 {
            (at, got) = ((at + 1) % streams.count, 0);
            handle = streams.handle(at);
        }
    }
}
