//! Routes: which requests are meant, and what is done with them.

use std::collections::{HashMap, HashSet};

use ipnet::IpNet;

use crate::address::parse_network;
use crate::calls::{CALLS, Calls, read_calls};
use crate::fields::Fields;
use crate::files::{FILES, Files, read_files};
use crate::filter::{FILTER, Filters};
use crate::header::{is_token, parse_field_name, parse_method};
use crate::listener::Listener;
use crate::lua::{LUA, LuaScript, read_script};
use crate::mirror::{MIRROR, Mirror, read_mirror};
use crate::name::parse_name;
use crate::nearest::suggestion;
use crate::overload::{CONCURRENCY, Concurrency, ConcurrencyLimit, read_concurrency};
use crate::path_rules::{PathOverrides, ROUTE_PATH_RULES, read_path_overrides};
use crate::pattern::{
    HostPattern, PathPattern, ValueMatch, parse_host_pattern, parse_path_pattern, parse_value_match,
};
use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::respond::{REDIRECT, RESPOND, Redirect, Respond, read_redirect, read_respond};
use crate::section::{Key, Kind, Preset, Section};
use crate::tree::Value;
use crate::upstream::Roster;
use crate::written::Written;

/// Which requests are meant, and what is done with them.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The name logs and metrics know it by; no two routes share one.
    pub name: String,
    /// The names of the listeners it is for; empty = all.
    pub listeners: Vec<String>,
    /// The hosts it is for; empty = all.
    pub hosts: Vec<HostPattern>,
    /// The paths it is for.
    pub path: PathPattern,
    /// The methods it is for; empty = all.
    pub methods: Vec<String>,
    /// Header fields a request must have, names lowercased. All of them have to match.
    pub headers: Vec<(String, ValueMatch)>,
    /// Query parameters a request must have.
    pub queries: Vec<(String, ValueMatch)>,
    /// Cookies a request must have.
    pub cookies: Vec<(String, ValueMatch)>,
    /// The networks its clients are in; empty = all.
    pub clients: Vec<IpNet>,
    /// What it says about the spelling of paths; `None` = what its listener says.
    pub path_rules: Option<PathOverrides>,
    /// Bytes a request body may have; `None` = any number.
    pub body_limit: Option<u64>,
    /// Whether clients have to have shown a certificate.
    pub proof: Proof,
    /// How many of its requests may be under way; `None` = any number.
    pub concurrency: Option<Concurrency>,
    /// What is done with the request.
    pub action: Action,
    /// What holds for gRPC calls.
    pub calls: Calls,
    /// Who gets a copy of it.
    pub mirror: Option<Mirror>,
    /// Positions in `Model::filters` of what it goes through, those of all routes first.
    pub filters: Vec<usize>,
    /// Where each of them stands in `filters`.
    pub filters_written: Vec<Written>,
}

/// What is done with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A response written in the configuration.
    Respond(Respond),
    /// A response that sends the client elsewhere.
    Redirect(Redirect),
    /// The response of an upstream.
    Proxy(Proxy),
    /// A file, as a response.
    Files(Box<Files>),
    /// What a script says.
    Lua(Box<LuaScript>),
    /// Says whether the gateway is well.
    Health,
}

/// The request goes to an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The position of the upstream in `Model::upstreams`.
    pub upstream: usize,
}

/// What clients have to have shown of themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// Nothing.
    #[default]
    None,
    /// A certificate.
    Certificate,
}

/// More filters than this no route has, those of all routes included.
const MOST_FILTERS: usize = 64;

/// The keys that say what is done; a route has exactly one.
const ACTIONS: [&str; 6] = ["respond", "redirect", "proxy", "files", "lua", "health"];

