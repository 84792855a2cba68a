//! The path of a UNIX socket, which goes with it as long as it is still the file that it made.
//!
//! A path cannot be compared and removed in one step. So a process that binds or removes one holds a lock on its
//! folder meanwhile, and the path of a server that takes over from this one stays. Where the folder cannot be
//! locked, or another process holds the lock for long, it is done without: no thread waits for it.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, Stat, flock, fstat, lstat, open};
use rustix::io::Errno;

/// Attempts to lock a folder, and the time between two of them: others hold it for some microseconds.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_micros(50);

/// A path that a bind has made.
pub(super) struct BoundPath {
    path: PathBuf,
    /// The file, whose number no other one gets as long as it is open; none where it must be left.
    file: Option<OwnedFd>,
}

impl BoundPath {
    /// Binds a path.
    pub(super) fn bind<E>(path: PathBuf, bind: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        let _lock = lock_folder(&path);
        bind()?;
        Ok(Self::new(path))
    }

    /// A path that was just bound, in a folder in which no process takes the path of a living socket.
    pub(super) fn new(path: PathBuf) -> Self {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open(&path, flags, Mode::empty()).ok();
        Self { path, file }
    }

    /// Leaves the path to whoever took the socket.
    pub(super) fn keep(mut self) {
        self.file = None;
    }
}

impl Drop for BoundPath {
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        let _lock = lock_folder(&self.path);
        let number = |stat: Stat| (stat.st_dev, stat.st_ino);
        let there =
            lstat(&self.path).is_ok_and(|there| fstat(file).map(number) == Ok(number(there)));
        if there {
            // A process that cannot remove it can do nothing better than leave it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Locks the folder of a path, until that is dropped.
fn lock_folder(path: &Path) -> Option<OwnedFd> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty()).ok()?;
    for _ in 0..ATTEMPTS {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(PAUSE),
            Err(_) => break,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use gpunet_support::testing::Folder;

    use super::*;

    fn bind(path: &Path) -> (UnixListener, BoundPath) {
        let mut listener = None;
        let bound = BoundPath::bind(path.to_owned(), || {
            UnixListener::bind(path).map(|made| listener = Some(made))
        });
        (listener.expect("it is bound"), bound.expect("it is bound"))
    }

    #[test]
    fn a_path_goes_with_its_socket_unless_it_is_anothers() {
        let folder = Folder::new("bound-path");
        let path = folder.path("socket");
        let (_, first) = bind(&path);
        drop(first);
        assert!(!path.exists());
        let (_, first) = bind(&path);
        std::fs::remove_file(&path).expect("it is there");
        let (_, second) = bind(&path);
        drop(first);
        assert!(path.exists(), "it is the second one's");
        second.keep();
        assert!(path.exists(), "the program has it");
    }

    /// One server after the other takes the path over while the one before it goes.
    #[test]
    fn the_path_of_the_next_server_stays() {
        let folder = Folder::new("take-over");
        let path = folder.path("socket");
        let (mut listener, mut bound) = bind(&path);
        for take_over in 0..2000 {
            let before = (listener, bound);
            let goes = std::thread::spawn(move || drop(before));
            let _ = std::fs::remove_file(&path);
            (listener, bound) = bind(&path);
            goes.join().expect("it goes");
            assert!(path.exists(), "lost in the take-over number {take_over}");
        }
        drop((listener, bound));
    }
}
