//! The command line.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use gpunet_host::GpuChoice;
use gpunet_sockets::Address;
use gpunet_terminal::output::explain;

/// Runs connections of every kind between kernels and programs, and watches that nothing is lost,
/// hangs or leaks.
#[derive(Debug, Parser)]
#[command(
    name = "soak",
    after_help = "\
Rounds follow one another until the time is over. Each has kernels that answer, call, or both, as \
blocks, warps or single threads; TCP and UNIX sockets; messages from one byte to several rings; and \
connections that end well (by either side, half-closed, closed with bytes under way, left open by a \
kernel), by a reset, by a peer that vanishes, falls silent (the kernel's time-out) or is killed, by \
an abort of the launch, or with the net.

Every byte depends on its connection and place, and both ends check it. What ended well must be \
complete; what broke must be right as far as it came. A call that takes 2 s longer than its \
time-out, or waits for ever, has hung. After a warm-up (a fifth of the time, a minute at most, \
eight rounds at least) slots and rings of the net must be free after each round, and descriptors, \
threads, children and memory (resident, without files; 8 MiB and a fiftieth tolerated) as they were \
whenever no net is there.

The last lines say lost bytes, hung calls and leaks; the exit status is 0 if all three are 0. It \
ends by itself, two minutes after its time at the latest, also when something hangs. docs/reference/json.md \
describes what --json prints."
)]
pub(crate) struct Options {
    /// How long, in minutes; fractions are fine
    #[arg(long, default_value = "1", value_parser = minutes, value_name = "N")]
    pub(crate) minutes: f64,
    /// auto, cuda, cuda:N or emulated [default: auto, a CUDA device where there is one]
    #[arg(long, value_name = "GPU", default_value = "auto", hide_default_value = true)]
    pub(crate) gpu: GpuChoice,
    /// Draws the same rounds again; another each time unless given
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// This round of the seed alone behind the first, again and again: to look into what a soak has
    /// found
    #[arg(long, requires = "seed", value_name = "NUMBER")]
    pub(crate) round: Option<u64>,
    /// One JSON object on standard output in place of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress on standard error
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Self-check: has one byte left out, one call take too long, or a descriptor and a socket
    /// kept; the soak must find it and fail
    #[arg(long, value_enum, value_name = "FAULT")]
    pub(crate) plant: Option<Plant>,
    /// This is a peer process, which calls a kernel there
    #[arg(long, hide = true, requires = "terms")]
    pub(crate) peer_calls: Option<Address>,
    /// What its connection is like
    #[arg(long, hide = true, default_value = "")]
    pub(crate) terms: String,
    /// This is a peer process, which answers there
    #[arg(long, hide = true)]
    pub(crate) peer_answers: Option<Address>,
}

/// A fault to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Plant {
    /// A byte is left out
    Lost,
    /// A call takes too long
    Hung,
    /// A descriptor and a socket of the net are kept
    Leak,
}

impl Options {
    /// How long rounds are begun.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs_f64(self.minutes * 60.0)
    }
}

/// From a second to a year.
fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (1.0 / 60.0..=525_600.0).contains(&minutes) => Ok(minutes),
        _ => Err("a number of minutes from 0.02 to 525600 is wanted".to_owned()),
    }
}

/// The options, or the exit status of a command line that has none.
pub(crate) fn parse() -> Result<Options, ExitCode> {
    Options::try_parse().map_err(|error| explain("soak", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }

    #[test]
    fn times_that_make_no_sense_are_refused() {
        for bad in ["0", "-1", "NaN", "inf", "soon", "1e9", ""] {
            assert!(minutes(bad).is_err(), "{bad}");
        }
        assert_eq!(minutes("0.1"), Ok(0.1));
    }
}
