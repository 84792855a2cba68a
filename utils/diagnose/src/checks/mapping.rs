//! Whether the CPU can map GPU memory: with gdrdrv, or a dma-buf. With either, the words that kernels
//! poll lie in GPU memory; gpunet does without.

use super::node;
use crate::machine::{KernelModule, Machine};
use crate::report::Line;

pub(super) fn check(machine: &Machine) -> Vec<Line> {
    let mut lines = Vec::new();
    match machine.module("gdrdrv") {
        KernelModule::Loaded | KernelModule::BuiltIn => {
            lines.push(Line::ok("gdrdrv", "loaded"));
            lines.push(node(
                machine,
                "/dev/gdrdrv",
                "load gdrdrv with its own script insmod.sh, which makes the node",
            ));
        }
        KernelModule::Absent => lines.push(
            Line::missing("gdrdrv", "not loaded; gpunet does without").remedy(
                "for kernels that poll GPU memory: install gdrcopy's gdrdrv-dkms, then modprobe gdrdrv",
            ),
        ),
        KernelModule::Unseen => {
            lines.push(Line::unseen("gdrdrv", "/sys/module does not show modules"))
        }
    }
    let mapping = machine.answers.cuda.devices.first().and_then(|device| device.mapping.as_ref());
    lines.push(match mapping {
        Some(Ok(())) => Line::ok("mapping of a dma-buf", "works"),
        Some(Err(why)) => {
            Line::missing("mapping of a dma-buf", format!("{why}; gpunet does without")).remedy(
                "for kernels that poll GPU memory: a driver with API 13.3 or newer, or gdrdrv",
            )
        }
        None if machine.answers.cuda.devices.is_empty() => {
            Line::unseen("mapping of a dma-buf", "no CUDA device to ask")
        }
        None => Line::unseen("mapping of a dma-buf", "there is none to map"),
    });
    lines
}
