//! The thread that watches over the servers of all clusters.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_net::{Deadline, Elapsed, Endpoint, Nanos, Post, now};

use super::check::{Check, Say, called};
use super::ejection::{Decision, Ejections, What};
use super::order::{HealthOrder, HealthParts, Tone};
use super::panic::Census;
use crate::{Bar, ClusterPlan};

/// The root of the thread: watches what it is told to until nobody is left to tell.
pub async fn watch_health(parts: HealthParts) {
    let HealthParts { mut orders, post, say } = parts;
    let mut watcher =
        Watcher { checks: HashMap::new(), wards: BTreeMap::new(), say: Rc::from(say) };
    let deadline = Deadline::new();
    loop {
        let order = match watcher.next_look() {
            None => orders.recv().await,
            Some(at) => {
                let wait = Duration::from_nanos(at.saturating_sub(now()));
                match deadline.limit(wait, orders.recv()).await {
                    Ok(order) => order,
                    Err(Elapsed) => {
                        watcher.look_around(now());
                        continue;
                    }
                }
            }
        };
        match order {
            Some(HealthOrder::Watch(plans)) => {
                watcher.follow(&plans, &post);
                watcher.look_around(now());
            }
            Some(HealthOrder::Look(cluster)) => watcher.look_at(&cluster, now()),
            None => return,
        }
    }
}

/// A server of a cluster: by the cluster's name and its place.
type Key = (String, Endpoint);

struct Watcher {
    checks: HashMap<Key, Check>,
    /// Clusters by name.
    wards: BTreeMap<String, Ward>,
    say: Say,
}

/// A cluster that is watched.
struct Ward {
    plan: Arc<ClusterPlan>,
    ejections: Ejections,
    /// Whether servers that are out are asked.
    panics: bool,
    /// When it has to be looked at again.
    next: Option<Nanos>,
}

impl Watcher {
    /// Watches these clusters from now on.
    fn follow(&mut self, plans: &[Arc<ClusterPlan>], post: &Post<HealthOrder>) {
        self.check(plans);
        let mut before = std::mem::take(&mut self.wards);
        for plan in plans.iter().filter(|plan| plan.settings.health.is_used()) {
            let name = &plan.name;
            plan.state.hang_bell(|| {
                let (post, name) = (post.clone(), name.clone());
                Box::new(move || post.send(HealthOrder::Look(name.clone())))
            });
            let known = before.remove(name).filter(|it| Arc::ptr_eq(&it.plan.state, &plan.state));
            let (mut ejections, panics) =
                known.map_or_else(Default::default, |ward| (ward.ejections, ward.panics));
            if plan.settings.health.ejection.is_none() {
                std::mem::take(&mut ejections).dissolve();
            }
            let ward = Ward { plan: Arc::clone(plan), ejections, panics, next: None };
            self.wards.insert(name.clone(), ward);
        }
        for ward in before.into_values() {
            ward.ejections.dissolve();
            ward.plan.meter.worker(0).panic.set(0);
        }
    }

    /// Checks the servers of these clusters from now on. A server whose rule has not changed is
    /// checked on as if nothing had happened.
    fn check(&mut self, plans: &[Arc<ClusterPlan>]) {
        let mut before = std::mem::take(&mut self.checks);
        for plan in plans {
            let Some(rule) = &plan.settings.health.check else { continue };
            let rule = Arc::new(rule.clone());
            for server in &plan.servers {
                let key = (plan.name.clone(), server.endpoint.clone());
                let same = |check: &Check| {
                    check.rule == rule
                        && check.tls == server.tls
                        && check.protocol == server.protocol
                        && check.proxy_protocol == plan.settings.proxy_protocol
                        && Arc::ptr_eq(&check.state, &server.state)
                };
                let check = match before.remove(&key) {
                    Some(check) if same(&check) => check,
                    // What the old rule found stands until the new one finds something else.
                    _ => Check::start((plan, server), &rule, &self.say),
                };
                self.checks.insert(key, check);
            }
        }
        // Nobody would ever find out that these are well again.
        for check in before.values() {
            check.state.lift(Bar::Unhealthy);
            check.state.lift(Bar::Unchecked);
        }
    }

    /// When something is due that nobody rings for.
    fn next_look(&self) -> Option<Nanos> {
        self.wards.values().filter_map(|ward| ward.next).min()
    }

    fn look_around(&mut self, now: Nanos) {
        self.wards.values_mut().for_each(|ward| ward.look(&self.say, now));
    }

    fn look_at(&mut self, cluster: &str, now: Nanos) {
        if let Some(ward) = self.wards.get_mut(cluster) {
            ward.look(&self.say, now);
        }
    }
}

impl Ward {
    fn look(&mut self, say: &Say, now: Nanos) {
        self.look_at_requests(say, now);
        self.count(say);
    }

    /// Says when there are too few servers, and when there are enough again.
    fn count(&mut self, say: &Say) {
        let census = Census::of(&self.plan);
        let panics = census.is_panic(self.plan.settings.health.panic);
        self.plan.meter.worker(0).panic.set(i64::from(panics));
        if panics == self.panics {
            return;
        }
        self.panics = panics;
        let Census { available, all } = census;
        let found =
            format!("upstream {}: {available} of {all} servers are available", self.plan.name);
        match panics {
            true => say(Tone::Bad, &format!("{found}, all are asked (panic)")),
            false => say(Tone::Good, &format!("{found}, no more panic")),
        }
    }

    fn look_at_requests(&mut self, say: &Say, now: Nanos) {
        let Some(rule) = &self.plan.settings.health.ejection else { return };
        let (decisions, next) = self.ejections.look(&self.plan, rule, now);
        self.next = next;
        for Decision { server, what } in decisions {
            let name = called(&self.plan.name, &server);
            match what {
                What::Ejected(time, why) => {
                    say(Tone::Bad, &format!("{name} is ejected for {time:?}: {why}"));
                }
                What::Returned => say(Tone::Good, &format!("{name} is back from its ejection")),
            }
        }
    }
}
