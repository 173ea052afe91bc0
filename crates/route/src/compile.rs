//! From the routes of a configuration to the table.

use std::collections::{BTreeMap, BTreeSet};

use sluice_message::PathRules;

use crate::condition::Further;
use crate::host::{HostKey, Hosts};
use crate::method::MethodNames;
use crate::path::PathKey;
use crate::site::{Candidate, NOTHING_FURTHER, SiteBuilder};
use crate::spec::{BuildError, RouteSpec};
use crate::table::Table;
use crate::trie::{narrow, wide};

impl Table {
    /// Compiles routes; indices in answers are those of `specs`.
    ///
    /// # Errors
    /// The first route that cannot be matched as it stands, and why.
    pub fn build(specs: Vec<RouteSpec>) -> Result<Self, BuildError> {
        Self::build_for(specs, &PathRules::DEFAULT)
    }

    /// The same for requests whose paths are read by these rules.
    ///
    /// # Errors
    /// The first route that cannot be matched as it stands, and why.
    pub fn build_for(specs: Vec<RouteSpec>, rules: &PathRules) -> Result<Self, BuildError> {
        compile(&specs, rules)
    }
}

fn compile(specs: &[RouteSpec], rules: &PathRules) -> Result<Table, BuildError> {
    let mut methods = MethodNames::default();
    let mut further = Vec::new();
    let mut any = SiteBuilder::default();
    let mut named: BTreeMap<HostKey, SiteBuilder> = BTreeMap::new();
    for (index, spec) in specs.iter().enumerate() {
        let problem = |message| BuildError { index, message };
        let path = PathKey::parse(&spec.path, rules).map_err(problem)?;
        let mut candidate = Candidate {
            methods: methods.set(&spec.methods).map_err(problem)?,
            route: narrow(index),
            further: NOTHING_FURTHER,
        };
        if let Some(conditions) = Further::compile(spec).map_err(problem)? {
            candidate.further = narrow(further.len());
            further.push(conditions);
        }
        // A set, for a host given twice must not offer its route twice.
        let hosts: Result<BTreeSet<_>, _> = spec.hosts.iter().map(HostKey::parse).collect();
        for host in hosts.map_err(problem)? {
            named.entry(host).or_default().add(&path, candidate);
        }
        if spec.hosts.is_empty() {
            any.add(&path, candidate);
        }
    }
    let problem = |(route, message)| BuildError { index: wide(route), message };
    let mut hosts = Vec::with_capacity(named.len());
    let mut sites = Vec::with_capacity(named.len());
    for (host, site) in named {
        hosts.push((host, narrow(sites.len())));
        sites.push(site.build().map_err(problem)?);
    }
    let any = any.build().map_err(problem)?;
    Ok(Table { hosts: Hosts::new(hosts), sites, any, further, methods })
}
