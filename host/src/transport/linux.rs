//! What transports use of Linux: its sockets, epoll, timerfd, and UNIX sockets of sequenced packets, with a
//! descriptor beside a packet, for the control channels of p2p streams.

#![allow(unsafe_code, reason = "peer credentials")]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gpunet_device::Domain;
use gpunet_device::abi::errno::Errno;
use rustix::event::epoll;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::descriptor;
use super::errno::errno;
use super::p2p::registry::FolderRegistry;
use super::socket::SystemSocket;
use super::system::{Packet, Registry, System};

/// Room for one descriptor beside a packet.
const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(1));

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
        let credentials = credentials(channel)?;
        if credentials.uid != rustix::process::geteuid().as_raw() || credentials.pid <= 0 {
            return Err(Errno::EACCES);
        }
        Ok(credentials.pid)
    }

    fn send(
        &self,
        channel: BorrowedFd<'_>,
        bytes: &[u8],
        with: Option<BorrowedFd<'_>>,
    ) -> Result<(), Errno> {
        let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = SendAncillaryBuffer::new(&mut room);
        if with.is_some() {
            control.push(SendAncillaryMessage::ScmRights(with.as_slice()));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // A packet goes as a whole or not at all.
        sendmsg(channel, &[IoSlice::new(bytes)], &mut control, flags).map_err(errno).map(drop)
    }

    fn receive(&self, channel: BorrowedFd<'_>, into: &mut [u8]) -> Result<Packet, Errno> {
        let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received =
            recvmsg(channel, &mut [IoSliceMut::new(into)], &mut control, flags).map_err(errno)?;
        let rights = |message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        };
        let mut descriptors = control.drain().filter_map(rights).flatten();
        let descriptor = descriptors.next();
        // The padding has room for more than one. Those that are left are closed.
        let cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
            || descriptors.next().is_some();
        Ok(Packet { length: received.bytes, cut, descriptor })
    }
}

/// By the C library: the number may be 0, which a `rustix::process::Pid` cannot be.
fn credentials(socket: BorrowedFd<'_>) -> Result<libc::ucred, Errno> {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let to = (&raw mut credentials).cast();
    let socket = socket.as_raw_fd();
    // SAFETY: the system writes at most `length` bytes, which are the credentials.
    let asked = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut length)
    };
    if asked == 0 && length as usize == size_of::<libc::ucred>() {
        Ok(credentials)
    } else {
        Err(errno(io::Error::last_os_error()))
    }
}
