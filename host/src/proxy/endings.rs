//! How the directions of a socket end, and what kernels find of that in its status and its counters.

use gpunet_device::abi::bits::Progress;
use gpunet_device::abi::descriptor::Status;
use gpunet_device::abi::errno::Errno;

/// Whether a socket has a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Connection {
    /// None: it was never connected, it is closed, or it is no stream.
    #[default]
    None,
    Begun,
    Made,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    pub(super) connection: Connection,
    /// Nothing more will be received.
    pub(crate) receive: bool,
    /// Nothing more will be sent.
    pub(crate) send: bool,
    /// The kernel will send no more: the direction ends once all is sent.
    pub(crate) finish_send: bool,
    pub(crate) failure: Option<Errno>,
    /// The GPU wrote a word that makes no sense, which was reported once.
    pub(super) violated: bool,
}

impl Endings {
    /// The status word.
    pub(super) fn status(&self) -> Status {
        match (self.failure, self.connection) {
            // What the peer sent before may still come: the socket has failed when all is over.
            (Some(errno), Connection::Made) if !self.receive => {
                Status::new(Status::CONNECTED, errno.0)
            }
            (Some(errno), _) => Status::new(Status::FAILED, errno.0),
            (None, Connection::None) => Status::new(Status::IDLE, 0),
            (None, Connection::Begun) => Status::new(Status::CONNECTING, 0),
            (None, Connection::Made) => Status::new(Status::CONNECTED, 0),
        }
    }

    /// Notes that sending has failed. Whether that is the socket's first error.
    pub(super) fn fail_send(&mut self, errno: Errno) -> bool {
        self.send = true;
        let first = self.failure.is_none();
        self.failure.get_or_insert(errno);
        first
    }

    /// What a published counter says of the end of its direction.
    pub(super) fn flags(&self, ended: bool) -> u64 {
        match (ended, self.failure) {
            (false, _) => 0,
            (true, None) => Progress::ENDED,
            (true, Some(_)) => Progress::ENDED | Progress::FAILED,
        }
    }
}
