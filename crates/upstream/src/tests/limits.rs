//! Limits of servers, as several workers see them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_net::{Endpoint, Refused, Stream, run, spawn, yield_now};

use super::{choose, connect, listener, plan_of, settings};
use crate::{Cluster, ClusterPlan, ClusterState, Demand, QueueRule, Server, ServerPlan, Visit};

const LONG: Duration = Duration::from_secs(5);

fn limited(endpoint: &Endpoint, most: Option<u32>, state: &Arc<ClusterState>) -> Arc<ClusterPlan> {
    let queue = QueueRule { places: 1, wait: LONG };
    let plan = plan_of(settings(), std::slice::from_ref(endpoint), state);
    let limit = |server: &ServerPlan| {
        let limit = server.state.limit(most, queue);
        ServerPlan { limit, ..server.clone() }
    };
    let servers = plan.servers.iter().map(limit).collect();
    Arc::new(ClusterPlan { servers, ..Arc::into_inner(plan).unwrap() })
}

async fn open(server: &Server) -> Stream {
    let stream = connect(server).await;
    // A new connection counts as readable until it was asked; the kernel says otherwise.
    let mut nothing = Vec::with_capacity(1);
    std::future::poll_fn(|cx| {
        assert!(stream.poll_read(cx, &mut nothing).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    stream
}

#[test]
fn room_is_counted_over_all_workers() {
    run(async {
        let place = Endpoint::Tcp(([127, 0, 0, 1], 1).into());
        let plan = limited(&place, Some(1), &Arc::default());
        let [one, two] = [0, 1].map(|worker| Rc::new(Cluster::build(&plan, worker, None)));
        let [here, there] = [&one, &two].map(|it| Rc::clone(choose(it, &[]).unwrap()));
        let visit = Visit::try_new(&one, &here).unwrap();
        assert!(Visit::try_new(&two, &there).is_none());
        let waiting = Visit::queue(&two, &there).unwrap();
        assert_eq!(two.meter().waiting.value(), 1);
        assert_eq!(Visit::queue(&one, &here).unwrap_err(), Refused::Full);
        drop(visit);
        let visit = waiting.await;
        assert_eq!((two.meter().waiting.value(), there.meter().active.value()), (0, 1));
        drop(visit);
        assert!(Visit::try_new(&one, &here).is_some());
    })
    .unwrap();
}

#[test]
fn an_idle_connection_makes_room_for_that_of_another_worker() {
    let (_origin, address) = listener();
    run(async move {
        let plan = limited(&Endpoint::Tcp(address), Some(1), &Arc::default());
        let limit = Arc::clone(plan.servers[0].limit.as_ref().unwrap());
        let [one, two] = [0, 1].map(|worker| Cluster::build(&plan, worker, None));
        let [here, there] = [&one, &two].map(|it| Rc::clone(choose(it, &[]).unwrap()));
        one.keep(&here, open(&here).await);
        assert_eq!(limit.connections(), 1);
        let stream = open(&there).await;
        assert_eq!(limit.connections(), 1);
        assert!(one.take_idle(&here, Demand::Any).is_none(), "closed for the other");
        two.keep(&there, stream);
        assert!(two.take_idle(&there, Demand::Any).is_some(), "kept, since nobody waits");
        assert_eq!(limit.connections(), 0);
    })
    .unwrap();
}

#[test]
fn a_connection_that_comes_back_while_others_wait_is_closed() {
    let (_origin, address) = listener();
    run(async move {
        let plan = limited(&Endpoint::Tcp(address), Some(1), &Arc::default());
        let [one, two] = [0, 1].map(|worker| Cluster::build(&plan, worker, None));
        let [here, there] = [&one, &two].map(|it| Rc::clone(choose(it, &[]).unwrap()));
        let busy = open(&here).await;
        let opened = Rc::new(Cell::new(false));
        let done = Rc::clone(&opened);
        spawn(async move {
            let _stream = open(&there).await;
            done.set(true);
        });
        yield_now().await;
        assert!(!opened.get());
        one.keep(&here, busy);
        assert!(one.take_idle(&here, Demand::Any).is_none());
        while !opened.get() {
            yield_now().await;
        }
    })
    .unwrap();
}

#[test]
fn keepers_end_with_their_servers() {
    let (_origin, address) = listener();
    run(async move {
        let before = sluice_net::live_tasks();
        let plan = limited(&Endpoint::Tcp(address), Some(1), &Arc::default());
        let clusters = [0, 1].map(|worker| Cluster::build(&plan, worker, None));
        assert_eq!(sluice_net::live_tasks(), before + 2);
        yield_now().await;
        drop(clusters);
        while sluice_net::live_tasks() > before {
            yield_now().await;
        }
    })
    .unwrap();
}

#[test]
fn a_limit_is_remembered_as_long_as_something_is_under_way() {
    run(async {
        let place = Endpoint::Tcp(([127, 0, 0, 1], 1).into());
        let state = Arc::new(ClusterState::default());
        let plan = limited(&place, Some(1), &state);
        let cluster = Rc::new(Cluster::build(&plan, 0, None));
        let server = Rc::clone(choose(&cluster, &[]).unwrap());
        let visit = Visit::try_new(&cluster, &server).unwrap();
        // Its source loses the server and finds it again.
        state.retain(|_| false);
        let again = limited(&place, Some(2), &state);
        let limit = |plan: &Arc<ClusterPlan>| Arc::clone(plan.servers[0].limit.as_ref().unwrap());
        assert!(Arc::ptr_eq(&limit(&again), &limit(&plan)));
        let second = Visit::try_new(&cluster, &server);
        assert!(second.is_some() && Visit::try_new(&cluster, &server).is_none());
        // Without a limit everybody gets in.
        let free = Rc::new(Cluster::build(&limited(&place, None, &state), 0, Some(&cluster)));
        assert!(!free.is_limited() && Visit::try_new(&free, &server).is_some());
        drop((visit, second));
    })
    .unwrap();
}
