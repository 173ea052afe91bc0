//! Upstreams: groups of origin servers, and how they are spoken to.

use std::collections::HashMap;
use std::time::Duration;

use crate::address::{ServerAddress, parse_server};
use crate::fields::{Fields, Phrase};
use crate::header::parse_authority;
use crate::name::parse_name;
use crate::nearest::suggestion;
use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::tree::{Node, Value};

/// A group of origin servers that can stand in for each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// The name routes and metrics know it by.
    pub name: String,
    /// Its servers, at least one.
    pub servers: Vec<Server>,
    /// How a server is chosen.
    pub balance: Balance,
    /// Connections kept for the next request.
    pub keepalive: Keepalive,
    /// How long a server may take.
    pub timeout: UpstreamTimeout,
    /// When a request is tried again.
    pub retry: Retry,
    /// The Host field sent to the servers; `None` = the one of the client.
    pub host: Option<String>,
}

/// One origin server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Where it is.
    pub address: ServerAddress,
    /// Its share of the requests relative to the others; 0 = none.
    pub weight: u32,
}

/// How a server is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// One after the other, by weight.
    RoundRobin,
}

/// Connections kept open for the next request.
#[derive(Clone, Debug, PartialEq)]
pub struct Keepalive {
    /// Idle connections kept per worker, over all servers of the upstream; 0 = none.
    pub idle: usize,
    /// How long an idle connection is kept.
    pub timeout: Duration,
}

/// How long a server may take.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamTimeout {
    /// To accept a connection.
    pub connect: Duration,
    /// Without a byte of a response.
    pub read: Duration,
    /// Without a byte of a request being taken.
    pub write: Duration,
    /// Without a byte in either direction on an upgraded connection.
    pub tunnel: Duration,
}

/// When a request is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Tries after the first.
    pub attempts: u32,
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
                  `\"unix:/run/app.sock\"`, or a table with more about it.",
        },
        Key {
            name: "balance",
            kind: Kind::Word(&["round_robin"]),
            preset: Preset::Value("round_robin"),
            doc: "How a server is chosen for a request: `round_robin` takes one after the other \
                  by weight.",
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
            name: "host",
            kind: Kind::Text("host name"),
            preset: Preset::Absent("the one of the client"),
            doc: "The Host field sent to the servers.",
        },
    ],
};

static SERVER: Section = Section {
    name: "upstream.servers",
    doc: "One server of an upstream, where more than its address is to be said.",
    keys: &[
        Key {
            name: "address",
            kind: Kind::Text("server address"),
            preset: Preset::Required,
            doc: "Where the server is, as in the short form.",
        },
        Key {
            name: "weight",
            kind: Kind::Integer { min: 0, max: 1000, word: None },
            preset: Preset::Value("1"),
            doc: "Its share of the requests relative to the others; 0 gives it none.",
        },
    ],
};

static KEEPALIVE: Section = Section {
    name: "upstream.keepalive",
    doc: "Connections to the servers that are kept open for the next request.",
    keys: &[
        Key {
            name: "idle",
            kind: Kind::Integer { min: 0, max: 1_000_000, word: None },
            preset: Preset::Value("256"),
            doc: "Idle connections kept by each worker; 0 closes every connection after its \
                  response.",
        },
        Key {
            name: "timeout",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("60s"),
            doc: "How long an idle connection is kept. Choose it shorter than the server's own.",
        },
    ],
};

static TIMEOUT: Section = Section {
    name: "upstream.timeout",
    doc: "How long a server may take before the request fails or is tried again.",
    keys: &[
        Key {
            name: "connect",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("2s"),
            doc: "For a connection to be accepted.",
        },
        Key {
            name: "read",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("30s"),
            doc: "Without a single byte of a response. Answered with 504.",
        },
        Key {
            name: "write",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("30s"),
            doc: "Without a single byte of the request being taken by the server.",
        },
        Key {
            name: "tunnel",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("1h"),
            doc: "Without a byte in either direction on an upgraded connection, such as a WebSocket.",
        },
    ],
};

