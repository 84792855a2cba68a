//! The ways of calling, and the rows of the suite. A new way is a variant, its line in each `match`, a row, and
//! a kernel.

use std::fmt;

use clap::ValueEnum;
use gpunet_bench_kernels::client::{
    measure_echo, measure_echo_dontwait, measure_echo_nonblocking, measure_echo_slices,
    measure_echo_thread,
};
use gpunet_bench_kernels::ways::Service;
use gpunet_bench_kernels::ways::{echo, events};
use gpunet_device::Kernel;

use super::super::kernel_client::Measure;

/// How a server kernel calls. In blocks, unless the name says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// Blocking read and write of a block
    Block,
    /// The same of a warp
    Warp,
    /// The same of a single thread
    Thread,
    /// Read and write on a non-blocking socket, until there is something
    Nonblocking,
    /// The same of a warp
    NonblockingWarp,
    /// The same of a single thread
    NonblockingThread,
    /// The same with MSG_DONTWAIT
    Dontwait,
    /// Peek, copy and consume; reserve, copy and commit
    Slices,
    /// The same of a warp
    SlicesWarp,
    /// The same of a single thread
    SlicesThread,
    /// `gpoll`, then read and write
    Gpoll,
    /// The same of a single thread
    GpollThread,
    /// A poller by hand: wait, read until EAGAIN, write
    Poller,
    /// The same of a warp
    PollerWarp,
    /// The same of a single thread
    PollerThread,
    /// The server loop of gpunet-serve
    Serve,
}

/// What serves: an ordinary kernel, or the server loop, which needs memory.
pub(super) enum Server {
    Kernel(Kernel<(Service,)>),
    Loop,
}

impl Way {
    /// Its name in reports, as options have it.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Which threads call together.
    pub(super) const fn group(self) -> &'static str {
        match self {
            Self::Warp | Self::NonblockingWarp | Self::SlicesWarp | Self::PollerWarp => "warp",
            Self::Thread
            | Self::NonblockingThread
            | Self::SlicesThread
            | Self::GpollThread
            | Self::PollerThread => "thread",
            _ => "block",
        }
    }

    /// The kernel that serves.
    pub(super) const fn server(self) -> Server {
        Server::Kernel(match self {
            Self::Block => echo::way_block,
            Self::Warp => echo::way_warp,
            Self::Thread => echo::way_thread,
            Self::Nonblocking => echo::way_nonblocking,
            Self::NonblockingWarp => echo::way_nonblocking_warp,
            Self::NonblockingThread => echo::way_nonblocking_thread,
            Self::Dontwait => echo::way_dontwait,
            Self::Slices => echo::way_slices,
            Self::SlicesWarp => echo::way_slices_warp,
            Self::SlicesThread => echo::way_slices_thread,
            Self::Gpoll => events::way_gpoll,
            Self::GpollThread => events::way_gpoll_thread,
            Self::Poller => events::way_poller,
            Self::PollerWarp => events::way_poller_warp,
            Self::PollerThread => events::way_poller_thread,
            Self::Serve => return Server::Loop,
        })
    }

    /// The kernel that measures by the same way; the reference where there is none.
    const fn client(self) -> Measure {
        match self {
            Self::Thread => measure_echo_thread,
            Self::Nonblocking => measure_echo_nonblocking,
            Self::Dontwait => measure_echo_dontwait,
            Self::Slices => measure_echo_slices,
            _ => measure_echo,
        }
    }
}

/// A row of the suite, for each length of messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) way: Way,
    /// Threads of a block of the server.
    pub(super) threads: u32,
    /// Streams of each of its blocks; messages take them in turns.
    pub(super) streams: u32,
    /// Its blocks, all on one listener.
    pub(super) blocks: u32,
    /// Whether the client calls in the same way; kernel to kernel alone.
    pub(super) both_ends: bool,
}

impl Row {
    const fn new(way: Way, threads: u32) -> Self {
        Self { way, threads, streams: 1, blocks: 1, both_ends: false }
    }

    const fn streams(way: Way, streams: u32) -> Self {
        Self { streams, ..Self::new(way, 32) }
    }

    const fn blocks(way: Way, blocks: u32) -> Self {
        Self { blocks, ..Self::new(way, 32) }
    }

