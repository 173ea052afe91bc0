//! One server of an upstream, as it is written.

use crate::address::{ServerAddress, parse_server};
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::report::Report;
use crate::section::{Key, Kind, Preset, Section};
use crate::tree::{Node, Value};

/// One origin server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Where it is.
    pub address: ServerAddress,
    /// Its share of the requests relative to the others; 0 = none.
    pub weight: u32,
    /// Whether it is asked always, or only when no other is available.
    pub role: Role,
    /// What its address says about encryption.
    pub scheme: Scheme,
    /// Connections to it at once; `None` = those of the upstream's limit.
    pub max_connections: Option<u32>,
}

/// What the address of a server says about encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Nothing.
    #[default]
    Unsaid,
    /// `http://`: there is none.
    Http,
    /// `https://`: there is.
    Https,
}

impl Scheme {
    /// Of an address as it is written.
    pub(crate) fn of(text: &str) -> Self {
        match text.split_once("://") {
            Some(("https", _)) => Self::Https,
            Some(("http", _)) => Self::Http,
            _ => Self::Unsaid,
        }
    }
}

/// When a server is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Always.
    #[default]
    Primary,
    /// When no other server is available.
    Backup,
}

pub(super) static SERVER: Section = Section {
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
            doc: "Its share of the requests relative to the others; 0 gives it none. The weights \
                  of SRV records and of a file are multiplied by it.",
        },
        Key {
            name: "backup",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` for a server that is asked only when no other is available.",
        },
        Key {
            name: "max_connections",
            kind: Kind::Integer { min: 1, max: 1_000_000, word: None },
            preset: Preset::Absent("`limit.connections` of the upstream"),
            doc: "Connections to it at once, over all workers. Of a name, of SRV records and of a \
                  file it is the limit of each server.",
        },
    ],
};

impl Server {
    /// A server of which only the address is said.
    #[must_use]
    pub const fn at(address: ServerAddress) -> Self {
        Self {
            address,
            weight: 1,
            role: Role::Primary,
            scheme: Scheme::Unsaid,
            max_connections: None,
        }
    }

    /// A server of a list, under what is said of the list as a whole.
    #[must_use]
    pub fn of_list(&self, list: &Self) -> Self {
        let role = if list.role == Role::Backup { Role::Backup } else { self.role };
        let max_connections = self.max_connections.or(list.max_connections);
        let weight = self.weight.saturating_mul(list.weight);
        Self { weight, role, max_connections, ..self.clone() }
    }
}

pub(super) fn read_servers(fields: &Fields<'_, '_>) -> Vec<Server> {
    let Some(entry) = fields.entry("servers") else { return Vec::new() };
    let items = items(&entry.node);
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

/// One server needs no list around it.
pub(super) fn items(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(list) => list,
        _ => std::slice::from_ref(node),
    }
}

pub(super) fn read_server(item: &Node, report: &Report<'_>) -> Option<Server> {
    match &item.value {
        Value::Text(text) => {
            let address = report.accept(item.span, parse_server(&text.value))?;
            Some(Server { scheme: Scheme::of(&text.value), ..Server::at(address) })
        }
        _ => {
            let fields = Fields::open(Some(item), item.span, &SERVER, report);
            let weight = fields.integer("weight").and_then(|it| u32::try_from(it).ok());
            let backup = fields.flag("backup").unwrap_or(false);
            let role = if backup { Role::Backup } else { Role::Primary };
            let scheme = fields.text("address").map_or(Scheme::Unsaid, |it| Scheme::of(it.text));
            let address = fields.parsed("address", parse_server)?;
            let most = fields.integer("max_connections").and_then(|it| u32::try_from(it).ok());
            let weight = weight.unwrap_or(1);
            Some(Server { address, weight, role, scheme, max_connections: most })
        }
    }
}
