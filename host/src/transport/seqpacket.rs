//! UNIX sockets of sequenced packets, with a descriptor beside a packet: sendmsg, recvmsg and the credentials
//! of the process at the other end.

#![allow(unsafe_code, reason = "sendmsg and recvmsg with descriptors, peer credentials")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use gpunet_device::abi::errno::Errno;

use super::system::Packet;

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
        Err(last_errno())
    }
}

/// Sends a packet, without waiting. EAGAIN: the other end has too many that wait.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    with: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut piece =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control::default();
    // SAFETY: a message header of zeros is a valid empty one.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    if let Some(descriptor) = with {
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = Control::BYTES;
        // SAFETY: the buffer has room for one header and one descriptor (Control::BYTES), so
        // there is a first header, and its data is a number.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = Control::ONE;
            libc::CMSG_DATA(first).cast::<i32>().write_unaligned(descriptor.as_raw_fd());
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header names memory that lives until the call returns.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    // A packet goes as a whole or not at all.
    if sent == bytes.len() as isize { Ok(()) } else { Err(last_errno()) }
}

/// The next packet, without waiting.
pub(super) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> Result<Packet, Errno> {
    let mut piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut control = Control::default();
    // SAFETY: a message header of zeros is a valid empty one.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    // For one descriptor and no more: the padding would have room for a second.
    header.msg_controllen = Control::ONE;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header names memory that lives until the call returns.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let Ok(length) = usize::try_from(received) else { return Err(last_errno()) };
    // Owned first, so that none is left open whatever the rest is.
    let descriptor = descriptor_in(&header);
    let cut = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    Ok(Packet { length, cut, descriptor })
}

/// Room for one descriptor beside a packet, aligned as headers are.
struct Control([MaybeUninit<u64>; 4]);

impl Control {
    // SAFETY: computes a size.
    const BYTES: usize = unsafe { libc::CMSG_SPACE(size_of::<i32>() as u32) } as usize;
    // SAFETY: computes a size.
    const ONE: usize = unsafe { libc::CMSG_LEN(size_of::<i32>() as u32) } as usize;
}

const _: () = assert!(Control::BYTES <= size_of::<Control>());

impl Default for Control {
    fn default() -> Self {
        Self([MaybeUninit::zeroed(); 4])
    }
}

/// The descriptor that came with a packet.
fn descriptor_in(header: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: recvmsg has filled the header, and the system writes whole headers only. There is
    // room for one descriptor, so it gives one at most, which is ours from now on.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(header);
        let rights = !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
            && (*first).cmsg_len >= Control::ONE;
        rights.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(first).cast::<i32>().read_unaligned()))
    }
}

fn last_errno() -> Errno {
    Errno(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
