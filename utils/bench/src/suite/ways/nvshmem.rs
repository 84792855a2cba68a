//! NVSHMEM as a second baseline kernel to kernel: its put with signal between two processes on this GPU. Its source
//! (`nvshmem.cu`) is compiled where library and compiler are found, and runs under an MPS daemon of its own, since
//! kernels of two processes run at a time under MPS alone. Everything lies in a temporary folder, and every step has
//! a time limit.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use gpunet_host::{Gpu, GpuKind};
use rustix::process::{Pid, Signal, kill_process_group};

/// The program that exchanges.
const SOURCE: &str = include_str!("nvshmem.cu");
/// How long Python may take to say where the package is.
const FIND: Duration = Duration::from_secs(20);
/// How long the compiler may take.
const COMPILE: Duration = Duration::from_secs(120);
/// How long the daemon may take to start, or to end.
const DAEMON: Duration = Duration::from_secs(20);
/// How long the program may take until both processes are there.
const START: Duration = Duration::from_secs(70);
/// How long a batch may take, a little longer than the program allows.
const BATCH: Duration = Duration::from_secs(25);
/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(5);
/// Where CUDA's programs lie if not in PATH.
const CUDA: &str = "/usr/local/cuda/bin";

/// The program, ready for batches. What it holds is given back in this order: the program ends before its daemon,
/// and the folder goes last.
pub(super) struct Nvshmem {
    program: Program,
    failure: Option<String>,
    _daemon: Daemon,
    _folder: Folder,
}

impl Nvshmem {
    /// Finds, compiles and starts it on that device, for messages of up to `longest` bytes.
    ///
    /// # Errors
    /// What is missing, or went wrong.
    pub(super) fn start(
        gpu: &Gpu,
        device: i32,
        library: Option<&Path>,
        longest: usize,
    ) -> Result<Self> {
        ensure!(gpu.info().kind == GpuKind::Cuda, "this GPU is emulated");
        ensure!(library != Some(Path::new("none")), "it was left out");
        let library = find_library(library)?;
        let compiler =
            find_program("nvcc").context("nvcc is neither in PATH nor in /usr/local/cuda/bin")?;
        let control = find_program(Daemon::CONTROL)
            .with_context(|| format!("{} is not in PATH", Daemon::CONTROL))?;
        Self::with(&library, &compiler, control, (device, longest))
    }

    /// The same with these programs.
    fn with(
        library: &Path,
        compiler: &Path,
        control: PathBuf,
        (device, longest): (i32, usize),
    ) -> Result<Self> {
        let folder = Folder::new()?;
        let program = compile(compiler, library, &folder.0)?;
        let daemon = Daemon::start(control, &folder.0)?;
        let program = Program::start(&program, &daemon, device, longest)?;
        Ok(Self { program, failure: None, _daemon: daemon, _folder: folder })
    }

    /// Microseconds of a round trip, the mean of a batch; none once it has failed.
    pub(super) fn batch(&mut self, threads: u32, bytes: usize, rounds: usize) -> Option<f64> {
        if self.failure.is_some() {
            return None;
        }
        match self.program.batch(threads, bytes, rounds) {
            Ok(us) => Some(us),
            Err(error) => {
                self.failure = Some(format!("{error:#}"));
                None
            }
        }
    }

    /// Why there are no more figures.
    pub(super) fn failure(&mut self) -> Option<String> {
        self.failure.take()
    }
}

/// The folder of the library: the one that was named, or that of Python's package.
fn find_library(named: Option<&Path>) -> Result<PathBuf> {
    let folder = match named {
        Some(named) => named.to_owned(),
        None => {
            let mut python = Command::new("python3");
            python
                .args(["-c", "import nvidia.nvshmem as package; print(list(package.__path__)[0])"]);
            let said = bounded(python, FIND).context("python3 has no package nvidia.nvshmem")?;
            PathBuf::from(said.trim())
        }
    };
    for part in ["include/nvshmem.h", "lib/libnvshmem_device.a", "lib/libnvshmem_host.so.3"] {
        let part = folder.join(part);
        ensure!(part.is_file(), "{} is missing", part.display());
    }
    Ok(folder)
}

/// A program of CUDA.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from(CUDA)]).collect::<Vec<_>>();
    folders.into_iter().map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Compiles the program for the GPU of this machine.
