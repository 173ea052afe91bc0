//! Edits of the query.

use regex::bytes::{Regex, RegexBuilder};
use sluice_expression::Template;
use sluice_filter::RequestContext;
use sluice_message::pair::{decoded, is_encoded, query_pairs};

use crate::reference::{push_query_value, push_target};

/// Something that happens to the query.
#[derive(Clone, Debug)]
pub enum QueryEdit {
    /// Arguments of these names are taken out.
    Remove(QueryNames),
    /// Arguments of the first name get the second.
    Rename(Box<str>, Box<str>),
    /// Arguments of this name have these values and no others.
    Set(Box<str>, Vec<Template>),
    /// Arguments are added.
    Add(Box<str>, Vec<Template>),
}

/// Names of arguments.
#[derive(Clone, Debug)]
pub enum QueryNames {
    /// This one.
    Exact(Box<str>),
    /// Those that begin so.
    Prefix(Box<str>),
    /// Those in which this is found.
    Regex(Regex),
}

impl QueryNames {
    /// Those in which this expression is found.
    ///
    /// # Errors
    /// Why it is none.
    pub fn of_expression(expression: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(expression).unicode(false).build();
        regex.map(Self::Regex).map_err(|error| error.to_string())
    }

    fn hold(&self, name: &[u8]) -> bool {
        match self {
            Self::Exact(known) => known.as_bytes() == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_bytes()),
            Self::Regex(regex) => regex.is_match(name),
        }
    }
}

/// Appends question mark and query: what the path brought along, then the client's, edited.
pub(super) fn write(
    edits: &[QueryEdit],
    context: &RequestContext<'_>,
    brought: &[u8],
    out: &mut Vec<u8>,
) {
    let start = out.len();
    if !brought.is_empty() {
        begin(start, out);
        push_target(brought, out);
    }
    let query = context.request.query();
    if edits.is_empty() {
        if !query.is_empty() {
            begin(start, out);
            out.extend_from_slice(query);
        }
        return;
    }
    for (name, value) in query_pairs(query) {
        pair(edits, (name, value), start, out);
    }
    for edit in edits {
        let (QueryEdit::Set(name, values) | QueryEdit::Add(name, values)) = edit else { continue };
        for value in values {
            add(name, value, context, (start, out));
        }
    }
}

/// Appends an argument of the client, if it stays.
fn pair(edits: &[QueryEdit], (name, value): (&[u8], &[u8]), start: usize, out: &mut Vec<u8>) {
    let plain: Vec<u8>;
    let known = if is_encoded(name) {
        plain = decoded(name).collect();
        &plain
    } else {
        name
    };
    let mut renamed = None;
    for edit in edits {
        match edit {
            QueryEdit::Remove(names) if names.hold(known) => return,
            QueryEdit::Set(name, _) if name.as_bytes() == known => return,
            QueryEdit::Rename(old, new) if old.as_bytes() == known => renamed = Some(new),
            _ => {}
        }
    }
    begin(start, out);
    match renamed {
        Some(new) => push_query_value(new.as_bytes(), out),
        None => out.extend_from_slice(name),
    }
    if !value.is_empty() {
        out.push(b'=');
        out.extend_from_slice(value);
    }
}

/// Appends an argument; one that is absent altogether is none.
fn add(
    name: &str,
    value: &Template,
    context: &RequestContext<'_>,
    (start, out): (usize, &mut Vec<u8>),
) {
    let before = out.len();
    begin(start, out);
    push_query_value(name.as_bytes(), out);
    out.push(b'=');
    let empty = out.len();
    let mut text = Vec::new();
    let rendered = value.render(&context.view(), &mut text);
    push_query_value(&text, out);
    if rendered.is_err() || (out.len() == empty && value.as_constant().is_none()) {
        out.truncate(before);
    }
}

fn begin(start: usize, out: &mut Vec<u8>) {
    out.push(if out.len() == start { b'?' } else { b'&' });
}
