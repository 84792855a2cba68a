//! NVIDIA's assembler, where one is found: checks PTX, makes objects of it, reports on functions.

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

/// What ptxas says of one function, kernel or not, before it is linked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionUsage {
    /// The function's name in the PTX.
    pub name: String,
    /// Bytes of local memory of its own frame.
    pub stack: u32,
    /// Bytes written because registers ran out, or because its callers keep something in them.
    pub spill_stores: u32,
    /// Bytes read for the same reason.
    pub spill_loads: u32,
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

    /// Where it is.
    pub fn program(&self) -> &Path {
        &self.program
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

    /// Assembles for `cpu` and throws the result away; `scratch` is a folder for it meanwhile.
    pub fn check(&self, ptx: &Path, cpu: &str, scratch: &Path) -> Result<(), AssembleError> {
        let stem = ptx.file_stem().unwrap_or_default().to_string_lossy();
        let object = scratch.join(format!("{stem}.{cpu}.{}.o", std::process::id()));
        let assembled = self.assemble(ptx, cpu, None, &object);
        // One left behind is only a wasted file.
        let _ = std::fs::remove_file(&object);
        assembled.map(|_| ())
    }

    /// Assembles for `cpu`, with at most so many registers a thread, into a relocatable object: kernels
    /// call functions of the device library, which is another. Reports on each function.
    pub fn assemble(
        &self,
        ptx: &Path,
        cpu: &str,
        registers: Option<u32>,
        object: &Path,
    ) -> Result<Vec<FunctionUsage>, AssembleError> {
        let mut command = Command::new(&self.program);
        command.args(["-v", "-c"]).arg(format!("-arch={cpu}"));
        if let Some(registers) = registers {
            command.arg(format!("-maxrregcount={registers}"));
        }
        let output = command.arg("-o").arg(object).arg(ptx).stdin(Stdio::null()).output().map_err(
            |error| {
                AssembleError::Rejected(Error::new(format!(
                    "cannot run {self}: {error}; correct or unset {PTXAS_VARIABLE}"
                )))
            },
        )?;
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        printed.push_str(&String::from_utf8_lossy(&output.stderr));
        if output.status.success() {
            return Ok(parse_usage(&printed));
        }
        if let Some(line) = printed.lines().find(|line| is_about_age(line)) {
            return Err(AssembleError::TooOld(format!(
                "not checked: {self} is too old for it ({}); install a newer CUDA toolkit or set {PTXAS_VARIABLE}",
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
fn parse_usage(printed: &str) -> Vec<FunctionUsage> {
    let mut functions: Vec<FunctionUsage> = Vec::new();
    for line in printed.lines() {
        if let Some((_, name)) = line.split_once("Function properties for ") {
            let name = name.trim().to_owned();
            functions.push(FunctionUsage { name, ..FunctionUsage::default() });
        } else if let (true, Some(function)) =
            (line.contains("bytes stack frame"), functions.last_mut())
        {
            function.stack = number_before(line, " bytes stack frame");
            function.spill_stores = number_before(line, " bytes spill stores");
            function.spill_loads = number_before(line, " bytes spill loads");
        }
    }
    functions
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
    fn the_report_on_functions_is_read() {
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
        let usage = |name: &str, stack, spill_stores, spill_loads| FunctionUsage {
            name: name.into(),
            stack,
            spill_stores,
            spill_loads,
        };
        let expected = [usage("echo", 16, 4, 8), usage("helper", 96, 0, 0), usage("add", 0, 0, 0)];
        assert_eq!(parse_usage(printed), expected);
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
