//! Routes become tables, one for all listeners that have the same routes.

use sluice_model::{HostPattern, Model, PathPattern, Route, ValueMatch};
use sluice_route::{HostSpec, PathSpec, RouteSpec, Table, ValueSpec};

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
        if let Err(error) = Table::build(vec![route_spec(route)]) {
            flaws.push(Flaw::new(route_element(&route.name), error.message));
        }
    }
    if flaws.len() > known {
        return Vec::new();
    }
    let mut tables = Vec::new();
    for (routes, listeners) in groups(model) {
        let members = || routes.iter().filter_map(|&at| model.routes.get(at));
        match Table::build(members().map(route_spec).collect()) {
            Ok(table) => tables.push(PreparedTable { table, routes, listeners }),
            Err(error) => {
                let name = members().nth(error.index).map_or("", |route| &route.name);
                flaws.push(Flaw::new(route_element(name), error.message));
            }
        }
    }
    tables
}

/// Listeners with the same routes, together.
fn groups(model: &Model) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for (position, listener) in model.listeners.iter().enumerate() {
        let for_it =
            |route: &Route| route.listeners.is_empty() || route.listeners.contains(&listener.name);
        let all = model.routes.iter().enumerate();
        let routes: Vec<usize> =
            all.filter(|(_, route)| for_it(route)).map(|(position, _)| position).collect();
        match groups.iter_mut().find(|(known, _)| *known == routes) {
            Some((_, listeners)) => listeners.push(position),
            None => groups.push((routes, vec![position])),
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