static RETRY: Section = Section {
    name: "upstream.retry",
    doc: "When a request that got no response is tried again, on another server if there is one.",
    keys: &[Key {
        name: "attempts",
        kind: Kind::Integer { min: 0, max: 100, word: None },
        preset: Preset::Value("1"),
        doc: "How often a request is tried again after the first try; 0 never does.",
    }],
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
        let name = address.to_string();
        if let Some(position) = self.positions.get(&name) {
            return Some(*position);
        }
        let position = self.list.len();
        self.positions.insert(name.clone(), position);
        self.list.push(implicit(name, address, report));
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
fn implicit(name: String, address: ServerAddress, report: &Report<'_>) -> Upstream {
    let fields = Fields::open(None, Span::default(), &UPSTREAM, report);
    let mut upstream = read_options(&name, &fields);
    upstream.servers.push(Server { address, weight: 1 });
    upstream
}

fn read_upstream(name: &str, fields: &Fields<'_, '_>) -> Upstream {
    let mut upstream = read_options(name, fields);
    upstream.servers = read_servers(fields);
    upstream
}

fn read_options(name: &str, fields: &Fields<'_, '_>) -> Upstream {
    let keepalive = fields.table("keepalive");
    let timeout = fields.table("timeout");
    let retry = fields.table("retry");
    let small = |fields: &Fields<'_, '_>, name: &str| {
        fields.integer(name).and_then(|it| u32::try_from(it).ok()).unwrap_or_default()
    };
    // One word so far: reading it still refuses every other.
    let balance = match fields.word("balance") {
        Some("round_robin") | None | Some(_) => Balance::RoundRobin,
    };
    Upstream {
        name: name.to_owned(),
        servers: Vec::new(),
        balance,
        keepalive: Keepalive {
            idle: usize::try_from(small(&keepalive, "idle")).unwrap_or(usize::MAX),
            timeout: keepalive.duration("timeout"),
        },
        timeout: UpstreamTimeout {
            connect: timeout.duration("connect"),
            read: timeout.duration("read"),
            write: timeout.duration("write"),
            tunnel: timeout.duration("tunnel"),
        },
        retry: Retry { attempts: small(&retry, "attempts") },
        host: fields.parsed("host", parse_authority),
    }
}

fn read_servers(fields: &Fields<'_, '_>) -> Vec<Server> {
    let Some(entry) = fields.entry("servers") else { return Vec::new() };
    let items: &[Node] = match &entry.node.value {
        Value::List(list) => list,
        // One server needs no list around it.
        _ => std::slice::from_ref(&entry.node),
    };
    if items.is_empty() {
        let flaw = Flaw::new("the list of servers is empty")
            .with_help("add an address: servers = [\"127.0.0.1:9001\"]");
        fields.report.error(entry.node.span, flaw);
    }
    let servers: Vec<Server> =
        items.iter().filter_map(|item| read_server(item, fields.report)).collect();
    if !servers.is_empty()
        && servers.len() == items.len()
        && servers.iter().all(|it| it.weight == 0)
    {
        let flaw = Flaw::new("every server has weight 0, so no request could be served");
        fields.report.error(entry.node.span, flaw);
    }
    servers
}

fn read_server(item: &Node, report: &Report<'_>) -> Option<Server> {
    match &item.value {
        Value::Text(text) => {
            let address = report.accept(item.span, parse_server(&text.value))?;
            Some(Server { address, weight: 1 })
        }
        _ => {
            let fields = Fields::open(Some(item), item.span, &SERVER, report);
            let weight = fields.integer("weight").and_then(|it| u32::try_from(it).ok());
            let address = fields.parsed("address", parse_server)?;
            Some(Server { address, weight: weight.unwrap_or(1) })
        }
    }
}
