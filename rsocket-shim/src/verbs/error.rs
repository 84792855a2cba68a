//! What can go wrong with verbs and with the connection manager.

use std::ffi::c_int;
use std::io;
use std::net::SocketAddr;

use super::Transport;

/// Why verbs or the connection manager could not do what they were asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// A call failed.
    #[error("{call} failed: {}", io::Error::from_raw_os_error(*errno))]
    Call {
        /// The function of the library.
        call: &'static str,
        /// The system's error number.
        errno: i32,
    },
    /// No device has this address.
    #[error(
        "no RDMA device has the address {0}: use an address of an interface that `rdma link` lists"
    )]
    NoDeviceAt(SocketAddr),
    /// The device uses another protocol below.
    #[error(
        "the RDMA device {name} uses {transport}, and streams do not yet: use an InfiniBand or RoCE device"
    )]
    Transport {
        /// The device.
        name: String,
        /// What it uses.
        transport: Transport,
    },
    /// More private data than a message of the connection manager holds.
    #[error("{given} bytes of private data are too many: this message holds {limit}")]
    PrivateData {
        /// The bytes given.
        given: usize,
        /// The most there may be.
        limit: usize,
    },
    /// The id has no queue pair that could be connected.
    #[error("the id has no queue pair: create one before it connects or accepts")]
    NoQueuePair,
    /// The id has not come to a device yet.
    #[error("the id is on no device yet: bind it, or wait until its address is resolved")]
    NoDeviceYet,
    /// Queue pair, domain and completion queue must be of the device that the id has come to.
    #[error("the id is not on the device {name}: use a domain of the id's own device")]
    OtherDevice {
        /// The device of the domain.
        name: String,
    },
    /// Completions would get lost.
    #[error("a completion queue of {has} is too small for {needs} pieces of work: make it larger")]
    SmallQueue {
        /// Its entries.
        has: u32,
        /// The writes and receives that may be posted at once.
        needs: u32,
    },
}

impl VerbsError {
    /// The call that just failed and left its reason in `errno`.
    pub(super) fn last(call: &'static str) -> Self {
        Self::Call { call, errno: last_errno() }
    }

    /// The system's error number, where a call gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

/// Turns what a call returned into a result. Verbs return an error number or -1 with `errno`, the
/// connection manager -1 with `errno`.
pub(super) fn check(call: &'static str, returned: c_int) -> Result<(), VerbsError> {
    match returned {
        0 => Ok(()),
        errno if errno > 0 => Err(VerbsError::Call { call, errno }),
        _ => Err(VerbsError::last(call)),
    }
}

pub(super) fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_numbers_are_error_numbers() {
        assert_eq!(check("ibv_x", 0), Ok(()));
        let error = check("ibv_x", libc::ENOMEM).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOMEM));
        assert_eq!(error.to_string(), "ibv_x failed: Cannot allocate memory (os error 12)");
    }

    #[test]
    fn minus_one_has_its_number_elsewhere() {
        // SAFETY: closes a descriptor that nobody has, for its error number.
        let returned = unsafe { libc::close(-1) };
        assert_eq!(check("close", returned).unwrap_err().errno(), Some(libc::EBADF));
    }
}
