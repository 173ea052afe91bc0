//! Servers that are asked no more at once than they may be, over all workers.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{Asked, ByteScript, Exchange, Gate, Origin, Response, Sluice, behaviour, get};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const WAITING: &str = "sluice_upstream_waiting_requests{upstream=\"api\"}";

fn through(workers: usize, servers: &str, rest: &str) -> String {
    let upstream = format!("[upstream.api]\nservers = [{servers}]\n{rest}\n");
    let route = "[[route]]\npath = \"/\"\nproxy = \"api\"\n";
    format!("workers = {workers}\n{}", config(&format!("{upstream}\n{route}")))
}

fn one(workers: usize, origin: &Origin, rest: &str) -> String {
    through(workers, &format!("{:?}", origin.address()), rest)
}

fn client(web: &str) -> JoinHandle<Response> {
    let web = web.to_owned();
    std::thread::spawn(move || get(&web, "/"))
}

/// An origin that holds requests at the gate.
fn held(gate: &Gate) -> Origin {
    Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "good")))
}

#[test]
fn no_more_requests_are_under_way_than_may_be() {
    let gate = Gate::new();
    let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (held, seen) = (gate.clone(), Arc::clone(&most));
    let origin = Origin::start(move |exchange: &mut Exchange| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        held.pass();
        // Before the answer: with its last byte the gateway may send the next request.
        now.fetch_sub(1, Ordering::SeqCst);
        exchange.answer(200, &[], "good")
    });
    let sluice = Sluice::start(&one(2, &origin, "limit = { connections = 5, wait = \"1m\" }"));
    let (web, admin) = (sluice.address("web"), sluice.admin());
    let clients: Vec<_> = (0..40).map(|_| client(&web)).collect();
    assert!(origin.wait_for_requests(5));
    assert!(eventually(|| metric(&admin, WAITING) == 35), "{}", metric(&admin, WAITING));
    assert_eq!(origin.requests().len(), 5);
    gate.open();
    for client in clients {
        assert_eq!(client.join().unwrap().status, 200);
    }
    assert_eq!(most.load(Ordering::SeqCst), 5);
    assert_eq!(metric(&admin, WAITING), 0);
    assert!(eventually(|| origin.open_connections() <= 5));
    sluice.stop();
}

#[test]
fn a_full_queue_and_a_long_wait_are_answered_with_503() {
    let limit = |wait| format!("limit = {{ connections = 1, queue = 1, wait = \"{wait}\" }}");
    let gate = Gate::new();
    let origin = held(&gate);
    let sluice = Sluice::start(&one(2, &origin, &limit("1m")));
    let (web, admin) = (sluice.address("web"), sluice.admin());
    let first = client(&web);
    assert!(origin.wait_for_requests(1));
    let second = client(&web);
    assert!(eventually(|| metric(&admin, WAITING) == 1));
    let refused = get(&web, "/");
    assert_eq!((refused.status, refused.fields.first("retry-after")), (503, Some("1")));
    assert!(refused.text().contains("servers_busy"), "{}", refused.text());
    let failures = "sluice_upstream_failures_total{upstream=\"api\",reason=\"servers_busy\"}";
    assert_eq!(metric(&admin, failures), 1);
    gate.open();
    assert_eq!((first.join().unwrap().status, second.join().unwrap().status), (200, 200));
    sluice.stop();

    let gate = Gate::new();
    let origin = held(&gate);
    let sluice = Sluice::start(&one(2, &origin, &limit("50ms")));
    let web = sluice.address("web");
    let first = client(&web);
    assert!(origin.wait_for_requests(1));
    assert_eq!(get(&web, "/").status, 503, "it waited in vain");
    gate.open();
    assert_eq!(first.join().unwrap().status, 200);
    assert_eq!(get(&web, "/").status, 200);
    sluice.stop();
}

#[test]
fn a_client_that_leaves_gives_its_place_up() {
    let gate = Gate::new();
    let origin = held(&gate);
    let limit = "limit = { connections = 1, queue = 1, wait = \"1m\" }";
    let sluice = Sluice::start(&one(2, &origin, limit));
    let (web, admin) = (sluice.address("web"), sluice.admin());
    let first = client(&web);
    assert!(origin.wait_for_requests(1));
    let mut waiting = ByteScript::connect(&web);
    waiting.send(REQUEST);
    assert!(eventually(|| metric(&admin, WAITING) == 1));
    drop(waiting);
    assert!(eventually(|| metric(&admin, WAITING) == 0));
    gate.open();
    assert_eq!(first.join().unwrap().status, 200);
    assert_eq!(origin.requests().len(), 1);
    sluice.stop();
}

