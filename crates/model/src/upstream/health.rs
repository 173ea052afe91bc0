//! How the servers of an upstream are asked whether they are well.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::fields::Fields;
use crate::header::{parse_authority, parse_method};
use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::share::{Share, parse_share};
use crate::status::parse_statuses;
use crate::tree::{Node, Value};

use super::{Protocol, Upstream};

/// How servers are asked whether they are well.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// What is asked; `None` = a connection is opened and nothing else.
    pub request: Option<HealthRequest>,
    /// The port, where it is not that of the server.
    pub port: Option<u16>,
    /// From the beginning of a check to that of the next.
    pub interval: Duration,
    /// How much an interval may be longer or shorter, as a share of it.
    pub jitter: Share,
    /// How long a check may take.
    pub timeout: Duration,
    /// Successes in a row that bring a server back.
    pub healthy: u32,
    /// Failures in a row that take a server out.
    pub unhealthy: u32,
    /// What a server counts as before its first check.
    pub initial: InitialHealth,
}

/// The request of a check, and the answer of a server that is well.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthRequest {
    /// Path and query.
    pub path: String,
    /// The method.
    pub method: String,
    /// The Host field, where it is not that of the upstream.
    pub host: Option<String>,
    /// Statuses of a server that is well.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// What the body has to contain.
    pub body: Option<String>,
    /// The service that a gRPC call asks about, empty for all of the server; `None` = it is no call.
    pub service: Option<String>,
}

/// What a server counts as before its first check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialHealth {
    /// It gets requests.
    Healthy,
    /// It gets none.
    Unhealthy,
}

/// When servers that are out are asked all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panic {
    /// Never.
    Off,
    /// When less than this share of the servers is available, or none.
    Below(Share),
}

pub(super) fn read_panic(fields: &Fields<'_, '_>) -> Panic {
    let parse = |text: &str| match text {
        "off" => Ok(Panic::Off),
        share => parse_share(share).map(Panic::Below),
    };
    fields.parsed("panic", parse).unwrap_or(Panic::Off)
}

pub(super) static HEALTH: Section = Section {
    name: "upstream.health",
    doc: "Checks of the servers, made once for the whole process. The short form, \
          `health = \"/healthz\"`, is the path.",
    keys: &[
        Key {
            name: "path",
            kind: Kind::Text("path"),
            preset: Preset::Absent("none; needed unless `tcp` or `grpc` is set"),
            doc: "The path that is requested, with a query if need be.",
        },
        Key {
            name: "tcp",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "Instead of a request: it is enough that a connection can be opened.",
        },
        Key {
            name: "grpc",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "Instead of a path: a call of `grpc.health.v1.Health/Check`, which has to say \
                  SERVING. The upstream's `protocol` has to be one with HTTP/2.",
        },
        Key {
            name: "service",
            kind: Kind::Text("service name"),
            preset: Preset::Absent("all of the server"),
            doc: "The service that a check with `grpc = true` asks about.",
        },
        Key {
            name: "method",
            kind: Kind::Text("method"),
            preset: Preset::Value("GET"),
            doc: "The method of the request.",
        },
        Key {
            name: "host",
            kind: Kind::Text("host name"),
            preset: Preset::Absent("`host` of the upstream, or the address of the server"),
            doc: "The Host field of the request.",
        },
        Key {
            name: "statuses",
            kind: Kind::Texts("status, range such as \"200-299\", or class such as \"2xx\""),
            preset: Preset::Absent("`\"200-299\"`"),
            doc: "The statuses of a server that is well.",
        },
        Key {
            name: "body",
            kind: Kind::Text("text"),
            preset: Preset::Absent("anything"),
            doc: "What the body has to contain, within its first 64 KiB.",
        },
        Key {
            name: "port",
            kind: Kind::Integer { min: 1, max: 65_535, word: None },
            preset: Preset::Absent("the one requests go to"),
            doc: "The port that is asked. Unix sockets have none.",
        },
        Key {
            name: "interval",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("2s"),
            doc: "From the beginning of a check to that of the next. A check that takes longer \
                  is not overtaken.",
        },
        Key {
            name: "jitter",
            kind: Kind::Text("share such as \"10%\""),
            preset: Preset::Value("10%"),
            doc: "How much each interval may be longer or shorter, so that servers are not asked \
                  all at once.",
        },
        Key {
            name: "timeout",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("1s"),
            doc: "How long a check may take, from opening the connection to the answer.",
        },
        Key {
            name: "healthy",
            kind: Kind::Integer { min: 1, max: 1_000_000, word: None },
            preset: Preset::Value("2"),
            doc: "Checks in a row that have to succeed before an unhealthy server gets requests \
                  again.",
        },
        Key {
            name: "unhealthy",
            kind: Kind::Integer { min: 1, max: 1_000_000, word: None },
            preset: Preset::Value("3"),
            doc: "Checks in a row that have to fail before a server gets no more requests.",
        },
        Key {
            name: "initial",
            kind: Kind::Word(&["healthy", "unhealthy"]),
            preset: Preset::Value("healthy"),
            doc: "What a new server counts as before its first check. `unhealthy` lets it wait \
                  for one success.",
        },
    ],
};