pub(crate) static ROUTE: Section = Section {
    name: "route",
    doc: "Which requests are meant, and what is done with them. Everything that is written must \
          match. The most specific route wins: an exact host before a wildcard, an exact path \
          before a longer prefix before a regular expression, then the order of the text. A \
          request no route is for is answered with 404. A route has exactly one of `respond`, \
          `redirect`, `proxy`, `files`, `lua`, `health`.",
    keys: &[
        Key {
            name: "name",
            kind: Kind::Text("name"),
            preset: Preset::Absent("host and path"),
            doc: "The name that logs and metrics know the route by.",
        },
        Key {
            name: "listener",
            kind: Kind::Texts("listener name"),
            preset: Preset::Absent("all"),
            doc: "The listeners the route is for.",
        },
        Key {
            name: "host",
            kind: Kind::Texts("host"),
            preset: Preset::Absent("all"),
            doc: "The hosts the route is for: `\"example.com\"`, `\"*.example.com\"` for all \
                  below it, `\"*\"` for all.",
        },
        Key {
            name: "path",
            kind: Kind::Text("path"),
            preset: Preset::Value("/*"),
            doc: "The paths the route is for: `\"/about\"` exactly, `\"/api/*\"` for `/api` and \
                  all below it, `\"/users/{id}\"` with a named segment, `\"~ ^/v[0-9]+/\"` as a \
                  regular expression.",
        },
        Key {
            name: "method",
            kind: Kind::Texts("method"),
            preset: Preset::Absent("all"),
            doc: "The methods the route is for, in capitals.",
        },
        Key {
            name: "header",
            kind: Kind::Pairs("value match"),
            preset: Preset::Absent("any"),
            doc: "Header fields the request must have: `\"acme\"` exactly, `\"~ ^v[0-9]\"` as a \
                  regular expression, `\"*\"` with any value.",
        },
        Key {
            name: "query",
            kind: Kind::Pairs("value match"),
            preset: Preset::Absent("any"),
            doc: "Query parameters the request must have, written like `header`.",
        },
        Key {
            name: "cookie",
            kind: Kind::Pairs("value match"),
            preset: Preset::Absent("any"),
            doc: "Cookies the request must have, written like `header`.",
        },
        Key {
            name: "client",
            kind: Kind::Texts("network"),
            preset: Preset::Absent("all"),
            doc: "The networks or addresses of the clients: `\"10.0.0.0/8\"`.",
        },
        Key {
            name: "path_rules",
            kind: Kind::Table(&ROUTE_PATH_RULES),
            preset: Preset::Absent("the listener's"),
            doc: "What of a path's spelling this route refuses and sends.",
        },
        Key {
            name: "body_limit",
            kind: Kind::Size { min: 0, max: u64::MAX, word: Some("off") },
            preset: Preset::Value("100MiB"),
            doc: "Bytes a request body may have. More is answered with 413.",
        },
        Key {
            name: "client_certificate",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` refuses clients that have shown no certificate, with 403. The listener has \
                  to ask for one: see its `tls.client`.",
        },
        Key {
            name: "concurrency",
            kind: Kind::Table(&CONCURRENCY),
            preset: Preset::Absent("no limit"),
            doc: "How many requests of the route may be under way at once, over all workers.",
        },
        Key {
            name: "filters",
            kind: Kind::Shorts("filter name", &FILTER),
            preset: Preset::Absent("none"),
            doc: "What requests and answers of the route go through, in this order: names of filters, or                   filters written in place. Answers go through them the other way round.",
        },
        Key {
            name: "respond",
            kind: Kind::Short("text", &RESPOND),
            preset: Preset::Absent("another action"),
            doc: "Action: a response written down here.",
        },
        Key {
            name: "redirect",
            kind: Kind::Short("target", &REDIRECT),
            preset: Preset::Absent("another action"),
            doc: "Action: sends the client elsewhere.",
        },
        Key {
            name: "proxy",
            kind: Kind::Text("upstream name or server address"),
            preset: Preset::Absent("another action"),
            doc: "Action: passes the request on to an upstream, by its name or directly by the \
                  address of one server: `\"http://127.0.0.1:9001\"`.",
        },
        Key {
            name: "files",
            kind: Kind::Short("folder", &FILES),
            preset: Preset::Absent("another action"),
            doc: "Action: answers from the files of a folder.",
        },
        Key {
            name: "lua",
            kind: Kind::Table(&LUA),
            preset: Preset::Absent("another action"),
            doc: "Action: a function of a script answers.",
        },
        Key {
            name: "mirror",
            kind: Kind::Short("upstream name or server address", &MIRROR),
            preset: Preset::Absent("nobody"),
            doc: "Who gets copies of requests that `proxy` passes on; their answers are thrown \
                  away.",
        },
        Key {
            name: "grpc",
            kind: Kind::Table(&CALLS),
            preset: Preset::Absent("calls pass as they are"),
            doc: "What holds for gRPC calls that `proxy` passes on.",
        },
        Key {
            name: "health",
            kind: Kind::Flag,
            preset: Preset::Absent("another action"),
            doc: "Action: `true` answers whether the gateway is well, for the load balancer in \
                  front of it.",
        },
    ],
};

