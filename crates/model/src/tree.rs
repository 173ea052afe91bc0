//! The document as typed: one small tree with a span on every key and value, for TOML and YAML.

use crate::place::Span;

/// Deeper nesting than this is refused: nothing in the language needs it, and readers recurse.
pub(crate) const DEPTH: usize = 32;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// What may be written as a value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A key without a value; YAML only.
    Null,
    /// A value whose problem is reported already; readers pass it over in silence.
    Faulty,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(Text),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A string value.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) value: String,
    /// Whether the environment had a part in it: then it may stand for a number or a flag.
    pub(crate) expanded: bool,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) span: Span,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn new(span: Span, value: Value) -> Self {
        Self { span, value }
    }

    pub(crate) fn text(span: Span, value: impl Into<String>) -> Self {
        Self { span, value: Value::Text(Text { value: value.into(), expanded: false }) }
    }

    /// The kind of value in words, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null | Value::Faulty => "nothing",
            Value::Bool(_) => "a flag",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a fraction",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}
