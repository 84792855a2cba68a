//! Checks PTX with NVIDIA's assembler, and reports what each kernel uses, where one is found.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fmt};

use crate::error::Error;

/// Names the ptxas to use.
pub const PTXAS_VARIABLE: &str = "GPUNET_PTXAS";

/// NVIDIA's PTX assembler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ptxas {
    program: PathBuf,
}

impl fmt::Display for Ptxas {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.program.display())
    }
}

/// What one kernel needs of a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelUsage {
    /// The kernel's name in the PTX.
    pub name: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread.
    pub stack: u32,
    /// Bytes written because registers ran out.
    pub spill_stores: u32,
    /// Bytes read because registers ran out.
    pub spill_loads: u32,
    /// Bytes of shared memory of a block, as far as declared in the PTX.
    pub shared: u32,
}

/// Why PTX was not assembled.
#[derive(Debug)]
pub enum AssembleError {
    /// This ptxas is older than the PTX or the GPU: its one line. The PTX may well be right.
    TooOld(String),
    /// ptxas refuses the PTX.
    Rejected(Error),
}

impl fmt::Display for AssembleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooOld(line) => formatter.write_str(line),
            Self::Rejected(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for AssembleError {}

impl Ptxas {
    /// Looks at `GPUNET_PTXAS`, `PATH`, `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`.
    pub fn find() -> Option<Self> {
        let asked_for = env::var_os(PTXAS_VARIABLE).map(PathBuf::from);
        let path = env::var_os("PATH").unwrap_or_default();
        let toolkits = ["CUDA_HOME", "CUDA_PATH"]
            .into_iter()
            .filter_map(env::var_os)
            .map(PathBuf::from)
            .chain([PathBuf::from("/usr/local/cuda")]);
        let folders: Vec<PathBuf> =
            env::split_paths(&path).chain(toolkits.map(|toolkit| toolkit.join("bin"))).collect();
        Self::among(asked_for, &folders)
    }

    /// This very program.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    fn among(asked_for: Option<PathBuf>, folders: &[PathBuf]) -> Option<Self> {
        let name = format!("ptxas{}", env::consts::EXE_SUFFIX);
        asked_for
            .filter(|program| !program.as_os_str().is_empty())
            .or_else(|| folders.iter().map(|folder| folder.join(&name)).find(|file| file.is_file()))
            .map(Self::at)
    }

    /// Assembles for `cpu` and reports on each kernel. The result is thrown away; `scratch` is a
    /// folder for it meanwhile.
    pub fn assemble(
        &self,
        ptx: &Path,
        cpu: &str,
        scratch: &Path,
    ) -> Result<Vec<KernelUsage>, AssembleError> {
        let stem = ptx.file_stem().unwrap_or_default().to_string_lossy();
        let cubin = scratch.join(format!("{stem}.{cpu}.{}.cubin", std::process::id()));
        let output = Command::new(&self.program)
            .arg("-v")
            .arg(format!("-arch={cpu}"))
            .arg("-o")
            .arg(&cubin)
            .arg(ptx)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| {
                AssembleError::Rejected(Error::new(format!(
                    "cannot run {self}: {error}; correct or unset {PTXAS_VARIABLE}"
                )))
            })?;
        // A cubin left behind is only a wasted file.
        let _ = std::fs::remove_file(&cubin);
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        printed.push_str(&String::from_utf8_lossy(&output.stderr));
        if output.status.success() {
            return Ok(parse_usage(&printed));
        }
        if let Some(line) = printed.lines().find(|line| is_about_age(line)) {
            return Err(AssembleError::TooOld(format!(
                "PTX not checked: {self} is too old for it ({}); install a newer CUDA toolkit or set {PTXAS_VARIABLE}",
                line.trim()
            )));
        }
        Err(AssembleError::Rejected(Error::with_output(
            format!("{self} does not assemble {} for {cpu}", ptx.display()),
            printed,
        )))
    }
}

/// Whether ptxas complains of a GPU or PTX version it has never heard of.
fn is_about_age(line: &str) -> bool {
    line.contains("Unsupported .version") || line.contains("is not defined for option 'gpu-name'")
}

/// Reads the report of `ptxas -v`.
fn parse_usage(printed: &str) -> Vec<KernelUsage> {
    let mut kernels: Vec<KernelUsage> = Vec::new();
    let mut described = String::new();
    for line in printed.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            kernels.push(KernelUsage { name, ..KernelUsage::default() });
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            name.trim().clone_into(&mut described);
        }
        let Some(kernel) = kernels.last_mut() else {
            continue;
        };
        // Functions that were not inlined are described too; their stack is not the kernel's.
        if line.contains("bytes stack frame") && described == kernel.name {
            kernel.stack = number_before(line, " bytes stack frame");
            kernel.spill_stores = number_before(line, " bytes spill stores");
            kernel.spill_loads = number_before(line, " bytes spill loads");
        } else if line.contains(" registers") {
            kernel.registers = number_before(line, " registers");
            kernel.shared = number_before(line, " bytes smem");
        }
    }
    kernels
}

fn number_before(line: &str, words: &str) -> u32 {
    let before = line.split(words).next().filter(|before| before.len() < line.len());
    let digits = before.and_then(|before| before.rsplit(|c: char| !c.is_ascii_digit()).next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_of_two_kernels_is_read() {
        let printed = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'echo' for 'sm_90'
ptxas info    : Function properties for echo
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 3.1 ms
ptxas info    : Function properties for helper
    96 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'add' for 'sm_90'
ptxas info    : Function properties for add
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
";
        let echo = KernelUsage {
            name: "echo".into(),
            registers: 40,
            stack: 16,
            spill_stores: 4,
            spill_loads: 8,
            shared: 1024,
        };
        let add = KernelUsage { name: "add".into(), registers: 8, ..KernelUsage::default() };
        assert_eq!(parse_usage(printed), [echo, add]);
        assert!(parse_usage("").is_empty());
    }

    #[test]
    fn age_is_told_from_bad_ptx() {
        assert!(is_about_age(
            "ptxas x.ptx, line 5; fatal : Unsupported .version 8.8; current version is '8.0'"
        ));
        assert!(is_about_age(
            "ptxas fatal   : Value 'sm_100' is not defined for option 'gpu-name'"
        ));
        assert!(!is_about_age("ptxas x.ptx, line 9; error : Unknown symbol 'foo'"));
    }

    #[test]
    fn a_ptxas_asked_for_wins_and_a_folder_without_one_is_passed_over() {
        let asked = Ptxas::among(Some("/opt/ptxas".into()), &[]);
        assert_eq!(asked, Some(Ptxas::at("/opt/ptxas")));
        assert_eq!(Ptxas::among(Some(PathBuf::new()), &["/does/not/exist".into()]), None);
    }
}
