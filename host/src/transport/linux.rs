//! What transports use of Linux: its sockets, epoll, timerfd, and UNIX sockets for the control channels of
//! p2p streams.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use gpunet_device::Domain;
use gpunet_device::abi::errno::Errno;
use rustix::event::epoll;

use super::errno::errno;
use super::p2p::registry::FolderRegistry;
use super::socket::SystemSocket;
use super::system::{Packet, Registry, System};
use super::{descriptor, seqpacket};

/// See the module.
pub(crate) struct Linux;

impl System for Linux {
    fn socket(&self, domain: Domain) -> Result<Box<dyn SystemSocket>, Errno> {
        descriptor::make(domain)
    }

    fn ready_set(&self) -> Result<OwnedFd, Errno> {
        epoll::create(epoll::CreateFlags::CLOEXEC).map_err(errno)
    }

    fn add(&self, set: BorrowedFd<'_>, member: BorrowedFd<'_>, key: u64) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(key);
        epoll::add(set, member, data, epoll::EventFlags::IN).map_err(errno)
    }

    fn remove(&self, set: BorrowedFd<'_>, member: BorrowedFd<'_>) {
        // One that is not in it is as good as taken out.
        let _ = epoll::delete(set, member);
    }

    fn ready(&self, set: BorrowedFd<'_>, most: usize) -> Result<Vec<u64>, Errno> {
        let mut events = Vec::with_capacity(most);
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(set, rustix::buffer::spare_capacity(&mut events), Some(&at_once)) {
            Ok(_) => Ok(events.iter().map(|event| event.data.u64()).collect()),
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(errno(error)),
        }
    }

    fn now(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    fn timer(&self, time: Duration) -> Result<OwnedFd, Errno> {
        use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer =
            rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).map_err(errno)?;
        let once =
            Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let time = Itimerspec { it_interval: Timespec::default(), it_value: once };
        rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &time).map_err(errno)?;
        Ok(timer)
    }

    fn is_over(&self, timer: BorrowedFd<'_>) -> bool {
        // Readable once the time has come.
        rustix::io::read(timer, &mut [0_u8; 8]).is_ok()
    }

    fn registry(&self) -> Result<Box<dyn Registry>, String> {
        Ok(Box::new(FolderRegistry::open()?))
    }

    fn peer_pid(&self, channel: BorrowedFd<'_>) -> Result<i32, Errno> {
        seqpacket::peer_pid(channel)
    }

    fn send(
        &self,
        channel: BorrowedFd<'_>,
        bytes: &[u8],
        with: Option<BorrowedFd<'_>>,
    ) -> Result<(), Errno> {
        seqpacket::send(channel, bytes, with)
    }

    fn receive(&self, channel: BorrowedFd<'_>, into: &mut [u8]) -> Result<Packet, Errno> {
        seqpacket::receive(channel, into)
    }
}