/// All routes, in the order of the text, with unique names.
pub(crate) fn read_routes(
    root: &Fields<'_, '_>,
    listeners: &[Listener],
    (roster, filters): (&mut Roster, &mut Filters),
) -> Vec<Route> {
    let mut routes = Vec::new();
    let mut read = Vec::new();
    for fields in root.tables("route") {
        let named = fields.text("name").map(|it| it.span);
        if let Some(route) = read_route(&fields, listeners, roster) {
            routes.push((route, named, fields.span));
            read.push(fields);
        }
    }
    give_names(&mut routes, root.report);
    // Filters written in place are called by the name of their route.
    let common = filters.find(root, "all", roster);
    for ((route, ..), fields) in routes.iter_mut().zip(&read) {
        let own = filters.find(fields, &route.name, roster);
        (route.filters, route.filters_written) = common.iter().cloned().chain(own).unzip();
        refuse_length(fields, route.filters.len());
    }
    if !root.report.has_errors() {
        warn_shadowed(&routes, root.report);
    }
    routes.into_iter().map(|(route, ..)| route).collect()
}

fn read_route(
    fields: &Fields<'_, '_>,
    listeners: &[Listener],
    roster: &mut Roster,
) -> Option<Route> {
    let hosts = fields.list("host", parse_host_pattern);
    let path = fields.parsed("path", parse_path_pattern);
    let route = Route {
        name: fields.parsed("name", parse_name).unwrap_or_default(),
        listeners: read_listener_names(fields, listeners),
        // One "*" among them stands for all.
        hosts: hosts.into_iter().collect::<Option<Vec<_>>>().unwrap_or_default(),
        path: path.unwrap_or_else(|| PathPattern::Prefix("/".to_owned())),
        methods: fields.list("method", parse_method),
        headers: read_matches(fields, "header", parse_field_name),
        queries: read_matches(fields, "query", parse_parameter),
        cookies: read_matches(fields, "cookie", parse_cookie_name),
        clients: fields.list("client", parse_network),
        path_rules: read_path_overrides(
            fields,
            listeners.iter().map(|it| (&*it.name, it.path_rules)),
        ),
        body_limit: fields.size("body_limit"),
        proof: read_proof(fields, listeners),
        concurrency: read_concurrency(fields),
        action: Action::Health,
        calls: read_calls(fields),
        mirror: None,
        filters: Vec::new(),
        filters_written: Vec::new(),
    };
    for key in ["listener", "host", "method", "client"] {
        refuse_empty(fields, key);
    }
    let action = read_action(fields, roster);
    let mirror = read_mirror(fields, roster);
    let action = action?;
    check_concurrency(fields, route.concurrency.as_ref(), &action);
    Some(Route { action, mirror, ..route })
}

fn read_proof(fields: &Fields<'_, '_>, listeners: &[Listener]) -> Proof {
    if fields.flag("client_certificate") != Some(true) {
        return Proof::None;
    }
    let asks = |it: &Listener| it.tls.as_ref().is_some_and(|tls| tls.client.is_some());
    let named: Vec<&str> = fields.phrases("listener").iter().map(|it| it.text).collect();
    let mut own = listeners.iter().filter(|it| named.is_empty() || named.contains(&&*it.name));
    if let Some(entry) = fields.entry("client_certificate")
        && !own.any(asks)
    {
        let flaw = Flaw::new("no listener of this route asks clients for certificates").with_help(
            "add to the listener: tls.client = { mode = \"optional\", ca = \"clients.pem\" }",
        );
        fields.report.error(entry.span, flaw);
    }
    Proof::Certificate
}

