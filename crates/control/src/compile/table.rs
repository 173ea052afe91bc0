//! Routes become tables, one for all listeners that have the same routes.

use sluice_model::{HostPattern, Listener, Model, PathPattern, PathRules, Route, ValueMatch};
use sluice_route::{HostSpec, PathSpec, RouteSpec, Table, ValueSpec};

use super::paths::path_rules;
use super::route_element;
use crate::flaw::Flaw;

/// A table and what it is for.
#[derive(Debug)]
pub(crate) struct PreparedTable {
    pub(crate) table: Table,
    /// Positions in the model of the routes in the table.
    pub(crate) routes: Vec<usize>,
    /// Positions in the model of the listeners that use it.
    pub(crate) listeners: Vec<usize>,
}

/// The tables; routes that cannot be matched become flaws.
pub(super) fn prepare_tables(model: &Model, flaws: &mut Vec<Flaw>) -> Vec<PreparedTable> {
    let known = flaws.len();
    // The table tells of the first route at fault only, so each is tried by itself first.
    for route in &model.routes {
        let listeners = model.listeners.iter().filter(|it| is_for(route, it));
        let build = |it: &Listener| {
            Table::build_for(vec![route_spec(route)], &path_rules(&it.path_rules)).err()
        };
        if let Some(error) = listeners.filter_map(build).next() {
            flaws.push(Flaw::new(route_element(&route.name), error.message));
        }
    }
    if flaws.len() > known {
        return Vec::new();
    }
    let mut tables = Vec::new();
    for Group { rules, routes, listeners } in groups(model) {
        let members = || routes.iter().filter_map(|&at| model.routes.get(at));
        match Table::build_for(members().map(route_spec).collect(), &path_rules(&rules)) {
            Ok(table) => tables.push(PreparedTable { table, routes, listeners }),
            Err(error) => {
                let name = members().nth(error.index).map_or("", |route| &route.name);
                flaws.push(Flaw::new(route_element(name), error.message));
            }
        }
    }
    tables
}

/// Listeners with the same routes, which compare paths alike.
struct Group {
    rules: PathRules,
    routes: Vec<usize>,
    listeners: Vec<usize>,
}

fn is_for(route: &Route, listener: &Listener) -> bool {
    route.listeners.is_empty() || route.listeners.contains(&listener.name)
}

fn groups(model: &Model) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (position, listener) in model.listeners.iter().enumerate() {
        let all = model.routes.iter().enumerate();
        let routes: Vec<usize> = all
            .filter(|(_, route)| is_for(route, listener))
            .map(|(position, _)| position)
            .collect();
        let rules = listener.path_rules;
        match groups.iter_mut().find(|known| known.routes == routes && known.rules == rules) {
            Some(known) => known.listeners.push(position),
            None => groups.push(Group { rules, routes, listeners: vec![position] }),
        }
    }
    groups
}

fn route_spec(route: &Route) -> RouteSpec {
    RouteSpec {
        hosts: route.hosts.iter().map(host_spec).collect(),
        path: path_spec(&route.path),
        methods: route.methods.clone(),
        headers: value_specs(&route.headers),
        queries: value_specs(&route.queries),
        cookies: value_specs(&route.cookies),
        clients: route.clients.clone(),
    }
}

fn host_spec(pattern: &HostPattern) -> HostSpec {
    match pattern {
        HostPattern::Exact(host) => HostSpec::Exact(host.clone()),
        HostPattern::Wildcard(tail) => HostSpec::Wildcard(tail.clone()),
    }
}

pub(super) fn path_spec(pattern: &PathPattern) -> PathSpec {
    match pattern {
        PathPattern::Exact(path) => PathSpec::Exact(path.clone()),
        PathPattern::Prefix(path) => PathSpec::Prefix(path.clone()),
        PathPattern::Template(path) => PathSpec::Template(path.clone()),
        PathPattern::Regex(expression) => PathSpec::Regex(expression.clone()),
    }
}

fn value_specs(matches: &[(String, ValueMatch)]) -> Vec<(String, ValueSpec)> {
    let spec = |value: &ValueMatch| match value {
        ValueMatch::Exact(text) => ValueSpec::Exact(text.clone()),
        ValueMatch::Regex(text) => ValueSpec::Regex(text.clone()),
        ValueMatch::Present => ValueSpec::Present,
    };
    matches.iter().map(|(name, value)| (name.clone(), spec(value))).collect()
}
