//! Upstreams: groups of origin servers, and how they are spoken to.

mod balance;
mod breaker;
mod ejection;
mod health;
mod http2;
mod limit;
mod list;
mod patience;
mod retry;
mod server;
mod sticky;
mod tls;

use std::collections::HashMap;
use std::time::Duration;

use crate::address::parse_server;
use crate::fields::{Fields, Phrase};
use crate::header::parse_authority;
use crate::name::parse_name;
use crate::nearest::suggestion;
use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};

pub use balance::{Balance, HashOn};
pub use breaker::Breaker;
pub use ejection::Ejection;
pub use health::{Health, HealthRequest, InitialHealth, Panic};
pub use http2::{Protocol, UpstreamHttp2};
pub use limit::ServerLimit;
pub use list::parse_servers;
pub use patience::{Keepalive, UpstreamTimeout};
pub use retry::{Hedge, Repeatable, Retry, RetryBudget, RetryCondition};
pub use server::{Role, Scheme, Server};
pub use sticky::Sticky;
pub use tls::{UpstreamTls, Verify};

use balance::{BALANCES, HASH, read_balance};
use breaker::{BREAKER, read_breaker};
use ejection::{EJECTION, read_ejection};
use health::{HEALTH, check_protocol, read_health, read_panic};
use http2::{HTTP2, PROTOCOLS, read_http2, read_protocol};
use limit::{LIMIT, read_limit};
use patience::{KEEPALIVE, TIMEOUT, read_keepalive, read_timeout};
use retry::{RETRY, read_retry};
use server::{SERVER, read_servers};
use sticky::{STICKY, read_sticky};
use tls::{TLS, read_tls};

/// A group of origin servers that can stand in for each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// The name routes and metrics know it by.
    pub name: String,
    /// Its servers, at least one.
    pub servers: Vec<Server>,
    /// How a server is chosen.
    pub balance: Balance,
    /// How clients are led back to the server they had; `None` = they are not.
    pub sticky: Option<Sticky>,
    /// How long the share of a server grows that is new or back; `None` = it does not.
    pub slow_start: Option<Duration>,
    /// How much each server is asked at once.
    pub limit: ServerLimit,
    /// Connections kept for the next request.
    pub keepalive: Keepalive,
    /// How long a server may take.
    pub timeout: UpstreamTimeout,
    /// When a request is tried again.
    pub retry: Retry,
    /// How servers are checked; `None` = they are not.
    pub health: Option<Health>,
    /// When servers are out because requests failed; `None` = never.
    pub ejection: Option<Ejection>,
    /// When servers that are out are asked all the same.
    pub panic: Panic,
    /// What may be under way at a time.
    pub breaker: Breaker,
    /// The Host field sent to the servers; `None` = the one of the client.
    pub host: Option<String>,
    /// How connections are encrypted; `None` = they are not.
    pub tls: Option<UpstreamTls>,
    /// How servers are told in front of a connection for whom it is; `None` = they are not.
    pub proxy_protocol: Option<ProxyVersion>,
    /// What is spoken.
    pub protocol: Protocol,
    /// How HTTP/2 is spoken where it is.
    pub http2: UpstreamHttp2,
}

/// How a header of the PROXY protocol is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

