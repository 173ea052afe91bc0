//! The document as typed, with secrets hidden, for eyes that may see the rest.

use serde_json::{Map, Value as Json, json};

use crate::problem::Problems;
use crate::report::Report;
use crate::source::Source;
use crate::tree::{Node, Value};

/// What stands in place of a secret.
const HIDDEN: &str = "***";

/// A key with one of these anywhere in it holds a secret.
const PARTS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "authorization",
    "authentication",
    "cookie",
    "apikey",
    "accesskey",
    "privatekey",
    "signature",
];

/// A key with one of these as a word of its own holds a secret.
const WORDS: [&str; 8] = ["key", "keys", "auth", "pass", "pwd", "pin", "session", "private"];

/// Tables whose names only sound like secrets: each key in them is looked at.
const OPEN: [&str; 4] = ["basic_auth", "external_auth", "hmac_auth", "key_auth"];

/// The document as typed, as JSON: defaults are not filled in, the environment is not asked,
/// secrets are replaced by "***". A secret is what stands under a key that sounds like one, user
/// and password of an URL, and such a parameter in a query.
///
/// # Errors
/// The problems of a document that cannot be read. Its meaning is not checked.
pub fn redacted(source: &Source<'_>) -> Result<Json, Problems> {
    let report = Report::new(source.name, source.body());
    match crate::read_tree(source, &report) {
        Some(node) if !report.has_errors() => Ok(show(&node)),
        _ => Err(report.into_problems()),
    }
}

fn show(node: &Node) -> Json {
    match &node.value {
        Value::Null | Value::Faulty => Json::Null,
        Value::Bool(flag) => json!(flag),
        Value::Integer(number) => json!(number),
        Value::Float(number) => json!(number),
        Value::Text(text) => Json::String(mask(&text.value)),
        Value::List(list) => Json::Array(list.iter().map(show).collect()),
        Value::Table(entries) => {
            let show = |node: &Node, key: &str| {
                let open = OPEN.contains(&key) && matches!(node.value, Value::Table(_));
                if is_secret(key) && !open { hide(node) } else { show(node) }
            };
            let pairs = entries.iter().map(|it| (it.key.clone(), show(&it.node, &it.key)));
            Json::Object(pairs.collect::<Map<_, _>>())
        }
    }
}

/// The shape of a secret without its content.
fn hide(node: &Node) -> Json {
    match &node.value {
        Value::List(list) => Json::Array(list.iter().map(hide).collect()),
        Value::Table(entries) => {
            Json::Object(entries.iter().map(|it| (it.key.clone(), hide(&it.node))).collect())
        }
        _ => json!(HIDDEN),
    }
}

fn is_secret(key: &str) -> bool {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in key.chars() {
        // "apiKey" has two words, as "api_key" has.
        if !c.is_alphanumeric() || (c.is_uppercase() && lower) {
            words.push(String::new());
        }
        lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    let joined = words.concat();
    PARTS.iter().any(|part| joined.contains(part))
        || words.iter().any(|word| WORDS.contains(&word.as_str()))
}

/// Hides user and password of every URL in the text, and secret parameters of its query.
fn mask(text: &str) -> String {
    mask_parameters(&mask_users(text))
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

fn mask_parameters(text: &str) -> String {
    let Some((before, query)) = text.split_once('?') else { return text.to_owned() };
    let mask = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}={HIDDEN}"),
        _ => parameter.to_owned(),
    };
    let query: Vec<String> = query.split('&').map(mask).collect();
    format!("{before}?{}", query.join("&"))
}

#[cfg(test)]
mod tests;