#[test]
fn a_server_with_room_is_asked_instead_of_a_full_one() {
    let gate = Gate::new();
    let slow = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "slow")));
    let fast = Origin::start(behaviour::fixed(200, "fast"));
    let servers = format!(
        "{{ address = {:?}, max_connections = 1, weight = 10 }}, {:?}",
        slow.address(),
        fast.address()
    );
    let sluice = Sluice::start(&through(2, &servers, ""));
    let web = sluice.address("web");
    let held: Vec<_> = (0..4).map(|_| client(&web)).collect();
    assert!(slow.wait_for_requests(1));
    for _ in 0..20 {
        assert_eq!(get(&web, "/").text(), "fast");
    }
    assert_eq!(slow.requests().len(), 1);
    gate.open();
    for client in held {
        assert_eq!(client.join().unwrap().status, 200);
    }
    sluice.stop();
}

#[test]
fn idle_connections_of_one_worker_are_not_in_the_way_of_another() {
    let origin = Origin::start(behaviour::fixed(200, "good"));
    let sluice = Sluice::start(&one(2, &origin, "limit = { connections = 1, wait = \"1m\" }"));
    let (web, admin) = (sluice.address("web"), sluice.admin());
    // Long-lived connections are shared among the workers.
    let mut clients: Vec<ByteScript> = (0..8).map(|_| ByteScript::connect(&web)).collect();
    for _ in 0..20 {
        for client in &mut clients {
            let answer = client.send(REQUEST).read_response(Asked::Get).unwrap();
            assert_eq!(answer.status, 200);
        }
    }
    assert!(origin.wait_for_open_connections(1), "{}", origin.open_connections());
    let clients_of =
        |worker| metric(&admin, &format!("sluice_worker_connections{{worker=\"{worker}\"}}"));
    assert!(clients_of(0) > 0 && clients_of(1) > 0, "both have clients");
    assert!(origin.connections() > 1, "the one connection moved between the workers");
    assert_eq!(origin.requests().len(), 160, "nothing was sent twice");
    sluice.stop();
}

#[test]
fn connections_are_kept_as_long_as_nobody_needs_the_room() {
    let origin = Origin::start(behaviour::fixed(200, "good"));
    let sluice = Sluice::start(&one(1, &origin, "limit = { connections = 2 }"));
    let web = sluice.address("web");
    (0..20).for_each(|_| assert_eq!(get(&web, "/").status, 200));
    assert_eq!(origin.connections(), 1);
    sluice.stop();
}

#[test]
fn a_connection_that_turned_out_to_be_closed_is_replaced_within_the_limit() {
    let origin = Origin::start(behaviour::close_after(1));
    let sluice = Sluice::start(&one(2, &origin, "limit = { connections = 1, queue = 0 }"));
    let web = sluice.address("web");
    (0..10).for_each(|_| assert_eq!(get(&web, "/").status, 200));
    sluice.stop();
}

#[test]
fn a_tunnel_takes_its_room_until_it_ends() {
    let origin = Origin::start(behaviour::upgrade_echo);
    let limit = "limit = { connections = 1, queue = 1, wait = \"1m\" }";
    let sluice = Sluice::start(&one(2, &origin, limit));
    let (web, admin) = (sluice.address("web"), sluice.admin());
    let upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    let mut first = ByteScript::connect(&web);
    first.send(upgrade).read_until(b"\r\n\r\n").unwrap();
    let mut second = ByteScript::connect(&web);
    second.send(upgrade);
    assert!(eventually(|| metric(&admin, WAITING) == 1));
    drop(first);
    let head = second.read_until(b"\r\n\r\n").unwrap();
    assert!(head.starts_with(b"HTTP/1.1 101 "));
    // A drain waits for tunnels.
    drop(second);
    sluice.stop();
}

#[test]
fn a_reload_changes_the_limit_for_those_who_wait() {
    let gate = Gate::new();
    let origin = held(&gate);
    let limit = |most| format!("limit = {{ connections = {most}, wait = \"1m\" }}");
    let sluice = Sluice::start(&one(2, &origin, &limit(1)));
    let (web, admin) = (sluice.address("web"), sluice.admin());
    let clients: Vec<_> = (0..3).map(|_| client(&web)).collect();
    assert!(eventually(|| metric(&admin, WAITING) == 2));
    sluice.reload(&one(2, &origin, &limit(2)));
    assert!(origin.wait_for_requests(2));
    assert!(eventually(|| metric(&admin, WAITING) == 1));
    sluice.reload(&one(2, &origin, ""));
    assert!(origin.wait_for_requests(3), "without a limit nobody waits");
    gate.open();
    for client in clients {
        assert_eq!(client.join().unwrap().status, 200);
    }
    sluice.stop();
}
