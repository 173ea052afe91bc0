//! Scripts of requests in YAML, in the vocabulary of Loadgen.
//!
//! A text becomes a tree with places, `$[[env.NAME]]` is replaced, and the tree is read into
//! variables and requests whose templates are taken apart; every problem is found before anything is
//! sent. What runs is a [`Script`], a source of requests for the engine.

mod answer;
pub(crate) mod bench;
mod bitmap;
mod clock;
mod condition;
mod definitions;
mod environment;
mod fields;
mod problem;
mod report;
mod request;
mod runner;
mod template;
mod text;
mod url;
mod variable;
mod worker;
mod yaml;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fields::Fields;
use problem::{Report, Span};
use request::{Request, Surroundings};
use variable::Variables;
use yaml::{Entry, Node, Value};

pub use problem::{Problem, Problems, Severity};
pub use runner::Runner;
pub use worker::{Counts, Limit, Plan, Sample};

/// A script that was read and found right.
#[derive(Debug)]
pub struct Script {
    runner: Runner,
    /// What has no effect in it.
    pub warnings: Vec<Problem>,
    requests: Vec<Request>,
    variables: Variables,
    registered: Vec<String>,
    targets: Vec<String>,
}

/// Why a script cannot be run.
#[derive(Debug)]
pub enum LoadError {
    /// Its file cannot be read.
    File(PathBuf, io::Error),
    /// Something in it is wrong.
    Problems(Problems),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, error) => {
                writeln!(f, "error: {} cannot be read: {error}", path.display())
            }
            Self::Problems(problems) => problems.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

impl Script {
    /// Reads the script in a file, with the environment of the process. Files of variables are looked
    /// for in the working directory, then beside the script.
    ///
    /// # Errors
    /// A file that cannot be read, or everything that is wrong with the script.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let bytes = sluice_net::files::read(path)
            .map_err(|error| LoadError::File(path.to_path_buf(), error))?;
        let text = String::from_utf8(bytes).map_err(|_| {
            let error = io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
            LoadError::File(path.to_path_buf(), error)
        })?;
        let beside = sluice_net::files::directory_of(path);
        let files = |name: &Path| {
            sluice_net::files::read(name)
                .or_else(|error| sluice_net::files::read(&beside.join(name)).map_err(|_| error))
        };
        let environment = |name: &str| std::env::var(name).ok();
        Self::read((&path.display().to_string(), &text), &environment, &files)
            .map_err(LoadError::Problems)
    }

    /// Reads a script of this name and text.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place.
    pub fn read(
        (name, text): (&str, &str),
        environment: &dyn Fn(&str) -> Option<String>,
        files: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, Problems> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut report = Report::new(name, text);
        let Some(mut document) = yaml::read(&mut report) else {
            return Err(report.finish().err().unwrap_or(Problems { list: Vec::new() }));
        };
        environment::expand(&mut document, environment, &mut report);
        let mut script = sections(&document, files, &mut report);
        script.warnings = report.finish()?;
        Ok(script)
    }

    /// How it is to be run.
    #[must_use]
    pub const fn runner(&self) -> &Runner {
        &self.runner
    }

    /// The plan of requests for a run; `limit` is what the run's own options say.
    #[must_use]
    pub fn plan(self: &Arc<Self>, limit: Limit) -> Arc<Plan> {
        Plan::new(Arc::clone(self), limit)
    }
}

fn sections(
    document: &[Entry],
    files: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    report: &mut Report<'_>,
) -> Script {
    let whole = Node { span: Span::default(), value: Value::Table(document.to_vec()) };
    let mut script = Script {
        runner: Runner::default(),
        warnings: Vec::new(),
        requests: Vec::new(),
        variables: Variables::default(),
        registered: Vec::new(),
        targets: Vec::new(),
    };
    let Some(mut fields) = Fields::of(&whole, "a script", report) else { return script };
    fields.take("env");
    if let Some(node) = fields.take("runner") {
        script.runner = Runner::read(node, report);
    }
    script.variables = definitions::read(fields.list("variables", report), files, report);
    let requests = fields.list("requests", report);
    script.registered = request::registered(requests);
    let mut targets = Vec::new();
    for node in requests {
        let mut around = Surroundings {
            runner: &script.runner,
            variables: &script.variables,
            registered: &script.registered,
            targets: &mut targets,
        };
        script.requests.extend(Request::read(node, &mut around, report));
    }
    script.targets = targets;
    if requests.is_empty() {
        report.error(Span::default(), "a script needs `requests`");
    }
    if let Some(node) = fields.take("tests") {
        report.error(node.span, "`tests` are not supported; a suite does that");
    }
    for entry in fields.unknown() {
        match entry.key.split_once('.') {
            Some(("env" | "runner" | "variables" | "requests", _)) => report.error(
                entry.span,
                "write this as a table: the part behind the dot below the part before it",
            ),
            _ => report.warning(entry.span, format!("`{}` has no effect here", entry.key)),
        }
    }
    script
}
