//! Conditions and templates, checked where they are written.

use sluice_expression::{Condition, ExpressionProblem, Scope, Template};

use crate::fields::{Fields, Phrase};
use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;

/// A condition or a template that is known to be right: its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression(pub String);

/// The condition under a key, if one is written.
pub(crate) fn read_condition(
    fields: &Fields<'_, '_>,
    key: &str,
    scope: &Scope,
) -> Option<Expression> {
    condition(fields.text(key)?, scope, fields.report)
}

/// This condition.
pub(crate) fn condition(
    written: Phrase<'_>,
    scope: &Scope,
    report: &Report<'_>,
) -> Option<Expression> {
    accept(written, Condition::compile(written.text, scope).map(drop), report)
}

/// The template under a key, if one is written.
pub(crate) fn read_template(
    fields: &Fields<'_, '_>,
    key: &str,
    scope: &Scope,
) -> Option<Expression> {
    template(fields.text(key)?, scope, fields.report)
}

/// This template.
pub(crate) fn template(
    written: Phrase<'_>,
    scope: &Scope,
    report: &Report<'_>,
) -> Option<Expression> {
    accept(written, Template::compile(written.text, scope).map(drop), report)
}

fn accept(
    written: Phrase<'_>,
    compiled: Result<(), ExpressionProblem>,
    report: &Report<'_>,
) -> Option<Expression> {
    let Err(problem) = compiled else { return Some(Expression(written.text.to_owned())) };
    let mut flaw = Flaw::new(problem.message);
    flaw.help = problem.help;
    report.error(place(written, problem.span, report), flaw);
    None
}

/// Where the fault stands in the document: within the text as it was typed, if that is the text as it is
/// meant, and else the whole of it.
fn place(written: Phrase<'_>, fault: std::ops::Range<usize>, report: &Report<'_>) -> Span {
    let typed = report.lines().slice(written.span);
    match typed.find(written.text) {
        Some(start) if !written.text.is_empty() => {
            let start = written.span.start.saturating_add(start);
            Span::new(start.saturating_add(fault.start), start.saturating_add(fault.end))
        }
        _ => written.span,
    }
}