pub(crate) static UPSTREAM: Section = Section {
    name: "upstream",
    doc: "A group of origin servers that can stand in for each other; its name is the key, \
          as in `[upstream.api]`.",
    keys: &[
        Key {
            name: "servers",
            kind: Kind::Shorts("server address", &SERVER),
            preset: Preset::Required,
            doc: "The servers: `\"127.0.0.1:9001\"`, `\"origin.example:80\"`, \
                  `\"https://origin.example\"`, `\"unix:/run/app.sock\"`, \
                  `\"srv:_http._tcp.example\"` for those its SRV records name, \
                  `\"file:servers.toml\"` for those a file lists, or a table with more about \
                  it.",
        },
        Key {
            name: "balance",
            kind: BALANCES,
            preset: Preset::Value("round_robin"),
            doc: "How a server is chosen for a request: `round_robin` takes one after the other \
                  by weight, `least_requests` the one with the fewest requests under way, \
                  `two_choices` the less busy of two drawn by chance, `random` any, `hash` the \
                  same one for the same key.",
        },
        Key {
            name: "hash",
            kind: Kind::Table(&HASH),
            preset: Preset::Absent("needed with `balance = \"hash\"` only"),
            doc: "What of a request decides on its server.",
        },
        Key {
            name: "sticky",
            kind: Kind::Table(&STICKY),
            preset: Preset::Absent("clients are not led back"),
            doc: "Leads a client back to the server that answered it first, by a cookie.",
        },
        Key {
            name: "slow_start",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Absent("a server gets its whole share at once"),
            doc: "How long the share of a server grows that comes back or is new in a reload.",
        },
        Key {
            name: "limit",
            kind: Kind::Table(&LIMIT),
            preset: Preset::Absent("no limit"),
            doc: "How much each server is asked at once.",
        },
        Key {
            name: "keepalive",
            kind: Kind::Table(&KEEPALIVE),
            preset: Preset::Absent("the defaults below"),
            doc: "Connections kept open for the next request.",
        },
        Key {
            name: "timeout",
            kind: Kind::Table(&TIMEOUT),
            preset: Preset::Absent("the defaults below"),
            doc: "How long a server may take.",
        },
        Key {
            name: "retry",
            kind: Kind::Table(&RETRY),
            preset: Preset::Absent("the defaults below"),
            doc: "When a request is tried again.",
        },
        Key {
            name: "health",
            kind: Kind::Short("path", &HEALTH),
            preset: Preset::Absent("servers are not checked"),
            doc: "How servers are asked whether they are well. One that is not gets no requests.",
        },
        Key {
            name: "ejection",
            kind: Kind::Table(&EJECTION),
            preset: Preset::Absent("servers are not ejected"),
            doc: "When a server gets no requests for a while because those it got failed.",
        },
        Key {
            name: "breaker",
            kind: Kind::Table(&BREAKER),
            preset: Preset::Absent("no limits"),
            doc: "Limits on what the upstream is asked to do at a time.",
        },
        Key {
            name: "panic",
            kind: Kind::Text("share such as \"50%\", or \"off\""),
            preset: Preset::Value("0%"),
            doc: "When less than this share of the servers is available, or none, those that are \
                  unhealthy or ejected are asked as well. `off` refuses requests when none is \
                  available.",
        },
        Key {
            name: "host",
            kind: Kind::Text("host name"),
            preset: Preset::Absent("the one of the client"),
            doc: "The Host field sent to the servers.",
        },
        Key {
            name: "tls",
            kind: Kind::Table(&TLS),
            preset: Preset::Absent("as the addresses of the servers say"),
            doc: "Encrypts the connections to the servers.",
        },
        Key {
            name: "proxy_protocol",
            kind: Kind::Word(&["off", "v1", "v2"]),
            preset: Preset::Value("off"),
            doc: "Begins each connection to the servers with a header of the PROXY protocol that                   says for which client it is, in text (`v1`) or binary (`v2`). Such a connection                   serves one request and is closed: nobody else may use it.",
        },
        Key {
            name: "protocol",
            kind: PROTOCOLS,
            preset: Preset::Value("http1"),
            doc: "What is spoken with the servers: `http1` is HTTP/1.1; `http2` is HTTP/2, without                   TLS too; `negotiate` leaves the choice to each server in the handshake of TLS.",
        },
        Key {
            name: "http2",
            kind: Kind::Table(&HTTP2),
            preset: Preset::Absent("the defaults below"),
            doc: "HTTP/2.",
        },
    ],
};

/// The upstreams while routes are read: those written, and those routes make by an address.
pub(crate) struct Roster {
    pub(crate) list: Vec<Upstream>,
    positions: HashMap<String, usize>,
    /// The place and use of those written.
    written: Vec<(Span, bool)>,
}

