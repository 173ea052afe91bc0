//! Lowers TOML into the document tree.

use ::toml::Spanned;
use ::toml::de::{DeInteger, DeTable, DeValue};

use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::tree::{DEPTH, Entry, Node, Value};

/// The tree of a TOML text, or nothing if its syntax is broken; every flaw is in the report.
pub(crate) fn read(text: &str, report: &Report<'_>) -> Option<Node> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let broken = !errors.is_empty();
    for error in errors {
        let span = error.span().unwrap_or(text.len()..text.len());
        report.error(Span::new(span.start, span.end), Flaw::new(error.message().trim()));
    }
    if broken {
        // What the parser guessed after an error would only lead to problems nobody wrote.
        return None;
    }
    Some(Node::new(Span::default(), lower_table(table.get_ref(), report, 0)))
}

fn lower(value: &Spanned<DeValue<'_>>, report: &Report<'_>, depth: usize) -> Node {
    let span = Span::new(value.span().start, value.span().end);
    if depth > DEPTH {
        report.error(span, Flaw::new("nested too deeply"));
        return Node::new(span, Value::Faulty);
    }
    match value.get_ref() {
        DeValue::String(text) => Node::text(span, text.as_ref()),
        DeValue::Integer(number) => Node::new(span, lower_integer(number, span, report)),
        DeValue::Float(number) => {
            Node::new(span, Value::Float(number.as_str().parse().unwrap_or(f64::NAN)))
        }
        DeValue::Boolean(flag) => Node::new(span, Value::Bool(*flag)),
        DeValue::Datetime(_) => {
            report.error(
                span,
                Flaw::new("a date has no meaning here").with_help("write it in quotes"),
            );
            Node::new(span, Value::Faulty)
        }
        DeValue::Array(list) => {
            let nodes = list.iter().map(|item| lower(item, report, depth.saturating_add(1)));
            Node::new(span, Value::List(nodes.collect()))
        }
        DeValue::Table(table) => Node::new(span, lower_table(table, report, depth)),
    }
}

fn lower_integer(number: &DeInteger<'_>, span: Span, report: &Report<'_>) -> Value {
    match i64::from_str_radix(number.as_str(), number.radix()) {
        Ok(number) => Value::Integer(number),
        Err(_) => {
            report.error(span, Flaw::new("this number is too large"));
            Value::Faulty
        }
    }
}

fn lower_table(table: &DeTable<'_>, report: &Report<'_>, depth: usize) -> Value {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            span: Span::new(key.span().start, key.span().end),
            node: lower(value, report, depth.saturating_add(1)),
        })
        .collect();
    // The parser sorts by name; the order of the text decides between equal routes.
    entries.sort_by_key(|entry| entry.span);
    Value::Table(entries)
}
