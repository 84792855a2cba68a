//! One descriptor for all that may happen to a stream: the connection manager's events,
//! completions, and the time for a sign of life.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::StreamError;
use crate::verbs::{CompletionChannel, EventChannel};

const EVENTS: u64 = 1;
const COMPLETIONS: u64 = 2;
const TIME: u64 = 3;

/// A descriptor that is readable when something has happened.
pub(super) struct Wake {
    set: OwnedFd,
    completions: Option<CompletionChannel>,
    timer: Option<OwnedFd>,
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Woken {
    /// The connection manager has something to say.
    pub(super) events: bool,
    /// An armed queue is no longer empty, nor armed.
    pub(super) completions: bool,
    /// It is time for a sign of life.
    pub(super) time: bool,
}

impl Wake {
    pub(super) fn new(events: &EventChannel) -> Result<Self, StreamError> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(StreamError::system("epoll_create"))?;
        let this = Self { set, completions: None, timer: None };
        this.add(events.as_fd(), EVENTS)?;
        Ok(this)
    }

    /// Completions count from now on.
    pub(super) fn watch(&mut self, completions: &CompletionChannel) -> Result<(), StreamError> {
        self.add(completions.as_fd(), COMPLETIONS)?;
        self.completions = Some(completions.clone());
        Ok(())
    }

    /// Has it be time every so often, or no longer.
    pub(super) fn set_timer(&mut self, every: Option<Duration>) -> Result<(), StreamError> {
        // Closed, it watches no more.
        self.timer = None;
        let Some(every) = every else { return Ok(()) };
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(StreamError::system("timerfd_create"))?;
        let seconds = i64::try_from(every.as_secs()).unwrap_or(i64::MAX);
        let every = Timespec { tv_sec: seconds, tv_nsec: every.subsec_nanos().into() };
        let times = Itimerspec { it_interval: every, it_value: every };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)
            .map_err(StreamError::system("timerfd_settime"))?;
        self.add(timer.as_fd(), TIME)?;
        self.timer = Some(timer);
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
        let mut room = [MaybeUninit::uninit(); 3];
        let at_once = Timespec::default();
        // Who does not wait is not interrupted either.
        let (ready, _) = epoll::wait(&self.set, &mut room, Some(&at_once))
            .map_err(StreamError::system("epoll_wait"))?;
        let mut woken = Woken::default();
        for event in ready {
            match event.data.u64() {
                EVENTS => woken.events = true,
                TIME => woken.time = true,
                _ => woken.completions = true,
            }
        }
        if let Some(timer) = self.timer.as_ref().filter(|_| woken.time) {
            // How often it was time does not matter.
            let _ = rustix::io::read(timer, &mut [0_u8; 8]);
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
