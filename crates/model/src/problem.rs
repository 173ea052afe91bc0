//! What is wrong with a configuration: each problem with its place and the way out.

use std::fmt;

use unicode_width::UnicodeWidthChar;

use crate::place::{Lines, Span};

/// How much of a long line is shown around the place, in characters.
const SHOWN_LINE: usize = 160;
/// How much of a message is shown, in characters.
const LONGEST: usize = 500;
/// How much of the shown line may stand before the place, in characters.
const SHOWN_BEFORE: usize = 100;

/// Whether a problem keeps the configuration from being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// The configuration works, but probably not as it was meant.
    Warning,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// How problems are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text alone, for files and pipes.
    Plain,
    /// With the colour sequences of a terminal.
    Coloured,
}

/// One thing wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the document, as given in `Source::name`.
    pub file: String,
    /// What is wrong, without a full stop.
    pub message: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The line as typed. Control characters are replaced, a very long line is cut around the place.
    pub source_line: String,
    /// The way out, where one is known.
    pub help: Option<String>,
    /// Whether the configuration can still be used.
    pub severity: Severity,
    /// Characters of `source_line` before the caret.
    caret: usize,
    /// Length of the caret run in characters.
    width: usize,
}

/// What a problem says, before it knows its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl Flaw {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl Problem {
    pub(crate) fn at(
        file: &str,
        lines: &Lines<'_>,
        span: Span,
        severity: Severity,
        flaw: Flaw,
    ) -> Self {
        let place = lines.place(span);
        let before = place.column.saturating_sub(1);
        let (source_line, caret) = shown(lines.line(place.line), before);
        let rest = source_line.chars().count().saturating_sub(caret);
        Self {
            file: file.to_owned(),
            message: sentence(&flaw.message),
            line: place.line,
            column: place.column,
            width: place.width.min(rest).max(1),
            source_line,
            help: flaw.help.as_deref().map(sentence),
            severity,
            caret,
        }
    }

    /// Another problem at the same place.
    pub(crate) fn saying(&self, message: &str, help: &str) -> Self {
        Self { message: sentence(message), help: Some(sentence(help)), ..self.clone() }
    }

    /// The problem as text: message, place, the line with a caret, help. Ends with a newline.
    pub fn render(&self, style: Style) -> String {
        let paint = Paint::new(style, self.severity);
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let mut out = format!(
            "{}{}{}{}: {}{}\n",
            paint.severity,
            self.severity.word(),
            paint.reset,
            paint.bold,
            self.message,
            paint.reset
        );
        let (dim, reset) = (paint.dim, paint.reset);
        out.push_str(&format!(
            "{gutter}{dim}-->{reset} {}:{}:{}\n",
            self.file, self.line, self.column
        ));
        out.push_str(&format!("{gutter} {dim}|{reset}\n"));
        out.push_str(&format!("{dim}{number} |{reset} {}\n", self.source_line));
        out.push_str(&format!(
            "{gutter} {dim}|{reset} {}{}{}{reset}\n",
            self.indent(),
            paint.severity,
            self.carets()
        ));
        if let Some(help) = &self.help {
            out.push_str(&format!("{}help{}: {help}\n", paint.help, paint.reset));
        }
        out
    }

    /// Blanks as wide as what stands before the place; a tab stays a tab, so the terminal's own
    /// tab width puts the caret where it belongs.
    fn indent(&self) -> String {
        let mut out = String::new();
        for c in self.source_line.chars().take(self.caret) {
            match c {
                '\t' => out.push('\t'),
                c => out.extend(std::iter::repeat_n(' ', c.width().unwrap_or(1))),
            }
        }
        out
    }

    fn carets(&self) -> String {
        let covered = self.source_line.chars().skip(self.caret).take(self.width);
        let cells: usize = covered.map(|c| c.width().unwrap_or(1)).sum();
        "^".repeat(cells.max(1))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Style::Plain))
    }
}

/// Everything that is wrong with a document, in the order of the text. At least one is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problems {
    /// Errors and warnings, by place.
    pub list: Vec<Problem>,
}

impl Problems {
    /// All problems as text, an empty line between two.
    pub fn render(&self, style: Style) -> String {
        let parts: Vec<String> = self.list.iter().map(|problem| problem.render(style)).collect();
        parts.join("\n")
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Style::Plain))
    }
}

impl std::error::Error for Problems {}

/// A message as it may be printed: one line, no control characters, and of a very long value it
/// repeats only the beginning.
fn sentence(text: &str) -> String {
    let clean = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    let mut out: String = text.chars().take(LONGEST).map(clean).collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

/// The line as it may be printed, and the caret's offset in it. A control character could drive
/// the terminal, so it never gets there.
fn shown(line: &str, before: usize) -> (String, usize) {
    let clean = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    if line.chars().count() <= SHOWN_LINE {
        return (line.chars().map(clean).collect(), before);
    }
    let skip = before.saturating_sub(SHOWN_BEFORE);
    let mut out = String::new();
    let mut caret = before.saturating_sub(skip);
    if skip > 0 {
        out.push('…');
        caret = caret.saturating_add(1);
    }
    let mut rest = line.chars().skip(skip);
    out.extend(rest.by_ref().take(SHOWN_LINE).map(clean));
    if rest.next().is_some() {
        out.push('…');
    }
    (out, caret)
}

/// The colour sequences of a style; all empty when plain.
struct Paint {
    severity: &'static str,
    bold: &'static str,
    dim: &'static str,
    help: &'static str,
    reset: &'static str,
}

impl Paint {
    fn new(style: Style, severity: Severity) -> Self {
        match (style, severity) {
            (Style::Plain, _) => Self { severity: "", bold: "", dim: "", help: "", reset: "" },
            (Style::Coloured, Severity::Error) => Self::coloured("\u{1b}[1;31m"),
            (Style::Coloured, Severity::Warning) => Self::coloured("\u{1b}[1;33m"),
        }
    }

    fn coloured(severity: &'static str) -> Self {
        Self {
            severity,
            bold: "\u{1b}[1m",
            dim: "\u{1b}[1;34m",
            help: "\u{1b}[1;36m",
            reset: "\u{1b}[0m",
        }
    }
}

#[cfg(test)]
mod tests;
