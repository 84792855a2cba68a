//! Files that builds depend on.

use std::fs;
use std::path::Path;

use crate::error::Error;

/// Leaves the time stamp of an unchanged file alone, so that nothing is rebuilt for it.
pub(crate) fn write_if_different(path: &Path, content: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    fs::write(path, content).map_err(|error| Error::io("write", path, &error))
}