impl Roster {
    pub(crate) fn read(root: &Fields<'_, '_>) -> Self {
        let mut roster = Self { list: Vec::new(), positions: HashMap::new(), written: Vec::new() };
        for (name, fields) in root.named("upstream") {
            root.report.accept(name.span, parse_name(name.text));
            // A faulty upstream keeps its name, so that its routes are not blamed too.
            roster.positions.insert(name.text.to_owned(), roster.list.len());
            roster.list.push(read_upstream(name.text, &fields));
            roster.written.push((name.span, false));
        }
        roster
    }

    /// The position of the upstream a route names, by its name or by an address.
    pub(crate) fn find(&mut self, wanted: Phrase<'_>, report: &Report<'_>) -> Option<usize> {
        if let Some(position) = self.positions.get(wanted.text) {
            if let Some((_, used)) = self.written.get_mut(*position) {
                *used = true;
            }
            return Some(*position);
        }
        if !wanted.text.contains(':') {
            if report.is_full() {
                return None;
            }
            let mut flaw = Flaw::new(format!("there is no upstream \"{}\"", wanted.text));
            let mut known: Vec<&str> = self.list.iter().map(|it| it.name.as_str()).collect();
            known.sort_unstable();
            flaw.help = suggestion(wanted.text, known.iter().copied(), "upstreams")
                .or_else(|| Some(format!("add [upstream.{}], or write an address", wanted.text)));
            report.error(wanted.span, flaw);
            return None;
        }
        let address = report.accept(wanted.span, parse_server(wanted.text))?;
        let scheme = Scheme::of(wanted.text);
        let name = match scheme {
            Scheme::Https => format!("https://{address}"),
            _ => address.to_string(),
        };
        if let Some(position) = self.positions.get(&name) {
            return Some(*position);
        }
        let position = self.list.len();
        self.positions.insert(name.clone(), position);
        let server = Server { scheme, ..Server::at(address) };
        self.list.push(implicit(name, server, report));
        Some(position)
    }

    /// Warns about upstreams no route uses.
    pub(crate) fn warn_unused(&self, report: &Report<'_>) {
        for ((span, used), upstream) in self.written.iter().zip(&self.list) {
            if !used {
                let message = format!("no route uses the upstream \"{}\"", upstream.name);
                report.warning(*span, Flaw::new(message));
            }
        }
    }
}

/// An upstream of one server with all defaults.
fn implicit(name: String, server: Server, report: &Report<'_>) -> Upstream {
    let fields = Fields::open(None, Span::default(), &UPSTREAM, report);
    let mut upstream = read_options(&name, &fields);
    upstream.servers.push(server);
    upstream.tls = read_tls(&fields, &upstream.servers);
    upstream
}

fn read_upstream(name: &str, fields: &Fields<'_, '_>) -> Upstream {
    let mut upstream = read_options(name, fields);
    upstream.servers = read_servers(fields);
    upstream.tls = read_tls(fields, &upstream.servers);
    upstream.protocol = read_protocol(fields, upstream.tls.as_ref());
    check_protocol(fields, &upstream);
    upstream
}

fn read_options(name: &str, fields: &Fields<'_, '_>) -> Upstream {
    Upstream {
        name: name.to_owned(),
        servers: Vec::new(),
        balance: read_balance(fields),
        sticky: read_sticky(fields),
        slow_start: Some(fields.duration("slow_start")).filter(|it| !it.is_zero()),
        limit: read_limit(fields),
        keepalive: read_keepalive(fields),
        timeout: read_timeout(fields),
        retry: read_retry(fields),
        health: read_health(fields),
        ejection: read_ejection(fields),
        panic: read_panic(fields),
        breaker: read_breaker(fields),
        host: fields.parsed("host", parse_authority),
        tls: None,
        proxy_protocol: match fields.word("proxy_protocol") {
            Some("v1") => Some(ProxyVersion::V1),
            Some("v2") => Some(ProxyVersion::V2),
            _ => None,
        },
        protocol: Protocol::Http1,
        http2: read_http2(&fields.table("http2")),
    }
}
