//! External authentication: a service of one's own says whether a request may pass.

use std::time::Duration;

use sluice_expression::{Phase, Scope};

use super::FilterUpstream;
use crate::expression::{Expression, read_template, template};
use crate::fields::Fields;
use crate::header::{is_token, parse_method};
use crate::problem::Flaw;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::upstream::{Protocol, Roster};

/// How requests are judged by a service of one's own.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalAuth {
    /// The service.
    pub upstream: FilterUpstream,
    /// How it is asked.
    pub protocol: AuthProtocol,
    /// Names of the fields it is shown; a star at the end stands for any rest.
    pub send: Vec<String>,
    /// Fields added to the question.
    pub add: Vec<(String, Expression)>,
    /// The content it is shown.
    pub body: AuthBody,
    /// Names of the fields of its answer that go to the origin.
    pub up: Vec<String>,
    /// Names of those that go to the client with the origin's answer.
    pub down: Vec<String>,
    /// Names of those that go to the client with a refusal.
    pub denied: Vec<String>,
    /// The field that says who the client is.
    pub user: Option<String>,
    /// Where people are sent to sign in.
    pub sign_in: Option<Expression>,
    /// What happens without a decision: the status of the refusal, or nothing.
    pub on_error: Option<u16>,
    /// How long one question may take.
    pub timeout: Duration,
    /// How often it is asked.
    pub attempts: u32,
    /// Bytes its answer may have.
    pub answer_limit: u64,
    /// Decisions that are remembered.
    pub cache: Option<AuthCache>,
}

/// How the service is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthProtocol {
    /// One path is asked.
    Forward {
        /// Path and query.
        path: String,
        /// The method; `None` = that of the request.
        method: Option<String>,
    },
    /// The request's own path behind this.
    Prefix(String),
    /// Envoy's gRPC call, with these words about the gateway.
    Grpc(Vec<(String, String)>),
}

/// The content the service is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthBody {
    /// None.
    None,
    /// Its beginning.
    Partial(u64),
    /// All of it.
    Full(u64),
}

/// Decisions that are remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthCache {
    /// What they depend on.
    pub key: Expression,
    /// How long one that lets pass holds at most.
    pub ttl: Duration,
    /// How long one that refuses holds.
    pub negative_ttl: Duration,
    /// How many there may be.
    pub entries: u64,
}

