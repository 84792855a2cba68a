//! Results on standard output, flushed at once since whoever reads them may be waiting for the line,
//! and words for people on standard error.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use clap::error::ErrorKind;
use tracing_subscriber::EnvFilter;

/// Headings of tables.
pub const HEADING: Style = Style::new().bold();
/// What is as it should be.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What works and needs attention.
pub const WARNING: Style = AnsiColor::Yellow.on_default();
/// What is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// Text in a style; whoever prints it takes the style out where there are no colours.
#[must_use]
pub fn styled(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Text without its styles, for files.
#[must_use]
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// A result that could not be written.
#[derive(Debug)]
pub struct NotWritten(io::Error);

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write the result: {}", self.0)
    }
}

impl std::error::Error for NotWritten {}

/// Prints; a reader that has left, such as `head`, ends the program without a panic.
///
/// # Errors
/// Standard output is closed or full.
pub fn print(text: &str) -> Result<(), NotWritten> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(NotWritten)
}

/// Says a line on standard error; with that closed nobody reads it.
pub fn say(line: &str) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Says in one line why a program cannot go on, or what went wrong on the way.
pub fn complain(program: &str, why: impl fmt::Display) {
    say(&format!("{}: {}", styled(BAD, program), one_line(&why.to_string())));
}

/// Shows the log on standard error: what `RUST_LOG` asks for, or else this (`warn`, `off`). To be called once.
pub fn show_log(otherwise: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(otherwise));
    let colours = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    log.with_writer(io::stderr).init();
}

/// What clap has to say: help goes out whole, a mistake in one line.
#[must_use]
pub fn explain(program: &str, error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // Nobody reads it where standard output is closed.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let line = match error.kind() {
        // What clap writes then is the help.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing",
        _ => {
            let text = text.split("\n\nUsage:").next().unwrap_or(&text);
            let text = text.split("\n\nFor more information").next().unwrap_or(text);
            text.strip_prefix("error: ").unwrap_or(text)
        }
    };
    complain(program, format!("{line} (see {program} --help)"));
    ExitCode::from(2)
}

/// Messages of the system and of compilers may span lines.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_can_be_taken_out() {
        let text = styled(BAD, "wrong");
        assert_ne!(text, "wrong");
        assert_eq!(plain(&text), "wrong");
        assert_eq!(one_line("a\n  b\tc "), "a b c");
    }
}
