//! The one source of everything that checks look at: files below a root folder, and the answers of
//! drivers and libraries.
//!
//! ```text
//!   Machine ─┬─ files     /sys, /proc and /dev below a root; each look has a time limit
//!            ├─ answers   what drivers and libraries said, and what transfers came to
//!            └─ journal   what was looked at, for `--record` and `--bundle`
//!   cuda, rdma, toolchain   ask the drivers of this machine
//! ```
//!
//! A recorded machine is a folder with such files and `answers.json`; checks see no difference from a
//! real one. Nothing here writes to the machine.

pub(crate) mod answers;
mod ask;
mod bounded;
mod configuration;
mod cuda;
mod journal;
mod text;

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

pub(crate) use answers::{Answers, CudaDevice, Proof, Proofs};
use bounded::Worker;
pub(crate) use bounded::within;
pub(crate) use configuration::{blank_serial_number, extended_capabilities};
pub(crate) use journal::Journal;
use journal::{ANSWERS, LINK, Noted};
pub(crate) use text::{one_line, without_homes};

/// How long one look at a file may take. sysfs answers in microseconds, unless a device hangs or the machine is so
/// busy that the thread that looks has no turn.
const LOOK: Duration = Duration::from_secs(2);
/// How long looks without an answer may take together; then no other is begun. Those with one do not
/// count: a machine may be slow without a device that hangs.
const UNANSWERED: Duration = Duration::from_secs(6);
/// How long all looks together may take, for a machine with more devices than anybody has.
const LOOKS: Duration = Duration::from_secs(20);
/// More than any file of interest has.
const MOST_BYTES: u64 = 1 << 20;
/// What a look came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen<T> {
    /// It is there.
    Here(T),
    /// It is not there.
    Absent,
    /// It may be there; the system's words for why it cannot be seen.
    Hidden(String),
}

impl<T> Seen<T> {
    /// What is there.
    pub(crate) fn here(self) -> Option<T> {
        match self {
            Self::Here(what) => Some(what),
            Self::Absent | Self::Hidden(_) => None,
        }
    }

    fn map<U>(self, f: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Here(what) => Seen::Here(f(what)),
            Self::Absent => Seen::Absent,
            Self::Hidden(why) => Seen::Hidden(why),
        }
    }
}

impl<T> From<io::Result<T>> for Seen<T> {
    fn from(result: io::Result<T>) -> Self {
        match result {
            Ok(what) => Self::Here(what),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Absent,
                io::ErrorKind::PermissionDenied => Self::Hidden("permission denied".to_owned()),
                _ => Self::Hidden(one_line(&error.to_string())),
            },
        }
    }
}

/// A module of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelModule {
    /// Loaded.
    Loaded,
    /// Compiled into the kernel.
    BuiltIn,
    /// Neither, as far as sysfs shows.
    Absent,
    /// sysfs does not show modules.
    Unseen,
}

/// See the module.
pub(crate) struct Machine {
    root: PathBuf,
    /// A recorded one has plain files where a real one has device nodes.
    recorded: bool,
    pub(crate) answers: Answers,
    /// What looks have taken so far.
    spent: Cell<Duration>,
    /// What those of them have taken that had no answer.
    unanswered: Cell<Duration>,
    worker: Worker,
    journal: RefCell<Journal>,
}

impl Machine {
    /// This machine, its drivers asked.
    pub(crate) fn real(answers: Answers) -> Self {
        Self::new(PathBuf::from("/"), false, answers)
    }

    /// One that was recorded in that folder.
    pub(crate) fn recorded(folder: &Path) -> Result<Self> {
        let path = folder.join(ANSWERS);
        let file = path.clone();
        let text = within(LOOK, move || read(&file))
            .map_err(|why| anyhow!("{why}"))
            .and_then(|read| Ok(read?))
            .with_context(|| format!("{} is no recorded machine", folder.display()))?;
        let answers = serde_json::from_slice(&text)
            .with_context(|| format!("{} is not what diagnose writes", path.display()))?;
        Ok(Self::new(folder.to_owned(), true, answers))
    }

    /// Asks the drivers and libraries of this machine, all at once and each with a time limit.
    pub(crate) fn ask() -> Answers {
        ask::all()
    }

