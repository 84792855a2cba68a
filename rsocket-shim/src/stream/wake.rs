//! One descriptor for all that may happen to a stream: the connection manager's events, and
//! completions.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;

use super::StreamError;
use crate::verbs::{CompletionChannel, EventChannel};

/// A descriptor that is readable when something has happened.
pub(super) struct Wake {
    set: OwnedFd,
    completions: Option<CompletionChannel>,
}

impl Wake {
    pub(super) fn new(events: &EventChannel) -> Result<Self, StreamError> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(StreamError::system("epoll_create"))?;
        let this = Self { set, completions: None };
        this.add(events.as_fd())?;
        Ok(this)
    }

    /// Completions count from now on.
    pub(super) fn watch(&mut self, completions: &CompletionChannel) -> Result<(), StreamError> {
        self.add(completions.as_fd())?;
        self.completions = Some(completions.clone());
        Ok(())
    }

    fn add(&self, descriptor: BorrowedFd<'_>) -> Result<(), StreamError> {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&self.set, descriptor, data, epoll::EventFlags::IN)
            .map_err(StreamError::system("epoll_ctl"))
    }

    /// Takes what made the descriptor readable, now that the completions themselves were seen.
    pub(super) fn drain(&self) -> Result<(), StreamError> {
        if let Some(completions) = &self.completions {
            while completions.next()?.is_some() {}
        }
        Ok(())
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}
