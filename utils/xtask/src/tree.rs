//! Files of the repository by their extension, without those that were built.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Folders of built files, which hold copies of pages. Hidden folders are left out, too.
const BUILT: &[&str] = &["target", "dist"];

/// All files below a folder whose names end so, relative to it.
pub(crate) fn files(root: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let place = root.join(&folder);
        let entries =
            fs::read_dir(&place).with_context(|| format!("cannot read {}", place.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let path = folder.join(&*name);
            // Links to folders may lead in circles.
            let kind = entry.file_type()?;
            if kind.is_dir() && !name.starts_with('.') && !BUILT.contains(&&*name) {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|is| is == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