pub(super) fn read_health(fields: &Fields<'_, '_>) -> Option<Health> {
    let entry = fields.entry("health")?;
    read(&entry.node, entry.span, fields.report)
}

fn read(node: &Node, span: Span, report: &Report<'_>) -> Option<Health> {
    if let Value::Text(text) = &node.value {
        let path = report.accept(node.span, parse_path(&text.value))?;
        let defaults = Fields::open(None, span, &HEALTH, report);
        let request = Some(read_request(path, &defaults));
        return Some(read_rest(request, &defaults));
    }
    let fields = Fields::open(Some(node), span, &HEALTH, report);
    let path = fields.text("path");
    let tcp = fields.flag("tcp") == Some(true);
    if tcp {
        let others = ["path", "grpc", "service", "method", "host", "statuses", "body"];
        refuse_besides(&fields, "tcp = true", &others);
        return Some(read_rest(None, &fields));
    }
    if fields.flag("grpc") == Some(true) {
        refuse_besides(&fields, "grpc = true", &["path", "tcp", "method", "statuses", "body"]);
        return Some(read_rest(Some(read_call(&fields)), &fields));
    }
    if let Some(entry) = fields.written("service") {
        let flaw = Flaw::new("`service` has no meaning for a check without `grpc = true`")
            .with_help("add it, or remove `service`");
        report.error(entry.span, flaw);
    }
    if path.is_none() && matches!(node.value, Value::Table(_)) {
        let flaw = Flaw::new("a check has a `path`, `tcp = true` or `grpc = true`")
            .with_help("write what to ask for: health = \"/healthz\"");
        report.error(span, flaw);
    }
    let path = path.and_then(|it| report.accept(it.span, parse_path(it.text)))?;
    let request = read_request(path, &fields);
    if let (Some(body), "HEAD") = (fields.text("body"), request.method.as_str()) {
        report.error(body.span, Flaw::new("a response to HEAD has no body to look into"));
    }
    Some(read_rest(Some(request), &fields))
}

/// What only other checks have.
fn refuse_besides(fields: &Fields<'_, '_>, kind: &str, others: &[&str]) {
    for name in others {
        if let Some(entry) = fields.written(name) {
            let flaw = Flaw::new(format!("`{name}` has no meaning for a check with `{kind}`"))
                .with_help("remove one of the two");
            fields.report.error(entry.span, flaw);
        }
    }
}

fn read_request(path: String, fields: &Fields<'_, '_>) -> HealthRequest {
    let mut statuses = fields.list("statuses", parse_statuses);
    if statuses.is_empty() {
        statuses.push(200..=299);
    }
    HealthRequest {
        path,
        method: fields.parsed("method", parse_method).unwrap_or_default(),
        host: fields.parsed("host", parse_authority),
        statuses,
        body: fields.text("body").map(|it| it.text.to_owned()).filter(|it| !it.is_empty()),
        service: None,
    }
}

/// The call that every server of gRPC has for it, if it has one.
fn read_call(fields: &Fields<'_, '_>) -> HealthRequest {
    HealthRequest {
        path: "/grpc.health.v1.Health/Check".to_owned(),
        method: "POST".to_owned(),
        host: fields.parsed("host", parse_authority),
        statuses: vec![200..=200],
        body: None,
        service: Some(fields.text("service").map(|it| it.text.to_owned()).unwrap_or_default()),
    }
}

fn read_rest(request: Option<HealthRequest>, fields: &Fields<'_, '_>) -> Health {
    let count = |name| fields.integer(name).and_then(|it| u32::try_from(it).ok()).unwrap_or(1);
    Health {
        request,
        port: fields.integer("port").and_then(|it| u16::try_from(it).ok()),
        interval: fields.duration("interval"),
        jitter: fields.parsed("jitter", parse_share).unwrap_or(Share(0)),
        timeout: fields.duration("timeout"),
        healthy: count("healthy"),
        unhealthy: count("unhealthy"),
        initial: match fields.word("initial") {
            Some("unhealthy") => InitialHealth::Unhealthy,
            _ => InitialHealth::Healthy,
        },
    }
}

/// A request target of the usual form (RFC 9112 section 3.2.1).
fn parse_path(text: &str) -> Result<String, Flaw> {
    let legal = text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
    match legal {
        true => Ok(text.to_owned()),
        false => Err(Flaw::new(format!("\"{}\" is not a path to ask for", text.escape_debug()))
            .with_help("it begins with `/` and has no spaces: \"/healthz\"")),
    }
}

/// Calls are made over HTTP/2.
pub(super) fn check_protocol(fields: &Fields<'_, '_>, upstream: &Upstream) {
    let request = upstream.health.as_ref().and_then(|health| health.request.as_ref());
    if !fields.report.has_errors()
        && request.is_some_and(|request| request.service.is_some())
        && upstream.protocol == Protocol::Http1
        && let Some(entry) = fields.entry("health")
    {
        let flaw =
            Flaw::new("a check with `grpc = true` is made over HTTP/2, which is not spoken here")
                .with_help("add to the upstream: protocol = \"http2\"");
        fields.report.error(entry.span, flaw);
    }
}
