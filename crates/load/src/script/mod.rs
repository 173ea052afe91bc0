//! Scripts of requests in the vocabulary of Loadgen, in YAML or in its DSL.
//!
//! A text becomes a tree with places, `$[[env.NAME]]` is replaced, and the tree is read into
//! variables and requests whose templates are taken apart; every problem is found before anything is
//! sent. What runs is a [`Script`], a source of requests for the engine.

mod answer;
mod base;
pub(crate) mod bench;
mod bitmap;
mod clock;
mod condition;
mod definitions;
mod dsl;
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
use std::time::Duration;

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
    /// The pause behind the last request of a round.
    last_pause: Option<Duration>,
}

/// What is read of a script.
#[derive(Clone, Copy, Debug)]
pub struct Text<'t> {
    /// What messages call it, usually its path.
    pub name: &'t str,
    /// Its content.
    pub text: &'t str,
    /// How it is written.
    pub form: Form,
    /// Name and content of the YAML that `env`, `runner` and `variables` come from as well.
    pub base: Option<(&'t str, &'t str)>,
}

/// How a script is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In YAML.
    Yaml,
    /// In Loadgen's DSL.
    Dsl,
}

impl Form {
    /// The form of a script by its name; nothing if it is none.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let end = name.rsplit('.').next().unwrap_or_default();
        match end.to_ascii_lowercase().as_str() {
            "yml" | "yaml" => Some(Self::Yaml),
            "dsl" => Some(Self::Dsl),
            _ => None,
        }
    }
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
    /// for in the working directory, then beside the script. What the script does not say itself of
    /// `env`, `runner` and `variables` comes from `base`.
    ///
    /// # Errors
    /// A file that cannot be read, or everything that is wrong with the script.
    pub fn open(path: &Path, base: Option<&Path>) -> Result<Self, LoadError> {
        let text = text_of(path)?;
        let base = base.map(|base| Ok((base.display().to_string(), text_of(base)?))).transpose()?;
        let beside = sluice_net::files::directory_of(path);
        let files = |name: &Path| {
            sluice_net::files::read(name)
                .or_else(|error| sluice_net::files::read(&beside.join(name)).map_err(|_| error))
        };
        let environment = |name: &str| std::env::var(name).ok();
        let name = path.display().to_string();
        let text = Text {
            name: &name,
            text: &text,
            form: Form::of(&name).unwrap_or(Form::Yaml),
            base: base.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
        };
        Self::read(text, &environment, &files).map_err(LoadError::Problems)
    }

    /// Reads a script.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place.
    pub fn read(
        text: Text<'_>,
        environment: &dyn Fn(&str) -> Option<String>,
        files: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, Problems> {
        let base = match text.base {
            Some(base) => base::read(base, environment, files)?,
            None => Vec::new(),
        };
        let mut report = Report::new(text.name, plain(text.text));
        let read = match text.form {
            Form::Yaml => yaml::read(&mut report),
            Form::Dsl => dsl::read(&mut report),
        };
        let Some(document) = read else {
            return Err(report.finish().err().unwrap_or(Problems { list: Vec::new() }));
        };
        let mut document = base::merged(base, document);
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

    /// Whether anything is asserted of responses.
    pub(crate) fn asserts(&self) -> bool {
        self.requests.iter().any(|request| request.assert.is_some())
    }

    /// The plan of requests for a run; `limit` is what the run's own options say.
    #[must_use]
    pub fn plan(self: &Arc<Self>, limit: Limit) -> Arc<Plan> {
        Plan::new(Arc::clone(self), limit)
    }
}

/// The text of a file.
fn text_of(path: &Path) -> Result<String, LoadError> {
    let bytes = sluice_net::files::read(path)
        .map_err(|error| LoadError::File(path.to_path_buf(), error))?;
    String::from_utf8(bytes).map_err(|_| {
        let error = io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
        LoadError::File(path.to_path_buf(), error)
    })
}

/// A text without the mark that some editors put in front.
fn plain(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
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
        last_pause: None,
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
    let mut pause = None;
    for node in requests {
        if let Some(length) = request::only_pauses(node, report) {
            pause = Some(pause.unwrap_or_default() + length);
            continue;
        }
        let mut around = Surroundings {
            runner: &script.runner,
            variables: &script.variables,
            registered: &script.registered,
            targets: &mut targets,
        };
        let request = Request::read(node, &mut around, report);
        if let Some(mut request) = request {
            request.pause_before = pause.take();
            script.requests.push(request);
        }
    }
    script.last_pause = pause;
    script.targets = targets;
    let paused = script.requests.is_empty() && pause.is_some();
    if requests.is_empty() || paused {
        report.error(Span::default(), "a script needs `requests`");
    }
    script.variables.warn_of_missing(report);
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
