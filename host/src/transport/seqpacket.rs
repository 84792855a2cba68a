//! UNIX sockets of sequenced packets, with a descriptor beside a packet: sendmsg, recvmsg and the credentials
//! of the process at the other end.

#![allow(unsafe_code, reason = "peer credentials")]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

use gpunet_device::abi::errno::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::errno::errno;
use super::system::Packet;

/// Room for one descriptor beside a packet.
const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(1));

/// The process at the other end; EACCES where another user runs it, or it has no number here.
pub(super) fn peer_pid(socket: BorrowedFd<'_>) -> Result<i32, Errno> {
    let credentials = credentials(socket)?;
    if credentials.uid != rustix::process::geteuid().as_raw() || credentials.pid <= 0 {
        return Err(Errno::EACCES);
    }
    Ok(credentials.pid)
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

/// Sends a packet, without waiting. EAGAIN: the other end has too many that wait.
pub(super) fn send(
    socket: BorrowedFd<'_>,
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
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map_err(errno).map(drop)
}

/// The next packet, without waiting.
pub(super) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> Result<Packet, Errno> {
    let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(into)], &mut control, flags).map_err(errno)?;
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
