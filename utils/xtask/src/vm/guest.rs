//! Boots a guest in QEMU and reads its console, with a deadline for everything: whatever the
//! guest does, this ends, and no QEMU stays behind.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal};

use super::console::{Console, Event};
use super::jobs::Job;

/// The program that emulates a machine.
pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// For a guest that is given to the processor: it boots in a second or two, or never.
const KVM_BOOT: Duration = Duration::from_secs(5);
/// For an emulated guest, on a machine that has other things to do (seen: 113 s in place of 16).
const TCG_BOOT: Duration = Duration::from_secs(1200);
/// After a job's own limit, which the guest itself keeps.
const SLACK: Duration = Duration::from_secs(300);
/// A longer line is cut; nothing of ours prints one.
const LONGEST_LINE: u64 = 64 << 10;

/// What executes the guest's instructions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// The processor. Not everywhere where it is offered does it run a guest.
    Kvm,
    /// QEMU's translation.
    Tcg,
}

impl Accelerator {
    /// What may be tried here, in this order.
    fn candidates() -> Vec<Self> {
        let offered = OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
        if offered { vec![Self::Kvm, Self::Tcg] } else { vec![Self::Tcg] }
    }

    fn arguments(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Self::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "max"],
        }
    }

    fn boot_limit(self) -> Duration {
        match self {
            Self::Kvm => KVM_BOOT,
            Self::Tcg => TCG_BOOT,
        }
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kvm => "KVM",
            Self::Tcg => "emulation",
        })
    }
}

/// Why there is nothing more to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// QEMU ended, in order or not.
    PoweredOff,
    /// It was ended while booting.
    DidNotBoot(Duration),
    /// It was ended in a job that its own limit did not end, or between two.
    Stuck,
    /// It was ended after all the time that it had.
    TookTooLong(Duration),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PoweredOff => write!(f, "it ended before its last job"),
            Self::DidNotBoot(limit) => write!(f, "it did not boot within {} s", limit.as_secs()),
            Self::Stuck => write!(f, "it no longer kept the limits of its jobs"),
            Self::TookTooLong(limit) => write!(f, "not within {} s", limit.as_secs()),
        }
    }
}

/// What is booted.
pub(crate) struct Guest<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) image: &'a Path,
    /// Keeps what the guest prints.
    pub(crate) log: &'a Path,
}

/// How a guest went.
pub(crate) struct Watched {
    pub(crate) console: Console,
    pub(crate) ending: Ending,
    pub(crate) accelerator: Accelerator,
    pub(crate) boot: Duration,
}

impl Guest<'_> {
    fn qemu(&self, accelerator: Accelerator, mode: &str) -> Command {
        let mut qemu = Command::new(QEMU);
        qemu.args(accelerator.arguments());
        qemu.args(["-m", "2G", "-smp", "2", "-nographic", "-no-reboot", "-nic", "none"]);
        qemu.arg("-kernel").arg(self.kernel).arg("-initrd").arg(self.image);
        // A fault of the kernel is one of the run: nothing after it counts. The kernel counts ticks of its timer
        // when it boots, and panics if a busy machine has held them up: it must trust the timer.
        let fixed = "console=ttyS0 quiet panic=-1 oops=panic no_timer_check";
        qemu.arg("-append").arg(format!("{fixed} {mode}"));
        qemu
    }

    /// Runs all jobs; `show` is called for each event.
    pub(crate) fn watch(
        &self,
        jobs: &[&Job],
        whole: Duration,
        show: &mut dyn FnMut(&Event, &Console),
    ) -> Result<Watched> {
        let mut last = None;
        for accelerator in Accelerator::candidates() {
            let watched = self.watch_with(accelerator, jobs, whole, show)?;
            let ready = watched.console.ready;
            last = Some(watched);
            if ready {
                break;
            }
        }
        last.context("there is nothing to run a guest with")
    }

    fn watch_with(
        &self,
        accelerator: Accelerator,
        jobs: &[&Job],
        whole: Duration,
        show: &mut dyn FnMut(&Event, &Console),
    ) -> Result<Watched> {
        let mut log = File::create(self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        let mut qemu = bounded(&self.qemu(accelerator, ""), whole + SLACK);
        qemu.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.try_clone()?);
        let mut running = Running(qemu.spawn().context("cannot run QEMU")?);
        let lines = lines_of(running.0.stdout.take().context("QEMU has no output")?);

        let start = Instant::now();
        let last = start + whole;
        let mut deadline = start + accelerator.boot_limit();
        let mut boot = Duration::ZERO;
        let mut console = Console::default();
        let ending = loop {
            let left = deadline.min(last).saturating_duration_since(Instant::now());
            // A guest that prints without end has always something to read.
            let line = if left.is_zero() {
                Err(RecvTimeoutError::Timeout)
            } else {
                lines.recv_timeout(left)
            };
            let line = match line {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => break Ending::PoweredOff,
                Err(RecvTimeoutError::Timeout) if last <= deadline => {
                    break Ending::TookTooLong(whole);
                }
                Err(RecvTimeoutError::Timeout) if !console.ready => {
                    break Ending::DidNotBoot(accelerator.boot_limit());
                }
                Err(RecvTimeoutError::Timeout) => break Ending::Stuck,
            };
            log.write_all(&line)?;
            let Some(event) = console.line(&String::from_utf8_lossy(&line)) else { continue };
            deadline = Instant::now() + SLACK;
            match &event {
                Event::Ready => boot = start.elapsed(),
                Event::Began(name) => {
                    let job = jobs.iter().find(|job| job.name == name);
                    deadline += Duration::from_secs(job.map_or(0, |job| u64::from(job.limit)));
                }
                Event::Ended | Event::Done | Event::Panicked => {}
            }
            show(&event, &console);
        };
        Ok(Watched { console, ending, accelerator, boot })
    }

    /// Gives the guest to the one at the terminal, without any deadline.
    pub(crate) fn shell(&self) -> Result<bool> {
        println!("the guest boots; Ctrl-A X ends it at once");
        // Emulated: nobody watches here whether KVM works.
        let status = self.qemu(Accelerator::Tcg, "gpunet.shell").status();
        Ok(status.context("cannot run QEMU")?.success())
    }
}

/// A bounded QEMU that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; then both have nothing to do. `timeout` passes the signal
        // on, and kills a QEMU that does not heed it.
        let _ = rustix::process::kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// The same QEMU, which ends by itself even if this program is killed before it; in the same
/// group of processes, so that Ctrl-C reaches it.
fn bounded(qemu: &Command, limit: Duration) -> Command {
    let mut bounded = Command::new("timeout");
    bounded.args(["--foreground", "--kill-after=5", &limit.as_secs().to_string()]);
    bounded.arg(qemu.get_program()).args(qemu.get_args());
    bounded
}

/// The lines that a guest prints, as they come. Ends with QEMU.
fn lines_of(output: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            let read = output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) || sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_and_long_ones_in_pieces() {
        let mut text = b"one\r\ntwo\n".to_vec();
        text.resize(text.len() + LONGEST_LINE as usize + 3, b'x');
        let lines: Vec<_> = lines_of(std::io::Cursor::new(text)).into_iter().collect();
        let sizes: Vec<_> = lines.iter().map(Vec::len).collect();
        assert_eq!(sizes, [5, 4, LONGEST_LINE as usize, 3]);
    }
}
