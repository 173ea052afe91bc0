//! The actions that answer by themselves: respond and redirect.

use std::path::{Path, PathBuf};

use sluice_expression::{Scope, Template};

use crate::expression::{Expression, template};
use crate::fields::{Fields, Phrase};
use crate::header::{parse_field_value, parse_response_field};
use crate::media::media_type;
use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::section::{Key, Kind, Preset, Section};
use crate::tree::{Node, Value};

/// A response written in the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Respond {
    /// The status, 200 to 599.
    pub status: u16,
    /// The header fields, names as typed. Holds a content type if there is a body.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: BodySource,
}

/// Where the body of a response comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum BodySource {
    /// From the configuration.
    Text(String),
    /// From a file, read once when the configuration is loaded.
    File(PathBuf),
}

/// A response that sends the client elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Redirect {
    /// The Location; `{scheme}`, `{host}`, `{path}` and `{query}` are those of the request.
    pub to: String,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

pub(crate) static RESPOND: Section = Section {
    name: "route.respond",
    doc: "A response written down here. The short form, `respond = \"Hello\"`, is its body.",
    keys: &[
        Key {
            name: "status",
            kind: Kind::Integer { min: 200, max: 599, word: None },
            preset: Preset::Value("200"),
            doc: "The status of the response.",
        },
        Key {
            name: "headers",
            kind: Kind::PairLists("header value"),
            preset: Preset::Absent("a content type that fits the body"),
            doc: "Header fields of the response. Length and connection are written by the \
                  server itself.",
        },
        Key {
            name: "body",
            kind: Kind::Text("text"),
            preset: Preset::Absent("no body"),
            doc: "The body as text. Its content type is `text/plain; charset=utf-8` unless \
                  `headers` says otherwise.",
        },
        Key {
            name: "file",
            kind: Kind::Text("path"),
            preset: Preset::Absent("no body"),
            doc: "The file the body is read from when the configuration is loaded. Its content \
                  type follows from the extension unless `headers` says otherwise.",
        },
    ],
};

pub(crate) static REDIRECT: Section = Section {
    name: "route.redirect",
    doc: "A response that sends the client elsewhere. The short form, `redirect = \"/new\"`, is \
          its target.",
    keys: &[
        Key {
            name: "to",
            kind: Kind::Text("template"),
            preset: Preset::Required,
            doc: "Where to: a URL or a path, a template such as \
                  `\"https://{request.host}{request.target}\"` (docs/expressions.md).",
        },
        Key {
            name: "status",
            kind: Kind::Integer { min: 301, max: 308, word: None },
            preset: Preset::Value("302"),
            doc: "301 or 308 for good, 302 or 307 for now, 303 to be fetched with GET. 307 and \
                  308 keep the method.",
        },
    ],
};

/// `respond = "text"` or its table.
pub(crate) fn read_respond(node: &Node, span: Span, report: &Report<'_>) -> Option<Respond> {
    if let Value::Text(text) = &node.value {
        let headers = vec![("content-type".to_owned(), PLAIN_TEXT.to_owned())];
        return Some(Respond { status: 200, headers, body: BodySource::Text(text.value.clone()) });
    }
    let fields = Fields::open(Some(node), span, &RESPOND, report);
    let status = fields.integer("status").and_then(|it| u16::try_from(it).ok()).unwrap_or(200);
    let mut headers = read_headers(&fields);
    let (text, file) = (fields.text("body"), fields.text("file"));
    if let (Some(_), Some(file)) = (text, file) {
        report.error(file.span, Flaw::new("a response has a `body` or a `file`, not both"));
    }
    if let Some(it) = text.or(file).filter(|it| !it.text.is_empty()) {
        // RFC 9110 sections 15.3.5, 15.3.6 and 15.4.5: these never have content.
        if matches!(status, 204 | 205 | 304) {
            report.error(it.span, Flaw::new(format!("a response {status} has no body")));
        }
    }
    let typed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let body = match (text, file) {
        (_, Some(file)) => {
            let path = report.accept(file.span, parse_path(file.text))?;
            if !typed {
                headers.push(("content-type".to_owned(), media_type(&path).to_owned()));
            }
            BodySource::File(path)
        }
        (text, None) => {
            let text = text.map(|it| it.text).unwrap_or_default();
            if !typed && !text.is_empty() {
                headers.push(("content-type".to_owned(), PLAIN_TEXT.to_owned()));
            }
            BodySource::Text(text.to_owned())
        }
    };
    Some(Respond { status, headers, body })
}

fn read_headers(fields: &Fields<'_, '_>) -> Vec<(String, String)> {
    let report = fields.report;
    let mut headers = Vec::new();
    for (name, values) in fields.pairs("headers") {
        let checked = report.accept(name.span, parse_response_field(name.text));
        for value in values {
            let value = report.accept(value.span, parse_field_value(value.text));
            headers.extend(checked.clone().zip(value));
        }
    }
    headers
}

/// A path of a file: not empty, and without NUL, which no file system knows.
pub(crate) fn parse_path(text: &str) -> Result<PathBuf, Flaw> {
    if text.is_empty() || text.contains('\0') {
        return Err(Flaw::new(format!("\"{}\" is not the path of a file", text.escape_debug())));
    }
    Ok(Path::new(text).to_path_buf())
}

/// `redirect = "/new"` or its table.
pub(crate) fn read_redirect(node: &Node, span: Span, report: &Report<'_>) -> Option<Redirect> {
    if let Value::Text(text) = &node.value {
        let to = target(Phrase { text: &text.value, span: node.span }, report)?;
        return Some(Redirect { to, status: 302 });
    }
    let fields = Fields::open(Some(node), span, &REDIRECT, report);
    let status = fields.integer("status").and_then(|it| u16::try_from(it).ok()).unwrap_or(302);
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        let place = fields.entry("status").map_or(span, |entry| entry.node.span);
        let flaw = Flaw::new(format!("{status} is not the status of a redirect"))
            .with_help("use one of 301, 302, 303, 307, 308");
        report.error(place, flaw);
    }
    Some(Redirect { to: target(fields.text("to")?, report)?, status })
}

/// A template whose own texts are fit for a URL.
fn target(written: Phrase<'_>, report: &Report<'_>) -> Option<String> {
    let Expression(text) = template(written, &Scope::of_redirects(), report)?;
    let compiled = Template::compile(&text, &Scope::of_redirects()).ok()?;
    report.accept(written.span, check_target(&text, &compiled))?;
    Some(text)
}

fn check_target(text: &str, template: &Template) -> Result<(), Flaw> {
    if text.is_empty() {
        return Err(Flaw::new("the target of the redirect is empty"));
    }
    let literals: Vec<&[u8]> = template.literals().collect();
    let any = |odd: fn(&u8) -> bool| literals.iter().any(|literal| literal.iter().any(odd));
    // A line break would forge header fields; a blank cannot stand in a URL (RFC 3986).
    if any(|byte| byte.is_ascii_control() || byte.is_ascii_whitespace()) {
        return Err(Flaw::new("the target of a redirect must not hold blanks or line breaks")
            .with_help("write a blank as %20"));
    }
    if any(|byte| !byte.is_ascii()) {
        return Err(Flaw::new("the target of a redirect has characters no URL has")
            .with_help("percent-encode them, an \"ä\" is %C3%A4"));
    }
    Ok(())
}
