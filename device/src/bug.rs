//! The bugs that can be planted ([`planted`](crate::planted) says which of them is).

/// A bug that tests must find: those of [`Bug::ALL`] the simulation harness, those of [`Bug::OF_QUEUES`]
/// tests on the emulated GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The proxy publishes received bytes without a release.
    ReceiveWithoutRelease,
    /// A kernel reads the proxy's counter without an acquire.
    ReceiveWithoutAcquire,
    /// A kernel publishes what it sends without a fence.
    SendWithoutFence,
    /// A kernel publishes what it sends with a release at GPU scope, whoever reads it.
    SendWithGpuFence,
    /// The second piece of a slice that wraps begins a byte late.
    WrongWrap,
    /// The proxy takes a full ring for one with room.
    FullTakenForFree,
    /// A request slot is free again before its reply has come.
    SlotFreedEarly,
    /// A slot's next socket has the same handle.
    GenerationNotBumped,
    /// An accepted connection is not reported to the kernel.
    AcceptedHandleLost,
    /// Units of packets are taken whatever their tags say.
    TagNotCompared,
    /// A direction is ended before everything was sent.
    EndedBeforeSent,
    /// A socket that backs off counts as one that was tried.
    BackOffTakenForIdle,
    /// A socket that epoll left alone is not watched again.
    NotWatchedAgain,
    /// A socket's rings are not given back.
    RingLeaked,
    /// A wait does not look at its deadline.
    DeadlineIgnored,
    /// A group's progress is published while the last group's may still be on its way.
    HeadsOvertake,
    /// Units of packets that are old are not written anew.
    UnitsNotRenewed,
    /// A packet is sent though the last one was not taken.
    PacketBeforeTaken,
    /// The send direction is given back while the counter may still be on its way.
    TailsOvertake,
    /// A send behind a shutdown finds the direction open.
    ShutNotKept,
    /// Two descriptors of one socket have the same first word.
    DescriptorNotNumbered,
    /// Where a packet begins is taken from its first unit.
    PacketFoundByTag,
    /// An inbox keeps the units of the stream before.
    UnitsOfLastStream,
    /// What happens on a watched socket while its last event is in the ring is forgotten.
    EventNotOwed,
    /// The event of a socket that leaves its poller stays in the ring.
    EventNotWithdrawn,
    /// A poller is not notified that a socket of its own was closed.
    WatchLeftBehind,
    /// What a socket is ready for when a poller begins to watch it is not reported.
    ReadyNotReported,
    /// A socket that a kernel leaves to the program still belongs to its launch.
    DetachedForgotten,
    /// A launch's end closes connections that no kernel has accepted yet.
    WaitingClosed,
    /// Connections that a launch's own listener has not given to it outlive it.
    OrphansKept,
    /// Bytes that no kernel has read are gone when the program takes a socket back.
    UnreadLost,
    /// A launch's slot has the stop word of the launch before.
    StopNotCleared,
    /// A launch believes what an earlier one knew of a socket.
    EpochIgnored,
    /// The memory of a socket that the host has closed is used again while groups are inside it.
    UsedAgainTooEarly,
    /// Groups are not notified that the host has closed their socket.
    CloseByHostNotReported,
    /// An operation of a direction runs though an earlier one of it has failed.
    LatchIgnored,
    /// An operation that fails does not say so.
    FailureNotWritten,
    /// An operation says that it is done before its bytes are there.
    StatusBeforeBytes,
    /// An operation's deadline ends its first wait alone.
    DeadlineOfFirstPiece,
    /// An operation that runs again does not count it.
    RunsNotCounted,
    /// A wait for a counter does not hold once the counter has wrapped.
    ComparedWithoutWrap,
    /// The emulated GPU's streams run the newest kernel first.
    NewestKernelFirst,
    /// Kernels behind one that faulted run.
    FaultPassedOver,
    /// More streams have work than there are queues for.
    QueueLimitIgnored,
    /// A status word is used again before its operation is done.
    StatusUsedTooEarly,
}

impl Bug {
    /// Those of queues of operations.
    pub const OF_QUEUES: [Self; 10] = [
        Self::LatchIgnored,
        Self::FailureNotWritten,
        Self::StatusBeforeBytes,
        Self::DeadlineOfFirstPiece,
        Self::RunsNotCounted,
        Self::ComparedWithoutWrap,
        Self::NewestKernelFirst,
        Self::FaultPassedOver,
        Self::QueueLimitIgnored,
        Self::StatusUsedTooEarly,
    ];

    /// Those of the protocol between kernels and proxy.
    pub const ALL: [Self; 35] = [
        Self::ReceiveWithoutRelease,
        Self::ReceiveWithoutAcquire,
        Self::SendWithoutFence,
        Self::SendWithGpuFence,
        Self::WrongWrap,
        Self::FullTakenForFree,
        Self::SlotFreedEarly,
        Self::GenerationNotBumped,
        Self::AcceptedHandleLost,
        Self::TagNotCompared,
        Self::EndedBeforeSent,
        Self::BackOffTakenForIdle,
        Self::NotWatchedAgain,
        Self::RingLeaked,
        Self::DeadlineIgnored,
        Self::HeadsOvertake,
        Self::UnitsNotRenewed,
        Self::PacketBeforeTaken,
        Self::TailsOvertake,
        Self::ShutNotKept,
        Self::DescriptorNotNumbered,
        Self::PacketFoundByTag,
        Self::UnitsOfLastStream,
        Self::EventNotOwed,
        Self::EventNotWithdrawn,
        Self::WatchLeftBehind,
        Self::ReadyNotReported,
        Self::DetachedForgotten,
        Self::WaitingClosed,
        Self::OrphansKept,
        Self::UnreadLost,
        Self::StopNotCleared,
        Self::EpochIgnored,
        Self::UsedAgainTooEarly,
        Self::CloseByHostNotReported,
    ];
}
