//! Results on standard output, flushed at once since whoever reads them may be waiting for the line,
//! and words for people on standard error.

use std::io::{self, Write};

use crate::failure::Failure;

/// Prints; a reader that has left, such as `head`, ends the program without a panic.
///
/// # Errors
/// Standard output is closed or full.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::refused(format!("cannot write the result: {error}")))
}

/// Says a line on standard error; with that closed there is nobody to tell.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
