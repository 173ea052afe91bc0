//! What a configuration means: the whole of it, checked, with every default filled in.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;

use crate::address::{Address, parse_address, parse_name_server, parse_network};
use crate::fields::Fields;
use crate::filter::{FILTER, Filter, FilterKind, Filters, parse_hosts};
use crate::listener::{LISTENER, Listener, read_listeners};
use crate::log::{LOG, Log, read_log};
use crate::lua::{STORE, read_stores};
use crate::overload::{OVERLOAD, Overload, read_overload};
use crate::place::Span;
use crate::problem::{Flaw, Problem};
use crate::report::Report;
use crate::route::{Action, ROUTE, Route, read_routes};
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::tree::Node;
use crate::upstream::{Roster, UPSTREAM, Upstream};

/// What a configuration means. Nothing is left to be filled in or checked, except what needs the
/// world: files, ports, names.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Worker threads; `None` = one per CPU.
    pub workers: Option<usize>,
    /// How long requests in flight may take when the program ends.
    pub shutdown_timeout: Duration,
    /// How long a new process may take to be ready, when it is to take the place of this one.
    pub upgrade_timeout: Duration,
    /// Peers whose word about the client's address is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// How host names are resolved.
    pub resolver: Resolver,
    /// Where the program itself is asked.
    pub admin: Admin,
    /// Where its metrics are asked for, apart from everything else; `None` = nowhere but there.
    pub metrics: Option<Address>,
    /// What is written about requests.
    pub log: Log,
    /// Limits of the whole gateway.
    pub overload: Overload,
    /// Where clients connect; at least one, names and addresses differ.
    pub listeners: Vec<Listener>,
    /// The upstreams: those written in the order of the text, then those routes made.
    pub upstreams: Vec<Upstream>,
    /// The filters: those with a name in the order of the text, then those written in place.
    pub filters: Vec<Filter>,
    /// The routes in the order of the text.
    pub routes: Vec<Route>,
    /// What works but is probably not meant.
    pub warnings: Vec<Problem>,
}

/// How host names are resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolver {
    /// Name servers; empty = those of the system.
    pub servers: Vec<SocketAddr>,
    /// How long one question may take.
    pub timeout: Duration,
    /// An answer is kept at least so long.
    pub min_ttl: Duration,
    /// An answer is kept at most so long.
    pub max_ttl: Duration,
}

/// Where the program itself is asked: metrics, health, admin API.
#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    /// Where to listen; `None` = nowhere.
    pub address: Option<Address>,
    /// Whether the user chose the address. A default that is taken is no reason not to start.
    pub origin: Origin,
    /// Host names it is asked for, beside those of the machine itself and addresses.
    pub hosts: Vec<String>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user wrote it.
    Written,
    /// It is the default.
    Default,
}