fn compile(compiler: &Path, library: &Path, folder: &Path) -> Result<PathBuf> {
    let (source, program) = (folder.join("nvshmem.cu"), folder.join("nvshmem"));
    fs::write(&source, SOURCE)?;
    let libraries = library.join("lib");
    let shared = libraries.join("libnvshmem_host.so.3");
    let mut command = Command::new(compiler);
    command
        .args(["-std=c++17", "-O3", "-rdc=true", "-arch=native", "-I"])
        .arg(library.join("include"));
    command.arg(&source).arg("-o").arg(&program).arg("-L").arg(&libraries).arg("-lnvshmem_device");
    // The compiler of the host links it as a file: a wheel has no name without a version.
    command.arg("-Xlinker").arg(shared).args(["-Xlinker", "-rpath", "-Xlinker"]).arg(&libraries);
    command.arg("-lcuda");
    bounded(command, COMPILE).context("compiling it")?;
    Ok(program)
}

/// Runs a command to its end, which it must reach in time; what it printed. Its own children end with it.
fn bounded(mut command: Command, limit: Duration) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let ended = std::thread::scope(|scope| -> Result<_> {
        let printed = scope.spawn(move || text_of(out.as_mut()));
        let said = scope.spawn(move || text_of(err.as_mut()));
        let deadline = Instant::now() + limit;
        let status = loop {
            match child.try_wait()? {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => {
                    kill(&mut child);
                    break None;
                }
                None => std::thread::sleep(LOOK),
            }
        };
        let printed = printed.join().unwrap_or_default();
        Ok((status, printed, said.join().unwrap_or_default()))
    });
    let (status, printed, said) = ended?;
    let status = status.with_context(|| format!("{name} was not done after {limit:?}"))?;
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    ensure!(status.success(), "{name} ended with {status}: {last}");
    Ok(printed)
}

