//! Files of filters that change while the program runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sluice_engine::{ListenerPlan, Route, RouteTable, Snapshot};

use super::Supervisor;
use crate::compile::{Made, compared_case, route_filters};
use crate::document::ConfigError;
use crate::event::Event;
use crate::flaw::plain;

impl Supervisor {
    /// Watches the files that the filters in force are made of.
    pub(super) fn follow_filters(&mut self) {
        let sender = self.sender.clone();
        let deliver = move |path: Option<&Path>| {
            drop(sender.send(Event::FilterFileChanged(path.map(Path::to_path_buf))));
        };
        if let Err(error) = self.filter_files.follow(self.shelf.paths(), deliver) {
            self.voice.warn(&format!(
                "changes of files of filters go unnoticed ({}); SIGHUP still reads them",
                plain(&error)
            ));
        }
    }

    /// Makes the filters anew that are made of this file, or of any that changed. One that cannot be made of it
    /// goes on as it was; the others do not wait for it.
    pub(super) fn read_filters_again(&mut self, path: Option<&Path>) {
        let mut flaws = Vec::new();
        let renewal = self.shelf.renew(&self.model, path, &mut flaws);
        if !flaws.is_empty() {
            self.status.meters().filter_failures.increment();
            let error = ConfigError::Unusable(flaws);
            self.voice.warn(&format!(
                "cannot use the changed file: {}; the filter goes on as it was\n{}",
                error.summary(),
                error.render(self.voice.style())
            ));
        }
        let Some((made, names)) = renewal else { return };
        self.shelf.take(&self.model, &made);
        self.status.meters().set_filters(self.shelf.meters());
        self.apply_filters(&made);
        let names = names.join(", ");
        self.voice.say(&format!("made anew of changed files: filter {names}"));
        // A file may have named others.
        self.follow_filters();
    }

    /// The same snapshot with these filters.
    fn apply_filters(&mut self, made: &[Made]) {
        let filters = |route: &sluice_model::Route| {
            route_filters(route, made, compared_case(route, &self.model.listeners))
        };
        let model: BTreeMap<&str, &sluice_model::Route> =
            self.model.routes.iter().map(|route| (route.name.as_str(), route)).collect();
        let mut routes: BTreeMap<String, Arc<Route>> = BTreeMap::new();
        let mut renewed = |route: &Arc<Route>| -> Arc<Route> {
            let Some(known) = model.get(route.name.as_str()) else { return Arc::clone(route) };
            let new = || Arc::new(route.with_filters(filters(known)));
            Arc::clone(routes.entry(route.name.clone()).or_insert_with(new))
        };
        let mut tables: Vec<(*const RouteTable, Arc<RouteTable>)> = Vec::new();
        let listeners = self.snapshot.listeners.iter().map(|plan| {
            let before = Arc::as_ptr(&plan.routes);
            let known = tables.iter().find(|(known, _)| std::ptr::eq(*known, before));
            let routes = match known {
                Some((_, table)) => Arc::clone(table),
                None => {
                    let RouteTable { table, routes, unmatched } = &*plan.routes;
                    let table = Arc::new(RouteTable {
                        table: table.clone(),
                        routes: routes.iter().map(&mut renewed).collect(),
                        unmatched: Arc::clone(unmatched),
                    });
                    tables.push((before, Arc::clone(&table)));
                    table
                }
            };
            Arc::new(ListenerPlan { routes, ..ListenerPlan::clone(plan) })
        });
        let listeners = listeners.collect();
        self.snapshot = Arc::new(Snapshot {
            generation: self.snapshot.generation,
            listeners,
            clusters: self.snapshot.clusters.clone(),
            trusted_proxies: self.snapshot.trusted_proxies.clone(),
            reserved: self.snapshot.reserved.clone(),
            cap: self.snapshot.cap.clone(),
            access: self.snapshot.access.clone(),
        });
        self.report(&self.crew.apply(&self.snapshot));
    }
}