/// A bit for each filter says whether it takes part.
fn refuse_length(fields: &Fields<'_, '_>, length: usize) {
    if length > MOST_FILTERS {
        let message = format!("a route has {MOST_FILTERS} filters at most, this one has {length}");
        fields.report.error(fields.span, Flaw::new(message));
    }
}

/// An empty list would read as "all", the opposite of what it looks like.
fn refuse_empty(fields: &Fields<'_, '_>, key: &str) {
    let Some(entry) = fields.entry(key) else { return };
    if matches!(&entry.node.value, Value::List(list) if list.is_empty()) {
        let flaw = Flaw::new(format!("the list `{key}` is empty, so nothing could match"))
            .with_help("remove the key to match all");
        fields.report.error(entry.node.span, flaw);
    }
}

/// A limit learns from the latency of an origin, so there has to be one.
fn check_concurrency(fields: &Fields<'_, '_>, concurrency: Option<&Concurrency>, action: &Action) {
    let adaptive = |it: &Concurrency| matches!(it.limit, ConcurrencyLimit::Adaptive(_));
    if concurrency.is_some_and(adaptive)
        && !matches!(action, Action::Proxy(_))
        && let Some(entry) = fields.entry("concurrency")
    {
        let flaw = Flaw::new("an adaptive limit learns from origins, and this route has none")
            .with_help("write a fixed one: limit = 100");
        fields.report.error(entry.span, flaw);
    }
}

fn read_listener_names(fields: &Fields<'_, '_>, listeners: &[Listener]) -> Vec<String> {
    let mut names = Vec::new();
    for it in fields.phrases("listener") {
        let known = listeners.iter().find(|listener| listener.name == it.text);
        if let Some(listener) = known {
            if listener.lua.is_some() {
                let message = format!("a script answers at the listener \"{}\"", it.text);
                let help = "routes are for listeners without `lua`";
                fields.report.error(it.span, Flaw::new(message).with_help(help));
            }
            names.push(it.text.to_owned());
            continue;
        }
        if fields.report.is_full() {
            break;
        }
        let mut flaw = Flaw::new(format!("there is no listener \"{}\"", it.text));
        let known = listeners.iter().map(|listener| listener.name.as_str());
        flaw.help = suggestion(it.text, known, "listeners");
        fields.report.error(it.span, flaw);
    }
    names
}

fn read_matches(
    fields: &Fields<'_, '_>,
    key: &str,
    parse: impl Fn(&str) -> Result<String, Flaw>,
) -> Vec<(String, ValueMatch)> {
    let report = fields.report;
    let mut matches = Vec::new();
    for (name, values) in fields.pairs(key) {
        let checked = report.accept(name.span, parse(name.text));
        for value in values {
            let value = report.accept(value.span, parse_value_match(value.text));
            matches.extend(checked.clone().zip(value));
        }
    }
    matches
}

fn parse_parameter(text: &str) -> Result<String, Flaw> {
    match text.is_empty() || text.chars().any(char::is_control) {
        true => Err(Flaw::new("this is not the name of a query parameter")),
        false => Ok(text.to_owned()),
    }
}

/// A cookie name is a token (RFC 6265 section 4.1.1).
fn parse_cookie_name(text: &str) -> Result<String, Flaw> {
    match is_token(text) {
        true => Ok(text.to_owned()),
        false => Err(Flaw::new(format!("\"{}\" is not the name of a cookie", text.escape_debug()))),
    }
}