fn text_of(stream: Option<&mut impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What came before an error is as good as it gets.
        let _ = stream.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Ends a process with all of its group, and waits for it.
fn kill(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        // It may have ended by itself at this moment.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// A temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("gpunet-nvshmem-{process}-{number}"));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The system empties its folder for such files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An MPS daemon that no other program uses: its pipes are in the temporary folder.
struct Daemon {
    control: PathBuf,
    pipes: PathBuf,
    logs: PathBuf,
}

impl Daemon {
    const CONTROL: &str = "nvidia-cuda-mps-control";

    fn start(control: PathBuf, folder: &Path) -> Result<Self> {
        let (pipes, logs) = (folder.join("pipes"), folder.join("logs"));
        fs::create_dir(&pipes)?;
        fs::create_dir(&logs)?;
        // From now on it is told to quit, whether it has started or not.
        let daemon = Self { control, pipes, logs };
        let mut command = Command::new(&daemon.control);
        command.arg("-d");
        // It leaves its own group, and must not hold pipes of this program open.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        daemon.environment(&mut command);
        let mut child = command.spawn().context("starting the MPS daemon")?;
        let deadline = Instant::now() + DAEMON;
        loop {
            if let Some(status) = child.try_wait()? {
                ensure!(status.success(), "the MPS daemon ended with {status}");
                return Ok(daemon);
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                bail!("the MPS daemon had not started after {DAEMON:?}");
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Has a program use this daemon.
    fn environment(&self, command: &mut Command) {
        command
            .env("CUDA_MPS_PIPE_DIRECTORY", &self.pipes)
            .env("CUDA_MPS_LOG_DIRECTORY", &self.logs);
    }

    fn quit(&self) -> Result<()> {
        let mut command = Command::new(&self.control);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        self.environment(&mut command);
        let mut child = command.spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(b"quit\n")?;
        }
        let deadline = Instant::now() + DAEMON;
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                kill(&mut child);
                bail!("it did not end in {DAEMON:?}");
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Err(error) = self.quit() {
            gpunet_terminal::output::complain("bench", format!("the MPS daemon: {error:#}"));
        }
    }
}

/// The running program: two processes, of which the first reads lines.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Program {
    fn start(program: &Path, daemon: &Daemon, device: i32, longest: usize) -> Result<Self> {
        let mut command = Command::new(program);
        command.args([device.to_string(), longest.to_string()]);
        command.env("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo");
        command.env("NVSHMEM_REMOTE_TRANSPORT", "none");
        command.env("NVSHMEM_SYMMETRIC_SIZE", "64M");
        daemon.environment(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().context("starting it")?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (send, lines) = channel();
        // Ends with the program's output.
        std::thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            for line in lines.map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut started = Self { child, input, lines };
        started.answer("ready", START)?;
        Ok(started)
    }

    fn batch(&mut self, threads: u32, bytes: usize, rounds: usize) -> Result<f64> {
        let input = self.input.as_mut().context("it has no input")?;
        writeln!(input, "{threads} {bytes} {rounds}").context("it has ended")?;
        self.answer("", BATCH)?.parse().context("it printed no number")
    }

    /// The next line that begins so, within that time; NVSHMEM may print lines of its own.
    fn answer(&mut self, begins: &str, limit: Duration) -> Result<String> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.map_err(|_| anyhow!("it did not answer within {limit:?}, or ended"))?;
            if let Some(error) = line.strip_prefix("error ") {
                bail!("{error}");
            }
            let is_number = line.parse::<f64>().is_ok();
            if begins.is_empty() && is_number || !begins.is_empty() && line.starts_with(begins) {
                return Ok(line);
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Without input it ends in order.
        self.input = None;
        let deadline = Instant::now() + DAEMON;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        kill(&mut self.child);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_its_children() {
        let begin = Instant::now();
        let hung = bounded(shell("sleep 3600 & sleep 3600"), Duration::from_millis(50));
        assert!(hung.is_err_and(|why| why.to_string().contains("not done")));
        assert!(begin.elapsed() < gpunet_support::testing::hang_limit(Duration::from_secs(5)));
        let failed = bounded(shell("echo why >&2; exit 3"), FIND).expect_err("it fails");
        assert!(failed.to_string().ends_with("why"), "{failed}");
        assert_eq!(bounded(shell("echo here"), FIND).expect("it ends well"), "here\n");
    }

    /// A script that can be run.
    fn script(folder: &Folder, name: &str, text: &str) -> PathBuf {
        let path = folder.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
        path
    }

    /// A compiler whose programs do what `body` says, and an MPS daemon that notes what it is told.
    fn start(tools: &Folder, body: &str) -> Result<Nvshmem> {
        let program = script(tools, "program", body);
        let out = "while [ \"$1\" != -o ]; do shift; done";
        let compiler = format!("{out}\ncp '{}' \"$2\"", program.display());
        let notes = tools.0.join("notes").display().to_string();
        let control = format!(
            "if [ \"$1\" = -d ]; then echo \"$CUDA_MPS_PIPE_DIRECTORY\" >> '{notes}'\nelse cat >> '{notes}'; fi"
        );
        let compiler = script(tools, "nvcc", &compiler);
        let control = script(tools, "control", &control);
        Nvshmem::with(Path::new("/nowhere"), &compiler, control, (0, 4096))
    }

    #[test]
    fn it_answers_batches_and_its_daemon_quits() {
        let tools = Folder::new().expect("a folder");
        let body = "echo NVSHMEM v3; echo ready; while read threads bytes rounds; do echo $threads.5; done";
        let mut nvshmem = start(&tools, body).expect("it starts");
        let folder = nvshmem._folder.0.clone();
        assert_eq!(nvshmem.batch(32, 64, 10), Some(32.5));
        assert_eq!(nvshmem.batch(128, 64, 10), Some(128.5));
        assert!(nvshmem.failure().is_none() && folder.is_dir());
        drop(nvshmem);
        let notes = fs::read_to_string(tools.0.join("notes")).expect("notes");
        assert_eq!(notes, format!("{}/pipes\nquit\n", folder.display()));
        assert!(!folder.exists());
    }

    #[test]
    fn an_error_of_the_program_is_told_and_its_daemon_quits() {
        let tools = Folder::new().expect("a folder");
        let failed = start(&tools, "echo error init: no GPU").err().expect("it says so");
        assert_eq!(failed.to_string(), "init: no GPU");
        let mut nvshmem =
            start(&tools, "echo ready; read line; echo error batch: late").expect("ready");
        assert_eq!(nvshmem.batch(32, 64, 10), None);
        assert_eq!(nvshmem.failure().as_deref(), Some("batch: late"));
        drop(nvshmem);
        let notes = fs::read_to_string(tools.0.join("notes")).expect("notes");
        assert_eq!(notes.matches("quit").count(), 2);
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = Folder::new().expect("a folder");
        let missing = find_library(Some(&folder.0)).expect_err("it is empty");
        assert!(missing.to_string().ends_with("include/nvshmem.h is missing"), "{missing}");
    }
}
