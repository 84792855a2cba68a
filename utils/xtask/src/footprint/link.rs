//! NVIDIA's linker: joins objects as the driver's linker does, and says what each kernel then uses.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use gpunet_builder::Ptxas;

use super::cost::Footprint;

/// nvlink, which comes with ptxas.
pub(crate) struct Nvlink(PathBuf);

impl fmt::Display for Nvlink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Nvlink {
    /// The one beside a ptxas.
    pub(crate) fn beside(ptxas: &Ptxas) -> Option<Self> {
        let program = ptxas.program().with_file_name("nvlink");
        program.is_file().then_some(Self(program))
    }

    /// Links and throws the result away; registers and stack of each kernel.
    pub(super) fn link(
        &self,
        objects: &[&Path],
        cpu: &str,
        scratch: &Path,
    ) -> Result<Vec<(String, Footprint)>> {
        let linked = scratch.join(format!("linked.{}.cubin", std::process::id()));
        let output = Command::new(&self.0)
            .arg("-v")
            .arg(format!("-arch={cpu}"))
            .args(objects)
            .arg("-o")
            .arg(&linked)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {self}"))?;
        // One left behind is only a wasted file.
        let _ = std::fs::remove_file(&linked);
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        printed.push_str(&String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            bail!("{self} does not link {objects:?}: {}", printed.trim());
        }
        Ok(parse(&printed))
    }
}

/// Reads the report of `nvlink -v`.
fn parse(printed: &str) -> Vec<(String, Footprint)> {
    let mut kernels: Vec<(String, Footprint)> = Vec::new();
    for line in printed.lines() {
        if let Some((_, name)) = line.split_once("Function properties for '") {
            let name = name.split('\'').next().unwrap_or_default().to_owned();
            kernels.push((name, Footprint::default()));
        } else if let (Some((_, used)), Some((_, kernel))) =
            (line.split_once(": used "), kernels.last_mut())
        {
            let number = |what: &str| {
                let part = used.split(',').find(|part| part.trim().ends_with(what));
                part.and_then(|part| part.trim().split(' ').find_map(|word| word.parse().ok()))
            };
            kernel.registers = number(" registers").unwrap_or(0);
            kernel.stack = number(" stack").unwrap_or(0);
        }
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_on_kernels_is_read() {
        let printed = "nvlink info    : 160 bytes gmem\n\
            nvlink info    : Function properties for 'echo':\n\
            nvlink info    : used 62 registers, used 1 barriers, 112 stack, 1152 bytes smem\n\
            nvlink info    : Function properties for 'add':\n\
            nvlink info    : used 8 registers, used 0 barriers, 0 stack\n";
        let echo = Footprint { registers: 62, stack: 112, ..Footprint::default() };
        let add = Footprint { registers: 8, ..Footprint::default() };
        assert_eq!(parse(printed), [("echo".to_owned(), echo), ("add".to_owned(), add)]);
        assert!(parse("").is_empty());
    }
}
