//! Where a configuration comes from, and whether it could be used.

use std::fmt;
use std::path::{Path, PathBuf};

use sluice_model::{Format, Model, Problem, Problems, Source, Style, parse};
use sluice_net::files;

use crate::flaw::{Flaw, plain};

/// Where the configuration comes from.
#[derive(Clone, Debug)]
pub enum ConfigSource {
    /// A file, read again whenever it changes.
    File(PathBuf),
    /// A text that stays as it is.
    Text(Document),
}

/// The text of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// What it is called in messages.
    pub name: String,
    /// All of it.
    pub text: String,
    /// Its notation.
    pub format: Format,
}

impl Document {
    /// The text of a file, in the notation its name says.
    #[must_use]
    pub fn of_file(name: String, text: String) -> Self {
        Self { format: Format::of_path(&name), name, text }
    }

    /// The same, for the model.
    #[must_use]
    pub fn source(&self) -> Source<'_> {
        Source { name: &self.name, text: &self.text, format: self.format }
    }

    /// What it means. Variables come from the environment of the process.
    ///
    /// # Errors
    /// Everything that is wrong with the text.
    pub fn parse(&self) -> Result<Model, ConfigError> {
        parse(&self.source(), &|name| std::env::var(name).ok()).map_err(ConfigError::Invalid)
    }
}

impl ConfigSource {
    /// Reads it.
    ///
    /// # Errors
    /// If it is a file that cannot be read, or is no text.
    pub fn read(&self) -> Result<Document, ConfigError> {
        match self {
            Self::Text(document) => Ok(document.clone()),
            Self::File(path) => {
                let name = path.display().to_string();
                let unreadable =
                    |why: String| ConfigError::Unusable(vec![Flaw::new(name.clone(), why)]);
                let bytes = files::read(path)
                    .map_err(|error| unreadable(format!("cannot read it: {}", plain(&error))))?;
                let text = text_of(bytes).map_err(unreadable)?;
                Ok(Document::of_file(name, text))
            }
        }
    }

    /// The file, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Text(_) => None,
        }
    }
}

/// The text these bytes are; what is wrong with them if they are none.
pub(crate) fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("it is not UTF-8 text: byte {at} belongs to no character")
    })
}

/// Why a configuration cannot be used: everything found, at least one problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The text is wrong.
    Invalid(Problems),
    /// The text is right, but asks for what cannot be had.
    Unusable(Vec<Flaw>),
}

impl ConfigError {
    /// Everything found, in full. Ends with a newline.
    #[must_use]
    pub fn render(&self, style: Style) -> String {
        match self {
            Self::Invalid(problems) => problems.render(style),
            Self::Unusable(flaws) => flaws.iter().map(|flaw| flaw.render(style)).collect(),
        }
    }

    /// How many problems there are, warnings not counted.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Invalid(problems) => problems.list.iter().filter(|it| is_error(it)).count(),
            Self::Unusable(flaws) => flaws.len(),
        }
    }

    /// In one line: the first problem, and how many others there are.
    #[must_use]
    pub fn summary(&self) -> String {
        let first = match self {
            Self::Invalid(problems) => problems
                .list
                .iter()
                .find(|it| is_error(it))
                .map(|it| format!("{}:{}:{}: {}", it.file, it.line, it.column, it.message)),
            Self::Unusable(flaws) => flaws.first().map(Flaw::to_string),
        };
        let first = first.unwrap_or_else(|| "the configuration cannot be used".to_owned());
        match self.count() {
            0 | 1 => first,
            2 => format!("{first} (and one more problem)"),
            count => format!("{first} (and {} more problems)", count - 1),
        }
    }
}

fn is_error(problem: &Problem) -> bool {
    problem.severity == sluice_model::Severity::Error
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())
    }
}

impl std::error::Error for ConfigError {}
