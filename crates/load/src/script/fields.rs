//! Reads the values of a table by name and type, and complains about names nobody asked for.

use super::problem::{Report, Span};
use super::yaml::{Entry, Node, Scalar, Style, Value};

/// A table whose fields are taken out one by one.
pub(crate) struct Fields<'t> {
    entries: &'t [Entry],
    known: Vec<&'static str>,
    /// What the table is called in messages.
    what: &'static str,
    /// The whole table.
    pub(crate) span: Span,
}

impl<'t> Fields<'t> {
    /// The fields of a node that should be a table.
    pub(crate) fn of(node: &'t Node, what: &'static str, report: &mut Report<'_>) -> Option<Self> {
        match &node.value {
            Value::Table(entries) => {
                Some(Self { entries, known: Vec::new(), what, span: node.span })
            }
            _ => {
                report.error(node.span, format!("{what} is a table, not {}", node.kind()));
                None
            }
        }
    }

    /// The value of a field, if one was written.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<&'t Node> {
        self.known.push(name);
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        (!entry.node.is_null()).then_some(&entry.node)
    }

    /// A text; numbers and flags are texts too.
    pub(crate) fn text(
        &mut self,
        name: &'static str,
        report: &mut Report<'_>,
    ) -> Option<(&'t str, Span)> {
        let node = self.take(name)?;
        text(node, name, report).map(|text| (text, node.span))
    }

    /// A text that must be there.
    pub(crate) fn required(
        &mut self,
        name: &'static str,
        report: &mut Report<'_>,
    ) -> Option<(&'t str, Span)> {
        let missing = self.entries.iter().all(|entry| entry.key != name);
        let value = self.text(name, report);
        if value.is_none() && missing {
            let head = Span::new(self.span.start, self.span.start);
            report.error(head, format!("{} needs `{name}`", self.what));
        }
        value
    }

    /// A whole number.
    pub(crate) fn integer(&mut self, name: &'static str, report: &mut Report<'_>) -> Option<i64> {
        let node = self.take(name)?;
        let number = text(node, name, report)?.trim().parse().ok();
        if number.is_none() {
            report.error(node.span, format!("`{name}` is a whole number"));
        }
        number
    }

    /// A whole number that is not negative.
    pub(crate) fn count(&mut self, name: &'static str, report: &mut Report<'_>) -> Option<u64> {
        let node = self.take(name)?;
        let number = text(node, name, report)?.trim().parse().ok();
        if number.is_none() {
            report.error(node.span, format!("`{name}` is a whole number, 0 or more"));
        }
        number
    }

    /// A flag, false if it is not written.
    pub(crate) fn flag(&mut self, name: &'static str, report: &mut Report<'_>) -> bool {
        self.flag_or(name, false, report)
    }

    /// A flag with a default.
    pub(crate) fn flag_or(
        &mut self,
        name: &'static str,
        default: bool,
        report: &mut Report<'_>,
    ) -> bool {
        let Some(node) = self.take(name) else { return default };
        match text(node, name, report) {
            Some("true" | "True" | "TRUE") => true,
            Some("false" | "False" | "FALSE") => false,
            Some(_) => {
                report.error(node.span, format!("`{name}` is true or false"));
                default
            }
            None => default,
        }
    }

    /// The items of a list; nothing if it is not written.
    pub(crate) fn list(&mut self, name: &'static str, report: &mut Report<'_>) -> &'t [Node] {
        match self.take(name) {
            Some(Node { value: Value::List(list), .. }) => list,
            Some(node) => {
                report.error(node.span, format!("`{name}` is a list, not {}", node.kind()));
                &[]
            }
            None => &[],
        }
    }

    /// Pairs of a table, or of a list of tables: `a: b` and `- a: b` mean the same.
    pub(crate) fn pairs(&mut self, name: &'static str, report: &mut Report<'_>) -> Vec<&'t Entry> {
        match self.take(name) {
            Some(Node { value: Value::Table(entries), .. }) => entries.iter().collect(),
            Some(Node { value: Value::List(list), .. }) => {
                let mut pairs = Vec::new();
                for node in list {
                    match &node.value {
                        Value::Table(entries) => pairs.extend(entries),
                        _ => report.error(node.span, format!("`{name}` holds pairs `key: value`")),
                    }
                }
                pairs
            }
            Some(node) => {
                report.error(node.span, format!("`{name}` holds pairs `key: value`"));
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Complains about every field that was not asked for.
    pub(crate) fn finish(self, report: &mut Report<'_>) {
        for entry in self.unknown() {
            let mut known = self.known.clone();
            known.sort_unstable();
            report.error(
                entry.span,
                format!("{} has no `{}`; it knows {}", self.what, entry.key, known.join(", ")),
            );
        }
    }

    /// The fields nobody asked for.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = &'t Entry> {
        self.entries.iter().filter(|entry| !self.known.contains(&entry.key.as_str()))
    }
}

/// The text of a single value.
pub(crate) fn text<'t>(node: &'t Node, name: &str, report: &mut Report<'_>) -> Option<&'t str> {
    match &node.value {
        Value::Scalar(scalar) => Some(&scalar.text),
        _ => {
            report.error(node.span, format!("`{name}` is a single value, not {}", node.kind()));
            None
        }
    }
}

/// What a scalar means under the YAML 1.2 core schema (section 10.3.2).
pub(crate) fn meaning(scalar: &Scalar) -> serde_json::Value {
    use serde_json::Value as Json;
    let text = scalar.text.as_str();
    if scalar.style == Style::Quoted {
        return Json::from(text);
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Json::Null,
        "true" | "True" | "TRUE" => return Json::Bool(true),
        "false" | "False" | "FALSE" => return Json::Bool(false),
        _ => {}
    }
    if let Ok(number) = text.parse::<i64>() {
        return Json::from(number);
    }
    if text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
        && let Ok(number) = text.parse::<f64>()
    {
        return Json::from(number);
    }
    Json::from(text)
}
