//! What is wrong with a script: each problem with its place, the line and a caret.

use std::fmt;

/// How much of a long line is shown, in characters.
const SHOWN_LINE: usize = 160;
/// How much of the shown line may stand before the place, in characters.
const SHOWN_BEFORE: usize = 100;

/// A range of bytes in the text of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start, end: if end < start { start } else { end } }
    }
}

/// Whether a problem keeps a script from being run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is sent.
    Error,
    /// The script runs, but part of it has no effect.
    Warning,
}

/// One thing wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The script's name, usually its path.
    pub file: String,
    /// What is wrong.
    pub message: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// Whether the script can still be run.
    pub severity: Severity,
    /// The line as typed, control characters replaced, cut around the place if it is long.
    pub source_line: String,
    caret: usize,
    width: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        // A tab stays a tab, so that the terminal's own tab width puts the caret where it belongs.
        let indent: String = self
            .source_line
            .chars()
            .take(self.caret)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        writeln!(f, "{word}: {}", self.message)?;
        writeln!(f, "{gutter}--> {}:{}:{}", self.file, self.line, self.column)?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {}", self.source_line)?;
        writeln!(f, "{gutter} | {indent}{}", "^".repeat(self.width))
    }
}

/// Everything that is wrong with a script, in the order it was found. At least one is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// Errors and warnings.
    pub list: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.list.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Collects the problems of one text.
pub(crate) struct Report<'a> {
    file: &'a str,
    text: &'a str,
    list: Vec<Problem>,
}

impl<'a> Report<'a> {
    pub(crate) const fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, list: Vec::new() }
    }

    pub(crate) const fn text(&self) -> &'a str {
        self.text
    }

    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.add(span, message.into(), Severity::Error);
    }

    pub(crate) fn warning(&mut self, span: Span, message: impl Into<String>) {
        self.add(span, message.into(), Severity::Warning);
    }

    fn add(&mut self, span: Span, message: String, severity: Severity) {
        let problem = located(self.file, self.text, span, message, severity);
        // A value that is used twice (an alias, a default) has its problem once.
        if !self.list.contains(&problem) {
            self.list.push(problem);
        }
    }

    /// The warnings.
    ///
    /// # Errors
    /// All problems if one of them is an error.
    pub(crate) fn finish(self) -> Result<Vec<Problem>, Problems> {
        if self.list.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(Problems { list: self.list });
        }
        Ok(self.list)
    }
}

fn located(file: &str, text: &str, span: Span, message: String, severity: Severity) -> Problem {
    let start = boundary(text, span.start);
    let before = text.get(..start).unwrap_or_default();
    let line = before.bytes().filter(|byte| *byte == b'\n').count().saturating_add(1);
    let begin = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
    let whole = text.get(begin..).unwrap_or_default().lines().next().unwrap_or_default();
    let column = before.get(begin..).unwrap_or_default().chars().count();
    let covered = text.get(start..boundary(text, span.end).max(start)).unwrap_or_default();
    let width = covered.chars().take_while(|c| !matches!(c, '\n' | '\r')).count();
    let (source_line, caret) = shown(whole, column);
    let rest = source_line.chars().count().saturating_sub(caret);
    Problem {
        file: file.to_owned(),
        message: message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
        line,
        column: column.saturating_add(1),
        severity,
        source_line,
        caret,
        width: width.min(rest).max(1),
    }
}

/// The nearest character boundary at or before the offset.
fn boundary(text: &str, offset: usize) -> usize {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at = at.saturating_sub(1);
    }
    at
}

/// The line as it may be printed, and the caret's offset in it. A control character could drive the
/// terminal, so it never gets there.
fn shown(line: &str, before: usize) -> (String, usize) {
    let clean = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    let skip = match line.chars().count() > SHOWN_LINE {
        true => before.saturating_sub(SHOWN_BEFORE),
        false => 0,
    };
    let shown = line.chars().skip(skip).take(SHOWN_LINE).map(clean).collect();
    (shown, before.saturating_sub(skip))
}
