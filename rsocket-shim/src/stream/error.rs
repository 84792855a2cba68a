//! Why a stream is none, or no longer.

use std::io;

use crate::protocol::{BadPosition, BadTerms, Failure, Refused};
use crate::verbs::{RegisterError, Step, VerbsError};
use crate::work::Fault;

/// Why a stream cannot be made, or has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Nobody listens there, or whoever does wants no more connections.
    #[error("the peer refuses the connection: does a program listen there by RDMA?")]
    Rejected,
    /// Many that do not use rsocket were rejected in a row.
    #[error("peers that do not use rsocket keep coming: others may wait behind them")]
    PeersRejected,
    /// The peer's private data is not rsocket's.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The peer is gone.
    #[error("the peer has cut the connection")]
    Reset,
    /// The protocol or the queue pair failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The peer was not found, or does not answer.
    #[error("the peer cannot be reached ({step:?}: {}): is it up, on an RDMA network?",
        io::Error::from_raw_os_error(*errno))]
    Unreachable {
        /// What was under way.
        step: Step,
        /// The system's error number.
        errno: i32,
    },
    /// The device is gone.
    #[error("the RDMA device was removed")]
    DeviceRemoved,
    /// A call failed.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// Memory was not registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// No memory for the target list.
    #[error("no memory for a page of target entries")]
    NoMemory,
    /// Rings or queues that make no sense.
    #[error(transparent)]
    Terms(#[from] BadTerms),
    /// A ring that does not lie in its region.
    #[error("a ring does not lie inside its region")]
    OutsideRegion,
    /// A counter that makes no sense.
    #[error(transparent)]
    Position(#[from] BadPosition),
    /// The system refused a descriptor.
    #[error("{call} failed: {}", io::Error::from_raw_os_error(*errno))]
    System {
        /// The call.
        call: &'static str,
        /// The system's error number.
        errno: i32,
    },
}

impl StreamError {
    pub(super) fn failed(step: Step, errno: i32) -> Self {
        Self::Unreachable { step, errno }
    }

    pub(super) fn system(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::System { call, errno: errno.raw_os_error() }
    }

    /// The number that a socket call would give.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Rejected => libc::ECONNREFUSED,
            Self::PeersRejected => libc::EAGAIN,
            Self::Reset => libc::ECONNRESET,
            Self::Refused(_) => libc::EPROTO,
            Self::Failed(failure) => match failure {
                Failure::Violation(_) | Failure::Unasked => libc::EPROTO,
                Failure::Queue(Fault::Unanswered | Fault::NotReady) => libc::ETIMEDOUT,
                // A peer that is gone takes its memory along, perhaps before it says so.
                Failure::Queue(Fault::Flushed | Fault::Refused) => libc::ECONNRESET,
                Failure::Queue(_) => libc::EIO,
            },
            Self::Unreachable { step: Step::Address | Step::Route, errno } => match *errno {
                libc::ETIMEDOUT | 0 => libc::EHOSTUNREACH,
                errno => errno,
            },
            Self::Unreachable { errno: 0, .. } => libc::ETIMEDOUT,
            Self::Unreachable { errno, .. } => *errno,
            Self::DeviceRemoved => libc::ENETDOWN,
            Self::Verbs(VerbsError::NoDeviceAt(_)) => libc::ENODEV,
            Self::Verbs(VerbsError::OtherDevice { .. }) => libc::ENETUNREACH,
            Self::Verbs(VerbsError::Transport { .. }) => libc::EOPNOTSUPP,
            Self::Verbs(error) => error.errno().unwrap_or(libc::EINVAL),
            Self::Register(error) => error.errno,
            Self::NoMemory => libc::ENOMEM,
            Self::Terms(_) | Self::OutsideRegion | Self::Position(_) => libc::EINVAL,
            Self::System { errno, .. } => *errno,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Violation;

    #[test]
    fn each_error_has_the_number_that_a_socket_would_give() {
        let queue = |fault| StreamError::Failed(Failure::Queue(fault));
        let unreachable = StreamError::failed;
        let cases = [
            (StreamError::Rejected, libc::ECONNREFUSED),
            (StreamError::PeersRejected, libc::EAGAIN),
            (StreamError::Refused(Refused::Version(2)), libc::EPROTO),
            (StreamError::Failed(Failure::Violation(Violation::Empty)), libc::EPROTO),
            (queue(Fault::Unanswered), libc::ETIMEDOUT),
            (queue(Fault::NotReady), libc::ETIMEDOUT),
            (queue(Fault::Flushed), libc::ECONNRESET),
            (queue(Fault::Refused), libc::ECONNRESET),
            (queue(Fault::Other(4)), libc::EIO),
            (unreachable(Step::Address, libc::ETIMEDOUT), libc::EHOSTUNREACH),
            (unreachable(Step::Address, libc::ENODEV), libc::ENODEV),
            (unreachable(Step::Route, 0), libc::EHOSTUNREACH),
            (unreachable(Step::Reach, 0), libc::ETIMEDOUT),
            (unreachable(Step::Connect, libc::EINVAL), libc::EINVAL),
            (StreamError::Position(BadPosition::Tail { tail: 9, least: 0, most: 8 }), libc::EINVAL),
            (
                StreamError::Verbs(VerbsError::OtherDevice { name: "rxe0".to_owned() }),
                libc::ENETUNREACH,
            ),
        ];
        for (error, errno) in cases {
            assert_eq!(error.errno(), errno, "{error}");
        }
    }
}
