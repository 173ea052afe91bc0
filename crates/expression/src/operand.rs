//! What stands beside an operator, with its type.

use std::ops::Range;

use crate::problem::ExpressionProblem;
use crate::truth::Truth;
use crate::value::{Address, Number, Text};

/// A value of any type, as it is compiled.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Truth(Truth),
    Text(Text),
    Number(Number),
    Address(Address),
    /// Constants and where they stand.
    List(Vec<(Constant, Range<usize>)>),
}

/// A member of a list.
#[derive(Clone, Debug)]
pub(crate) enum Constant {
    Text(String),
    Number(u64),
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) value: Value,
    pub(crate) span: Range<usize>,
}

impl Operand {
    /// The type as users call it.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.value {
            Value::Truth(_) => "a truth",
            Value::Text(_) => "a text",
            Value::Number(_) => "a number",
            Value::Address(_) => "an address",
            Value::List(_) => "a list",
        }
    }

    /// As something that holds or does not: a text holds if it is there.
    pub(crate) fn into_truth(self) -> Result<Truth, ExpressionProblem> {
        let kind = self.kind();
        match self.value {
            Value::Truth(truth) => Ok(truth),
            Value::Text(Text::Literal(_)) => {
                Err(ExpressionProblem::new("a constant text is no condition", self.span))
            }
            Value::Text(Text::Header(name)) => Ok(Truth::HasHeader(name)),
            Value::Text(text) => Ok(Truth::Present(text)),
            Value::Number(_) | Value::Address(_) | Value::List(_) => {
                Err(ExpressionProblem::new(format!("{kind} is no condition"), self.span)
                    .with_help("compare it with something"))
            }
        }
    }

    /// As a text: numbers and addresses are written out.
    pub(crate) fn into_text(self) -> Result<Text, ExpressionProblem> {
        let kind = self.kind();
        match self.value {
            Value::Text(text) => Ok(text),
            Value::Number(number) => Ok(Text::Number(Box::new(number))),
            Value::Address(address) => Ok(Text::Address(Box::new(address))),
            Value::Truth(_) | Value::List(_) => {
                Err(ExpressionProblem::new(format!("a text is wanted, this is {kind}"), self.span))
            }
        }
    }

    /// As a constant text.
    pub(crate) fn into_constant(self) -> Result<Box<[u8]>, ExpressionProblem> {
        match self.value {
            Value::Text(Text::Literal(text)) => Ok(text),
            _ => Err(ExpressionProblem::new("a constant text is wanted here", self.span)
                .with_help("write it in quotes")),
        }
    }
}
