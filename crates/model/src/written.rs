//! Where a part of the configuration is written, for what turns out to be wrong with it after it was read.

use crate::place::Span;
use crate::problem::{Flaw, Problem, Severity};
use crate::report::Report;

/// The place of a part of the document. Equal to every other place: a part means the same wherever it stands.
#[derive(Clone, Debug)]
pub struct Written(Box<Problem>);

impl Written {
    pub(crate) fn at(span: Span, report: &Report<'_>) -> Self {
        Self(Box::new(report.problem_at(span, Severity::Error, Flaw::new(""))))
    }

    /// An error at this place.
    #[must_use]
    pub fn error(&self, message: &str, help: &str) -> Problem {
        self.0.saying(message, help)
    }
}

impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Written {}
