//! What went wrong: one line for everybody, and the tool's own words where a tool failed.

use std::{fmt, io, path::Path};

/// A failure, with the output of the tool that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    line: String,
    output: String,
}

impl Error {
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self::with_output(line, "")
    }

    pub(crate) fn with_output(line: impl Into<String>, output: impl Into<String>) -> Self {
        Self { line: line.into(), output: output.into() }
    }

    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(format!("cannot {action} {}: {error}", path.display()))
    }

    /// What happened, in one line.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// What the compiler or ptxas printed; empty when no tool was involved.
    pub fn output(&self) -> &str {
        &self.output
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.line)?;
        if !self.output.is_empty() {
            write!(formatter, "\n{}", self.output.trim_end())?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
