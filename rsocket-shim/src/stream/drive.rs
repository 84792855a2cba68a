//! What moves a stream on: completions, the connection manager's events, and the end.
//!
//! The completion queue is armed whenever a round finds it empty, and stays so until its event is
//! taken. So between the event and [`Stream::progress`] bytes flow without a system call, and a
//! completion that nobody has seen always makes the descriptor readable.

use super::{Next, Stage, Stream, StreamError};
use crate::protocol::{Failure, Protocol};
use crate::verbs::EventKind;
use crate::work::Completion;

/// Rounds in which completions come one after the other before others get their turn.
const ROUNDS: usize = 32;
/// How often a leaving stream that a peer keeps busy tries in one go.
const LEAVE_ROUNDS: usize = 8;

impl Stream {
    /// Takes what has made the descriptor readable and does what can be done. An error ends the
    /// stream; what arrived before can still be read.
    pub fn progress(&mut self) -> Result<Next, StreamError> {
        self.unless_ended(Self::wake_up)
    }

    /// As [`Self::progress`], but for bytes alone: without a system call where the device's driver
    /// needs none. The descriptor stays as readable as it was, unless the stream fails.
    pub fn flow(&mut self) -> Result<Next, StreamError> {
        // What a queue pair fails with says less than the connection manager's event that the peer has
        // gone, which may be pending.
        self.unless_ended(|this| {
            this.pump_and_check().or_else(|error| this.wake_up().and(Err(error)))
        })
    }

    /// Disconnects, behind what was offered. To be called again as [`Self::progress`] would be,
    /// until it says that this is done: dropped before, the stream is cut off. So is one whose peer
    /// never stops to keep us busy.
    pub fn leave(&mut self) -> bool {
        let Some(Stage::Open(_, protocol)) = &mut self.stage else { return true };
        protocol.disconnect();
        self.leaving = true;
        for _ in 0..LEAVE_ROUNDS {
            match self.progress() {
                Ok(Next::Again) => {}
                Ok(Next::Wait) if !self.has_left() => return false,
                _ => break,
            }
        }
        if self.ended.is_none() {
            let _ = self.id.disconnect();
        }
        true
    }

    fn has_left(&self) -> bool {
        let said = |protocol: &Protocol| protocol.is_over() && protocol.is_drained();
        self.hung_up || self.protocol().is_none_or(said)
    }

    fn unless_ended(
        &mut self,
        act: fn(&mut Self) -> Result<Next, StreamError>,
    ) -> Result<Next, StreamError> {
        match &self.ended {
            Some(error) => Err(error.clone()),
            None => act(self).inspect_err(|error| self.ended = Some(error.clone())),
        }
    }

    fn wake_up(&mut self) -> Result<Next, StreamError> {
        let woken = self.wake.take()?;
        if let Some(Stage::Asking(line) | Stage::Open(line, _)) = &mut self.stage {
            line.armed &= !woken.completions;
        }
        if woken.time
            && let Some(Stage::Open(_, protocol)) = &mut self.stage
        {
            protocol.keepalive();
        }
        let taken = if woken.events { self.take_events() } else { Ok(()) };
        let flowed = self.pump_and_check();
        // Whatever ends it, what came before has been taken.
        taken.and(flowed)
    }

    fn pump_and_check(&mut self) -> Result<Next, StreamError> {
        let pumped = self.pump();
        self.check_queue()?;
        match pumped {
            // A queue pair whose peer is gone need not take work.
            Err(_) if self.hung_up => Err(StreamError::Reset),
            pumped => pumped,
        }
    }

    /// Takes completions, posts receives and writes.
    fn pump(&mut self) -> Result<Next, StreamError> {
        // Bytes may come before the connection manager's word that they can: they wait.
        let Some(Stage::Open(line, protocol)) = &mut self.stage else { return Ok(Next::Wait) };
        for _ in 0..ROUNDS {
            self.completions.clear();
            let came = line.pair.completions().poll(&mut self.completions)?;
            self.work.completions += came as u64;
            for completion in self.completions.drain(..) {
                // Who sends also receives.
                self.peer_receives |= matches!(completion, Completion::Received(Ok(_)));
                protocol.completed(completion, &mut self.targets);
            }
            line.pair.receive(protocol.receives_to_post())?;
            while self.peer_receives
                && let Some(write) = protocol.next_write()
            {
                line.pair.write(&write)?;
                self.work.writes += 1;
                self.work.immediates += u64::from(write.immediate.is_some());
            }
            if came == 0 && line.armed {
                return Ok(Next::Wait);
            }
            if came == 0 {
                // What came before it was armed would wake nobody: the next round sees it.
                line.pair.completions().arm()?;
                line.armed = true;
            }
        }
        Ok(Next::Again)
    }

    fn take_events(&mut self) -> Result<(), StreamError> {
        while let Some(event) = self.channel.next()? {
            self.take_event(event.kind)?;
        }
        Ok(())
    }

    fn take_event(&mut self, event: EventKind) -> Result<(), StreamError> {
        match event {
            EventKind::AddressResolved => self.id.resolve_route(super::RESOLVE)?,
            EventKind::RouteResolved => {
                let line = self.open_line()?;
                self.stage = Some(Stage::Asking(line));
                self.id.connect(&self.terms.private_data())?;
            }
            EventKind::Established { data } => {
                self.peer_receives = true;
                // The side that accepted is open already.
                if let Some(Stage::Asking(_)) = self.stage {
                    let protocol = Box::new(Protocol::new(&self.terms, &data)?);
                    if let Some(Stage::Asking(line)) = self.stage.take() {
                        self.stage = Some(Stage::Open(line, protocol));
                    }
                }
            }
            // A peer that was accepted and then did not want to be.
            EventKind::Rejected { .. } if self.protocol().is_some() => self.hung_up = true,
            EventKind::Rejected { .. } => return Err(StreamError::Rejected),
            EventKind::Failed { step, errno } => return Err(StreamError::failed(step, errno)),
            EventKind::Disconnected => {
                self.hung_up = true;
                // Both sides say so, or the system keeps the connection for a while.
                let _ = self.id.disconnect();
            }
            EventKind::DeviceRemoved => return Err(StreamError::DeviceRemoved),
            _ => {}
        }
        Ok(())
    }

    /// Whether it has failed.
    fn check_queue(&self) -> Result<(), StreamError> {
        let Some(protocol) = self.protocol() else {
            return if self.hung_up { Err(StreamError::Reset) } else { Ok(()) };
        };
        match protocol.failure() {
            // What a peer that is gone leaves behind.
            Some(Failure::Queue(_)) if self.hung_up => Err(StreamError::Reset),
            Some(failure) => Err(failure.into()),
            None if self.hung_up && !protocol.is_over() && !self.leaving => Err(StreamError::Reset),
            None if protocol.is_reset() => Err(StreamError::Reset),
            None => Ok(()),
        }
    }
}