    fn new(root: PathBuf, recorded: bool, answers: Answers) -> Self {
        Self {
            root,
            recorded,
            answers,
            spent: Cell::default(),
            unanswered: Cell::default(),
            worker: Worker::default(),
            journal: RefCell::default(),
        }
    }

    /// All that was looked at so far.
    pub(crate) fn journal(&self) -> std::cell::Ref<'_, Journal> {
        self.journal.borrow()
    }

    /// A file's text, trimmed.
    pub(crate) fn text(&self, path: &str) -> Seen<String> {
        let text = self.look(path, read).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        self.note(path, &text, |text| Noted::File(text.clone().into_bytes()));
        text.map(|text| text.trim().to_owned())
    }

    /// The lines or words of a file that `keep` wants; no other is noted.
    pub(crate) fn pick(
        &self,
        path: &str,
        separator: char,
        keep: impl Fn(&str) -> bool,
    ) -> Seen<Vec<String>> {
        let picked = self.look(path, read_all).map(|bytes| {
            let text = String::from_utf8_lossy(&bytes);
            let parts = text.split([separator, '\n']).filter(|part| keep(part));
            parts.map(str::to_owned).collect::<Vec<_>>()
        });
        self.note(path, &picked, |kept| {
            Noted::File(kept.join(&separator.to_string()).into_bytes())
        });
        picked
    }

    /// The configuration space of a PCI device, without its serial number. Programs of others than
    /// root see the first 64 bytes.
    pub(crate) fn configuration(&self, path: &str) -> Seen<Vec<u8>> {
        let bytes = self.look(path, read).map(|mut bytes| {
            blank_serial_number(&mut bytes);
            bytes
        });
        self.note(path, &bytes, |bytes| Noted::File(bytes.clone()));
        bytes
    }

    /// An address of an RDMA port, `None` where it is not one of IPv4: the others are made of the
    /// hardware's own number, and are not kept.
    pub(crate) fn ipv4_of_gid(&self, path: &str) -> Option<std::net::Ipv4Addr> {
        let text = self.look(path, read).here()?;
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        let found = text.parse::<std::net::Ipv6Addr>().ok().and_then(|gid| gid.to_ipv4_mapped());
        let noted = if found.is_some() { text } else { "fe80::".to_owned() };
        self.journal.borrow_mut().note(path, Noted::File(noted.into_bytes()));
        found
    }

    /// The names in a folder, sorted.
    pub(crate) fn names(&self, path: &str) -> Seen<Vec<String>> {
        let recorded = self.recorded;
        let names = self.look(path, move |path| {
            let mut names = Vec::new();
            for entry in fs::read_dir(path)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                let link = name.strip_suffix(LINK).filter(|_| recorded).map(str::to_owned);
                names.push(link.unwrap_or(name));
            }
            names.sort();
            Ok(names)
        });
        self.note(path, &names, |names| Noted::Folder(names.clone()));
        names
    }

    /// Where a link leads, from the root on; nothing where there is no link.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let recorded = self.recorded;
        let target = self.look(path, move |path| {
            if recorded {
                let mut file = path.as_os_str().to_owned();
                file.push(LINK);
                return read(Path::new(&file))
                    .map(|target| String::from_utf8_lossy(&target).trim().to_owned());
            }
            fs::read_link(path).map(|target| target.to_string_lossy().into_owned())
        });
        self.note(path, &target, |target| Noted::Link(target.clone()));
        target.here().map(|target| follow(path, &target))
    }

    /// Whether there is such a path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let found = self.look(path, |path| fs::metadata(path).map(|found| found.is_dir()));
        self.note(path, &found, |is_folder| match is_folder {
            true => Noted::Folder(Vec::new()),
            false => Noted::File(Vec::new()),
        });
        found.here().is_some()
    }

    /// Whether a device node can be opened to read and write.
    pub(crate) fn node(&self, path: &str) -> Seen<()> {
        let recorded = self.recorded;
        let opened = self.look(path, move |path| {
            if recorded {
                return fs::metadata(path).map(drop);
            }
            use rustix::fs::{Mode, OFlags};
            // Non-blocking: some drivers let the opener wait for their hardware.
            let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
            Ok(rustix::fs::open(path, flags, Mode::empty()).map(drop)?)
        });
        self.note(path, &opened, |()| Noted::File(Vec::new()));
        opened
    }

    /// Whether /proc shows anything: without it, that a file is missing means nothing.
    pub(crate) fn has_proc(&self) -> bool {
        self.has("/proc/sys/kernel/osrelease")
    }

    /// Whether /sys does.
    pub(crate) fn has_sys(&self) -> bool {
        self.has("/sys/module")
    }

    /// Whether the kernel has a module.
    pub(crate) fn module(&self, name: &str) -> KernelModule {
        let folder = format!("/sys/module/{name}");
        if self.text(&format!("{folder}/initstate")).here().is_some() {
            KernelModule::Loaded
        } else if self.has(&folder) {
            KernelModule::BuiltIn
        } else if self.has_sys() {
            KernelModule::Absent
        } else {
            KernelModule::Unseen
        }
    }

    /// Runs a look at a path below the root in a thread that may be left behind.
    fn look<T: Send + 'static>(
        &self,
        path: &str,
        f: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Seen<T> {
        if let Some(why) = self.answers.hidden.get(path) {
            return Seen::Hidden(why.clone());
        }
        if self.unanswered.get() >= UNANSWERED {
            let seconds = UNANSWERED.as_secs();
            let why = format!("not looked at, since others gave no answer within {seconds} s");
            return Seen::Hidden(why);
        }
        if self.spent.get() >= LOOKS {
            let why = format!("not looked at, since others took {} s", LOOKS.as_secs());
            return Seen::Hidden(why);
        }
        let full = self.root.join(path.trim_start_matches('/'));
        let began = Instant::now();
        let looked = self.worker.within(LOOK, move || f(&full));
        let taken = began.elapsed();
        self.spent.set(self.spent.get() + taken);
        match looked {
            Ok(result) => result.into(),
            Err(why) => {
                self.unanswered.set(self.unanswered.get() + taken);
                Seen::Hidden(why.to_string())
            }
        }
    }

    fn note<T>(&self, path: &str, seen: &Seen<T>, noted: impl FnOnce(&T) -> Noted) {
        match seen {
            Seen::Here(what) => self.journal.borrow_mut().note(path, noted(what)),
            Seen::Hidden(why) => self.journal.borrow_mut().note(path, Noted::Hidden(why.clone())),
            Seen::Absent => {}
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// For the kernel's symbols, which are more than any other file.
fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST_BYTES * 64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The path that a link's target means, without asking the system.
fn follow(link: &str, target: &str) -> String {
    let folder = link.rsplit_once('/').map_or("", |(folder, _)| folder);
    let whole =
        if target.starts_with('/') { target.to_owned() } else { format!("{folder}/{target}") };
    let mut parts = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_by_their_text() {
        let device = follow("/sys/bus/pci/devices/a", "../../../devices/pci0000:00/a");
        assert_eq!(device, "/sys/devices/pci0000:00/a");
        assert_eq!(follow("/sys/a/driver", "/b/c"), "/b/c");
        assert_eq!(follow("/a", "../../../.."), "/");
    }

    #[test]
    fn a_look_that_hangs_is_given_up() {
        let machine = Machine::real(Answers::default());
        let begun = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        for _ in 0..20 {
            let begins = begun.clone();
            let seen = machine.look("/", move |_| {
                begins.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                std::thread::sleep(Duration::from_secs(5));
                Ok(())
            });
            assert!(matches!(seen, Seen::Hidden(_)));
        }
        // At 2 s each; the others are not tried.
        let begun = begun.load(std::sync::atomic::Ordering::Relaxed);
        assert!(begun <= 3, "{begun} looks");
    }

    /// What a machine that emulates its processor, beside others, makes of sysfs.
    #[test]
    fn looks_that_are_slow_and_answered_do_not_end_the_others() {
        let machine = Machine::real(Answers::default());
        let slow = Duration::from_millis(400);
        let looks = UNANSWERED.as_millis() / slow.as_millis() + 2;
        for number in 0..looks {
            let seen = machine.look("/", move |_| {
                std::thread::sleep(slow);
                Ok(())
            });
            assert_eq!(seen, Seen::Here(()), "look {number}");
        }
    }
}
