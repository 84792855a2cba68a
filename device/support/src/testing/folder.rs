//! A folder that goes with its test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use gpunet_device::SocketAddr;

/// A new folder, removed with this.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one. Its path is short: sockets may lie in it.
    ///
    /// # Panics
    /// When the system's folder for temporary files takes none.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gpunet-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder for the test");
        Self(path)
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// A path in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// That path as the address of a socket.
    ///
    /// # Panics
    /// When it is too long for one.
    #[must_use]
    pub fn address(&self, name: &str) -> SocketAddr {
        SocketAddr::path(&self.path(name)).expect("the path fits an address")
    }

    /// Whether nothing is in it.
    ///
    /// # Panics
    /// When it cannot be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.0).expect("the folder of the test").next().is_none()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in a folder for temporary files does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
