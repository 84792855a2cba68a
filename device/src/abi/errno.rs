//! Errors as a kernel sees them: Linux error numbers, `Copy`, one word.

use core::fmt;

/// A Linux error number. The familiar calls return its negative.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Self = Self($number);)*

            /// The constant's name, or none for a number that has none here.
            pub fn name(self) -> Option<&'static str> {
                match self { $(Self::$name => Some(stringify!($name)),)* _ => None }
            }

            /// What it means, in a few words.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* _ => "system error" }
            }
        }
    };
}

errnos! {
    EPERM = 1, "not permitted";
    ENOENT = 2, "no such file or folder";
    EINTR = 4, "interrupted";
    EIO = 5, "input/output error";
    EBADF = 9, "not an open socket";
    EAGAIN = 11, "would block";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied";
    EFAULT = 14, "bad address";
    EBUSY = 16, "another group is using this direction of the socket";
    EXDEV = 18, "the other end's GPU memory cannot be reached from here";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a folder";
    EINVAL = 22, "invalid argument";
    ENFILE = 23, "socket table full";
    EMFILE = 24, "too many open files";
    ENOSPC = 28, "no space left on the device";
    EROFS = 30, "the file system cannot be written";
    EPIPE = 32, "broken pipe";
    ENAMETOOLONG = 36, "name too long";
    EPROTO = 71, "protocol error: the proxy caught a bad word in this socket's memory";
    EMSGSIZE = 90, "message too long";
    ENOPROTOOPT = 92, "no such option";
    EPROTONOSUPPORT = 93, "protocol not supported";
    EOPNOTSUPP = 95, "operation not supported on this socket";
    EAFNOSUPPORT = 97, "address family not supported";
    EADDRINUSE = 98, "address in use";
    EADDRNOTAVAIL = 99, "address not available";
    ENETDOWN = 100, "the proxy is gone";
    ENETUNREACH = 101, "network unreachable";
    ECONNABORTED = 103, "connection aborted";
    ECONNRESET = 104, "connection reset by peer";
    ENOBUFS = 105, "no ring memory left";
    EISCONN = 106, "already connected";
    ENOTCONN = 107, "not connected";
    ETIMEDOUT = 110, "timed out";
    ECONNREFUSED = 111, "connection refused";
    EHOSTUNREACH = 113, "host unreachable";
    EALREADY = 114, "already in progress";
    EINPROGRESS = 115, "in progress";
    ECANCELED = 125, "the kernel was stopped";
}

impl Errno {
    /// What a call returns for it.
    #[inline(always)]
    pub const fn negative(self) -> i64 {
        -(self.0 as i64)
    }

    /// A call's return value as a result.
    #[inline(always)]
    pub const fn check(value: i64) -> Result<u64, Self> {
        if value < 0 { Err(Self(-value as i32)) } else { Ok(value as u64) }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({self:?})", self.text())
    }
}

impl core::error::Error for Errno {}
