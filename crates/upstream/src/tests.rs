//! Clusters across changes of their plan.

mod choice;
mod limits;

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_conn::OriginChannel;
use sluice_meter::Meters;
use sluice_net::tls::{ClientSettings, TlsClient, Trust};
use sluice_net::{Deadline, Endpoint, Stream, run, yield_now};

use sluice_message::RequestHead;

use crate::{
    Ask, BalanceRule, Bar, BreakerRule, Call, Cluster, ClusterPlan, ClusterSettings, ClusterState,
    Demand, HealthSettings, Layout, Protocol, QueueRule, RetryPolicy, Role, Server, ServerPlan,
};

pub(crate) fn settings() -> ClusterSettings {
    ClusterSettings {
        idle_connections: 2,
        idle_timeout: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(5),
        read_timeout: Duration::from_secs(5),
        write_timeout: Duration::from_secs(5),
        tunnel_timeout: Duration::from_secs(5),
        tunnel_lifetime: None,
        balance: BalanceRule::RoundRobin,
        sticky: None,
        slow_start: None,
        queue: QueueRule { places: 0, wait: Duration::from_secs(5) },
        retry: RetryPolicy { attempts: 1, ..RetryPolicy::default() },
        health: HealthSettings::default(),
        breaker: BreakerRule::default(),
        proxy_protocol: None,
        host: None,
    }
}

/// A plan of the cluster `api`, whose state may have been that of another plan before.
pub(crate) fn plan_of(
    settings: ClusterSettings,
    servers: &[Endpoint],
    state: &Arc<ClusterState>,
) -> Arc<ClusterPlan> {
    let meters = Meters::new(2);
    let server = |endpoint: &Endpoint| {
        let meter = meters.server("api", &endpoint.to_string());
        let state = state.server(endpoint, &meter);
        ServerPlan {
            endpoint: endpoint.clone(),
            weight: 1,
            role: Role::Primary,
            tls: None,
            protocol: Protocol::Http1,
            limit: None,
            state,
            meter,
        }
    };
    let servers: Vec<ServerPlan> = servers.iter().map(server).collect();
    Arc::new(ClusterPlan {
        name: "api".into(),
        layout: Layout::new(&settings, &servers),
        settings,
        servers,
        state: Arc::clone(state),
        meter: meters.upstream("api"),
    })
}

fn plan(servers: &[SocketAddr]) -> Arc<ClusterPlan> {
    let servers: Vec<Endpoint> = servers.iter().copied().map(Endpoint::Tcp).collect();
    plan_of(settings(), &servers, &Arc::default())
}

fn choose<'c>(cluster: &'c Cluster, avoid: &[Rc<Server>]) -> Option<&'c Rc<Server>> {
    let head = RequestHead::new();
    cluster.choose(&Ask { head: &head, client: [127, 0, 0, 1].into(), avoid })
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A connection of its own.
async fn connect(server: &Server) -> Stream {
    let call = Call { demand: Demand::Any, header: &[], deadline: &Deadline::new() };
    match server.connect(call, Duration::from_secs(5), 2).await.unwrap() {
        (OriginChannel::Own(stream), _) => stream,
        (OriginChannel::Shared(_), _) => panic!("HTTP/1.1 was to be spoken"),
    }
}

