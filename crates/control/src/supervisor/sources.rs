//! Where servers come from: names that are resolved, lists that are watched, and the plans they make.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sluice_engine::Snapshot;
use sluice_model::{ServerAddress, Upstream};
use sluice_net::process::uptime;
use sluice_net::resolve::Resolution;
use sluice_net::signals::Signal;
use sluice_upstream::ClusterPlan;

use super::Supervisor;
use crate::compile::cluster_plan;
use crate::event::Event;
use crate::flaw::plain;
use crate::lists::paths;
use crate::names::{Message, News};
use crate::places::{places, questions};

impl Supervisor {
    /// Watches the lists of servers and reads all of them, also those that are watched already:
    /// whoever asks for a reload expects it.
    pub(super) fn follow_lists(&mut self) {
        let sender = self.sender.clone();
        let deliver = move |path| drop(sender.send(Event::ListChanged(path)));
        if let Err(error) = self.lists.follow(paths(&self.model), deliver) {
            self.voice.warn(&format!(
                "changes of lists of servers go unnoticed ({}); SIGHUP still reads them",
                plain(&error)
            ));
        }
        for path in self.lists.paths() {
            let _ = self.read_list(&path);
        }
    }

    /// Acts on a list that is another one. Nothing but the upstreams that use it is made anew.
    pub(super) fn read_list_again(&mut self, path: &Path) {
        if self.read_list(path) {
            self.follow_names();
            self.apply_servers();
        }
    }

    /// Reads a list; whether servers changed.
    fn read_list(&mut self, path: &Path) -> bool {
        let news = self.lists.read(path, self.voice.style());
        if news.failed {
            self.status.meters().list_failures.increment();
        }
        self.tell(&news);
        news.servers_changed
    }

    /// Asks for all names and waits for a first answer to each, but no longer than one question may
    /// take: a gateway without a name server still serves what needs none.
    pub(super) fn follow_names(&mut self) {
        let sender = self.sender.clone();
        let deliver = move |resolution| drop(sender.send(Event::Resolved(resolution)));
        let questions = questions(&self.upstreams());
        if let Err(error) = self.names.follow(&self.model.resolver, questions, deliver) {
            self.voice.warn(&format!("names cannot be resolved: {error}"));
        }
        let deadline = uptime().saturating_add(self.model.resolver.timeout);
        while self.names.is_waiting() {
            let left = deadline.saturating_sub(uptime());
            match self.fresh_event(Some(left)) {
                Some(Event::Resolved(resolution)) => _ = self.take_in(resolution),
                Some(event) => {
                    let urgent = matches!(event, Event::Ended(..) | Event::Signal(Signal::Stop));
                    self.deferred.push_back(event);
                    if urgent {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    /// Takes an answer of a name server in; whether servers changed.
    pub(super) fn take_in(&mut self, resolution: Resolution) -> bool {
        let news = self.names.on_resolution(resolution);
        if news.failed {
            self.status.meters().dns_failures.increment();
        }
        self.tell(&news);
        news.servers_changed
    }

    fn tell(&self, news: &News) {
        match &news.message {
            Some(Message::Said(text)) => self.voice.say(text),
            Some(Message::Warned(text)) => self.voice.warn(text),
            None => {}
        }
    }

    /// New plans for the upstreams that have other servers, and nothing else.
    pub(super) fn apply_servers(&mut self) {
        let clusters = self.clusters();
        self.snapshot = Arc::new(Snapshot {
            generation: self.snapshot.generation,
            listeners: self.snapshot.listeners.clone(),
            clusters,
            trusted_proxies: self.snapshot.trusted_proxies.clone(),
            reserved: self.snapshot.reserved.clone(),
            cap: self.snapshot.cap.clone(),
            access: self.snapshot.access.clone(),
        });
        self.report(&self.crew.apply(&self.snapshot));
        self.watch_servers();
        self.forget_unused_meters();
        self.show_upstreams();
    }

    pub(super) fn clusters(&self) -> Vec<Arc<ClusterPlan>> {
        let places = |address: &ServerAddress| places(address, &self.names);
        let before: BTreeMap<&str, &Arc<ClusterPlan>> =
            self.snapshot.clusters.iter().map(|plan| (plan.name.as_str(), plan)).collect();
        let plan = |upstream: &Cow<'_, Upstream>| {
            let before = before.get(upstream.name.as_str()).copied();
            let tls = self.keyring.client(&upstream.name);
            cluster_plan(upstream, (&places, tls), self.status.meters(), before)
        };
        self.upstreams().iter().map(plan).collect()
    }

    /// The upstreams in force with the servers of their lists.
    pub(super) fn upstreams(&self) -> Vec<Cow<'_, Upstream>> {
        self.model.upstreams.iter().map(|upstream| self.lists.resolved(upstream)).collect()
    }
}
