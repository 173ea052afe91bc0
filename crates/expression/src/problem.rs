//! What is wrong with an expression, and where.

use std::fmt;
use std::ops::Range;

/// Why a condition or a template cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionProblem {
    /// What is wrong, for the user; one line without a full stop.
    pub message: String,
    /// The way out, where there is an obvious one.
    pub help: Option<String>,
    /// The bytes of the text that are at fault, on borders of characters; empty at its end where something is
    /// missing.
    pub span: Range<usize>,
}

impl ExpressionProblem {
    pub(crate) fn new(message: impl Into<String>, span: Range<usize>) -> Self {
        Self { message: message.into(), help: None, span }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for ExpressionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

impl std::error::Error for ExpressionProblem {}
