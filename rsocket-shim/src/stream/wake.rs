//! One descriptor for all that may happen to a stream: the connection manager's events, and
//! completions.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{Timespec, epoll};

use super::StreamError;
use crate::verbs::{CompletionChannel, EventChannel};

const EVENTS: u64 = 1;
const COMPLETIONS: u64 = 2;

/// A descriptor that is readable when something has happened.
pub(super) struct Wake {
    set: OwnedFd,
    completions: Option<CompletionChannel>,
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Woken {
    /// The connection manager has something to say.
    pub(super) events: bool,
    /// An armed queue is no longer empty, nor armed.
    pub(super) completions: bool,
}

impl Wake {
    pub(super) fn new(events: &EventChannel) -> Result<Self, StreamError> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(StreamError::system("epoll_create"))?;
        let this = Self { set, completions: None };
        this.add(events.as_fd(), EVENTS)?;
        Ok(this)
    }

    /// Completions count from now on.
    pub(super) fn watch(&mut self, completions: &CompletionChannel) -> Result<(), StreamError> {
        self.add(completions.as_fd(), COMPLETIONS)?;
        self.completions = Some(completions.clone());
        Ok(())
    }

    fn add(&self, descriptor: BorrowedFd<'_>, name: u64) -> Result<(), StreamError> {
        let data = epoll::EventData::new_u64(name);
        epoll::add(&self.set, descriptor, data, epoll::EventFlags::IN)
            .map_err(StreamError::system("epoll_ctl"))
    }

    /// Takes what made the descriptor readable; the connection manager's events stay where they
    /// are.
    pub(super) fn take(&self) -> Result<Woken, StreamError> {
        let mut room = [MaybeUninit::uninit(); 2];
        let at_once = Timespec::default();
        // Who does not wait is not interrupted either.
        let (ready, _) = epoll::wait(&self.set, &mut room, Some(&at_once))
            .map_err(StreamError::system("epoll_wait"))?;
        let mut woken = Woken::default();
        for event in ready {
            match event.data.u64() {
                EVENTS => woken.events = true,
                _ => woken.completions = true,
            }
        }
        if let Some(completions) = self.completions.as_ref().filter(|_| woken.completions) {
            // A queue says it once for each time that it was armed.
            woken.completions = completions.next()?.is_some();
        }
        Ok(woken)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}
