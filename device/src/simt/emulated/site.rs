//! Where in its source a kernel is, for reports of the emulated GPU.
//!
//! Rust kernels are found by their callers' locations. Kernels in other languages say where they are:
//! [`announce`] just before a call, which takes it.

use core::cell::Cell;
use core::panic::Location;
use std::boxed::Box;
use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

/// A place in the source of a kernel.
#[derive(Clone, Copy, Debug, Eq)]
pub struct Site {
    /// The file, as its compiler was given it.
    pub file: &'static str,
    /// The line.
    pub line: u32,
    /// The column, where it is known: two barriers may stand in one line.
    pub column: u32,
}

impl Site {
    /// A place that nobody has set.
    pub const UNKNOWN: Self = Self { file: "an unknown place", line: 0, column: 0 };

    /// A place in a file whose name need not live on.
    pub fn interned(file: &str, line: u32) -> Self {
        Self { file: intern(file), line, column: 0 }
    }
}

impl PartialEq for Site {
    /// Each barrier compares sites. The names of files are compared last, and mostly by their address.
    fn eq(&self, other: &Self) -> bool {
        self.line == other.line
            && self.column == other.column
            && (core::ptr::eq(self.file, other.file) || self.file == other.file)
    }
}

impl From<&'static Location<'static>> for Site {
    fn from(at: &'static Location<'static>) -> Self {
        Self { file: at.file(), line: at.line(), column: at.column() }
    }
}

impl core::fmt::Display for Site {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if *self == Self::UNKNOWN {
            return f.write_str(self.file);
        }
        write!(f, "{}:{}", self.file, self.line)
    }
}

std::thread_local! {
    static NEXT: Cell<Option<Site>> = const { Cell::new(None) };
    /// The last file that was announced here: mostly the next one, too.
    static LAST: Cell<&'static str> = const { Cell::new("") };
}

/// The next call of the kernel that runs on this OS thread is made there. No switch of coroutines lies
/// between.
pub fn announce(file: &str, line: u32) {
    let last = LAST.get();
    let site = match last == file {
        true => Site { file: last, line, column: 0 },
        false => Site::interned(file, line),
    };
    LAST.set(site.file);
    NEXT.set(Some(site));
}

/// Where the call that is being made was announced to be.
pub fn announced() -> Site {
    NEXT.take().unwrap_or(Site::UNKNOWN)
}

/// The same text for as long as the process lives; there are as many as source files.
fn intern(text: &str) -> &'static str {
    static KNOWN: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(text) {
        return known;
    }
    let kept: &'static str = Box::leak(Box::from(text));
    known.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};

    use super::*;

    #[test]
    fn a_site_is_taken_once_and_outlives_its_name() {
        announce(&String::from("a.cu"), 7);
        let site = announced();
        assert_eq!(site.to_string(), "a.cu:7");
        assert_eq!(announced(), Site::UNKNOWN);
        announce(&String::from("b.cu"), 1);
        assert_eq!(announced().file, "b.cu");
        announce(&String::from("a.cu"), 8);
        assert!(core::ptr::eq(announced().file, site.file));
        assert_ne!(Site::interned("a.cu", 7), Site::interned("a.cu", 8));
        assert_eq!(Site::interned("a.cu", 7), site);
    }
}
