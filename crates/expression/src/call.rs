//! Calls of functions: names, how many arguments, and of which type.

use std::ops::Range;

use crate::function::{Mapping, names};
use crate::nearest::nearest;
use crate::operand::{Operand, Value};
use crate::problem::ExpressionProblem;
use crate::share::Salt;
use crate::value::{Address, Number, Text};

/// A call as it was read.
pub(crate) struct Call<'t> {
    pub(crate) name: &'t str,
    /// Of the name.
    pub(crate) span: Range<usize>,
    /// Of all of it.
    pub(crate) whole: Range<usize>,
    pub(crate) arguments: Vec<Operand>,
}

/// The value that a call makes.
pub(crate) fn call(call: Call<'_>) -> Result<Operand, ExpressionProblem> {
    let whole = call.whole.clone();
    let value = match call.name {
        "default" => {
            let [text, instead] = call.arguments()?;
            let texts = [text.into_text()?, instead.into_text()?];
            Value::Text(Text::Default(Box::new(texts)))
        }
        "share" => {
            let [key, salt] = call.arguments()?;
            Value::Number(Number::Share(
                Box::new(key.into_text()?),
                Salt::new(&salt.into_constant()?),
            ))
        }
        "len" => Value::Number(Number::Length(call.text()?)),
        "number" => Value::Number(Number::Parsed(call.text()?)),
        "address" => Value::Address(Address::Parsed(call.text()?)),
        name => match Mapping::of(name) {
            Some(mapping) => Value::Text(Text::Mapped(mapping, call.text()?)),
            None => return Err(call.unknown()),
        },
    };
    Ok(Operand { value, span: whole })
}

impl Call<'_> {
    fn arguments<const N: usize>(self) -> Result<[Operand; N], ExpressionProblem> {
        let Self { name, whole, arguments, .. } = self;
        let count = arguments.len();
        <[Operand; N]>::try_from(arguments).map_err(|_| {
            let noun = if N == 1 { "argument" } else { "arguments" };
            ExpressionProblem::new(format!("{name} takes {N} {noun}, here are {count}"), whole)
        })
    }

    fn text(self) -> Result<Box<Text>, ExpressionProblem> {
        let [text] = self.arguments()?;
        text.into_text().map(Box::new)
    }

    fn unknown(self) -> ExpressionProblem {
        let message = format!("there is no function '{}'", self.name);
        let help = match nearest(self.name, names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there are: {}", names().collect::<Vec<_>>().join(", ")),
        };
        ExpressionProblem::new(message, self.span).with_help(help)
    }
}