pub(super) static SECTION: Section = Section {
    name: "filter.external_auth",
    doc: "Asks a service of one's own whether a request may pass: an answer of 2xx lets it pass, others go to \
          the client. See docs/filters/external_auth.md.",
    keys: &[
        Key {
            name: "upstream",
            kind: Kind::Text("upstream name or server address"),
            preset: Preset::Required,
            doc: "The service, written like `proxy` of a route.",
        },
        Key {
            name: "protocol",
            kind: Kind::Word(&["forward", "prefix", "grpc"]),
            preset: Preset::Value("forward"),
            doc: "How it is asked: `forward` asks `path` and describes the request in `X-Forwarded-*`; `prefix` \
                  asks for the request's own path behind `path`, with its method; `grpc` is the call of Envoy \
                  (`envoy.service.auth.v3.Authorization/Check`), for an upstream that speaks HTTP/2.",
        },
        Key {
            name: "path",
            kind: Kind::Text("path"),
            preset: Preset::Value("/"),
            doc: "The path that is asked, or what stands before the request's own.",
        },
        Key {
            name: "method",
            kind: Kind::Text("method, or \"original\""),
            preset: Preset::Value("GET"),
            doc: "The method with `forward`; `original` is that of the request.",
        },
        Key {
            name: "context",
            kind: Kind::Pairs("text"),
            preset: Preset::Absent("nothing"),
            doc: "What the service is told about the gateway with `grpc`, as `context_extensions`.",
        },
        Key {
            name: "send",
            kind: Kind::Texts("header name, or beginning and `*`"),
            preset: Preset::Absent("all"),
            doc: "The header fields of the request that the service is shown. Framing and fields of the \
                  connection are never sent.",
        },
        Key {
            name: "add",
            kind: Kind::Pairs("template"),
            preset: Preset::Absent("none"),
            doc: "Header fields that are added to the question.",
        },
        Key {
            name: "body",
            kind: Kind::Word(&["none", "partial", "full"]),
            preset: Preset::Value("none"),
            doc: "The content that the service is shown: none; its beginning; all, where requests with more than \
                  `body_limit` are refused with 413.",
        },
        Key {
            name: "body_limit",
            kind: Kind::Size { min: 1, max: 16 << 20, word: None },
            preset: Preset::Value("64KiB"),
            doc: "Bytes of content that the service is shown.",
        },
        Key {
            name: "up",
            kind: Kind::Texts("header name, or beginning and `*`"),
            preset: Preset::Absent("none"),
            doc: "Header fields of the service's answer that go to the origin. Fields of these names that a client \
                  sends are removed before anybody is asked.",
        },
        Key {
            name: "down",
            kind: Kind::Texts("header name, or beginning and `*`"),
            preset: Preset::Absent("none"),
            doc: "Header fields of the service's answer, such as `set-cookie`, that go to the client together with \
                  what the origin answers.",
        },
        Key {
            name: "denied",
            kind: Kind::Texts("header name, or beginning and `*`"),
            preset: Preset::Absent(
                "`content-type`, `www-authenticate`, `location`, `set-cookie`, `retry-after`, `cache-control`",
            ),
            doc: "Header fields of the service's answer that go to the client with a refusal.",
        },
        Key {
            name: "user",
            kind: Kind::Text("header name"),
            preset: Preset::Absent("nobody"),
            doc: "The header field of the service's answer that says who the client is, for `auth.user` and the \
                  access log.",
        },
        Key {
            name: "sign_in",
            kind: Kind::Text("template of a URL"),
            preset: Preset::Absent("the refusal is passed on"),
            doc: "Where people are sent, with 302, when the service answers 401 to a GET for a page: \
                  `\"https://login.example/?back={url_encode(request.target)}\"`.",
        },
        Key {
            name: "on_error",
            kind: Kind::Word(&["refuse", "pass"]),
            preset: Preset::Value("refuse"),
            doc: "What happens to a request when the service gives no decision: it cannot be reached, takes too \
                  long, or answers 5xx.",
        },
        Key {
            name: "error_status",
            kind: Kind::Integer { min: 400, max: 599, word: None },
            preset: Preset::Value("503"),
            doc: "The status of that refusal.",
        },
        Key {
            name: "timeout",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("1s"),
            doc: "How long one question may take.",
        },
        Key {
            name: "attempts",
            kind: Kind::Integer { min: 1, max: 10, word: None },
            preset: Preset::Value("1"),
            doc: "How often the service is asked before that counts as no decision.",
        },
        Key {
            name: "answer_limit",
            kind: Kind::Size { min: 0, max: 16 << 20, word: None },
            preset: Preset::Value("64KiB"),
            doc: "Bytes of content that its answer may have.",
        },
        Key {
            name: "cache",
            kind: Kind::Table(&CACHE),
            preset: Preset::Absent("every request is asked for"),
            doc: "Remembers decisions.",
        },
    ],
};

static CACHE: Section = Section {
    name: "filter.external_auth.cache",
    doc: "Remembers decisions. Requests with the same key that come while one is asked for wait for its answer.",
    keys: &[
        Key {
            name: "key",
            kind: Kind::Text("template"),
            preset: Preset::Required,
            doc: "What a decision depends on, all of it: \
                  `\"{request.header.authorization}|{request.method}|{request.path}\"`.",
        },
        Key {
            name: "ttl",
            kind: Kind::Duration { min: Duration::from_secs(1), max: YEAR },
            preset: Preset::Value("1m"),
            doc: "How long a decision holds that lets pass. `Cache-Control` of the service's answer can shorten it or \
                  forbid it.",
        },
        Key {
            name: "negative_ttl",
            kind: Kind::Duration { min: Duration::ZERO, max: YEAR },
            preset: Preset::Value("0s"),
            doc: "How long a refusal holds; `0s` asks each time.",
        },
        Key {
            name: "entries",
            kind: Kind::Integer { min: 16, max: 10_000_000, word: None },
            preset: Preset::Value("10000"),
            doc: "How many decisions are remembered, over all workers.",
        },
    ],
};

/// Fields that a client needs to understand a refusal.
const DENIED: [&str; 6] =
    ["content-type", "www-authenticate", "location", "set-cookie", "retry-after", "cache-control"];

