//! What a suite leaves behind: every run of every server, and where and how it was measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::environment::{Environment, Noise};
use crate::outcome::Outcome;

/// The number of this form of results; files of another number are refused.
pub const FORMAT: u32 = 1;

/// Everything a suite measured; the content of `results.json`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// The suite's short name, like `gate`.
    pub suite: String,
    /// Its title in reports.
    pub title: String,
    /// What it is for.
    pub about: String,
    /// What a reader has to know before believing a figure.
    pub notes: Vec<String>,
    /// The load generator and its version.
    pub tool: String,
    /// When it began, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// When it ended.
    pub finished_unix_ms: u64,
    /// Whether it came to its end.
    pub state: State,
    /// Short or published durations.
    pub length: Length,
    /// The machine.
    pub environment: Environment,
    /// Settings that hold for every case, by name.
    pub parameters: Vec<(String, String)>,
    /// The servers that took part or should have.
    pub servers: Vec<Server>,
    /// The cases in the order of the suite.
    pub cases: Vec<Case>,
}

/// How a suite ended.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Every run that was possible was made.
    Complete,
    /// It was stopped by hand.
    Interrupted,
    /// A server or a run failed.
    Failed,
}

impl State {
    /// The word for reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Interrupted => "stopped by hand before its end",
            Self::Failed => "incomplete: some runs failed",
        }
    }
}

/// How long runs are.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Short runs, for a look.
    Short,
    /// The published durations.
    Full,
}

/// One server of a suite.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Server {
    /// The name used in the suite and in every table.
    pub name: String,
    /// What it says of its version.
    pub version: Option<String>,
    /// The command line it was started with.
    pub command: String,
    /// Where it was asked.
    #[serde(default)]
    pub url: Option<String>,
    /// The CPUs it was bound to.
    pub cpus: Option<String>,
    /// Its configuration as it was used.
    pub config: Option<String>,
    /// Why it did not take part.
    pub skipped: Option<String>,
}

/// One case: the same load on several servers.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Case {
    /// Its short name.
    pub name: String,
    /// Its title in reports.
    pub title: String,
    /// What it measures.
    pub about: String,
    /// The servers; the first is compared with each of the others.
    pub servers: Vec<String>,
    /// Its settings, by name.
    pub parameters: Vec<(String, String)>,
    /// Why it was not run, like `waiting for compression`.
    pub skipped: Option<String>,
    /// Every run in the order it was made.
    pub runs: Vec<Run>,
    /// User instructions per request by server, where they were counted.
    pub instructions: BTreeMap<String, f64>,
}

/// One run of one server.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Which server.
    pub server: String,
    /// Connections, or users.
    pub connections: u32,
    /// Which round, from 1. Runs of one round are pairs.
    pub round: u32,
    /// The how-manieth run of the suite it was, from 1.
    pub order: u32,
    /// What was measured, unless it failed.
    pub outcome: Option<Outcome>,
    /// Why it failed.
    pub failure: Option<String>,
    /// CPU time of the server and its children during the run, in seconds.
    pub server_cpu_seconds: Option<f64>,
    /// What else the machine did meanwhile.
    pub noise: Noise,
}

impl Run {
    /// CPU time of the server per answer, in microseconds.
    pub fn cpu_micros(&self) -> Option<f64> {
        self.per_response(self.server_cpu_seconds?)
    }

    /// CPU time of the whole machine per answer, in microseconds: what the kernel charged to the
    /// wrong process is in here.
    pub fn machine_cpu_micros(&self) -> Option<f64> {
        self.per_response(self.noise.machine_cpu_seconds)
    }

    fn per_response(&self, seconds: f64) -> Option<f64> {
        let responses = self.outcome.as_ref()?.responses;
        (responses > 0 && seconds > 0.0).then(|| seconds * 1e6 / crate::figures::float(responses))
    }
}
