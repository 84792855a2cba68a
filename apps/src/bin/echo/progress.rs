//! What is going on, on standard error: one line that is rewritten on a terminal, elsewhere a line
//! for each figure.

use std::io::{IsTerminal, Write};

/// Shows progress; the last line is wiped when it is dropped.
pub(crate) struct Progress {
    terminal: bool,
    steps: usize,
    done: usize,
}

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        Self { terminal: std::io::stderr().is_terminal(), steps, done: 0 }
    }

    /// A step begins.
    pub(crate) fn begin(&self, what: &str) {
        if self.terminal {
            self.rewrite(&format!("[{}/{}] {what} ...", self.done + 1, self.steps));
        }
    }

    /// A step has ended with a figure, or with a failure.
    pub(crate) fn end(&mut self, what: &str, result: &str) {
        self.done += 1;
        let line = format!("[{}/{}] {what}: {result}", self.done, self.steps);
        if self.terminal {
            self.rewrite(&line);
        } else {
            // Nobody to tell where standard error is closed.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// Steps that will not be done.
    pub(crate) fn skip(&mut self, steps: usize) {
        self.done += steps;
    }

    fn rewrite(&self, line: &str) {
        let mut out = std::io::stderr();
        let _ = write!(out, "\r\x1b[2K{line}");
        let _ = out.flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal {
            self.rewrite("");
        }
    }
}
