//! The path of a UNIX socket, which goes with it as long as it is still the file that it made.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A path that a bind has made.
pub(super) struct BoundPath {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl BoundPath {
    pub(super) fn new(path: PathBuf) -> Self {
        let identity = identity(&path);
        Self { path, identity }
    }

    /// Leaves the path to whoever took the socket.
    pub(super) fn keep(mut self) {
        self.identity = None;
    }
}

impl Drop for BoundPath {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // Who cannot remove it can do nothing better than leave it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &std::path::Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}
