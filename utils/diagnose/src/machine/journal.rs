//! What was looked at: written out as a recorded machine (`--record`), or as text (`--bundle`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::answers::Answers;

/// The file with the answers, in the folder of a recorded machine.
pub(crate) const ANSWERS: &str = "answers.json";

/// A link of a recorded machine is a file with its target, and this behind its name: the links of
/// sysfs lead round in circles, which programs that walk through folders do not like.
pub(crate) const LINK: &str = ".link";

/// What was found at a path.
#[derive(Clone, Debug)]
pub(super) enum Noted {
    File(Vec<u8>),
    Link(String),
    Folder(Vec<String>),
    Hidden(String),
}

/// Everything that was found, by path.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    paths: BTreeMap<String, Noted>,
}

impl Journal {
    pub(super) fn note(&mut self, path: &str, noted: Noted) {
        // That something is there says less than what is in it.
        let empty = match &noted {
            Noted::File(bytes) => bytes.is_empty(),
            Noted::Folder(names) => names.is_empty(),
            Noted::Link(_) | Noted::Hidden(_) => false,
        };
        if !empty || !self.paths.contains_key(path) {
            self.paths.insert(path.to_owned(), noted);
        }
    }

    /// Writes a folder that `--from` takes for this machine.
    pub(crate) fn record(&self, answers: &Answers, folder: &Path) -> Result<()> {
        let occupied = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        ensure!(!occupied, "{} is not empty: name a new folder", folder.display());
        let mut answers = answers.clone();
        for (path, noted) in &self.paths {
            if let Noted::Hidden(why) = noted {
                answers.hidden.insert(path.clone(), why.clone());
            }
            self.write(path, noted, folder)
                .with_context(|| format!("cannot write {} into {}", path, folder.display()))?;
        }
        let path = folder.join(ANSWERS);
        let text = serde_json::to_string_pretty(&answers)? + "\n";
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn write(&self, path: &str, noted: &Noted, folder: &Path) -> std::io::Result<()> {
        let to = folder.join(path.trim_start_matches('/'));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        match noted {
            Noted::File(bytes) => fs::write(&to, bytes),
            Noted::Link(target) => {
                let mut file = to.into_os_string();
                file.push(LINK);
                fs::write(file, target)
            }
            Noted::Hidden(_) => Ok(()),
            Noted::Folder(names) => {
                fs::create_dir_all(&to)?;
                for name in names {
                    let child = format!("{path}/{name}");
                    let below = format!("{child}/");
                    let known = self.paths.contains_key(&child)
                        || self
                            .paths
                            .range(below.clone()..)
                            .next()
                            .is_some_and(|(path, _)| path.starts_with(&below));
                    if !known {
                        fs::write(to.join(name), "")?;
                    }
                }
                Ok(())
            }
        }
    }

    /// All texts that were read, for a bundle. Addresses of ports are left out.
    pub(crate) fn texts(&self) -> String {
        let mut all = String::new();
        for (path, noted) in &self.paths {
            let text = match noted {
                Noted::File(_) if path.contains("/gids/") => "(an address, left out)".to_owned(),
                Noted::File(_) if path == "/proc/self/cgroup" => {
                    "(names of a container, left out)".to_owned()
                }
                Noted::File(bytes) if path.ends_with("/config") => {
                    format!("({} bytes of PCI configuration, left out)", bytes.len())
                }
                Noted::File(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => text.trim_end().to_owned(),
                    Err(_) => format!("({} bytes that are no text)", bytes.len()),
                },
                Noted::Link(target) => format!("-> {target}"),
                Noted::Folder(names) => names.join("\n"),
                Noted::Hidden(why) => format!("(not seen: {why})"),
            };
            all.push_str(&format!("== {path}\n{text}\n"));
        }
        all
    }
}
