//! Results on standard output, flushed at once since whoever reads them may be waiting for the line,
//! and words for people on standard error.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use tracing_subscriber::EnvFilter;

use crate::failure::{Failure, one_line};

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

/// Shows the log on standard error: warnings, or what `RUST_LOG` asks for. To be called once.
pub fn show_log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let colours = io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    log.with_writer(io::stderr).init();
}

/// What clap has to say: help goes out whole, a mistake in one line.
#[must_use]
pub fn explain(program: &str, error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // Nobody to tell where standard output is closed.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or(&text);
    let text = text.split("\n\nFor more information").next().unwrap_or(text);
    let line = one_line(text.strip_prefix("error: ").unwrap_or(text));
    say(&format!("{program}: {line} (see {program} --help)"));
    ExitCode::from(2)
}
