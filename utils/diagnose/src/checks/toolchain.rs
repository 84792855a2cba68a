//! What makes PTX, and whether this program carries it.

use crate::machine::Machine;
use crate::report::Line;

/// The two ways to a compiler.
const INSTALL: &str = "rustup toolchain install nightly --component rust-src; or, on Debian, \
    apt-get install rustc-web cargo-web rust-web-src";

pub(super) fn check(machine: &Machine) -> Vec<Line> {
    let toolchain = &machine.answers.toolchain;
    let carried = match &toolchain.carried {
        Ok(()) => Line::ok("PTX in this program", "carried: its kernels run on a GPU"),
        Err(why) => Line::missing("PTX in this program", why.clone()).remedy(
            "build it where a compiler for PTX is (the line below), or run it on the emulated GPU",
        ),
    };
    let compiler = match &toolchain.compiler {
        Ok(version) => Line::ok("compiler for PTX", format!("rustc {version} with its source")),
        Err(why) => {
            // gpunet's own words end with what to install.
            let why = why.split("; install one with").next().unwrap_or(why);
            let seen = format!("{why}; needed to build kernels, not to run them");
            Line::missing("compiler for PTX", seen).remedy(INSTALL)
        }
    };
    let ptxas = if toolchain.ptxas {
        Line::ok("ptxas", "found: builds check their PTX with it")
    } else {
        Line::missing("ptxas", "not found; builds do without").remedy(
            "to have PTX checked: pip install nvidia-cuda-nvcc, and name its ptxas in GPUNET_PTXAS",
        )
    };
    vec![carried, compiler, ptxas]
}
