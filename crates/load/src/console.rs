//! What every kind of run says, writes and refuses.

use std::io::Write;
use std::path::Path;

use sluice_net::files;
use sluice_net::process::cpus;
use sluice_net::tls::Trust;

use crate::arguments::BenchArguments;
use crate::outcome::Outcome;
use crate::report;
use crate::run::Failure;

/// Exit code: the command line cannot be used.
const USAGE: u8 = 2;
/// Exit code: the target cannot be reached, or this machine has not what is needed.
pub(crate) const UNREACHABLE: u8 = 3;

/// Why `sluice bench` ends without a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The exit code.
    pub(crate) code: u8,
    /// What is said.
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { code: UNREACHABLE, message: message.into() }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let message = match failure {
            Failure::Unreachable(reason) => format!("the target cannot be reached: {reason}"),
            Failure::Broken(reason) => reason,
        };
        Self { code: UNREACHABLE, message }
    }
}

pub(crate) fn threads(arguments: &BenchArguments) -> u32 {
    let half = u32::try_from(cpus().div_ceil(2)).unwrap_or(1);
    arguments.threads.unwrap_or(half)
}

/// Whose certificates the arguments say to believe.
pub(crate) fn trust(arguments: &BenchArguments) -> Result<Trust, Refusal> {
    match (&arguments.ca, arguments.insecure) {
        (_, true) => Ok(Trust::Anything),
        (Some(path), false) => Trust::pem(read(path)?)
            .map_err(|why| Refusal::usage(format!("{}: {why}", path.display()))),
        (None, false) => Ok(Trust::System),
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    files::read(path)
        .map_err(|error| Refusal::usage(format!("cannot read {}: {error}", path.display())))
}

/// Writes the files that were asked for.
pub(crate) fn write_all(arguments: &BenchArguments, outcomes: &[Outcome]) -> Result<(), Refusal> {
    if let Some(path) = &arguments.json {
        write(path, &report::json(outcomes).map_err(Refusal::usage)?)?;
    }
    if let Some(path) = &arguments.csv {
        write(path, &report::csv(outcomes))?;
    }
    if let Some(path) = &arguments.html {
        write(path, &report::html(outcomes))?;
    }
    Ok(())
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), Refusal> {
    files::write(path, text.as_bytes())
        .map_err(|error| Refusal::usage(format!("cannot write {}: {error}", path.display())))
}

/// Prints to standard output.
pub(crate) fn print(text: &str) {
    // Whoever closed it has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Prints to standard error.
pub(crate) fn say(text: &str) {
    // There is nobody else to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
