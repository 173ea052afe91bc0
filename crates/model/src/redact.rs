//! The document as typed, with everything hidden that may hold a secret, for eyes that may see the rest.
//!
//! What is shown follows from the sections: values that cannot hold a secret by their kind, such as numbers, and texts
//! whose noun stands in [`SHOWN`]. Everything else is hidden, a field that comes later among it.

use serde_json::{Map, Value as Json, json};

use crate::model::ROOT;
use crate::problem::Problems;
use crate::report::Report;
use crate::section::{Kind, Section};
use crate::source::Source;
use crate::tree::{Entry, Node, Value};

/// What stands in place of a secret.
const HIDDEN: &str = "***";

/// What texts are that hold no secret, by the nouns of [`Kind`]: names, places, and words of protocols. Texts that
/// users write freely are not among them, nor are templates, conditions, expressions, patterns and scripts: any of
/// them may compare with a secret or send one. User, password and query of a URL are hidden all the same.
const SHOWN: [&str; 55] = [
    "AF, AN, AS, EU, NA, OC or SA",
    "ISO code of a country",
    "URL",
    "`files` or `processes`",
    "address",
    "address of a name server",
    "address or network",
    "address, or \"off\"",
    "algorithm",
    "character set",
    "cipher suite",
    "claim",
    "cookie name",
    "domain",
    "duration",
    "encoding",
    "file",
    "file name",
    "file with a certificate and its key",
    "filter name",
    "folder",
    "group",
    "header name",
    "header name, or beginning and `*`",
    "hmac-sha256, hmac-sha384 or hmac-sha512",
    "host",
    "host name",
    "host, or `*.host` for all below it",
    "kind of filter",
    "listener name",
    "media type",
    "method",
    "method, or \"original\"",
    "name",
    "name, or beginning and `*`",
    "network",
    "new name",
    "number of an autonomous system",
    "origin",
    "parameter name",
    "path",
    "rate",
    "scheme, host, path, query, header:NAME or cookie:NAME",
    "scope",
    "server address",
    "service name",
    "share",
    "share such as \"10%\"",
    "share such as \"50%\"",
    "share such as \"50%\", or \"off\"",
    "size, percentage, or \"off\"",
    "upstream",
    "upstream name",
    "upstream name or server address",
    "version",
];

/// The document as typed, as JSON: defaults are not filled in, the environment is not asked, and whatever may be a
/// secret is replaced by "***".
///
/// # Errors
/// The problems of a document that cannot be read. Its meaning is not checked.
pub fn redacted(source: &Source<'_>) -> Result<Json, Problems> {
    let report = Report::new(source.name, source.body());
    match crate::read_tree(source, &report) {
        Some(node) if !report.has_errors() => Ok(show_table(&node, &ROOT)),
        _ => Err(report.into_problems()),
    }
}

fn show_table(node: &Node, section: &Section) -> Json {
    let Value::Table(entries) = &node.value else { return hide(node) };
    object(entries, |entry| match section.key(&entry.key) {
        Some(key) => show(&entry.node, &key.kind),
        None => hide(&entry.node),
    })
}

fn object(entries: &[Entry], value: impl Fn(&Entry) -> Json) -> Json {
    Json::Object(entries.iter().map(|it| (it.key.clone(), value(it))).collect::<Map<_, _>>())
}

fn show(node: &Node, kind: &Kind) -> Json {
    match (kind, &node.value) {
        (
            Kind::Flag
            | Kind::Integer { .. }
            | Kind::Size { .. }
            | Kind::Duration { .. }
            | Kind::Word(_),
            Value::Table(_) | Value::List(_),
        ) => hide(node),
        // What is no text of the kind would not have been accepted.
        (
            Kind::Flag
            | Kind::Integer { .. }
            | Kind::Size { .. }
            | Kind::Duration { .. }
            | Kind::Word(_),
            _,
        ) => plain(node),
        (Kind::Text(noun) | Kind::Texts(noun), _) => show_texts(node, noun),
        (Kind::Pairs(noun) | Kind::PairLists(noun), Value::Table(entries)) => {
            object(entries, |entry| show_texts(&entry.node, noun))
        }
        (Kind::Tables(_) | Kind::Shorts(..), Value::List(list)) => {
            Json::Array(list.iter().map(|node| show(node, kind)).collect())
        }
        (Kind::Table(section) | Kind::Tables(section), _) => show_table(node, section),
        (Kind::Named(section), Value::Table(entries)) => {
            object(entries, |entry| show_table(&entry.node, section))
        }
        (Kind::Short(_, section) | Kind::Shorts(_, section), Value::Table(_)) => {
            show_table(node, section)
        }
        (Kind::Short(noun, _) | Kind::Shorts(noun, _), _) => show_texts(node, noun),
        (Kind::Pairs(_) | Kind::PairLists(_) | Kind::Named(_), _) => hide(node),
    }
}

/// One text, or a list of them.
fn show_texts(node: &Node, noun: &str) -> Json {
    match &node.value {
        Value::List(list) => Json::Array(list.iter().map(|it| show_texts(it, noun)).collect()),
        Value::Table(_) => hide(node),
        _ if SHOWN.contains(&noun) => plain(node),
        _ => hide(node),
    }
}

/// A value that holds no secret, but for what stands inside a URL.
fn plain(node: &Node) -> Json {
    match &node.value {
        Value::Bool(flag) => json!(flag),
        Value::Integer(number) => json!(number),
        Value::Float(number) => json!(number),
        Value::Text(text) => Json::String(mask(&text.value)),
        Value::Null | Value::Faulty => Json::Null,
        Value::List(_) | Value::Table(_) => hide(node),
    }
}

/// The shape of a secret without its content.
fn hide(node: &Node) -> Json {
    match &node.value {
        Value::List(list) => Json::Array(list.iter().map(hide).collect()),
        Value::Table(entries) => object(entries, |entry| hide(&entry.node)),
        _ => json!(HIDDEN),
    }
}

/// Hides user, password and query of every URL in the text.
fn mask(text: &str) -> String {
    mask_query(&mask_users(text))
}

fn mask_users(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        // RFC 3986 section 3.2: the authority ends at the first of these.
        let end = after.find(['/', '?', '#', ' ', '"', '\'']).unwrap_or(after.len());
        let (authority, tail) = after.split_at_checked(end).unwrap_or((after, ""));
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                out.push_str(HIDDEN);
                out.push('@');
                out.push_str(host);
            }
            None => out.push_str(authority),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

fn mask_query(text: &str) -> String {
    let Some((before, query)) = text.split_once('?') else { return text.to_owned() };
    let mask = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) => format!("{name}={HIDDEN}"),
        None => HIDDEN.to_owned(),
    };
    let query: Vec<String> = query.split('&').map(mask).collect();
    format!("{before}?{}", query.join("&"))
}

#[cfg(test)]
mod tests;
