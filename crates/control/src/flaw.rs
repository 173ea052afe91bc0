//! What is wrong with a configuration beyond its text: the world does not have what it asks for.

use std::fmt;
use std::io;

use sluice_model::{Problem, Style};

/// One thing a configuration asks for that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The element of the configuration: `listener "web"`.
    pub element: String,
    /// What is wrong with it, without a full stop.
    pub message: String,
    /// The way out, where one is known.
    pub help: Option<String>,
    /// The same with its place in the document, where that is known.
    pub problem: Option<Box<Problem>>,
}

impl Flaw {
    /// A flaw of this element.
    pub fn new(element: impl Into<String>, message: impl Into<String>) -> Self {
        Self { element: element.into(), message: message.into(), help: None, problem: None }
    }

    /// The same with a way out.
    #[must_use]
    pub fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// A problem of the document that shows only when it is made what runs.
    pub fn of_document(element: impl Into<String>, problem: Problem) -> Self {
        let (message, help) = (problem.message.clone(), problem.help.clone());
        Self { element: element.into(), message, help, problem: Some(Box::new(problem)) }
    }

    /// The flaw as text in the manner of [`sluice_model::Problem::render`]. Ends with a newline.
    #[must_use]
    pub fn render(&self, style: Style) -> String {
        if let Some(problem) = &self.problem {
            return problem.render(style);
        }
        let (red, bold, cyan, reset) = match style {
            Style::Plain => ("", "", "", ""),
            Style::Coloured => ("\u{1b}[1;31m", "\u{1b}[1m", "\u{1b}[1;36m", "\u{1b}[0m"),
        };
        let Self { element, message, help, .. } = self;
        let mut text = format!("{red}error{reset}: {bold}{element}: {message}{reset}\n");
        if let Some(help) = help {
            text.push_str(&format!("{cyan}help{reset}: {help}\n"));
        }
        text
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(problem) = &self.problem {
            write!(f, "{}:{}:{}: ", problem.file, problem.line, problem.column)?;
        }
        write!(f, "{}: {}", self.element, self.message)
    }
}

/// What the kernel says, without its number: "address already in use".
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flaws_name_their_element() {
        let error = io::Error::from_raw_os_error(98);
        let flaw = Flaw::new("listener \"web\"", plain(&error)).with_help("take another");
        let expected = "error: listener \"web\": address already in use\nhelp: take another\n";
        assert_eq!(flaw.render(Style::Plain), expected);
        assert!(flaw.render(Style::Coloured).starts_with("\u{1b}[1;31merror"));
    }
}
