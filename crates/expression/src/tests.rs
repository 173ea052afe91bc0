//! Expressions as users write them, judged for exchanges of all kinds.

mod hostile;
mod problems;
mod subject;
mod templates;
mod truths;

use crate::{Condition, ExpressionProblem, Phase, Scope};

fn scope() -> Scope {
    Scope::new(Phase::Response)
}

fn compile(text: &str) -> Condition {
    let compiled = Condition::compile(text, &scope());
    compiled.unwrap_or_else(|problem| panic!("{text}: {problem}"))
}

fn problem(text: &str, scope: &Scope) -> ExpressionProblem {
    let compiled = Condition::compile(text, scope);
    compiled.err().unwrap_or_else(|| panic!("{text} is taken"))
}