pub(crate) static ROOT: Section = Section {
    name: "(top level)",
    doc: "Keys that stand before any table.",
    keys: &[
        Key {
            name: "workers",
            kind: Kind::Integer { min: 1, max: 1024, word: None },
            preset: Preset::Absent("one per CPU"),
            doc: "Worker threads. Each has its own connections, nothing is shared between them.",
        },
        Key {
            name: "shutdown_timeout",
            kind: Kind::Duration { min: Duration::ZERO, max: YEAR },
            preset: Preset::Value("30s"),
            doc: "How long requests in flight may take when the program ends.",
        },
        Key {
            name: "upgrade_timeout",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("60s"),
            doc: "How long a new process may take to be ready when it is to take the place of the \
                  running one. It is killed then, and the running one goes on.",
        },
        Key {
            name: "trusted_proxies",
            kind: Kind::Texts("network"),
            preset: Preset::Absent("none"),
            doc: "Networks or addresses of proxies in front of this one whose word about the \
                  client's address is believed.",
        },
        Key {
            name: "resolver",
            kind: Kind::Table(&RESOLVER),
            preset: Preset::Absent("the defaults below"),
            doc: "How host names are resolved.",
        },
        Key {
            name: "admin",
            kind: Kind::Table(&ADMIN),
            preset: Preset::Absent("the defaults below"),
            doc: "Where the program itself is asked.",
        },
        Key {
            name: "metrics",
            kind: Kind::Table(&METRICS),
            preset: Preset::Absent("the defaults below"),
            doc: "Where metrics are asked for, and nothing else.",
        },
        Key {
            name: "log",
            kind: Kind::Table(&LOG),
            preset: Preset::Absent("the defaults below"),
            doc: "What is written about requests.",
        },
        Key {
            name: "overload",
            kind: Kind::Table(&OVERLOAD),
            preset: Preset::Absent("the defaults below"),
            doc: "What the gateway does when more is asked of it than it can do.",
        },
        Key {
            name: "listener",
            kind: Kind::Tables(&LISTENER),
            preset: Preset::Absent("refused: at least one is needed"),
            doc: "Where clients connect.",
        },
        Key {
            name: "upstream",
            kind: Kind::Named(&UPSTREAM),
            preset: Preset::Absent("none"),
            doc: "Groups of origin servers, by name.",
        },
        Key {
            name: "filter",
            kind: Kind::Named(&FILTER),
            preset: Preset::Absent("none"),
            doc: "What looks at requests and answers on their way, by name.",
        },
        Key {
            name: "filters",
            kind: Kind::Shorts("filter name", &FILTER),
            preset: Preset::Absent("none"),
            doc: "Filters of all routes, in the order they are asked; those of a route come behind them.",
        },
        Key {
            name: "store",
            kind: Kind::Named(&STORE),
            preset: Preset::Absent("`default` alone"),
            doc: "Values that scripts share between all workers, by name.",
        },
        Key {
            name: "route",
            kind: Kind::Tables(&ROUTE),
            preset: Preset::Absent("every request is answered with 404"),
            doc: "Which requests are meant, and what is done with them.",
        },
    ],
};

static RESOLVER: Section = Section {
    name: "resolver",
    doc: "How the host names of servers are resolved.",
    keys: &[
        Key {
            name: "servers",
            kind: Kind::Texts("address of a name server"),
            preset: Preset::Absent("those of the system"),
            doc: "The name servers to ask: `\"1.1.1.1\"`, or with a port that is not 53.",
        },
        Key {
            name: "timeout",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("5s"),
            doc: "How long one question may take.",
        },
        Key {
            name: "min_ttl",
            kind: Kind::Duration { min: Duration::ZERO, max: YEAR },
            preset: Preset::Value("1s"),
            doc: "An answer is kept at least so long, whatever it says itself.",
        },
        Key {
            name: "max_ttl",
            kind: Kind::Duration { min: Duration::ZERO, max: YEAR },
            preset: Preset::Value("1h"),
            doc: "An answer is kept at most so long, whatever it says itself.",
        },
    ],
};

static ADMIN: Section = Section {
    name: "admin",
    doc: "Where the program itself is asked: metrics, health, admin API, web page.",
    keys: &[
        Key {
            name: "address",
            kind: Kind::Text("address, or \"off\""),
            preset: Preset::Value("127.0.0.1:9180"),
            doc: "Where to listen for it, written like the address of a listener; `\"off\"` turns \
                  it off. Keep it away from the public.",
        },
        Key {
            name: "hosts",
            kind: Kind::Texts("host, or `*.host` for all below it"),
            preset: Preset::Absent("none"),
            doc: "Host names in `Host` that are accepted beside `localhost` and IP addresses. Requests for other \
                  names get 421, so that no web page can read these pages by DNS rebinding.",
        },
    ],
};

static METRICS: Section = Section {
    name: "metrics",
    doc: "A listener for `/metrics` alone, for those who may read figures but not the configuration. The admin \
          listener has that page, too.",
    keys: &[Key {
        name: "address",
        kind: Kind::Text("address, or \"off\""),
        preset: Preset::Value("off"),
        doc: "Where to listen for it, written like the address of a listener. `hosts` of `[admin]` holds here, too.",
    }],
};

