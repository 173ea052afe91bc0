//! Assertions of the DSL as conditions on a response.

use super::Stop;
use super::expression::{Expression, plain};
use crate::script::problem::Span;
use crate::script::yaml::{Entry, Node, Value};

const STATUS: &str = "_ctx.response.status";
const BODY: &str = "_ctx.response.body_json";

/// The condition of `assert: ...`; nothing if it asserts nothing.
///
/// # Errors
/// What cannot be asserted.
pub(super) fn asserted(value: Expression) -> Result<Option<Node>, Stop> {
    match value {
        Expression::Tuple(span, items) => {
            let mut conditions = Vec::new();
            for (index, item) in items.into_iter().enumerate() {
                conditions.extend(match (index, &item) {
                    (0, Expression::Table(..)) | (1, _) => body(item)?,
                    (0, _) => status(item)?,
                    _ => return Err((span, "an assertion is (STATUS, BODY)".to_owned())),
                });
            }
            Ok(all(conditions))
        }
        // Paths in full.
        Expression::Table(_, fields) => {
            let mut conditions = Vec::new();
            for (key, _, value) in fields {
                conditions.extend(condition(value, &key)?);
            }
            Ok(all(conditions))
        }
        other => status(other),
    }
}

/// What is asserted of the status.
///
/// # Errors
/// What cannot be asserted.
pub(super) fn status(value: Expression) -> Result<Option<Node>, Stop> {
    condition(value, STATUS)
}

/// What is asserted of the body, which is JSON.
///
/// # Errors
/// What cannot be asserted.
pub(super) fn body(value: Expression) -> Result<Option<Node>, Stop> {
    condition(value, BODY)
}

/// All of these together; nothing if there is none.
pub(super) fn all(mut conditions: Vec<Node>) -> Option<Node> {
    if conditions.len() < 2 {
        return conditions.pop();
    }
    let start = conditions.first().map_or(0, |first| first.span.start);
    let end = conditions.last().map_or(0, |last| last.span.end);
    Some(table(Span::new(start, end), "and", Value::List(conditions)))
}

fn condition(value: Expression, path: &str) -> Result<Option<Node>, Stop> {
    let span = value.span();
    let operator = |name: &str, value: Node| Some(table(span, name, on(path, value).value));
    Ok(match value {
        Expression::Scalar(..) => operator("equals", plain(value)?),
        Expression::Regex(span, scalar) => {
            operator("regexp", Node { span, value: Value::Scalar(scalar) })
        }
        Expression::Equal(_, value) => operator("equals", plain(*value)?),
        Expression::Bound(_, bound, value) => {
            let value = plain(*value)?;
            operator("range", table(span, bound, value.value))
        }
        Expression::List(_, list) => {
            let mut conditions = Vec::new();
            for (index, item) in list.into_iter().enumerate() {
                conditions.extend(condition(item, &format!("{path}.{index}"))?);
            }
            all(conditions)
        }
        Expression::Table(_, fields) => {
            let mut conditions = Vec::new();
            for (key, _, value) in fields {
                conditions.extend(condition(value, &format!("{path}.{key}"))?);
            }
            all(conditions)
        }
        Expression::Tuple(_, mut items) => match (items.pop(), items.is_empty()) {
            (Some(item), true) => condition(item, path)?,
            _ => return Err((span, "one value was expected in these parentheses".to_owned())),
        },
        Expression::Not(_, value) => {
            condition(*value, path)?.map(|inner| table(span, "not", inner.value))
        }
        Expression::And(_, list) => joined("and", span, (list, path))?,
        Expression::Or(_, list) => joined("or", span, (list, path))?,
        Expression::Call(_, name, arguments) => Some(call((&name, span), arguments, path)?),
    })
}

fn joined(
    name: &str,
    span: Span,
    (list, path): (Vec<Expression>, &str),
) -> Result<Option<Node>, Stop> {
    let mut conditions = Vec::new();
    for item in list {
        conditions.extend(condition(item, path)?);
    }
    Ok((!conditions.is_empty()).then(|| table(span, name, Value::List(conditions))))
}

/// `in([1, 2])` and its like: the condition of that name.
fn call((name, span): (&str, Span), arguments: Vec<Expression>, path: &str) -> Result<Node, Stop> {
    let mut arguments = arguments.into_iter();
    match (arguments.next(), arguments.next()) {
        (None, _) => {
            let text = crate::script::yaml::Scalar {
                text: path.to_owned(),
                style: crate::script::yaml::Style::Quoted,
            };
            let only = Node { span, value: Value::Scalar(text) };
            Ok(table(span, name, Value::List(vec![only])))
        }
        (Some(value), None) => Ok(table(span, name, on(path, plain(value)?).value)),
        _ => Err((span, format!("`{name}` takes one value"))),
    }
}

/// A value at a path.
fn on(path: &str, value: Node) -> Node {
    let span = value.span;
    table(span, path, value.value)
}

fn table(span: Span, key: &str, value: Value) -> Node {
    let node = Node { span, value };
    Node { span, value: Value::Table(vec![Entry { key: key.to_owned(), span, node }]) }
}
