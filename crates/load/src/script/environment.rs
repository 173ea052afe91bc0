//! Replaces `$[[env.NAME]]` by what the script's `env` section or the environment says.

use std::collections::HashMap;

use super::fields;
use super::problem::{Report, Span};
use super::yaml::{Entry, Node, Value};

/// How a template begins and ends.
pub(crate) const OPEN: &str = "$[[";
/// See [`OPEN`].
pub(crate) const CLOSE: &str = "]]";

/// Expands every value of the document but those of `env` itself. `environment` overrides what `env`
/// says, and has names that it does not declare.
pub(crate) fn expand(
    document: &mut [Entry],
    environment: &dyn Fn(&str) -> Option<String>,
    report: &mut Report<'_>,
) {
    let declared = declared(document, environment, report);
    let known = |name: &str| declared.get(name).cloned().or_else(|| environment(name));
    for entry in document.iter_mut().filter(|entry| entry.key != "env") {
        walk(&mut entry.node, &known, report);
    }
}

fn declared(
    document: &[Entry],
    environment: &dyn Fn(&str) -> Option<String>,
    report: &mut Report<'_>,
) -> HashMap<String, String> {
    let Some(section) = document.iter().find(|entry| entry.key == "env") else {
        return HashMap::new();
    };
    let Value::Table(entries) = &section.node.value else {
        if !section.node.is_null() {
            report.error(section.node.span, "`env` holds pairs `NAME: default`");
        }
        return HashMap::new();
    };
    let mut names = HashMap::new();
    for entry in entries {
        let default = if entry.node.is_null() {
            Some("")
        } else {
            fields::text(&entry.node, &entry.key, report)
        };
        if let Some(default) = default {
            let value = environment(&entry.key).unwrap_or_else(|| default.to_owned());
            names.insert(entry.key.clone(), value);
        }
    }
    names
}

fn walk(node: &mut Node, names: &dyn Fn(&str) -> Option<String>, report: &mut Report<'_>) {
    let span = node.span;
    match &mut node.value {
        Value::Scalar(scalar) => {
            if scalar.text.contains("$[[env.") {
                scalar.text = replaced(&scalar.text, span, names, report);
            }
        }
        Value::List(list) => list.iter_mut().for_each(|node| walk(node, names, report)),
        Value::Table(entries) => {
            entries.iter_mut().for_each(|entry| walk(&mut entry.node, names, report));
        }
    }
}

fn replaced(
    text: &str,
    span: Span,
    names: &dyn Fn(&str) -> Option<String>,
    report: &mut Report<'_>,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$[[env.") {
        out.push_str(before);
        let Some((name, behind)) = after.split_once(CLOSE) else {
            // The reader of templates complains about it.
            out.push_str("$[[env.");
            rest = after;
            continue;
        };
        match names(name) {
            Some(value) => out.push_str(&value),
            None => report.error(
                place(report.text(), span, &format!("$[[env.{name}]]")),
                format!(
                    "`{name}` is not set: set it in the environment, or add `{name}: a default` \
                     under `env`"
                ),
            ),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Where `needle` stands inside a value; the whole value if it is not there as typed.
pub(crate) fn place(text: &str, span: Span, needle: &str) -> Span {
    let inside = text.get(span.start..span.end).unwrap_or_default();
    inside.find(needle).map_or(span, |at| {
        let start = span.start.saturating_add(at);
        Span::new(start, start.saturating_add(needle.len()))
    })
}
