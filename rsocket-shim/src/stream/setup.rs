//! How a stream gets its queue pair.

use super::{Buffers, Line, Request, Settings, Stage, Stream, StreamError};
use crate::protocol::Protocol;
use crate::verbs::{
    Capacity, CompletionChannel, CompletionQueue, Domain, EventChannel, QueuePair, Token,
};

impl Stream {
    /// The queue pair, with its receives posted.
    pub(super) fn open_line(&mut self) -> Result<Line, StreamError> {
        let capacity =
            Capacity { writes: self.settings.send_queue.into(), receives: self.terms.receives() };
        let channel = CompletionChannel::open(self.domain.device())?;
        let entries = capacity.writes + capacity.receives;
        let completions = CompletionQueue::create(&channel, entries, Token::default())?;
        let pair = QueuePair::create(&self.id, &self.domain, completions, capacity)?;
        pair.receive(capacity.receives)?;
        self.wake.watch(&channel)?;
        Ok(Line { pair, armed: false })
    }

    /// Accepts a request, on a domain of the device that it came to.
    pub fn accept(
        request: Request,
        domain: &Domain,
        buffers: Buffers,
        settings: Settings,
    ) -> Result<Self, StreamError> {
        let Request { mut id, data } = request;
        let channel = EventChannel::open(domain.device().libraries())?;
        id.move_to(&channel)?;
        let mut stream = Self::new(domain, id, channel, buffers, settings)?;
        let protocol = Box::new(Protocol::new(&stream.terms, &data)?);
        // From when the peer is accepted on, its bytes may come.
        let answered = stream.open_line().and_then(|line| {
            stream.id.accept(&stream.terms.private_data())?;
            Ok(line)
        });
        let line = answered.map_err(|error| stream.or_gone(error))?;
        stream.stage = Some(Stage::Open(line, protocol));
        Ok(stream)
    }

    /// A peer that has given up meanwhile makes calls fail that do not say so, and the system keeps
    /// the event to itself until the request is accepted. Only who is still there can be rejected.
    fn or_gone(&self, error: StreamError) -> StreamError {
        if self.id.reject(&[]).is_ok() { error } else { StreamError::Reset }
    }
}