    const fn both(way: Way, threads: u32) -> Self {
        Self { both_ends: true, ..Self::new(way, threads) }
    }

    /// Connections of the client.
    pub(super) const fn connections(self) -> u32 {
        self.streams * self.blocks
    }

    /// The kernel that measures, and the threads of its block: the reference calls in whole warps.
    pub(super) const fn client(self) -> (Measure, u32) {
        match self.both_ends {
            true => (self.way.client(), self.threads),
            false => (measure_echo, self.threads.next_multiple_of(32)),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.way.name())?;
        if self.both_ends {
            f.write_str(", both ends")?;
        }
        if self.streams > 1 {
            write!(f, ", {} streams", self.streams)?;
        }
        if self.blocks > 1 {
            write!(f, ", {} blocks", self.blocks)?;
        }
        Ok(())
    }
}

/// All rows.
pub(super) const TABLE: &[Row] = &[
    Row::new(Way::Block, 32),
    Row::new(Way::Block, 48),
    Row::new(Way::Block, 128),
    Row::new(Way::Block, 256),
    Row::new(Way::Block, 320),
    Row::new(Way::Warp, 32),
    Row::new(Way::Thread, 1),
    Row::new(Way::Nonblocking, 32),
    Row::new(Way::Nonblocking, 128),
    Row::new(Way::NonblockingWarp, 32),
    Row::new(Way::NonblockingThread, 1),
    Row::new(Way::Dontwait, 32),
    Row::new(Way::Slices, 32),
    Row::new(Way::Slices, 48),
    Row::new(Way::Slices, 128),
    Row::new(Way::SlicesWarp, 32),
    Row::new(Way::SlicesThread, 1),
    Row::new(Way::Gpoll, 32),
    Row::new(Way::GpollThread, 1),
    Row::new(Way::Poller, 32),
    Row::new(Way::Poller, 128),
    Row::new(Way::PollerWarp, 32),
    Row::new(Way::PollerThread, 1),
    Row::new(Way::Serve, 32),
    Row::new(Way::Serve, 128),
    Row::streams(Way::Block, 2),
    Row::streams(Way::Block, 16),
    Row::streams(Way::Nonblocking, 16),
    Row::streams(Way::Slices, 16),
    Row::streams(Way::Gpoll, 16),
    Row::streams(Way::Poller, 16),
    Row::streams(Way::Serve, 16),
    Row::blocks(Way::Block, 16),
    Row::blocks(Way::Poller, 16),
    Row::blocks(Way::Serve, 16),
    Row::both(Way::Thread, 1),
    Row::both(Way::Nonblocking, 32),
    Row::both(Way::Dontwait, 32),
    Row::both(Way::Slices, 32),
    Row::both(Way::Slices, 128),
];

/// The rows of these ways, all if none is named; with these block sizes, those of the table if none is given.
pub(super) fn rows(ways: &[Way], threads: &[u32]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for row in TABLE.iter().filter(|row| ways.is_empty() || ways.contains(&row.way)) {
        let is_block = row.way.group() == "block";
        let sizes = if threads.is_empty() || !is_block { &[row.threads] } else { threads };
        let resized = sizes.iter().map(|threads| Row { threads: *threads, ..*row });
        for row in resized {
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_a_row() {
        for way in Way::value_variants() {
            assert!(TABLE.iter().any(|row| row.way == *way), "{way:?}");
        }
        for (at, row) in TABLE.iter().enumerate() {
            assert!(!TABLE[..at].contains(row), "{row} is there twice");
        }
    }

    #[test]
    fn block_sizes_replace_those_of_blocks_alone() {
        let rows = rows(&[Way::Slices, Way::Thread], &[64, 96]);
        let of = |way: Way, both: bool| {
            let rows = rows.iter().filter(|row| row.way == way && row.both_ends == both);
            rows.filter(|row| row.streams == 1).map(|row| row.threads).collect::<Vec<_>>()
        };
        assert_eq!(of(Way::Slices, false), [64, 96]);
        assert_eq!(of(Way::Slices, true), [64, 96]);
        assert_eq!(of(Way::Thread, false), [1]);
    }
}
