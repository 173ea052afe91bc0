//! New connections are shared among workers by what each has to do.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::{PREAMBLE, eventually, metric};
use sluice_testkit::{Asked, ByteScript, Sluice, State, Stream};

const ROUTE: &str = "\n[[route]]\npath = \"/\"\nrespond = \"x\"\n";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn two_workers(listener: &str) -> Sluice {
    Sluice::start(&format!("workers = 2\n{PREAMBLE}{listener}{ROUTE}"))
}

/// What both workers say of themselves.
fn figures(admin: &str, name: &str) -> [u64; 2] {
    [0, 1].map(|worker| metric(admin, &format!("sluice_worker_{name}{{worker=\"{worker}\"}}")))
}

fn total(admin: &str, name: &str) -> u64 {
    figures(admin, name).into_iter().sum()
}

fn connect(address: &str, count: usize) -> Vec<ByteScript> {
    (0..count).map(|_| ByteScript::connect(address)).collect()
}

fn ask_all(clients: &mut [ByteScript]) {
    for client in clients.iter_mut() {
        client.send(GET);
    }
    for client in clients {
        assert_eq!(client.read_response(Asked::Get).unwrap().status, 200);
    }
}

/// Sixteen connections that stay and are busy; how they are spread.
fn split(address: &str, admin: &str) -> [u64; 2] {
    let mut clients = connect(address, 16);
    let all_busy = eventually(|| {
        ask_all(&mut clients);
        total(admin, "busy_connections") == 16
    });
    let split = figures(admin, "busy_connections");
    assert!(all_busy, "{split:?}");
    split
}

fn is_quiet(admin: &str) -> bool {
    eventually(|| total(admin, "busy_connections") == 0)
}

#[test]
fn busy_connections_are_split_evenly() {
    let sluice = two_workers("");
    let (web, admin) = (sluice.address("web"), sluice.admin());
    for round in 0..8 {
        let split = split(&web, &admin);
        assert!(split.iter().all(|share| (6..=10).contains(share)), "round {round}: {split:?}");
        assert!(is_quiet(&admin));
    }
    // The kernel's hash alone would not have done it.
    assert_ne!(total(&admin, "handed_over_total"), 0);
    sluice.stop();
}

#[test]
fn idle_connections_do_not_count() {
    let sluice = two_workers("");
    let (web, admin) = (sluice.address("web"), sluice.admin());
    let mut idle = connect(&web, 500);
    assert!(eventually(|| total(&admin, "connections") == 500));
    assert!(is_quiet(&admin), "{:?}", figures(&admin, "busy_connections"));
    for round in 0..4 {
        let split = split(&web, &admin);
        assert!(split.iter().all(|share| (6..=10).contains(share)), "round {round}: {split:?}");
        assert!(is_quiet(&admin));
    }
    ask_all(&mut idle);
    sluice.stop();
}

#[test]
fn a_socket_that_workers_share_is_fair_too() {
    let sluice = two_workers("[[listener]]\nname = \"file\"\naddress = \"unix:web.sock\"\n");
    let path = format!("unix:{}", sluice.scratch().path().join("web.sock").display());
    let admin = sluice.admin();
    for round in 0..4 {
        let split = split(&path, &admin);
        assert!(split.iter().all(|share| (6..=10).contains(share)), "round {round}: {split:?}");
        assert!(is_quiet(&admin));
    }
    sluice.stop();
}

#[test]
fn limits_are_exact_wherever_connections_are_served() {
    let sluice = two_workers("limits = { connections = 12 }\n");
    let (web, admin) = (sluice.address("web"), sluice.admin());
    for _ in 0..8 {
        let mut clients = connect(&web, 12);
        ask_all(&mut clients);
        let mut refused = ByteScript::connect(&web);
        assert_ne!(refused.send(GET).wait_for_end(), State::Open);
        ask_all(&mut clients);
        drop(clients);
        assert!(eventually(|| total(&admin, "connections") == 0));
    }
    assert_ne!(total(&admin, "handed_over_total"), 0);
    sluice.stop();
}

#[test]
fn listeners_that_come_and_go_lose_nothing_on_its_way() {
    let extra = "[[listener]]\nname = \"extra\"\naddress = \"127.0.0.1:0\"\n";
    let sluice = two_workers(extra);
    let admin = sluice.admin();
    for round in 0..16 {
        // Handed over or not, whatever was accepted is answered.
        let mut clients = connect(&sluice.address("extra"), 40);
        for client in &mut clients {
            client.send(GET);
        }
        let mark = sluice.words().mark();
        sluice.reload(&format!("workers = 2\n{PREAMBLE}{ROUTE}"));
        for client in &mut clients {
            let answer = client.read_response(Asked::Get);
            assert_eq!(answer.map(|answer| answer.status), Ok(200), "round {round}");
        }
        drop(clients);
        assert!(eventually(|| Stream::connect(&sluice.address("extra")).is_err()));
        sluice.reload(&format!("workers = 2\n{PREAMBLE}{extra}{ROUTE}"));
        assert!(sluice.words().wait_after(mark, "(extra)").is_some());
    }
    assert_ne!(total(&admin, "handed_over_total"), 0);
    sluice.stop();
}