pub(super) fn read(fields: &Fields<'_, '_>, roster: &mut Roster) -> Option<ExternalAuth> {
    let scope = Scope::new(Phase::Request);
    let names = |key, absent: &[&str]| match fields.written(key) {
        Some(_) => fields.list(key, parse_pattern),
        None => absent.iter().map(|name| (*name).to_owned()).collect(),
    };
    let body_limit = fields.size("body_limit")?;
    let body = match fields.word("body") {
        Some("full") => AuthBody::Full(body_limit),
        Some("partial") => AuthBody::Partial(body_limit),
        _ => AuthBody::None,
    };
    let refuse = fields.word("on_error") != Some("pass");
    let status = fields.integer("error_status").and_then(|it| u16::try_from(it).ok())?;
    let (send, up, down) = (names("send", &["*"]), names("up", &[]), names("down", &[]));
    let denied = names("denied", &DENIED);
    let cache = read_cache(fields, &scope, body);
    let protocol = read_protocol(fields);
    let add = read_added(fields, &scope);
    let user =
        fields.text("user").and_then(|it| fields.report.accept(it.span, parse_name(it.text)));
    let sign_in = read_template(fields, "sign_in", &scope);
    let (timeout, attempts) = (fields.duration("timeout"), fields.integer("attempts")?);
    let answer_limit = fields.size("answer_limit")?;
    let upstream = read_upstream(fields, roster, protocol.as_ref());
    Some(ExternalAuth {
        upstream: upstream?,
        protocol: protocol?,
        send,
        add,
        body,
        up,
        down,
        denied,
        user,
        sign_in,
        on_error: refuse.then_some(status),
        timeout,
        attempts: u32::try_from(attempts).ok()?,
        answer_limit,
        cache,
    })
}

fn read_upstream(
    fields: &Fields<'_, '_>,
    roster: &mut Roster,
    protocol: Option<&AuthProtocol>,
) -> Option<FilterUpstream> {
    let written = fields.text("upstream")?;
    let position = roster.find(written, fields.report)?;
    let upstream = roster.list.get(position)?;
    if matches!(protocol, Some(AuthProtocol::Grpc(_))) && upstream.protocol == Protocol::Http1 {
        let flaw = Flaw::new("calls of gRPC need HTTP/2, and this upstream speaks HTTP/1.1")
            .with_help("give the upstream: protocol = \"http2\"");
        fields.report.error(written.span, flaw);
    }
    Some(FilterUpstream { position, name: upstream.name.clone() })
}

fn read_protocol(fields: &Fields<'_, '_>) -> Option<AuthProtocol> {
    let path = fields.parsed("path", parse_path);
    let method = fields.parsed("method", |text| match text {
        "original" => Ok(None),
        text => parse_method(text).map(Some),
    });
    let context = fields.pairs("context");
    let context = context
        .into_iter()
        .filter_map(|(name, values)| Some((name.text.to_owned(), values.first()?.text.to_owned())));
    let context = context.collect();
    Some(match fields.word("protocol") {
        Some("grpc") => AuthProtocol::Grpc(context),
        Some("prefix") => AuthProtocol::Prefix(path?.trim_end_matches('/').to_owned()),
        _ => AuthProtocol::Forward { path: path?, method: method? },
    })
}

fn read_added(fields: &Fields<'_, '_>, scope: &Scope) -> Vec<(String, Expression)> {
    let report = fields.report;
    let added = fields.pairs("add").into_iter().filter_map(|(name, values)| {
        let checked = report.accept(name.span, parse_name(name.text));
        let value = values.first().and_then(|value| template(*value, scope, report));
        checked.zip(value)
    });
    added.collect()
}

fn read_cache(fields: &Fields<'_, '_>, scope: &Scope, body: AuthBody) -> Option<AuthCache> {
    let cache = fields.table("cache");
    let entry = fields.entry("cache");
    let (ttl, negative_ttl) = (cache.duration("ttl"), cache.duration("negative_ttl"));
    let entries = cache.integer("entries");
    let key = read_template(&cache, "key", scope);
    if let Some(entry) = entry
        && body != AuthBody::None
    {
        let flaw =
            Flaw::new("a decision that depends on content cannot be remembered: no key holds that")
                .with_help("remove `cache`, or `body`");
        fields.report.error(entry.span, flaw);
    }
    Some(AuthCache { key: key?, ttl, negative_ttl, entries: entries? })
}

/// A name of a header field, or the beginning of names and a star.
fn parse_pattern(text: &str) -> Result<String, Flaw> {
    match text.strip_suffix('*') {
        Some("") => Ok("*".to_owned()),
        Some(start) if is_token(start) => Ok(text.to_ascii_lowercase()),
        _ => parse_name(text),
    }
}

/// A name of a header field that may be written.
fn parse_name(text: &str) -> Result<String, Flaw> {
    crate::header::parse_response_field(text).map(|name| name.to_ascii_lowercase())
}

fn parse_path(text: &str) -> Result<String, Flaw> {
    let good = text.starts_with('/') && text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    match good {
        true => Ok(text.to_owned()),
        false => Err(Flaw::new("a path starts with a slash and has no white space")
            .with_help("write other characters as escapes: %20")),
    }
}
