//! Who is chosen: backups, growing shares, clients that are led back.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::RequestHead;
use sluice_net::{Deadline, run};

use super::{choose, plan};
use crate::{Ask, Bar, Cluster, ClusterPlan, Layout, Role, Server, SigningKey, StickyRule};

/// The plan of servers at these ports of loopback, changed by hand.
fn changed(ports: u16, change: impl FnOnce(&mut ClusterPlan)) -> Arc<ClusterPlan> {
    let places: Vec<SocketAddr> = (1..=ports).map(|port| ([127, 0, 0, 1], port).into()).collect();
    let mut plan = Arc::into_inner(plan(&places)).unwrap();
    change(&mut plan);
    plan.layout = Layout::new(&plan.settings, &plan.servers);
    Arc::new(plan)
}

/// How often each port is chosen.
fn count(cluster: &Cluster, choices: u32) -> BTreeMap<u16, u32> {
    let mut counts = BTreeMap::new();
    for _ in 0..choices {
        let label = choose(cluster, &[]).unwrap().label();
        let port = label.rsplit(':').next().unwrap().parse().unwrap();
        *counts.entry(port).or_insert(0) += 1;
    }
    counts
}

#[test]
fn backups_are_asked_while_nobody_else_is_there() {
    run(async {
        let plan = changed(3, |plan| plan.servers[2].role = Role::Backup);
        let cluster = Cluster::build(&plan, 0, None);
        assert_eq!(count(&cluster, 8), BTreeMap::from([(1, 4), (2, 4)]));
        plan.servers[0].state.bar(Bar::Unhealthy);
        assert_eq!(count(&cluster, 8), BTreeMap::from([(2, 8)]));
        let second = Rc::clone(choose(&cluster, &[]).unwrap());
        assert_eq!(choose(&cluster, &[second]).unwrap().label(), "127.0.0.1:3", "the last resort");
        plan.servers[1].state.bar(Bar::Ejected);
        assert_eq!(count(&cluster, 8), BTreeMap::from([(3, 8)]));
        plan.servers[0].state.lift(Bar::Unhealthy);
        assert_eq!(count(&cluster, 8), BTreeMap::from([(1, 8)]));
    })
    .unwrap();
}

#[test]
fn a_server_that_comes_back_starts_with_a_small_share() {
    run(async {
        let hour = Some(Duration::from_secs(3600));
        let plan = changed(2, |plan| plan.settings.slow_start = hour);
        let cluster = Cluster::build(&plan, 0, None);
        assert_eq!(count(&cluster, 42), BTreeMap::from([(1, 21), (2, 21)]));
        plan.servers[0].state.bar(Bar::Ejected);
        assert_eq!(count(&cluster, 8), BTreeMap::from([(2, 8)]));
        plan.servers[0].state.lift(Bar::Ejected);
        assert_eq!(
            count(&cluster, 42),
            BTreeMap::from([(1, 2), (2, 40)]),
            "a twentieth of a share"
        );
        plan.servers[1].state.bar(Bar::Ejected);
        assert_eq!(count(&cluster, 8), BTreeMap::from([(1, 8)]), "there is nobody else");
    })
    .unwrap();
}

#[test]
fn a_share_is_whole_in_the_end() {
    run(async {
        let moment = Some(Duration::from_millis(1));
        let plan = changed(2, |plan| plan.settings.slow_start = moment);
        let cluster = Cluster::build(&plan, 0, None);
        plan.servers[0].state.bar(Bar::Ejected);
        plan.servers[0].state.lift(Bar::Ejected);
        while count(&cluster, 8) != BTreeMap::from([(1, 4), (2, 4)]) {
            // The clock moves from turn to turn of the loop.
            Deadline::new().sleep(Duration::from_millis(1)).await;
        }
    })
    .unwrap();
}

fn sticky(plan: &mut ClusterPlan) {
    plan.settings.sticky = Some(StickyRule {
        cookie: b"to"[..].into(),
        key: SigningKey::new(b"secret"),
        scope: "api".into(),
        attributes: b"; Path=/"[..].into(),
    });
}

/// The request of a client that was given this cookie.
fn with_cookie(set: &[u8]) -> RequestHead {
    let mut head = RequestHead::new();
    let pair = set.split(|&byte| byte == b';').next().unwrap();
    head.fields.push(b"cookie", pair).unwrap();
    head
}

#[test]
fn clients_are_led_back_as_long_as_their_server_is_there() {
    run(async {
        let plan = changed(3, sticky);
        let cluster = Cluster::build(&plan, 0, None);
        let first = Rc::clone(choose(&cluster, &[]).unwrap());
        let cookie = cluster.sticky_cookie(&RequestHead::new(), &first).unwrap();
        let head = with_cookie(&cookie);
        let back = |cluster: &Cluster, avoid: &[Rc<Server>]| {
            let ask = Ask { head: &head, client: [127, 0, 0, 1].into(), avoid };
            cluster.choose(&ask).unwrap().label().to_owned()
        };
        for _ in 0..5 {
            assert_eq!(back(&cluster, &[]), first.label());
        }
        assert_eq!(cluster.sticky_cookie(&head, &first), None, "it knows already");
        assert_ne!(back(&cluster, std::slice::from_ref(&first)), first.label());
        let after = Cluster::build(&changed(3, sticky), 0, Some(&cluster));
        assert_eq!(back(&after, &[]), first.label(), "a reload changes nothing");
        plan.servers[0].state.bar(Bar::Draining);
        let other = back(&cluster, &[]);
        assert_ne!(other, first.label());
        plan.servers[0].state.lift(Bar::Draining);
        assert_eq!(back(&cluster, &[]), first.label());
    })
    .unwrap();
}

#[test]
fn weight_0_keeps_those_who_are_there_and_a_backup_does_not() {
    run(async {
        let plan = changed(3, |plan| {
            sticky(plan);
            plan.servers[0].weight = 0;
            plan.servers[2].role = Role::Backup;
        });
        let cluster = Cluster::build(&plan, 0, None);
        assert_eq!(count(&cluster, 4), BTreeMap::from([(2, 4)]));
        let named = |index: usize| {
            let head = with_cookie(&plan.layout.sticky.as_ref().unwrap().cookie(index).unwrap());
            let ask = Ask { head: &head, client: [127, 0, 0, 1].into(), avoid: &[] };
            cluster.choose(&ask).unwrap().label().to_owned()
        };
        assert_eq!(named(0), "127.0.0.1:1");
        assert_eq!(named(2), "127.0.0.1:2", "a backup is not asked by name while others are there");
        plan.servers[1].state.bar(Bar::Unhealthy);
        assert_eq!(named(2), "127.0.0.1:3");
    })
    .unwrap();
}
