//! Collects the problems of one document while it is read.

use std::cell::RefCell;

use crate::place::{Lines, Span};
use crate::problem::{Flaw, Problem, Problems, Severity};

/// More problems than this help nobody, and a hostile document must not make us hold millions.
const MOST: usize = 100;

/// Where readers leave what they find; reading goes on after every problem.
pub(crate) struct Report<'a> {
    file: &'a str,
    lines: Lines<'a>,
    list: RefCell<Vec<(Span, Problem)>>,
    /// Which keys of which section were asked for: the tests compare it with the tables.
    #[cfg(test)]
    pub(crate) asked: RefCell<std::collections::BTreeSet<(&'static str, &'static str)>>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self {
            file,
            lines: Lines::new(text),
            list: RefCell::default(),
            #[cfg(test)]
            asked: RefCell::default(),
        }
    }

    pub(crate) fn lines(&self) -> &Lines<'a> {
        &self.lines
    }

    pub(crate) fn error(&self, span: Span, flaw: Flaw) {
        self.add(span, Severity::Error, flaw);
    }

    pub(crate) fn warning(&self, span: Span, flaw: Flaw) {
        self.add(span, Severity::Warning, flaw);
    }

    /// The value, or nothing and the flaw noted at its place.
    pub(crate) fn accept<T>(&self, span: Span, result: Result<T, Flaw>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(flaw) => {
                self.error(span, flaw);
                None
            }
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.list.borrow().iter().any(|(_, problem)| problem.severity == Severity::Error)
    }

    /// Whether further errors are dropped: then no work goes into them either.
    pub(crate) fn is_full(&self) -> bool {
        self.count(Severity::Error) >= MOST
    }

    fn count(&self, severity: Severity) -> usize {
        self.list.borrow().iter().filter(|(_, problem)| problem.severity == severity).count()
    }

    fn add(&self, span: Span, severity: Severity, flaw: Flaw) {
        // Counted apart: warnings must not keep errors out.
        if self.count(severity) >= MOST {
            return;
        }
        let problem = self.problem_at(span, severity, flaw);
        let mut list = self.list.borrow_mut();
        // One value read under two rules would say the same thing twice.
        if !list.iter().any(|(_, known)| *known == problem) {
            list.push((span, problem));
        }
    }

    /// A problem at this place, which is not reported.
    pub(crate) fn problem_at(&self, span: Span, severity: Severity, flaw: Flaw) -> Problem {
        Problem::at(self.file, &self.lines, span, severity, flaw)
    }

    /// Everything found, in the order of the text.
    pub(crate) fn into_list(self) -> Vec<Problem> {
        let mut list = self.list.into_inner();
        list.sort_by_key(|(span, problem)| (span.start, problem.severity));
        list.into_iter().map(|(_, problem)| problem).collect()
    }

    pub(crate) fn into_problems(self) -> Problems {
        Problems { list: self.into_list() }
    }
}
