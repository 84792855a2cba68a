//! A cpio archive in the format `newc`, which a kernel unpacks as its first file system.
//!
//! Kept in memory and touches no file: devices and owners need no root this way.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use anyhow::{Result, ensure};

/// Programs and folders.
const EXECUTABLE: u32 = 0o755;
/// Other files.
const READABLE: u32 = 0o644;

/// What an entry is.
enum Entry {
    Folder,
    File { content: Vec<u8>, permissions: u32 },
    Terminal { major: u32, minor: u32 },
}

/// An archive that is being filled. The folders above an entry come by themselves.
#[derive(Default)]
pub(crate) struct Archive {
    /// By path, so that a folder comes before what is in it.
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    pub(crate) fn folder(&mut self, path: &str) -> Result<()> {
        self.add(path, Entry::Folder)
    }

    pub(crate) fn file(&mut self, path: &str, content: Vec<u8>) -> Result<()> {
        self.add(path, Entry::File { content, permissions: READABLE })
    }

    pub(crate) fn program(&mut self, path: &str, content: Vec<u8>) -> Result<()> {
        self.add(path, Entry::File { content, permissions: EXECUTABLE })
    }

    /// A character device.
    pub(crate) fn terminal(&mut self, path: &str, major: u32, minor: u32) -> Result<()> {
        self.add(path, Entry::Terminal { major, minor })
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path.trim_start_matches('/'))
    }

    fn add(&mut self, path: &str, entry: Entry) -> Result<()> {
        let relative = path.strip_prefix('/').unwrap_or(path);
        let plain = Path::new(relative).components().all(|c| matches!(c, Component::Normal(_)));
        ensure!(plain && !relative.is_empty(), "`{path}` is no path inside a guest");
        for (at, _) in relative.match_indices('/') {
            self.entries.entry(relative[..at].to_owned()).or_insert(Entry::Folder);
        }
        self.entries.insert(relative.to_owned(), entry);
        Ok(())
    }

    /// The archive as bytes.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (inode, (path, entry)) in (1..).zip(&self.entries) {
            append(&mut bytes, inode, path, entry)?;
        }
        let end = Entry::File { content: Vec::new(), permissions: 0 };
        append(&mut bytes, 0, "TRAILER!!!", &end)?;
        Ok(bytes)
    }
}

/// A header of fourteen numbers, the name, the content; the last two each end at a multiple of
/// four.
fn append(bytes: &mut Vec<u8>, inode: u32, path: &str, entry: &Entry) -> Result<()> {
    let (mode, links, device, content): (u32, u32, (u32, u32), &[u8]) = match entry {
        Entry::Folder => (0o040_000 | EXECUTABLE, 2, (0, 0), &[]),
        Entry::File { content, permissions } => (0o100_000 | permissions, 1, (0, 0), content),
        Entry::Terminal { major, minor } => (0o020_600, 1, (*major, *minor), &[]),
    };
    let size = u32::try_from(content.len())?;
    let name_size = u32::try_from(path.len() + 1)?;
    let (owner, group, time, checksum) = (0, 0, 0, 0);
    let (lies_on_major, lies_on_minor) = (0, 0);
    let (major, minor) = device;
    let header = [
        inode,
        mode,
        owner,
        group,
        links,
        time,
        size,
        lies_on_major,
        lies_on_minor,
        major,
        minor,
        name_size,
        checksum,
    ];
    bytes.extend(b"070701");
    for number in header {
        bytes.extend(format!("{number:08x}").bytes());
    }
    bytes.extend(path.bytes().chain([0]));
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names, modes and contents that a reader finds.
    fn read(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let number = |field: usize| {
                let text = &bytes[at + 6 + 8 * field..at + 14 + 8 * field];
                u32::from_str_radix(std::str::from_utf8(text).unwrap(), 16).unwrap()
            };
            let (mode, size, name_size) = (number(1), number(6) as usize, number(11) as usize);
            let name = at + 110;
            let text = String::from_utf8(bytes[name..name + name_size - 1].to_vec()).unwrap();
            let content = (name + name_size).next_multiple_of(4);
            found.push((text, mode, bytes[content..content + size].to_vec()));
            at = (content + size).next_multiple_of(4);
        }
        found
    }

    #[test]
    fn what_goes_in_comes_out_after_its_folders() {
        let mut archive = Archive::default();
        archive.program("/usr/bin/rping", b"12345".to_vec()).unwrap();
        archive.file("etc/hosts", b"x".to_vec()).unwrap();
        archive.terminal("/dev/console", 5, 1).unwrap();
        assert!(archive.contains("/usr/bin") && !archive.contains("/usr/bin/rstream"));
        let bytes = archive.into_bytes().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let found = read(&bytes);
        let names: Vec<_> = found.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "dev",
                "dev/console",
                "etc",
                "etc/hosts",
                "usr",
                "usr/bin",
                "usr/bin/rping",
                "TRAILER!!!"
            ]
        );
        let entry = |name: &str| found.iter().find(|(found, ..)| found == name).unwrap();
        assert_eq!(entry("usr/bin/rping").1, 0o100_755);
        assert_eq!(entry("usr/bin/rping").2, b"12345");
        assert_eq!(entry("dev/console").1, 0o020_600);
        assert_eq!(entry("usr").1, 0o040_755);
    }

    #[test]
    fn paths_stay_inside_the_guest() {
        let mut archive = Archive::default();
        for path in ["", "/", "../passwd", "/usr/../../x", "//etc"] {
            assert!(archive.file(path, Vec::new()).is_err(), "{path}");
        }
    }
}
