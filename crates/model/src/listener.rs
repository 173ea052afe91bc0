//! Listeners: where clients connect, and what one connection may ask for.

mod headers;
mod http2;
mod lua;
mod proxy_protocol;
mod tls;

use std::collections::HashMap;
use std::time::Duration;

use crate::address::{Address, parse_address};
use crate::fields::Fields;
use crate::name::parse_name;
use crate::path_rules::{LISTENER_PATH_RULES, PathRules, read_path_rules};
use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::tree::{Node, Value};

use headers::{AMBIGUOUS_HEADERS, TRACE_METHOD, read_ambiguous_headers, read_trace_method};
pub use headers::{AmbiguousHeaders, TraceMethod};
use http2::{HTTP2, read_http2};
pub use http2::{Http2, Older};
use lua::{LUA, read_lua};
pub use lua::{ListenerLua, WriteFull};
pub use proxy_protocol::ProxyProtocol;
use proxy_protocol::{PROXY_PROTOCOL, read_proxy_protocol};
pub(crate) use tls::read_terms;
pub use tls::{
    CertificateFiles, CertificateHeaders, ClientCertificates, ClientMode, ListenerTls, SelfSigned,
    TLS_GROUPS, TLS_SUITES, TLS_VERSIONS, TlsTerms,
};
use tls::{TLS, read_tls};

/// A place where clients connect.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// The name routes and metrics know it by.
    pub name: String,
    /// Where it listens.
    pub address: Address,
    /// What a connection and a request may take.
    pub limits: Limits,
    /// How long a client may take.
    pub timeout: ListenerTimeout,
    /// What becomes of headers whose names servers may take for other ones.
    pub ambiguous_headers: AmbiguousHeaders,
    /// What becomes of requests with the method TRACE.
    pub trace_method: TraceMethod,
    /// How paths are read.
    pub path_rules: PathRules,
    /// How HTTP/2 is spoken; `None` = it is not.
    pub http2: Option<Http2>,
    /// How its connections are encrypted; `None` = they are not.
    pub tls: Option<ListenerTls>,
    /// Who says in front of a connection for whom it is; `None` = nobody.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// The script that speaks with its clients; `None` = requests of HTTP are answered by routes.
    pub lua: Option<Box<ListenerLua>>,
}

/// What a connection and a request may take.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of a request head, request line included.
    pub head: u32,
    /// Header lines of a request.
    pub fields: u32,
    /// Bytes of a request target.
    pub target: u32,
    /// Requests on one connection; `None` = no limit.
    pub requests_per_connection: Option<u64>,
    /// Connections open at once; `None` = no limit.
    pub connections: Option<u32>,
    /// Connections open at once from one client, an IPv4 address or an IPv6 network of 64 bits; `None` = no limit.
    pub connections_per_client: Option<u32>,
}

/// How long a client may take.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerTimeout {
    /// For the handshake of an encrypted connection.
    pub handshake: Duration,
    /// For a whole request head, from its first byte.
    pub head: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// Without any progress of a request body.
    pub body: Duration,
    /// Without any progress of a response.
    pub write: Duration,
}

pub(crate) static LISTENER: Section = Section {
    name: "listener",
    doc: "A place where clients connect. At least one is needed.",
    keys: &[
        Key {
            name: "name",
            kind: Kind::Text("name"),
            preset: Preset::Absent("its address"),
            doc: "The name that routes, logs and metrics know the listener by.",
        },
        Key {
            name: "address",
            kind: Kind::Text("address"),
            preset: Preset::Required,
            doc: "Where to listen: `\"0.0.0.0:8080\"`, `\"[::]:8080\"`, `\":8080\"` (all IPv4 \
                  addresses), or `\"unix:/run/sluice.sock\"`. Port 0 takes a free port.",
        },
        Key {
            name: "limits",
            kind: Kind::Table(&LIMITS),
            preset: Preset::Absent("the defaults below"),
            doc: "What a connection and a request may take.",
        },
        Key {
            name: "timeout",
            kind: Kind::Table(&TIMEOUT),
            preset: Preset::Absent("the defaults below"),
            doc: "How long a client may take.",
        },
        AMBIGUOUS_HEADERS,
        TRACE_METHOD,
        Key {
            name: "path_rules",
            kind: Kind::Table(&LISTENER_PATH_RULES),
            preset: Preset::Absent("the defaults below"),
            doc: "How paths of requests are read before anything looks at them.",
        },
        Key {
            name: "http2",
            kind: Kind::Table(&HTTP2),
            preset: Preset::Absent("the defaults below"),
            doc: "HTTP/2.",
        },
        Key {
            name: "tls",
            kind: Kind::Table(&TLS),
            preset: Preset::Absent("connections are not encrypted"),
            doc: "Encrypts the connections: HTTPS.",
        },
        Key {
            name: "proxy_protocol",
            kind: Kind::Table(&PROXY_PROTOCOL),
            preset: Preset::Absent("no connection begins with a header"),
            doc: "Takes the client's address from the PROXY protocol of a load balancer in front.",
        },
        Key {
            name: "lua",
            kind: Kind::Short("file", &LUA),
            preset: Preset::Absent("it speaks HTTP"),
            doc: "The script that speaks with the clients of this listener, instead of HTTP: any protocol over TCP.",
        },
    ],
};

