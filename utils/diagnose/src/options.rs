//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use gpunet_terminal::output::explain;

/// Says what of gpunet works on this machine, what does not, and what to do about it.
#[derive(Debug, Parser)]
#[command(
    name = "diagnose",
    version,
    after_help = "\
Each line says `ok`, `warning` (it works, and could work better or may fail later), `missing` (it is \
not there or does not work) or `unseen` (nobody could look: no root, a container, a file that does \
not answer), then what was seen, and behind `>` what to do.

The groups: GPU and driver; CUDA attributes; GPU memory for network devices (dma-buf, peer-memory \
modules); GPU memory for the CPU (gdrdrv, dma-buf); RDMA devices and links; PCIe between GPUs and \
RDMA devices, with a drawing; kernel and limits; the PTX toolchain. Last the proof: two kernels on a \
real net send bytes to one another by TCP over IPv4 and IPv6, by a UNIX socket, straight from kernel \
to kernel, and by RDMA where a device has an address; and what `auto` takes to reach other programs \
and between kernels, and why.

The machine stays as it is: nothing is loaded, set or installed. Root is not needed, but sees more \
(ACS). Every look has a time limit. On a machine without a GPU it takes a few seconds; with one, the \
driver may compile the kernels first.

The exit status is 0 where kernels can connect by TCP on some GPU, the emulated one included, 1 where \
they cannot, and 2 for a wrong command line.

A bundle is a text file for a bug report: this report, the answers of drivers, and the files that \
were read. It holds no host name, no MAC or IP address, no serial number, no file name of a home \
folder, and of the environment only CUDA_VISIBLE_DEVICES, RUST_LOG and what begins with GPUNET_. docs/reference/json.md \
describes what --json prints."
)]
pub(crate) struct Options {
    /// One JSON object on standard output in place of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// Writes what a bug report needs into this file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    /// Writes all that was looked at into this new folder, for --from
    #[arg(long, value_name = "FOLDER")]
    pub(crate) record: Option<PathBuf>,
    /// Looks at a machine that was recorded in this folder, not at this one
    #[arg(long, value_name = "FOLDER", conflicts_with = "record")]
    pub(crate) from: Option<PathBuf>,
}

/// The options, or the exit status of a command line that has none.
pub(crate) fn parse() -> Result<Options, ExitCode> {
    Options::try_parse().map_err(|error| explain("diagnose", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }
}
