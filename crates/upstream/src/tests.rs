//! Clusters across changes of their plan.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use sluice_meter::Meters;
use sluice_net::{Deadline, Endpoint, run, yield_now};

use crate::{Cluster, ClusterPlan, ClusterSettings, ServerPlan};

fn plan(servers: &[SocketAddr]) -> Arc<ClusterPlan> {
    let meters = Meters::new(1);
    let settings = ClusterSettings {
        idle_connections: 2,
        idle_timeout: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(5),
        read_timeout: Duration::from_secs(5),
        write_timeout: Duration::from_secs(5),
        tunnel_timeout: Duration::from_secs(5),
        retries: 1,
        host: None,
    };
    let server = |address: &SocketAddr| ServerPlan {
        endpoint: Endpoint::Tcp(*address),
        weight: 1,
        meter: meters.server("api", &address.to_string()),
    };
    Arc::new(ClusterPlan {
        name: "api".into(),
        settings,
        servers: servers.iter().map(server).collect(),
        meter: meters.upstream("api"),
    })
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn servers_that_stay_keep_their_connections() {
    let (_first, one) = listener();
    let (_second, two) = listener();
    run(async move {
        let old = Cluster::build(&plan(&[one]), 0, None);
        let server = old.next_server().unwrap();
        let stream = server.connect(&Deadline::new(), Duration::from_secs(5)).await.unwrap();
        // A new connection counts as readable until it was asked; the kernel says otherwise.
        let mut nothing = Vec::with_capacity(1);
        std::future::poll_fn(|cx| {
            assert!(stream.poll_read(cx, &mut nothing).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        old.keep(server, stream);
        let new = Cluster::build(&plan(&[two, one]), 0, Some(&old));
        let carried = (0..2).filter(|_| new.take_idle(new.next_server().unwrap()).is_some());
        assert_eq!(carried.count(), 1);
    })
    .unwrap();
}

#[test]
fn connections_the_origin_closed_are_never_handed_out() {
    let (origin, address) = listener();
    run(async move {
        let cluster = Cluster::build(&plan(&[address]), 0, None);
        let server = cluster.next_server().unwrap();
        let stream = server.connect(&Deadline::new(), Duration::from_secs(5)).await.unwrap();
        let (accepted, _) = origin.accept().unwrap();
        drop(accepted);
        std::future::poll_fn(|cx| stream.poll_closed(cx)).await;
        cluster.keep(server, stream);
        assert!(cluster.take_idle(server).is_none());
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
        assert!(cluster.next_server().is_none());
    })
    .unwrap();
}