/// Reads the whole document; the model is only good if the report has no errors.
pub(crate) fn read_model(document: &Node, report: &Report<'_>) -> Model {
    let root = Fields::open(Some(document), Span::default(), &ROOT, report);
    let workers = root.integer("workers").and_then(|it| usize::try_from(it).ok());
    let mut listeners = read_listeners(&root);
    let mut roster = Roster::read(&root);
    let mut filters = Filters::read(&root, &mut roster);
    let mut routes = read_routes(&root, &listeners, (&mut roster, &mut filters));
    let scripts = share_stores(&root, (&mut listeners, &mut filters.list, &mut routes));
    if !report.has_errors() {
        filters.warn_unused(report);
        // A route at fault may have been the one that uses it, and scripts may ask any of them.
        if scripts == 0 {
            roster.warn_unused(report);
        }
    }
    Model {
        workers,
        shutdown_timeout: root.duration("shutdown_timeout"),
        upgrade_timeout: root.duration("upgrade_timeout"),
        trusted_proxies: root.list("trusted_proxies", parse_network),
        resolver: read_resolver(&root.table("resolver")),
        admin: read_admin(&root.table("admin"), &listeners),
        metrics: read_own_address(&root.table("metrics"), &listeners),
        log: read_log(&root.table("log")),
        overload: read_overload(&root.table("overload")),
        listeners,
        upstreams: roster.list,
        filters: filters.list,
        routes,
        warnings: Vec::new(),
    }
}

/// Tells all scripts which stores there are; how many scripts there are.
fn share_stores(
    root: &Fields<'_, '_>,
    (listeners, filters, routes): (&mut [Listener], &mut [Filter], &mut [Route]),
) -> usize {
    let stores = read_stores(root);
    let of_listeners = listeners.iter_mut().filter_map(|it| it.lua.as_mut());
    let of_listeners = of_listeners.map(|lua| &mut lua.script);
    let of_filters = filters.iter_mut().filter_map(|filter| match &mut filter.kind {
        FilterKind::Lua(lua) => Some(&mut lua.script),
        _ => None,
    });
    let of_routes = routes.iter_mut().filter_map(|route| match &mut route.action {
        Action::Lua(script) => Some(&mut **script),
        _ => None,
    });
    let scripts = of_listeners.chain(of_filters).chain(of_routes);
    scripts.map(|script| script.stores.clone_from(&stores)).count()
}

fn read_resolver(fields: &Fields<'_, '_>) -> Resolver {
    let resolver = Resolver {
        servers: fields.list("servers", parse_name_server),
        timeout: fields.duration("timeout"),
        min_ttl: fields.duration("min_ttl"),
        max_ttl: fields.duration("max_ttl"),
    };
    if resolver.min_ttl > resolver.max_ttl {
        let entry = fields.entry("min_ttl").or_else(|| fields.entry("max_ttl"));
        let span = entry.map_or(fields.span, |entry| entry.node.span);
        fields.report.error(span, Flaw::new("`min_ttl` is longer than `max_ttl`"));
    }
    resolver
}

fn read_admin(fields: &Fields<'_, '_>, listeners: &[Listener]) -> Admin {
    let address = read_own_address(fields, listeners);
    let written = fields.text("address");
    let origin = if written.is_some() { Origin::Written } else { Origin::Default };
    Admin { address, origin, hosts: fields.list("hosts", parse_hosts) }
}

/// An address that is none of a listener's.
fn read_own_address(fields: &Fields<'_, '_>, listeners: &[Listener]) -> Option<Address> {
    let parse = |text: &str| match text {
        "off" => Ok(None),
        text => parse_address(text).map(Some),
    };
    let address = fields.parsed("address", parse).flatten();
    let written = fields.text("address");
    let free = matches!(&address, Some(Address::Tcp(it)) if it.port() == 0);
    let taken = listeners.iter().find(|it| Some(&it.address) == address.as_ref() && !free);
    if let (Some(listener), Some(written)) = (taken, written) {
        let message = format!("the listener \"{}\" is at this address too", listener.name);
        fields.report.error(written.span, Flaw::new(message));
    }
    address
}
