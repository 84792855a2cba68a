//! Scripts beside the programs of `cargo xtask dist`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Writes a script that can be run; its size.
pub(crate) fn write(path: &Path, text: &str) -> Result<u64> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(text.len() as u64)
}

/// Held by tests that write a script and run it: a file cannot be run while a process that another
/// thread just started still has it open for writing.
#[cfg(test)]
pub(crate) fn one_at_a_time() -> std::sync::MutexGuard<'static, ()> {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
