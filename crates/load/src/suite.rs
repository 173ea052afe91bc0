//! Suites: a file names servers and cases; the servers are started, loaded in turn, and stopped.

mod engine;
mod features;
mod file;
mod instructions;
mod measure;
mod output;
mod placeholder;
mod server;
mod stage;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use engine::{bench_compare, bench_suite};
pub use file::{Handshakes, Protocol, Suite, parse};
pub use output::write;

use crate::outcome::{Mode, Outcome};
use crate::results::{Length, Results};

/// What one run of a suite asks of the load generator.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseRun {
    /// Why it is made.
    pub purpose: Purpose,
    /// Where requests go, always on this machine: `http://127.0.0.1:PORT/path` or `redis://...`.
    pub url: String,
    /// Method.
    pub method: String,
    /// Request fields besides Host.
    pub headers: Vec<(String, String)>,
    /// Request body, maybe empty.
    pub body: Vec<u8>,
    /// How requests are offered.
    pub mode: Mode,
    /// Connections, or users.
    pub connections: u32,
    /// Threads, where the suite binds the load generator to CPUs: one each.
    pub threads: Option<u32>,
    /// Requests in flight on one connection.
    pub pipeline: u32,
    /// What is spoken.
    pub protocol: Protocol,
    /// HTTP/2: requests under way at once on one connection.
    pub streams: u32,
    /// Whether each request has a connection of its own, and how its handshake is.
    pub handshakes: Option<Handshakes>,
    /// When it ends; in [`Mode::Users`] it ends by itself.
    pub extent: Extent,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The status every answer must have.
    pub status: u16,
    /// The test of the Redis protocol, if it is one.
    pub redis: Option<String>,
}

/// Why a run is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To warm the server up; its figures are thrown away.
    WarmUp,
    /// To measure.
    Measure,
    /// To have a number of requests counted by somebody else.
    Count,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// After this time.
    Time(Duration),
    /// After so many requests.
    Requests(u64),
}

/// What a suite needs from outside.
pub struct Bench<'a> {
    /// The program itself, for `{sluice}`.
    pub program: PathBuf,
    /// The load generator and its version.
    pub tool: String,
    /// Short or published durations.
    pub length: Length,
    /// Where servers get their folders; must exist.
    pub scratch: PathBuf,
    /// Makes one run.
    pub run: &'a dyn Fn(&CaseRun) -> Result<Outcome, String>,
    /// Whether to stop (Ctrl-C).
    pub stopped: &'a dyn Fn() -> bool,
    /// Hears what is going on, a line at a time.
    pub say: &'a dyn Fn(&str),
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("program", &self.program).finish_non_exhaustive()
    }
}

/// Reads a suite from a file.
///
/// # Errors
/// The file cannot be read, or what is wrong in it with line and caret.
pub fn load(path: &Path) -> Result<Suite, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("error: cannot read {}: {error}\n", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    parse(&path.display().to_string(), &text, folder)
}

/// Runs a suite. Everything it starts is stopped when this returns, whatever happened.
///
/// # Errors
/// Nothing could be prepared, like a scratch folder that is not writable. Servers and runs that fail
/// are in the results instead.
pub fn run(suite: &Suite, bench: &Bench<'_>) -> Result<Results, String> {
    measure::run(suite, bench)
}