fn read_action(fields: &Fields<'_, '_>, roster: &mut Roster) -> Option<Action> {
    let report = fields.report;
    let mut written = ACTIONS.iter().filter_map(|name| fields.written(name)).collect::<Vec<_>>();
    written.sort_by_key(|entry| entry.span);
    let [entry, others @ ..] = written.as_slice() else {
        let flaw = Flaw::new("this route does nothing")
            .with_help(format!("give it one action: {}", ACTIONS.join(", ")));
        report.error(fields.span, flaw);
        return None;
    };
    if let Some(second) = others.first() {
        let names: Vec<String> = written.iter().map(|it| format!("`{}`", it.key)).collect();
        let flaw =
            Flaw::new(format!("a route has one action, this one has {}", names.join(" and ")))
                .with_help("keep one of them, or write a second route");
        report.error(second.span, flaw);
    }
    let entry = fields.entry(&entry.key)?;
    match entry.key.as_str() {
        "respond" => read_respond(&entry.node, entry.span, report).map(Action::Respond),
        "redirect" => read_redirect(&entry.node, entry.span, report).map(Action::Redirect),
        "files" => {
            let files = read_files(&entry.node, entry.span, report)?;
            Some(Action::Files(Box::new(files)))
        }
        "lua" => read_script(&fields.table("lua")).map(|it| Action::Lua(Box::new(it))),
        "proxy" => {
            let upstream = roster.find(fields.text("proxy")?, report)?;
            Some(Action::Proxy(Proxy { upstream }))
        }
        _ => {
            if !fields.flag("health")? {
                let flaw = Flaw::new("`health = false` is no action")
                    .with_help("write true, or give the route another action");
                report.error(entry.node.span, flaw);
            }
            Some(Action::Health)
        }
    }
}

type Read = (Route, Option<Span>, Span);

/// Names that were written must differ; the others are built from host and path and numbered.
fn give_names(routes: &mut [Read], report: &Report<'_>) {
    let mut taken = HashSet::new();
    for (route, span, _) in routes.iter() {
        let Some(span) = span.filter(|_| !route.name.is_empty()) else { continue };
        if !taken.insert(route.name.clone()) {
            let message = format!("the route name \"{}\" is used twice", route.name);
            report.error(span, Flaw::new(message));
        }
    }
    let mut counts: HashMap<String, usize> = HashMap::new();
    for (route, ..) in routes.iter_mut().filter(|(route, ..)| route.name.is_empty()) {
        let base = default_name(route);
        loop {
            let count = counts.entry(base.clone()).or_default();
            *count = count.saturating_add(1);
            let name = match count {
                1 => base.clone(),
                count => format!("{base}#{count}"),
            };
            if taken.insert(name.clone()) {
                route.name = name;
                break;
            }
        }
    }
}

fn default_name(route: &Route) -> String {
    let host = match route.hosts.first() {
        Some(HostPattern::Exact(host)) => host.clone(),
        Some(HostPattern::Wildcard(tail)) => format!("*{tail}"),
        None => String::new(),
    };
    match &route.path {
        PathPattern::Exact(path) | PathPattern::Template(path) => format!("{host}{path}"),
        PathPattern::Prefix(path) => format!("{host}{path}*"),
        PathPattern::Regex(expression) => format!("{host}~{expression}"),
    }
}

/// Of two routes for the same requests the first in the text always wins.
fn warn_shadowed(routes: &[Read], report: &Report<'_>) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for (route, _, span) in routes {
        // What a route is for, without its name and what it does. Lists mean the same in any order.
        let sorted = |mut list: Vec<String>| {
            list.sort_unstable();
            list
        };
        let key = format!(
            "{:?}",
            (
                sorted(route.listeners.clone()),
                sorted(route.hosts.iter().map(|it| format!("{it:?}")).collect()),
                &route.path,
                sorted(route.methods.clone()),
                sorted(values(&route.headers)),
                sorted(values(&route.queries)),
                sorted(values(&route.cookies)),
                sorted(route.clients.iter().map(|it| it.to_string()).collect()),
            )
        );
        match seen.get(&key) {
            Some(first) => {
                let message = format!(
                    "the route \"{}\" never matches: \"{first}\" is for the same requests",
                    route.name
                );
                report.warning(*span, Flaw::new(message));
            }
            None => {
                seen.insert(key, &route.name);
            }
        }
    }
}

fn values(list: &[(String, ValueMatch)]) -> Vec<String> {
    list.iter().map(|it| format!("{it:?}")).collect()
}
