//! The respond filter: gives an answer itself, at once or after a while.

use std::path::PathBuf;
use std::time::Duration;

use sluice_expression::{Phase, Scope};

use crate::expression::{Expression, read_template, template};
use crate::fields::{Fields, Phrase};
use crate::header::parse_response_field;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RespondFilter {
    /// The status, 200 to 599.
    pub status: u16,
    /// Header fields. There is a content type if there is content.
    pub headers: Vec<(String, Vec<Expression>)>,
    /// The content.
    pub body: MockBody,
    /// How long the client waits.
    pub delay: Duration,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MockBody {
    /// What this becomes.
    Template(Expression),
    /// A file, read once when the configuration is loaded.
    File(PathBuf),
}

pub(super) static SECTION: Section = Section {
    name: "filter.respond",
    doc: "Gives an answer itself, at once or after a while.",
    keys: &[
        Key {
            name: "status",
            kind: Kind::Integer { min: 200, max: 599, word: None },
            preset: Preset::Value("200"),
            doc: "The status of the answer.",
        },
        Key {
            name: "headers",
            kind: Kind::PairLists("template"),
            preset: Preset::Absent("a content type, if there is content"),
            doc: "Header fields of the answer. Values are templates (docs/expressions.md).",
        },
        Key {
            name: "body",
            kind: Kind::Text("template"),
            preset: Preset::Absent("empty"),
            doc: "The content: a template, so braces are doubled, `\"{{}}\"`. It may become 16 KiB long.",
        },
        Key {
            name: "file",
            kind: Kind::Text("path"),
            preset: Preset::Absent("none"),
            doc: "A file whose bytes are the content, as they were when the configuration was loaded.",
        },
        Key {
            name: "delay",
            kind: Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(3600) },
            preset: Preset::Value("0s"),
            doc: "How long the client waits for the answer.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<RespondFilter> {
    let report = fields.report;
    let status = fields.integer("status").and_then(|it| u16::try_from(it).ok()).unwrap_or(200);
    let scope = Scope::new(Phase::Request);
    let body = read_template(fields, "body", &scope);
    let file = fields.text("file");
    if let (Some(_), Some(file)) = (&body, file) {
        report.error(file.span, Flaw::new("an answer has a `body` or a `file`, not both"));
    }
    let has_content = file.is_some() || body.as_ref().is_some_and(|body| !body.0.is_empty());
    // RFC 9110 sections 15.3.5, 15.3.6 and 15.4.5: these never have content.
    if has_content && matches!(status, 204 | 205 | 304) {
        report.error(fields.span, Flaw::new(format!("an answer {status} has no content")));
    }
    let mut headers = headers(fields, &scope);
    let typed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if has_content && !typed {
        let media = file.map_or("text/plain; charset=utf-8", |file| {
            crate::media::media_type(std::path::Path::new(file.text))
        });
        headers.push(("content-type".to_owned(), vec![Expression(media.to_owned())]));
    }
    Some(RespondFilter {
        status,
        headers,
        body: match file {
            Some(file) => MockBody::File(PathBuf::from(file.text)),
            None => MockBody::Template(body.unwrap_or_else(|| Expression(String::new()))),
        },
        delay: fields.duration("delay"),
    })
}

fn headers(fields: &Fields<'_, '_>, scope: &Scope) -> Vec<(String, Vec<Expression>)> {
    let report = fields.report;
    let read = |(name, values): (Phrase<'_>, Vec<Phrase<'_>>)| {
        let values = values.into_iter();
        let values: Vec<_> = values.filter_map(|value| template(value, scope, report)).collect();
        report.accept(name.span, parse_response_field(name.text)).map(|name| (name, values))
    };
    fields.pairs("headers").into_iter().filter_map(read).collect()
}
