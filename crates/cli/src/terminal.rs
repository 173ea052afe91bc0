//! What is printed by commands that end at once.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use sluice_model::Style;

/// How problems are shown on standard error: in colours to a person who has not refused them
/// (no-color.org).
pub(crate) fn style() -> Style {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match std::io::stderr().is_terminal() && !refused {
        true => Style::Coloured,
        false => Style::Plain,
    }
}

/// Prints to standard output. Success, unless nobody takes it for a reason other than having seen
/// enough.
pub(crate) fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            complain(&format!("error: cannot write: {error}\n"));
            ExitCode::from(crate::RUNTIME)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Prints to standard error.
pub(crate) fn complain(text: &str) {
    // There is nobody else to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