static LIMITS: Section = Section {
    name: "listener.limits",
    doc: "What one listener lets connections and requests take. Who asks for more is refused \
          with the status named here.",
    keys: &[
        Key {
            name: "head",
            kind: Kind::Size { min: 1024, max: 65_535, word: None },
            preset: Preset::Value("32KiB"),
            doc: "Bytes of a request head: request line and header lines together. More is \
                  answered with 431.",
        },
        Key {
            name: "fields",
            kind: Kind::Integer { min: 1, max: 1000, word: None },
            preset: Preset::Value("100"),
            doc: "Header lines of a request. More is answered with 431.",
        },
        Key {
            name: "target",
            kind: Kind::Size { min: 64, max: 65_535, word: None },
            preset: Preset::Value("8KiB"),
            doc: "Bytes of a request target, path and query together. More is answered with 414.",
        },
        Key {
            name: "requests_per_connection",
            kind: Kind::Integer { min: 1, max: u64::MAX, word: Some("unlimited") },
            preset: Preset::Value("unlimited"),
            doc: "Requests a client may send on one connection before it has to open another.",
        },
        Key {
            name: "connections",
            kind: Kind::Integer { min: 1, max: 4_294_967_295, word: Some("unlimited") },
            preset: Preset::Value("65536"),
            doc: "Connections open at the same time, over all workers. Further ones are closed \
                  at once.",
        },
        Key {
            name: "connections_per_client",
            kind: Kind::Integer { min: 1, max: 4_294_967_295, word: Some("unlimited") },
            preset: Preset::Value("unlimited"),
            doc: "Connections open at the same time from one client: an IPv4 address, or an IPv6 network of 64 bits \
                  (`/64`).",
        },
    ],
};

static TIMEOUT: Section = Section {
    name: "listener.timeout",
    doc: "How long a client may take before its connection is closed.",
    keys: &[
        Key {
            name: "handshake",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("10s"),
            doc: "For the handshake of an encrypted connection, counted from the moment it was \
                  opened.",
        },
        Key {
            name: "head",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("10s"),
            doc: "For a whole request head, counted from its first byte. Answered with 408.",
        },
        Key {
            name: "idle",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("60s"),
            doc: "Between two requests on a kept-alive connection.",
        },
        Key {
            name: "body",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("30s"),
            doc: "Without a single byte of an expected request body. A slow body that keeps \
                  coming is not cut.",
        },
        Key {
            name: "write",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("30s"),
            doc: "Without a single byte of a response being taken by the client.",
        },
    ],
};

/// All listeners; two of one name or one address are problems.
pub(crate) fn read_listeners(root: &Fields<'_, '_>) -> Vec<Listener> {
    let report = root.report;
    let mut names = HashMap::new();
    let mut addresses = HashMap::new();
    let mut list = Vec::new();
    let tables = root.tables("listener");
    if tables.is_empty() && root.written("listener").is_none_or(|it| is_empty_list(&it.node)) {
        let flaw = Flaw::new("there is no listener, so nobody could connect")
            .with_help("add one: [[listener]] with address = \"0.0.0.0:8080\"");
        report.error(Span::default(), flaw);
    }
    for fields in tables {
        let Some((listener, span)) = read_listener(&fields) else { continue };
        once(&mut names, &listener.name, "name", span.name, report);
        let ephemeral = matches!(&listener.address, Address::Tcp(it) if it.port() == 0);
        if !ephemeral {
            once(&mut addresses, &listener.address.to_string(), "address", span.address, report);
        }
        list.push(listener);
    }
    list
}

fn is_empty_list(node: &Node) -> bool {
    matches!(&node.value, Value::List(list) if list.is_empty())
}

struct Spans {
    name: Span,
    address: Span,
}

fn read_listener(fields: &Fields<'_, '_>) -> Option<(Listener, Spans)> {
    let name = fields.parsed("name", parse_name);
    let address = fields.parsed("address", parse_address);
    let limits = read_limits(&fields.table("limits"));
    let timeout = read_timeout(&fields.table("timeout"));
    let path_rules = read_path_rules(&fields.table("path_rules"));
    let http2 = read_http2(&fields.table("http2"));
    let tls = read_tls(fields);
    let proxy_protocol = read_proxy_protocol(fields);
    let lua = read_lua(fields);
    let http2 = http2.filter(|_| lua.is_none());
    let address = address?;
    let place = fields.text("address")?.span;
    let spans = Spans { name: fields.text("name").map_or(place, |it| it.span), address: place };
    let name = name.unwrap_or_else(|| address.to_string());
    let listener = Listener {
        name,
        address,
        limits,
        timeout,
        path_rules,
        ambiguous_headers: read_ambiguous_headers(fields),
        trace_method: read_trace_method(fields),
        http2,
        tls,
        proxy_protocol,
        lua,
    };
    Some((listener, spans))
}

fn once(
    seen: &mut HashMap<String, usize>,
    value: &str,
    noun: &str,
    span: Span,
    report: &Report<'_>,
) {
    match seen.get(value) {
        Some(line) => {
            let message = format!("the listener {noun} \"{value}\" is already used in line {line}");
            report.error(span, Flaw::new(message));
        }
        None => {
            seen.insert(value.to_owned(), report.lines().place(span).line);
        }
    }
}

fn read_limits(fields: &Fields<'_, '_>) -> Limits {
    let small = |name: &str| fields.size(name).and_then(|it| u32::try_from(it).ok());
    let count = |name: &str| fields.integer(name).and_then(|it| u32::try_from(it).ok());
    Limits {
        head: small("head").unwrap_or_default(),
        fields: count("fields").unwrap_or_default(),
        target: small("target").unwrap_or_default(),
        requests_per_connection: fields.integer("requests_per_connection"),
        connections: count("connections"),
        connections_per_client: count("connections_per_client"),
    }
}

fn read_timeout(fields: &Fields<'_, '_>) -> ListenerTimeout {
    ListenerTimeout {
        handshake: fields.duration("handshake"),
        head: fields.duration("head"),
        idle: fields.duration("idle"),
        body: fields.duration("body"),
        write: fields.duration("write"),
    }
}
