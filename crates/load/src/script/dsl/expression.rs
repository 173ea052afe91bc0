//! What stands behind a key in the DSL: values as in JSON, and what only assertions may hold.

use super::Stop;
use crate::script::problem::Span;
use crate::script::yaml::{Entry, Node, Scalar, Value};

/// A value, or what is asserted of one.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Scalar(Span, Scalar),
    List(Span, Vec<Self>),
    Table(Span, Vec<(String, Span, Self)>),
    /// `/pattern/`.
    Regex(Span, Scalar),
    /// `(a, b)`; with one item it only groups.
    Tuple(Span, Vec<Self>),
    /// `name(a, b)`.
    Call(Span, String, Vec<Self>),
    /// `> 5` and its like, by the name of the bound.
    Bound(Span, &'static str, Box<Self>),
    /// `== 5`.
    Equal(Span, Box<Self>),
    Not(Span, Box<Self>),
    And(Span, Vec<Self>),
    Or(Span, Vec<Self>),
}

impl Expression {
    pub(super) const fn span(&self) -> Span {
        match self {
            Self::Scalar(span, _)
            | Self::List(span, _)
            | Self::Table(span, _)
            | Self::Regex(span, _)
            | Self::Tuple(span, _)
            | Self::Call(span, ..)
            | Self::Bound(span, ..)
            | Self::Equal(span, _)
            | Self::Not(span, _)
            | Self::And(span, _)
            | Self::Or(span, _) => *span,
        }
    }
}

/// A value as YAML would have it.
///
/// # Errors
/// Something in it is for assertions only.
pub(super) fn plain(expression: Expression) -> Result<Node, Stop> {
    let span = expression.span();
    let value = match expression {
        Expression::Scalar(_, scalar) => Value::Scalar(scalar),
        Expression::List(_, list) => {
            Value::List(list.into_iter().map(plain).collect::<Result<_, _>>()?)
        }
        Expression::Table(_, fields) => {
            let entry = |(key, span, value)| Ok(Entry { key, span, node: plain(value)? });
            Value::Table(fields.into_iter().map(entry).collect::<Result<_, Stop>>()?)
        }
        _ => return Err((span, "this is for assertions only".to_owned())),
    };
    Ok(Node { span, value })
}