#[test]
fn servers_that_stay_keep_their_connections() {
    let (_first, one) = listener();
    let (_second, two) = listener();
    run(async move {
        let old = Cluster::build(&plan(&[one]), 0, None);
        let server = choose(&old, &[]).unwrap();
        let stream = connect(server).await;
        // A new connection counts as readable until it was asked; the kernel says otherwise.
        let mut nothing = Vec::with_capacity(1);
        std::future::poll_fn(|cx| {
            assert!(stream.poll_read(cx, &mut nothing).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        old.keep(server, stream);
        let new = Cluster::build(&plan(&[two, one]), 0, Some(&old));
        let carried =
            (0..2).filter(|_| new.take_idle(choose(&new, &[]).unwrap(), Demand::Any).is_some());
        assert_eq!(carried.count(), 1);
    })
    .unwrap();
}

#[test]
fn connections_opened_without_encryption_are_none_with_it() {
    let (_origin, one) = listener();
    run(async move {
        let old = Cluster::build(&plan(&[one]), 0, None);
        let server = choose(&old, &[]).unwrap();
        let opened = async || {
            let stream = connect(server).await;
            let mut nothing = Vec::with_capacity(1);
            std::future::poll_fn(|cx| {
                assert!(stream.poll_read(cx, &mut nothing).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            stream
        };
        let busy = opened().await;
        old.keep(server, opened().await);
        let client = TlsClient::new("a.test", &ClientSettings::new(Trust::Anything)).unwrap();
        let encrypted = plan(&[one]);
        let servers = encrypted.servers.iter();
        let servers = servers.map(|it| ServerPlan { tls: Some(client.clone()), ..it.clone() });
        let encrypted = ClusterPlan {
            name: "api".into(),
            layout: Layout::new(&encrypted.settings, &encrypted.servers),
            settings: encrypted.settings.clone(),
            servers: servers.collect(),
            state: Arc::clone(&encrypted.state),
            meter: Arc::clone(&encrypted.meter),
        };
        let new = Cluster::build(&Arc::new(encrypted), 0, Some(&old));
        // One that was busy while the plan changed comes back where it was taken from.
        old.keep(server, busy);
        assert!(new.take_idle(choose(&new, &[]).unwrap(), Demand::Any).is_none());
        assert!(old.take_idle(server, Demand::Any).is_some());
    })
    .unwrap();
}

#[test]
fn connections_the_origin_closed_are_never_handed_out() {
    let (origin, address) = listener();
    run(async move {
        let cluster = Cluster::build(&plan(&[address]), 0, None);
        let server = choose(&cluster, &[]).unwrap();
        let stream = connect(server).await;
        let (accepted, _) = origin.accept().unwrap();
        drop(accepted);
        std::future::poll_fn(|cx| stream.poll_closed(cx)).await;
        cluster.keep(server, stream);
        assert!(cluster.take_idle(server, Demand::Any).is_none());
        cluster.sweep();
        yield_now().await;
        assert_eq!(cluster.meter().idle.value(), 0);
    })
    .unwrap();
}

#[test]
fn a_cluster_without_servers_says_so() {
    run(async {
        let cluster = Cluster::build(&plan(&[]), 0, None);
        assert!(choose(&cluster, &[]).is_none());
    })
    .unwrap();
}

#[test]
fn a_server_that_is_barred_is_not_chosen_until_it_is_back() {
    run(async {
        let places: Vec<SocketAddr> = (1..=3).map(|port| ([127, 0, 0, 1], port).into()).collect();
        let cluster = Cluster::build(&plan(&places), 0, None);
        let chosen = || -> BTreeSet<String> {
            (0..6).map(|_| choose(&cluster, &[]).unwrap().label().to_owned()).collect()
        };
        assert_eq!(chosen().len(), 3);
        let state = Arc::clone(&cluster.plan().servers[1].state);
        state.bar(Bar::Unhealthy);
        assert_eq!(chosen(), BTreeSet::from(["127.0.0.1:1".to_owned(), "127.0.0.1:3".to_owned()]));
        state.lift(Bar::Unhealthy);
        assert_eq!(chosen().len(), 3);
    })
    .unwrap();
}

#[test]
fn another_server_is_tried_where_there_is_another() {
    run(async {
        let places: Vec<SocketAddr> = (1..=2).map(|port| ([127, 0, 0, 1], port).into()).collect();
        let cluster = Cluster::build(&plan(&places), 0, None);
        for _ in 0..5 {
            let first = choose(&cluster, &[]).unwrap();
            let second = choose(&cluster, std::slice::from_ref(first)).unwrap();
            assert_ne!(first.label(), second.label());
        }
        let all: Vec<Rc<Server>> =
            (0..2).map(|_| Rc::clone(choose(&cluster, &[]).unwrap())).collect();
        assert!(choose(&cluster, &all).is_some(), "better the same one again than none");
        let alone = Cluster::build(&plan(&places[..1]), 0, None);
        let first = choose(&alone, &[]).unwrap();
        assert!(Rc::ptr_eq(first, choose(&alone, std::slice::from_ref(first)).unwrap()));
    })
    .unwrap();
}

#[test]
fn a_server_that_is_seldom_in_turn_is_found_all_the_same() {
    run(async {
        let places: Vec<SocketAddr> = (1..=3).map(|port| ([127, 0, 0, 1], port).into()).collect();
        let mut plan = Arc::into_inner(plan(&places)).unwrap();
        for (server, weight) in plan.servers.iter_mut().zip([1000, 1, 0]) {
            server.weight = weight;
        }
        let cluster = Cluster::build(&Arc::new(plan), 0, None);
        let first = choose(&cluster, &[]).unwrap();
        for _ in 0..5 {
            assert_eq!(
                choose(&cluster, std::slice::from_ref(first)).unwrap().label(),
                "127.0.0.1:2"
            );
        }
    })
    .unwrap();
}
